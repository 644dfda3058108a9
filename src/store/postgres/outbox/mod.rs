//! The outbox: what applications write in transactions of their own becomes changes here, exactly once.
//!
//! An application inserts into `scroll.outbox` (through `scroll.append`, or the triggers of `scroll.capture`) and
//! takes no lock of ours. A server takes what is committed, under the lock of the log and in the order of
//! `outbox_id`, through the same decisions as any write, and deletes it in the transaction that writes the
//! changes. Two servers may do so at once: the lock puts them in a row, and each looks again at what is there.
//!
//! **The order.** The number of a row is drawn after the lock of the application's row is held, so of two
//! changes of one row the later has the higher number, and whoever sees it sees the earlier one, too. Rows of
//! other transactions may become visible out of order; they are about other rows. `SKIP LOCKED`, or taking rows
//! without the lock of the log, would break this.
//!
//! **Finding rows.** Nothing is notified inside the application's transaction: that would put the commits of the
//! whole cluster in a row. Every server asks (`poll`) what was written by transactions that its last question
//! could not see, through an index on their numbers. So a question costs what is new, also while somebody holds
//! a snapshot for hours and dead rows pile up.
//!
//! **What cannot become a change** is set aside with the reason in the same transaction, and blocks nobody.

mod capture;
mod drain;
mod flight;
mod poll;
mod refused;
mod row;
mod session;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

pub use self::capture::{Capture, Chunk};
pub use self::refused::{RefusedRow, WaitingRows};
pub use self::session::{Session, SessionError};
use self::waiting::Waiting;
use super::connection::Connector;
use super::pool::Pool;
use super::readers::Readers;
use super::writer::Writer;

/// Logs that are drained at the same time by one server: enough that one whose lock does not come holds up
/// nobody, few beside the connections that write.
const DRAINS: usize = 3;

/// What the tasks of the drain share.
pub struct Drains {
    writer: Arc<Writer>,
    pool: Arc<Pool>,
    /// What is asked and done outside a flight.
    readers: Readers,
    waiting: Waiting,
    turns: Semaphore,
    stopping: watch::Sender<bool>,
    running: watch::Sender<usize>,
}

impl Drains {
    /// Begins to drain, beside a writer. One connection asks, the others drain; they are opened when they are needed.
    pub fn start(writer: Arc<Writer>, connector: Connector) -> Arc<Drains> {
        let pool = Pool::new("outbox", connector, DRAINS + 1, &writer.metrics);
        let drains = Arc::new(Drains {
            readers: Readers::new(pool.clone(), writer.runtime.clone()),
            pool,
            waiting: Waiting::new(writer.metrics.clone()),
            turns: Semaphore::new(DRAINS),
            stopping: watch::Sender::new(false),
            running: watch::Sender::new(0),
            writer,
        });
        drains.spawn(poll::run(drains.clone()));
        drains
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.running.send_modify(|running| *running += 1);
        let counted = Counted(self.running.clone());
        self.writer.runtime.spawn(async move {
            let _counted = counted;
            work.await;
        });
    }

    fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Waits, but not once the drain stops.
    async fn rest(&self, pause: Duration) {
        let mut stopping = self.stopping.subscribe();
        // The sender lives as long as `self`.
        let _ = tokio::time::timeout(pause, stopping.wait_for(|is_stopping| *is_stopping)).await;
    }

    /// Tells the tasks to end after what they are at.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Stops, and waits until nothing is under way; false when time ran out.
    pub async fn stopped(&self, deadline: Duration) -> bool {
        self.stop();
        let mut running = self.running.subscribe();
        let ended = tokio::time::timeout(deadline, running.wait_for(|running| *running == 0)).await;
        self.pool.close();
        ended.is_ok()
    }
}

/// One running task; not any more when it is dropped.
struct Counted(watch::Sender<usize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running = running.saturating_sub(1));
    }
}
