//! Captures tables, lets go of them, and brings the rows that they already have into the log.
//!
//! The work is done in SQL (`scroll.capture`, `scroll.backfill_chunk` …), so that whoever has only a shell for SQL
//! can do the same. What is added here is patience: nothing waits so long for a lock that the application would
//! notice.

use std::time::Duration;

use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text};
use diesel_async::RunQueryDsl;

use super::super::statement::{Statement, Value};
use super::session::{Session, SessionError, sorted};
use crate::change::{LogName, Resource};
use crate::store::StoreError;

/// How long one waits for a lock on a table: those who come later queue behind.
const LOCK: Duration = Duration::from_millis(200);
/// How often one tries to get a lock, and how long between.
const MAX_ATTEMPTS: u32 = 60;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(500);

/// What to capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    /// The table, as SQL names it.
    pub table: String,
    /// The resource that its rows are.
    pub resource: Resource,
    /// The column that holds their ids.
    pub id: String,
    /// The columns that consumers may see; `None` for all, also those that are added later.
    pub columns: Option<Vec<String>>,
    /// The log they go into.
    pub log: LogName,
}

/// Some of the rows that a table has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The last id of it; `None` when there was none left.
    pub last: Option<String>,
    /// How many rows are in the outbox now.
    pub taken: u64,
    /// Ids of rows that somebody else was writing; they were left out.
    pub busy: Vec<String>,
}

impl Capture {
    /// Resource, id, columns and log, as the functions want them.
    fn values(&self) -> Vec<Value<'_>> {
        let columns = Value::texts(self.columns.iter().flatten().map(String::as_str));
        vec![
            self.table.as_str().into(),
            self.resource.as_str().into(),
            self.id.as_str().into(),
            columns,
            self.log.as_str().into(),
        ]
    }
}

/// The arguments that all functions begin with.
const ARGUMENTS: &str = "?::text::regclass, ?, ?, nullif(?::text[], '{}'), ?";

impl Session {
    /// Begins to capture a table, or to capture it differently.
    pub async fn capture(&mut self, capture: &Capture) -> Result<(), SessionError> {
        let sql = format!("SELECT scroll.capture({ARGUMENTS})::text");
        self.patiently(&sql, &capture.values()).await
    }

    /// Lets go of a table; false when it was not captured.
    pub async fn release(&mut self, table: &str) -> Result<bool, SessionError> {
        let sql = "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = ?::text::regclass \
                   AND tgname LIKE '!scroll\\_capture\\_%')";
        let statement: Statement<'_, Bool> = Statement::new(sql, vec![table.into()]);
        let is_captured = statement.get_result(&mut self.connection).await.map_err(sorted("release"))?;
        self.patiently("SELECT scroll.release(?::text::regclass)", &[table.into()]).await?;
        Ok(is_captured)
    }

    /// Carries out something that needs a lock on a table, giving way to the application.
    async fn patiently(&mut self, sql: &str, values: &[Value<'_>]) -> Result<(), SessionError> {
        self.set(&format!("SET lock_timeout = {}", LOCK.as_millis())).await?;
        let mut attempt = 1;
        loop {
            let statement: Statement<'_, Text> = Statement::new(sql, values.to_vec());
            let done = statement.execute(&mut self.connection).await.map_err(sorted("lock a table"));
            match done {
                Err(SessionError::Store(StoreError::Busy { .. })) if attempt < MAX_ATTEMPTS => {}
                done => return done.map(drop),
            }
            attempt += 1;
            tokio::time::sleep(BETWEEN_ATTEMPTS).await;
        }
    }

    /// Brings the next `rows` rows above an id into the outbox, in a transaction of their own.
    pub async fn backfill_chunk(
        &mut self,
        capture: &Capture,
        after: Option<&str>,
        rows: u32,
    ) -> Result<Chunk, SessionError> {
        let place = if after.is_some() { "?" } else { "NULL" };
        let sql = format!("SELECT last, taken, busy FROM scroll.backfill_chunk({ARGUMENTS}, {place}, ?::bigint::int)");
        let mut values = capture.values();
        values.extend(after.map(Value::from));
        values.push(i64::from(rows).into());
        let statement: Statement<'_, (Nullable<Text>, BigInt, Array<Text>)> = Statement::new(sql, values);
        let (last, taken, busy): (Option<String>, i64, Vec<String>) =
            statement.get_result(&mut self.connection).await.map_err(sorted("read a table"))?;
        Ok(Chunk { last, taken: u64::try_from(taken).unwrap_or(0), busy })
    }

    /// Brings one row into the outbox that was busy before, waiting for whoever writes it: alone, and holding
    /// nothing else.
    pub async fn backfill_row(&mut self, capture: &Capture, id: &str) -> Result<(), SessionError> {
        let sql = format!("SELECT coalesce(scroll.backfill_rows({ARGUMENTS}, ?::text[], false), '{{}}')::text");
        let mut values = capture.values();
        values.push(Value::texts([id]));
        self.patiently(&sql, &values).await
    }

    /// How many rows the table has, roughly.
    pub async fn rows_roughly(&mut self, table: &str) -> Result<u64, SessionError> {
        let sql = "SELECT greatest(reltuples, 0)::bigint FROM pg_class WHERE oid = ?::text::regclass";
        let statement: Statement<'_, BigInt> = Statement::new(sql, vec![table.into()]);
        let rows: i64 = statement.get_result(&mut self.connection).await.map_err(sorted("measure a table"))?;
        Ok(u64::try_from(rows).unwrap_or(0))
    }
}
