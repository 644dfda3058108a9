//! Drains one log: lists what waits, page by page, and flies it, flight by flight, until nothing is left.
//!
//! A page holds the numbers of the rows that one snapshot shows, the lowest first. Whoever has carried out a
//! page that was not full has drained everything that the snapshot shows, whatever other servers do beside it:
//! a row that is not there any more when its turn comes was carried out by one of them.

use std::sync::Arc;
use std::time::Duration;

use diesel::result::OptionalExtension as _;
use diesel::sql_types::{Array, BigInt, Text};
use diesel_async::RunQueryDsl;

use super::super::error::while_;
use super::super::readers::work;
use super::super::statement::{Statement, Value};
use super::row::MAX_ROW_BYTES;
use super::{Drains, flight};
use crate::access::LogId;
use crate::store::StoreError;
use crate::store::columns::rows_limit;
use crate::store::flights::MAX_FLIGHT_BYTES;

/// Rows on one page. A page is sorted out of everything that waits, so a small one would cost a long backlog
/// dearly; its numbers are held in memory.
const PAGE_ROWS: usize = 5_000;
/// Rows in one flight, beside its bytes: a lock of a few ten milliseconds.
const FLIGHT_ROWS: usize = 1_000;
/// Waits after a failure: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The rows of a log that came since a snapshot. The order is written so that no index offers it: the one that
/// has it would be walked from its first dead entry.
const LIST: &str = "SELECT pg_current_snapshot()::text, coalesce(array_agg(p.outbox_id), '{}'), \
     coalesce(array_agg(p.bytes), '{}'), \
     coalesce(extract(epoch FROM clock_timestamp() - min(p.written_at)) * 1000, 0)::bigint FROM ( \
     SELECT outbox_id, coalesce(octet_length(data), 0)::bigint AS bytes, written_at FROM ( \
     SELECT * FROM scroll.outbox WHERE xid >= pg_snapshot_xmax(?::text::pg_snapshot) AND log = ? UNION ALL \
     SELECT * FROM scroll.outbox WHERE xid = ANY (ARRAY(SELECT pg_snapshot_xip(?::text::pg_snapshot))) AND log = ? \
     ) AS o ORDER BY outbox_id + 0 LIMIT ?) AS p";

/// Rows that wait, as one snapshot shows them.
struct Page {
    snapshot: String,
    /// Number and bytes of each.
    rows: Vec<(i64, usize)>,
    /// How old the oldest is.
    age: Duration,
}

