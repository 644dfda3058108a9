//! One write transaction of one log: lock, read where the log stands, load, decide, write, commit.
//!
//! The lock is on the log's row and changes nothing in it, so no dead row versions pile up while somebody
//! holds a snapshot. The head is read in a statement *after* the one that waited for the lock: only then is
//! its snapshot newer than the commit of whoever held it before.
//!
//! A round trip costs as much as a small statement, so what does not depend on an answer is sent behind one
//! another: begin, lock and load; then (load more;) write and commit. A commit that follows a write which
//! the database refuses rolls back, as it would have been without it.

use std::sync::Arc;
use std::time::Duration;

use diesel::result::Error as DieselError;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};

use super::error::{Fault, Trouble, fault_of, while_};
use super::lineage::Lineage;
use super::load::{Loaded, Loader, Standing};
use super::marks::Mark;
use super::pool::{Lease, Pool};
use super::statement::Statement;
use super::write;
use crate::access::LogId;
use crate::change::{Change, Timestamp};
use crate::entity::types::Catalog;
use crate::entity::{Flight, Needs, Submission};
use crate::store::StoreError;
use crate::store::flights::{Decided, Deciding};

/// What a decision stands on.
#[derive(Clone, Copy)]
pub struct Grounds<'a> {
    /// The declared types.
    pub catalog: &'a Arc<Catalog>,
    /// The history that is written on.
    pub lineage: &'a Lineage,
    /// How things are looked up.
    pub loader: &'a Loader,
    /// The time of the commit.
    pub now: Timestamp,
}

impl Grounds<'_> {
    /// What the submissions need, as far as it can be told before anything is known.
    fn needs_of(&self, submissions: &[&Submission]) -> Needs {
        let nowhere = Flight::new(self.catalog.clone(), self.now, Default::default(), Default::default());
        nowhere.foresee(submissions.iter().copied())
    }
}

/// A transaction that holds the lock of a log.
pub struct Transaction {
    lease: Lease,
    log: LogId,
    /// Where the log stands, once that was read.
    standing: Option<Standing>,
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

impl Failed {
    /// What to tell whoever waits.
    pub fn into_error(self) -> StoreError {
        match self {
            Failed::Elsewhere => {
                let source = "the history of the database does not come to rest".into();
                StoreError::Unavailable { operation: "write", source }
            }
            Failed::Again(_, error) | Failed::Refused(error) | Failed::Cause(error) | Failed::Unknown(_, error) => {
                error
            }
        }
    }
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
        Transaction::begin_with(pool, log, "").await
    }

    /// The same for those who wait for the lock only so long.
    pub async fn begin_within(pool: &Arc<Pool>, log: LogId, wait: Duration) -> Result<Transaction, Failed> {
        let setting = format!("SET LOCAL lock_timeout = {};", wait.as_millis());
        Transaction::begin_with(pool, log, &setting).await
    }

    async fn begin_with(pool: &Arc<Pool>, log: LogId, setting: &str) -> Result<Transaction, Failed> {
        let mut lease = pool.lend("write").await.map_err(Failed::Refused)?;
        let connection = lease.connection("write").map_err(Failed::Refused)?;
        let locked = connection.batch_execute(&lock_sql(pool, log, setting)).await;
        locked.map_err(|error| not_locked(pool, error))?;
        Ok(Transaction { lease, log, standing: None })
    }

    /// Begins, waits for the lock, and loads what the submissions need, in one go. What they need does not
    /// depend on where the log stands, and the load has a snapshot of its own, after the lock.
    pub async fn begin_for(
        pool: &Arc<Pool>,
        log: LogId,
        grounds: Grounds<'_>,
        submissions: &[&Submission],
    ) -> Result<(Transaction, Loaded), Failed> {
        let needs = grounds.needs_of(submissions);
        let mut lease = pool.lend("write").await.map_err(Failed::Refused)?;
        let connection: &AsyncPgConnection = lease.connection("write").map_err(Failed::Refused)?;
        let (sql, mut locking) = (lock_sql(pool, log, ""), connection);
        // In this order: whatever is polled first is sent first.
        let (locked, loaded) =
            futures::join!(locking.batch_execute(&sql), grounds.loader.load(connection, log, &needs));
        locked.map_err(|error| not_locked(pool, error))?;
        let transaction = Transaction { lease, log, standing: None };
        match loaded {
            Ok(loaded) => Ok((transaction, loaded)),
            Err(trouble) => Err(transaction.roll_back(trouble.into()).await),
        }
    }

    /// Decides the submissions, writes what comes of it, commits.
    pub async fn carry_out(
        mut self,
        grounds: Grounds<'_>,
        loaded: Loaded,
        submissions: Vec<&Submission>,
    ) -> Result<Decided, Failed> {
        match self.decide(grounds, loaded, submissions).await {
            Ok(decided) if decided.writes.is_empty() => {
                self.let_go().await;
                Ok(decided)
            }
            // The commit would overtake a statement that must be prepared first.
            Ok(decided) if self.lease.has_written() => self.write_and_commit(grounds, decided).await,
            Ok(decided) => match self.write_down(grounds.now, &decided).await {
                Ok(()) => self.commit(grounds.lineage, decided).await,
                Err(failed) => Err(self.roll_back(failed).await),
            },
            Err(failed) => Err(self.roll_back(failed).await),
        }
    }

