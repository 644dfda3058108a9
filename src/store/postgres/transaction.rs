//! One write transaction of one log: lock, read where the log stands, load, decide, write, commit.
//!
//! The lock is on the log's row and changes nothing in it, so no dead row versions pile up while somebody
//! holds a snapshot. The head is read in a statement *after* the one that waited for the lock: only then is
//! its snapshot newer than the commit of whoever held it before. A round trip costs as much as a small
//! statement, so there are five: begin and lock; load; (load more;) write; commit.

use std::sync::Arc;

use diesel::result::Error as DieselError;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};

use super::error::{Fault, Trouble, fault_of, while_};
use super::lineage::Lineage;
use super::load::{Standing, load};
use super::marks::Mark;
use super::pool::{Lease, Pool};
use super::statement::Statement;
use super::write;
use crate::access::LogId;
use crate::change::{Change, Timestamp};
use crate::entity::types::Catalog;
use crate::entity::{Flight, Submission};
use crate::store::StoreError;
use crate::store::flights::{Decided, Deciding};

/// A transaction that holds the lock of a log.
pub struct Transaction {
    lease: Lease,
    log: LogId,
}

/// Why a transaction did not come to its end.
pub enum Failed {
    /// Nothing happened, and the same again may succeed.
    Again(&'static str, StoreError),
    /// Nothing happened.
    Refused(StoreError),
    /// Nothing happened, and the submissions themselves are the cause.
    Cause(StoreError),
    /// Nothing happened: the log is not the one that was answered from, so its history must be compared
    /// first.
    Elsewhere,
    /// The connection broke while it committed: it happened, or it did not.
    Unknown(Box<Decided>, StoreError),
}

/// Sorts a failure before the commit, where nothing can have happened.
fn before_commit(operation: &'static str) -> impl Fn(DieselError) -> Failed {
    move |error| match fault_of(&error) {
        Fault::Retry => Failed::Again("conflict", while_(operation)(error)),
        Fault::Broken => Failed::Again("connection", while_(operation)(error)),
        Fault::Refused | Fault::Conflict | Fault::Corrupt => Failed::Cause(while_(operation)(error)),
        Fault::Busy | Fault::Full | Fault::TimedOut => Failed::Refused(while_(operation)(error)),
    }
}

impl Transaction {
    /// Begins and waits for the lock. A log that does not exist has no row to lock; the load will say so.
    pub async fn begin(pool: &Arc<Pool>, log: LogId) -> Result<Transaction, Failed> {
        let mut lease = pool.lend("write").await.map_err(Failed::Refused)?;
        let connection = lease.connection("write").map_err(Failed::Refused)?;
        let begin = pool.frame().begin();
        let sql = format!("{begin}; SELECT FROM scroll.logs WHERE log_id = {} FOR NO KEY UPDATE", log.0);
        if let Err(error) = connection.batch_execute(&sql).await {
            let failed = before_commit("lock a log")(error);
            if matches!(failed, Failed::Again("connection", _)) {
                pool.forget_free();
            }
            return Err(failed);
        }
        Ok(Transaction { lease, log })
    }

    /// Decides the submissions, writes what comes of it, commits.
    pub async fn carry_out(
        mut self,
        catalog: &Arc<Catalog>,
        lineage: &Lineage,
        now: Timestamp,
        submissions: Vec<&Submission>,
    ) -> Result<Decided, Failed> {
        let log = self.log;
        let connection = self.lease.connection("write").map_err(Failed::Refused)?;
        let (decided, epoch) = match decide(connection, log, catalog, lineage, now, submissions).await {
            Ok(decided) => decided,
            Err(failed) => return Err(self.roll_back(failed).await),
        };
        if decided.writes.is_empty() {
            let nothing = Failed::Refused(StoreError::Draining { operation: "write" });
            drop(self.roll_back(nothing).await);
            return Ok(decided);
        }
        if let Err(failed) = write::write(connection, log, &decided.writes, now).await {
            return Err(self.roll_back(failed.into()).await);
        }
        match connection.batch_execute("COMMIT").await {
            Ok(()) => {
                self.lease.give_back();
                if let Some(last) = decided.writes.changes.last() {
                    lineage.seen(log, Mark::of(last, epoch));
                }
                Ok(decided)
            }
            Err(error) => Err(committing(error, decided)),
        }
    }