/// Works until nothing waits, or the drain stops. What fails is tried again after a pause.
pub async fn run(drains: Arc<Drains>, log: String) {
    let mut pause = FIRST_PAUSE;
    while !drains.is_stopping() {
        match turn(&drains, &log).await {
            Ok(Turn::More) => pause = FIRST_PAUSE,
            Ok(Turn::Nothing) if drains.waiting.leave(&log) => return,
            Ok(Turn::Nothing) => {}
            Ok(Turn::NoSuchLog) => return drains.waiting.forget(&log),
            Err(error) => {
                // What broke one connection most likely broke the others that lie in the pool.
                drains.pool.forget_free();
                tracing::warn!(%error, log, "the outbox of a log cannot be drained; trying again");
                drains.rest(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// What a turn found.
enum Turn {
    More,
    Nothing,
    NoSuchLog,
}

/// One page. Few logs have a turn at a time, so that pages and connections stay few.
async fn turn(drains: &Drains, log: &str) -> Result<Turn, StoreError> {
    let _turn = drains.turns.acquire().await.map_err(|_| StoreError::Draining { operation: "drain the outbox" })?;
    let Some(since) = drains.waiting.look(log) else {
        return Ok(Turn::Nothing);
    };
    let page = list(drains, log, &since).await?;
    if page.rows.is_empty() {
        return Ok(Turn::Nothing);
    }
    let ids = || page.rows.iter().map(|(outbox_id, _)| *outbox_id).collect();
    let Some(log_id) = find_log(drains, log).await? else {
        flight::refuse_without_log(drains, ids()).await?;
        return Ok(Turn::NoSuchLog);
    };
    drains.waiting.seen(log, page.rows.len(), page.age);
    let mut left = page.rows.len();
    for flight in flights(&page.rows) {
        if drains.is_stopping() {
            return Ok(Turn::More);
        }
        left -= flight.len();
        flight::fly(drains, log_id, flight).await?;
        drains.waiting.seen(log, left, page.age);
    }
    if page.rows.len() < PAGE_ROWS {
        drains.waiting.drained(log, &page.snapshot);
    }
    Ok(Turn::More)
}

async fn list(drains: &Drains, log: &str, since: &str) -> Result<Page, StoreError> {
    let (operation, log, since) = ("list the outbox", log.to_owned(), since.to_owned());
    let listing = work(move |connection| {
        let (log, since) = (log.clone(), since.clone());
        Box::pin(async move {
            let (log, since, limit) = (log.as_str(), since.as_str(), Value::Integer(rows_limit(PAGE_ROWS)));
            let statement: Statement<'_, (Text, Array<BigInt>, Array<BigInt>, BigInt)> =
                Statement::new(LIST, vec![since.into(), log.into(), since.into(), log.into(), limit]);
            statement.get_result(connection).await.map_err(while_(operation))
        })
    });
    let (snapshot, ids, bytes, age): (String, Vec<i64>, Vec<i64>, i64) =
        drains.readers.read(operation, listing).await?;
    let bytes = bytes.into_iter().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let age = Duration::from_millis(u64::try_from(age).unwrap_or(0));
    Ok(Page { snapshot, rows: ids.into_iter().zip(bytes).collect(), age })
}

async fn find_log(drains: &Drains, name: &str) -> Result<Option<LogId>, StoreError> {
    let (operation, name) = ("find a log", name.to_owned());
    let finding = work(move |connection| {
        let name = name.clone();
        Box::pin(async move {
            let statement: Statement<'_, BigInt> =
                Statement::new("SELECT log_id FROM scroll.logs WHERE name = ?", vec![name.as_str().into()]);
            let found: Option<i64> = statement.get_result(connection).await.optional().map_err(while_(operation))?;
            Ok(found.map(LogId))
        })
    });
    drains.readers.read(operation, finding).await
}

/// Cuts a page into flights, none above its bounds except by a single row.
fn flights(rows: &[(i64, usize)]) -> Vec<Vec<i64>> {
    let mut flights: Vec<Vec<i64>> = Vec::new();
    let mut flown_bytes = 0;
    for (outbox_id, bytes) in rows {
        // What is larger is not loaded.
        let bytes = if *bytes > MAX_ROW_BYTES { 0 } else { *bytes };
        match flights.last_mut() {
            Some(flight) if flight.len() < FLIGHT_ROWS && flown_bytes + bytes <= MAX_FLIGHT_BYTES => {
                flight.push(*outbox_id);
                flown_bytes += bytes;
            }
            _ => {
                flights.push(vec![*outbox_id]);
                flown_bytes = bytes;
            }
        }
    }
    flights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_flies_in_order_and_within_bounds() {
        let small: Vec<_> = (0..2_500).map(|outbox_id| (outbox_id, 10)).collect();
        let lengths: Vec<_> = flights(&small).iter().map(Vec::len).collect();
        assert_eq!(lengths, [1_000, 1_000, 500]);
        assert_eq!(flights(&small).concat(), (0..2_500).collect::<Vec<_>>());
        let large = [(1, 600_000), (2, 600_000), (3, 400_000), (4, MAX_ROW_BYTES), (5, usize::MAX), (6, 1)];
        assert_eq!(flights(&large), [vec![1], vec![2, 3], vec![4, 5], vec![6]]);
        assert!(flights(&[]).is_empty());
    }
}