    /// Decides the submissions and writes what comes of it; whoever asks ends the transaction.
    pub async fn write(&mut self, grounds: Grounds<'_>, submissions: Vec<&Submission>) -> Result<Decided, Failed> {
        let needs = grounds.needs_of(&submissions);
        let loaded = self.load(grounds, &needs).await?;
        let decided = self.decide(grounds, loaded, submissions).await?;
        if !decided.writes.is_empty() {
            self.write_down(grounds.now, &decided).await?;
        }
        Ok(decided)
    }

    /// The connection, for what else belongs into the transaction.
    pub fn connection(&mut self) -> Result<&mut AsyncPgConnection, Failed> {
        self.lease.connection("write").map_err(Failed::Refused)
    }

    async fn load(&mut self, grounds: Grounds<'_>, needs: &Needs) -> Result<Loaded, Failed> {
        let log = self.log;
        Ok(grounds.loader.load(self.connection()?, log, needs).await?)
    }

    async fn decide(
        &mut self,
        grounds: Grounds<'_>,
        loaded: Loaded,
        submissions: Vec<&Submission>,
    ) -> Result<Decided, Failed> {
        let no_log = || Failed::Refused(StoreError::NotFound { operation: "write" });
        let standing = self.standing.insert(loaded.standing.ok_or_else(no_log)?);
        if !grounds.lineage.admits(self.log, &standing.timeline, &standing.epoch, standing.head) {
            return Err(Failed::Elsewhere);
        }
        let flight = Flight::new(grounds.catalog.clone(), grounds.now, standing.head, standing.tally);
        let mut deciding = Deciding::new(flight, submissions);
        deciding.learn(loaded.facts);
        while let Some(needs) = deciding.go_on() {
            deciding.learn(self.load(grounds, &needs).await?.facts);
        }
        deciding.finish().map_err(Failed::Cause)
    }

    async fn write_down(&mut self, now: Timestamp, decided: &Decided) -> Result<(), Failed> {
        let (log, xid) = (self.log, self.xid().to_owned());
        write::write(self.connection()?, log, Some(&xid), &decided.writes, now).await?;
        self.lease.note_written();
        Ok(())
    }

    /// The transaction that holds the lock: what is written must be written in it.
    fn xid(&self) -> &str {
        self.standing.as_ref().map_or("", |standing| &standing.xid)
    }

    async fn write_and_commit(mut self, grounds: Grounds<'_>, decided: Decided) -> Result<Decided, Failed> {
        let (log, xid) = (self.log, self.xid().to_owned());
        let connection: &AsyncPgConnection = self.connection()?;
        let mut committing_too = connection;
        let (written, committed) = futures::join!(
            write::write(connection, log, Some(&xid), &decided.writes, grounds.now),
            committing_too.batch_execute("COMMIT")
        );
        match (written, committed) {
            (Ok(()), Ok(())) => Ok(self.committed(grounds.lineage, decided)),
            (_, Err(error)) => Err(committing(error, decided)),
            // The commit has rolled back.
            (Err(trouble), Ok(())) => {
                self.lease.give_back();
                Err(trouble.into())
            }
        }
    }

    /// Ends it with everything that was done in it.
    pub async fn commit(mut self, lineage: &Lineage, decided: Decided) -> Result<Decided, Failed> {
        match self.connection()?.batch_execute("COMMIT").await {
            Ok(()) => Ok(self.committed(lineage, decided)),
            Err(error) => Err(committing(error, decided)),
        }
    }

    fn committed(self, lineage: &Lineage, decided: Decided) -> Decided {
        if let (Some(last), Some(standing)) = (decided.writes.changes.last(), self.standing) {
            lineage.seen(self.log, Mark::of(last, standing.epoch));
        }
        self.lease.give_back();
        decided
    }

    /// Gives the lock and the connection back after a failure.
    pub async fn roll_back(self, failed: Failed) -> Failed {
        self.let_go().await;
        failed
    }

    /// Gives the lock and the connection back; when that fails, the connection is closed, which does both.
    async fn let_go(mut self) {
        if let Ok(connection) = self.lease.connection("roll back")
            && connection.batch_execute("ROLLBACK").await.is_ok()
        {
            self.lease.give_back();
        }
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
            self.let_go().await;
        }
        Ok(is_there)
    }
}

fn lock_sql(pool: &Pool, log: LogId, setting: &str) -> String {
    let begin = pool.frame().begin();
    format!("{begin}; {setting} SELECT FROM scroll.logs WHERE log_id = {} FOR NO KEY UPDATE", log.0)
}

/// After one connection was found dead, the others most likely are, too.
fn not_locked(pool: &Pool, error: DieselError) -> Failed {
    let failed = before_commit("lock a log")(error);
    if matches!(failed, Failed::Again("connection", _)) {
        pool.forget_free();
    }
    failed
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

impl From<Trouble> for Failed {
    fn from(trouble: Trouble) -> Failed {
        match trouble {
            Trouble::Sql(error) => before_commit("write")(error),
            Trouble::Found(error) => Failed::Cause(error),
        }
    }
}
