//! What waits in the outbox and what was refused, for people; and what they decide about it.

use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::RunQueryDsl;

use super::super::error::while_;
use super::super::statement::Statement;
use super::session::{Session, SessionError, sorted};
use crate::change::Timestamp;
use crate::store::columns::rows_limit;

/// The rows of one log that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRows {
    /// The log that they name.
    pub log: String,
    /// How many.
    pub count: i64,
    /// When the oldest was written.
    pub oldest: Timestamp,
}

/// A row that could not become a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedRow {
    /// Names the row.
    pub outbox_id: i64,
    /// The log that it names.
    pub log: String,
    /// The resource that it names.
    pub resource: String,
    /// The id that it names, if any.
    pub id: Option<String>,
    /// `put` or `delete`.
    pub op: String,
    /// When it was refused.
    pub refused_at: Timestamp,
    /// Why.
    pub reason: String,
}

type Columns = (BigInt, Text, Text, Nullable<Text>, Text, BigInt, Text);
type Loaded = (i64, String, String, Option<String>, String, i64, String);

impl Session {
    /// What waits, log by log.
    pub async fn waiting(&mut self) -> Result<Vec<WaitingRows>, SessionError> {
        let sql = "SELECT log, count(*), (extract(epoch FROM min(written_at)) * 1000000)::bigint \
                   FROM scroll.outbox GROUP BY log ORDER BY log";
        let statement: Statement<'_, (Text, BigInt, BigInt)> = Statement::new(sql, Vec::new());
        let rows: Vec<(String, i64, i64)> =
            statement.load(&mut self.connection).await.map_err(sorted("look into the outbox"))?;
        let waiting = |(log, count, oldest)| WaitingRows { log, count, oldest: Timestamp::from_micros(oldest) };
        Ok(rows.into_iter().map(waiting).collect())
    }

    /// Refused rows after one of them, the oldest first.
    pub async fn refused(&mut self, after: i64, limit: usize) -> Result<Vec<RefusedRow>, SessionError> {
        let sql = "SELECT outbox_id, log, resource, id, op, (extract(epoch FROM refused_at) * 1000000)::bigint, reason \
                   FROM scroll.outbox_refused WHERE outbox_id > ? ORDER BY outbox_id LIMIT ?";
        let statement: Statement<'_, Columns> = Statement::new(sql, vec![after.into(), rows_limit(limit).into()]);
        let rows: Vec<Loaded> = statement.load(&mut self.connection).await.map_err(sorted("list refused rows"))?;
        let refused = |(outbox_id, log, resource, id, op, refused_at, reason)| {
            let refused_at = Timestamp::from_micros(refused_at);
            RefusedRow { outbox_id, log, resource, id, op, refused_at, reason }
        };
        Ok(rows.into_iter().map(refused).collect())
    }

    /// Tries a refused row again, or all (`None`); how many go back to the outbox. What a newer row or change of
    /// the same entity has overtaken is dropped.
    pub async fn retry(&mut self, outbox_id: Option<i64>) -> Result<i64, SessionError> {
        let (sql, values) = match outbox_id {
            Some(outbox_id) => ("SELECT scroll.outbox_retry(?)", vec![outbox_id.into()]),
            None => ("SELECT scroll.outbox_retry()", Vec::new()),
        };
        let statement: Statement<'_, BigInt> = Statement::new(sql, values);
        statement.get_result(&mut self.connection).await.map_err(sorted("retry refused rows"))
    }

    /// Drops a refused row; false when there is none of this number.
    pub async fn drop_refused(&mut self, outbox_id: i64) -> Result<bool, SessionError> {
        let sql = "DELETE FROM scroll.outbox_refused WHERE outbox_id = ?";
        let statement: Statement<'_, BigInt> = Statement::new(sql, vec![outbox_id.into()]);
        let gone = statement.execute(&mut self.connection).await.map_err(while_("drop a refused row"))?;
        Ok(gone > 0)
    }
}
