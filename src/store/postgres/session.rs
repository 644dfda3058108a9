//! The settings of a session, and how they reach it.
//!
//! Every statement here goes through an index by design, and a statement may be planned while a table is
//! still empty; so sessions are told never to walk a whole table instead, and to plan once.
//!
//! Behind a pooler in transaction mode the next transaction may be in another session. There nothing is left
//! in a session: every operation is one transaction, which begins by the simple protocol, brings its settings
//! with it, and drops the statements that it prepared before it ends.

use std::time::Duration;

use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};

use super::error::while_;
use crate::store::{Pooler, StoreError};

/// How long a statement may run: far more than any of them needs.
const STATEMENT: Duration = Duration::from_secs(30);
/// How long one waits for a lock, as on SQLite; then the write is refused as busy.
const LOCK: Duration = Duration::from_secs(10);
/// When the server ends a transaction that was left open: a server of ours that hangs must not hold a log.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(15);
/// How long a migration waits for the one that another server runs.
const MIGRATION_LOCK: Duration = Duration::from_secs(120);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reads, writes, heads.
    Work,
    /// The schema: takes as long as it takes.
    Migration,
}

/// The planner settings, and what else is the same for every purpose.
const FIXED: [&str; 8] = [
    "default_transaction_isolation = 'read committed'",
    "jit = off",
    "enable_seqscan = off",
    "enable_bitmapscan = off",
    "enable_sort = off",
    "enable_material = off",
    "enable_hashjoin = off",
    "enable_mergejoin = off",
];

/// A plan that is kept serves every log, so it is made for all 64 partitions. One that is made for a single
/// transaction looks at that of its log only, which is several times cheaper.
const KEPT_PLANS: &str = "plan_cache_mode = force_generic_plan";
const PASSING_PLANS: &str = "plan_cache_mode = force_custom_plan";

/// The settings as statements, for the session or for the transaction that has begun.
fn settings(purpose: Purpose, set: &str, plans: &str) -> String {
    let (statement, lock, idle) = match purpose {
        Purpose::Work => (STATEMENT, LOCK, IDLE_IN_TRANSACTION),
        Purpose::Migration => (Duration::ZERO, MIGRATION_LOCK, Duration::ZERO),
    };
    let mut sql = format!(
        "{set} statement_timeout = {}; {set} lock_timeout = {}; {set} idle_in_transaction_session_timeout = {}",
        statement.as_millis(),
        lock.as_millis(),
        idle.as_millis()
    );
    for setting in FIXED.into_iter().chain([plans]) {
        sql.push_str(&format!("; {set} {setting}"));
    }
    sql
}

/// How the statements of one operation are bracketed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// The session is ours and has its settings: no bracket.
    Session,
    /// A transaction that brings its settings with it.
    Transaction(Purpose),
}

impl Frame {
    /// The frame of a connection.
    pub fn of(pooler: Pooler, purpose: Purpose) -> Frame {
        match pooler {
            Pooler::None => Frame::Session,
            Pooler::Transaction => Frame::Transaction(purpose),
        }
    }

    /// What begins a transaction.
    pub fn begin(self) -> String {
        let begin = "BEGIN ISOLATION LEVEL READ COMMITTED";
        match self {
            Frame::Session => begin.to_owned(),
            Frame::Transaction(purpose) => format!("{begin}; {}", settings(purpose, "SET LOCAL", PASSING_PLANS)),
        }
    }

    /// Before the first statement of an operation.
    pub async fn enter(self, connection: &mut AsyncPgConnection) -> Result<(), StoreError> {
        match self {
            Frame::Session => Ok(()),
            Frame::Transaction(_) => connection.batch_execute(&self.begin()).await.map_err(while_("begin")),
        }
    }

    /// After the last one.
    pub async fn leave<T>(
        self,
        connection: &mut AsyncPgConnection,
        done: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self == Frame::Session {
            return done;
        }
        match done {
            Ok(done) => connection.batch_execute("COMMIT").await.map(|()| done).map_err(while_("commit")),
            Err(error) => {
                connection.batch_execute("ROLLBACK").await.map_err(while_("roll back"))?;
                Err(error)
            }
        }
    }
}

/// Sets up a session of our own.
pub async fn set_up(connection: &mut AsyncPgConnection, purpose: Purpose) -> Result<(), StoreError> {
    connection.batch_execute(&settings(purpose, "SET", KEPT_PLANS)).await.map_err(while_("connect"))?;
    // Only a superuser may, or who was granted it; the others get the language of the server.
    if let Err(error) = connection.batch_execute("SET lc_messages = 'C'").await {
        tracing::trace!(%error, "messages stay in the language of the server");
    }
    Ok(())
}
