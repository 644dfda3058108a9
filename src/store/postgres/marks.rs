//! The newest change of a log that this server acknowledged or showed, and whether it is still there.

use std::collections::BTreeMap;

use diesel::sql_types::BigInt;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::error::while_;
use super::statement::{Statement, Value};
use crate::access::LogId;
use crate::change::{Change, Fingerprint, Seq, Timestamp};
use crate::store::{Position, StoreError};

/// A change of a log, told apart from every other that may take its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The epoch that it was seen in.
    pub epoch: String,
    /// Its number.
    pub seq: Seq,
    /// The fingerprint of the log after it.
    pub fingerprint: Fingerprint,
    /// When it was committed, where that is known.
    pub time: Option<Timestamp>,
}

impl Mark {
    /// The mark of a change that was committed.
    pub fn of(change: &Change, epoch: String) -> Mark {
        let fingerprint = change.log_after.fingerprint;
        Mark { epoch, seq: change.seq, fingerprint, time: Some(change.time) }
    }

    /// The mark of a head that was shown.
    pub fn at(position: &Position) -> Mark {
        let epoch = position.epoch.0.to_string();
        Mark { epoch, seq: position.head, fingerprint: position.tally.fingerprint, time: None }
    }

    /// True when it is newer in the same epoch, so that the other adds nothing.
    pub fn is_after(&self, other: &Mark) -> bool {
        let says_more = self.seq == other.seq && self.time.is_some();
        self.epoch == other.epoch && (self.seq > other.seq || says_more)
    }
}

/// The logs whose mark is not there although their epoch is still that of the mark. What was purged is not
/// missing.
pub async fn missing(
    connection: &mut AsyncPgConnection,
    marks: &BTreeMap<LogId, Mark>,
) -> Result<Vec<LogId>, StoreError> {
    let marks: Vec<(LogId, &Mark)> =
        marks.iter().map(|(log, mark)| (*log, mark)).filter(|(_, mark)| mark.seq > Seq::ZERO).collect();
    if marks.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT l.log_id FROM unnest(?, ?, ?, ?, ?) AS m (log_id, seq, fingerprint, time, epoch) \
               CROSS JOIN LATERAL (SELECT log_id, epoch, purged_through FROM scroll.logs \
                                    WHERE log_id = m.log_id LIMIT 1) AS l \
               LEFT JOIN LATERAL (SELECT fingerprint, time FROM scroll.changes \
                                   WHERE log_id = m.log_id AND seq = m.seq LIMIT 1) AS c ON true \
               WHERE l.epoch = m.epoch AND m.seq > l.purged_through \
                 AND (c.fingerprint IS DISTINCT FROM m.fingerprint OR m.time NOT IN (0, c.time))";
    let numbers = |of: &dyn Fn(&(LogId, &Mark)) -> i64| Value::Integers(marks.iter().map(of).collect());
    let values = vec![
        numbers(&|(log, _)| log.0),
        numbers(&|(_, mark)| mark.seq.get()),
        numbers(&|(_, mark)| mark.fingerprint.to_bits()),
        numbers(&|(_, mark)| mark.time.map_or(0, Timestamp::as_micros)),
        Value::texts(marks.iter().map(|(_, mark)| mark.epoch.as_str())),
    ];
    let statement: Statement<'_, BigInt> = Statement::new(sql, values);
    let missing: Vec<i64> = statement.load(connection).await.map_err(while_("look for what was answered"))?;
    Ok(missing.into_iter().map(LogId).collect())
}
