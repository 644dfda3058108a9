//! Asks which logs have new rows in the outbox, and starts what drains them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::sql_types::{Array, Text};
use diesel_async::RunQueryDsl;

use super::super::error::while_;
use super::super::readers::work;
use super::super::statement::Statement;
use super::{Drains, drain};
use crate::store::StoreError;

/// A question every so often while rows come, and at least so often when none do. A question without an answer
/// costs the database about 0.1 ms.
const QUICKEST: Duration = Duration::from_millis(10);
const SLOWEST: Duration = Duration::from_millis(250);
/// Between them, the pause is this part of the time since rows last came.
const PART_OF_QUIET: u32 = 16;
/// How long to wait after a question failed: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The snapshot that shows nothing: everything came after it.
const NOTHING_SEEN: &str = "1:1:";

/// Which logs the transactions wrote to that a snapshot did not show: those that came later, and those that
/// were running.
const NEW_ROWS: &str = "SELECT pg_current_snapshot()::text, ARRAY(SELECT DISTINCT log FROM ( \
     SELECT log FROM scroll.outbox WHERE xid >= pg_snapshot_xmax(?::text::pg_snapshot) UNION ALL \
     SELECT log FROM scroll.outbox WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip(?::text::pg_snapshot)))) AS o)";

/// Asks until the drain stops.
pub async fn run(drains: Arc<Drains>) {
    let mut since = NOTHING_SEEN.to_owned();
    let mut came_at = Instant::now();
    let mut patience = FIRST_PAUSE;
    while !drains.is_stopping() {
        let pause = match ask(&drains, &since).await {
            Ok((seen, logs)) => {
                if !logs.is_empty() {
                    came_at = Instant::now();
                }
                for log in logs {
                    start(&drains, log, &since);
                }
                since = seen;
                patience = FIRST_PAUSE;
                pause_after(came_at.elapsed())
            }
            Err(error) => {
                tracing::warn!(%error, "cannot look into the outbox; trying again");
                patience = (patience * 2).min(LONGEST_PAUSE);
                patience
            }
        };
        drains.waiting.tell_ages();
        drains.rest(pause).await;
    }
}

fn start(drains: &Arc<Drains>, log: String, since: &str) {
    if drains.waiting.found(&log, since) {
        drains.spawn(drain::run(drains.clone(), log));
    }
}

fn pause_after(quiet: Duration) -> Duration {
    (quiet / PART_OF_QUIET).clamp(QUICKEST, SLOWEST)
}

/// The snapshot of the answer, and the logs.
async fn ask(drains: &Drains, since: &str) -> Result<(String, Vec<String>), StoreError> {
    let (operation, since) = ("look into the outbox", since.to_owned());
    let question = work(move |connection| {
        let since = since.clone();
        Box::pin(async move {
            let values = vec![since.as_str().into(), since.as_str().into()];
            let statement: Statement<'_, (Text, Array<Text>)> = Statement::new(NEW_ROWS, values);
            statement.get_result(connection).await.map_err(while_(operation))
        })
    });
    drains.readers.read(operation, question).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_with_the_quiet_up_to_a_quarter_of_a_second() {
        assert_eq!(pause_after(Duration::ZERO), QUICKEST);
        assert_eq!(pause_after(Duration::from_secs(1)), Duration::from_micros(62_500));
        assert_eq!(pause_after(Duration::from_hours(1)), SLOWEST);
    }
}