    /// Gives the lock and the connection back; when that fails, the connection is closed, which does both.
    async fn roll_back(mut self, failed: Failed) -> Failed {
        if let Ok(connection) = self.lease.connection("roll back")
            && connection.batch_execute("ROLLBACK").await.is_ok()
        {
            self.lease.give_back();
        }
        failed
    }

    /// Is this change in the log, to the letter? Whoever committed it may be on its way still, so this is
    /// asked under the lock, which that one holds until it has ended. A database that broke off waiting for
    /// its standbys has committed all the same, without them. So what is found is answered only after a
    /// commit that came later and did wait.
    pub async fn has(mut self, change: &Change) -> Result<bool, StoreError> {
        let connection = self.lease.connection("look for a commit")?;
        let sql = "SELECT time, line FROM scroll.changes WHERE log_id = ? AND seq = ?";
        let statement: Statement<'_, (BigInt, Text)> =
            Statement::new(sql, vec![self.log.0.into(), change.seq.get().into()]);
        let found: Vec<(i64, String)> = statement.load(connection).await.map_err(while_("look for a commit"))?;
        let is_there =
            found.iter().any(|(time, line)| *time == change.time.as_micros() && line == change.line.as_str());
        if is_there {
            let sql = "UPDATE scroll.settings SET value = value WHERE name = 'lineage'; COMMIT";
            connection.batch_execute(sql).await.map_err(while_("wait for the standbys"))?;
            self.lease.give_back();
        } else {
            drop(self.roll_back(Failed::Refused(StoreError::Draining { operation: "write" })).await);
        }
        Ok(is_there)
    }
}

/// Sorts a failure of the commit itself.
fn committing(error: DieselError, decided: Decided) -> Failed {
    match fault_of(&error) {
        // The database answered: this transaction is not committed.
        Fault::Retry => Failed::Again("conflict", while_("commit")(error)),
        Fault::Conflict | Fault::Corrupt => Failed::Cause(while_("commit")(error)),
        Fault::Busy | Fault::Full => Failed::Refused(while_("commit")(error)),
        Fault::Broken | Fault::TimedOut | Fault::Refused => Failed::Unknown(Box::new(decided), while_("commit")(error)),
    }
}

async fn decide(
    connection: &mut AsyncPgConnection,
    log: LogId,
    catalog: &Arc<Catalog>,
    lineage: &Lineage,
    now: Timestamp,
    submissions: Vec<&Submission>,
) -> Result<(Decided, String), Failed> {
    // What is asked for does not depend on where the log stands, so both come in one answer.
    let nowhere = Flight::new(catalog.clone(), now, Default::default(), Default::default());
    let needs = nowhere.foresee(submissions.iter().copied());
    let loaded = load(connection, log, &needs).await?;
    let standing = loaded.standing.ok_or(Failed::Refused(StoreError::NotFound { operation: "write" }))?;
    let Standing { head, tally, epoch, timeline } = standing;
    if !lineage.admits(log, &timeline, &epoch, head) {
        return Err(Failed::Elsewhere);
    }
    let mut deciding = Deciding::new(Flight::new(catalog.clone(), now, head, tally), submissions);
    deciding.learn(loaded.facts);
    while let Some(needs) = deciding.go_on() {
        deciding.learn(load(connection, log, &needs).await?.facts);
    }
    Ok((deciding.finish().map_err(Failed::Cause)?, epoch))
}

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Failed {
        match trouble {
            Trouble::Sql(error) => before_commit("write")(error),
            Trouble::Found(error) => Failed::Cause(error),
        }
    }
}
