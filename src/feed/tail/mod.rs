//! The tail of a log: its newest changes as bytes in memory, shared by everybody who follows it.
//!
//! One task per followed log takes what this server commits, and reads what another server wrote: once, however
//! many followers there are. Only then are they told how far the log is, so a follower that wakes finds what
//! it woke for. The tail begins with the first follower and ends with the last one.
//!
//! A follower never misses a wake-up: it notes where the tail ends before it looks for lines, and a change that
//! comes after that look wakes it. Whoever falls behind the tail reads the store.

mod batch;
mod ring;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

pub use self::batch::{Batch, Share};
pub use self::ring::Found;
use self::ring::Ring;
use crate::access::LogId;
use crate::change::{Epoch, Seq};
use crate::store::{Commits, Position, Store, StoreError};
use crate::tasks::Tasks;

/// Lines of one read of what another server wrote: a few NOTIFY intervals of a busy log, and with the longest
/// lines still bounded.
const READ_LINES: usize = 256;
/// A log that is further ahead than this is not read into the tail; its followers read the store.
const MAX_READ_AHEAD: u64 = 4_096;
/// How long to wait when the store does not answer.
const PAUSE: Duration = Duration::from_millis(250);

/// The tails of the logs that are followed now.
pub struct Tails {
    open: Mutex<HashMap<LogId, Arc<Tail>>>,
    store: Arc<dyn Store>,
    tasks: Tasks,
}

/// The tail of one log.
struct Tail {
    /// The history that it is of, and when that was last looked at.
    epoch: Epoch,
    histories: AtomicU64,
    ring: Mutex<Ring>,
    /// Where it ends, told to those who wait.
    end: watch::Sender<Seq>,
    /// The head as this server knows it.
    head: watch::Receiver<Seq>,
}

/// A follower's hold on a tail.
pub struct Subscription {
    tail: Arc<Tail>,
    end: watch::Receiver<Seq>,
}

impl Tails {
    /// Nobody follows yet.
    pub fn new(store: Arc<dyn Store>, tasks: Tasks) -> Tails {
        Tails { open: Mutex::default(), store, tasks }
    }

    /// Follows a log; `position` is where it stood a moment ago, in case this is the first follower.
    pub async fn subscribe(self: &Arc<Self>, log: LogId, position: &Position) -> Result<Subscription, StoreError> {
        let head = self.store.head(log).await?;
        let histories = self.store.histories();
        let mut open = self.open();
        if open.get(&log).is_some_and(|tail| tail.epoch != position.epoch) {
            // Its followers are told; whoever comes now follows another history.
            open.remove(&log);
        }
        let tail = open.entry(log).or_insert_with(|| {
            let commits = self.store.commits(log);
            let ring = Mutex::new(Ring::new(position.head, position.tally));
            let (epoch, histories) = (position.epoch.clone(), AtomicU64::new(histories));
            let tail = Arc::new(Tail { epoch, histories, ring, end: watch::Sender::new(position.head), head });
            self.tasks.spawn("tail", self.clone().run(log, tail.clone(), commits));
            tail
        });
        Ok(Subscription { tail: tail.clone(), end: tail.end.subscribe() })
    }

    /// Keeps a tail up to date until nobody follows it.
    async fn run(self: Arc<Self>, log: LogId, tail: Arc<Tail>, commits: Arc<Commits>) {
        let mut head = tail.head.clone();
        loop {
            let target = *head.borrow_and_update();
            while let Err(error) = tail.reach(&*self.store, log, &commits, target).await {
                tracing::warn!(%error, "the newest changes cannot be read; trying again");
                tokio::time::sleep(PAUSE).await;
                if self.let_go_if_unused(log, &tail) {
                    return;
                }
            }
            let (end, is_over) = tail.ends_at();
            tail.end.send_if_modified(|told| std::mem::replace(told, end) != end || is_over);
            if is_over {
                self.forget(log, &tail);
                return;
            }
            tokio::select! {
                moved = head.changed() => if moved.is_err() {
                    return;
                },
                () = tail.end.closed() => if self.let_go_if_unused(log, &tail) {
                    return;
                },
            }
        }
    }

    /// Lets go of a tail that is not the log's any more; its followers keep it until they have looked.
    fn forget(&self, log: LogId, tail: &Arc<Tail>) {
        let mut open = self.open();
        if open.get(&log).is_some_and(|current| Arc::ptr_eq(current, tail)) {
            open.remove(&log);
        }
    }

    /// Under the lock that a new follower needs: either it finds this tail in use, or it begins another.
    fn let_go_if_unused(&self, log: LogId, tail: &Arc<Tail>) -> bool {
        let mut open = self.open();
        let is_unused = tail.end.receiver_count() == 0;
        if is_unused && open.get(&log).is_some_and(|current| Arc::ptr_eq(current, tail)) {
            open.remove(&log);
        }
        is_unused
    }

    fn open(&self) -> MutexGuard<'_, HashMap<LogId, Arc<Tail>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tail {
    /// Takes what was committed here and reads the rest, until the tail has come to `target`.
    async fn reach(&self, store: &dyn Store, log: LogId, commits: &Commits, target: Seq) -> Result<(), StoreError> {
        let histories = store.histories();
        if self.histories.load(Ordering::Acquire) != histories {
            self.compare(&store.source_position(log).await?);
            self.histories.store(histories, Ordering::Release);
        }
        self.ring().take(commits.take());
        loop {
            let (end, is_over) = self.ends_at();
            if is_over || end >= target {
                return Ok(());
            }
            if target.distance_from(end) <= MAX_READ_AHEAD {
                let changes = store.audit_changes(log, end, READ_LINES).await?;
                // Another server wrote them, perhaps to a history that this one has not heard of.
                if self.compare(&store.source_position(log).await?) {
                    self.ring().take(changes);
                }
            }
            if self.ends_at() == (end, false) {
                // Too far ahead, or lines were purged meanwhile: only the store knows how to go on.
                let position = store.position(log).await?;
                if self.compare(&position) {
                    *self.ring() = Ring::new(position.head, position.tally);
                }
            }
        }
    }

    /// Where it ends, and whether that is for good.
    fn ends_at(&self) -> (Seq, bool) {
        let ring = self.ring();
        (ring.end(), ring.is_abandoned())
    }

    /// True while the log still has the history that this tail is of.
    fn compare(&self, position: &Position) -> bool {
        let is_same = position.epoch == self.epoch;
        if !is_same {
            self.ring().abandon(position.epoch.clone());
        }
        is_same
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// What there is after a cursor. When it is nothing, [`Subscription::moved`] ends with the next change.
    pub fn after(&mut self, cursor: Seq) -> Found {
        self.end.borrow_and_update();
        self.tail.ring().after(cursor)
    }

    /// Ends when there is more than at the last look.
    pub async fn moved(&mut self) {
        if self.end.changed().await.is_err() {
            // The tail holds its own sender, so this cannot be; waiting is right if it could.
            std::future::pending::<()>().await;
        }
    }

    /// True when nothing newer is known.
    pub fn is_up_to_date(&self, cursor: Seq) -> bool {
        cursor >= *self.tail.head.borrow()
    }
}
