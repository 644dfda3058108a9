//! The tasks that write: one for each log that has work, a few of them in a transaction at a time.
//!
//! A task borrows a connection, takes the lock of its log, and only then takes what waits, so a batch is
//! whatever came in until the last moment (DESIGN section 3). There is no timer. Tasks run on the runtime
//! that opened the store, whatever becomes of those who asked: a client that goes away cannot leave a
//! transaction open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::sql_types::BigInt;
use diesel_async::RunQueryDsl;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, oneshot};

use super::error::{gone, while_};
use super::lanes::Lanes;
use super::notices::Notices;
use super::pool::Pool;
use super::statement::Statement;
use super::transaction::{Failed, Transaction};
use crate::access::LogId;
use crate::change::Change;
use crate::change::time::Clock;
use crate::entity::types::Catalog;
use crate::entity::{Answer, Submission};
use crate::metrics::Metrics;
use crate::store::StoreError;
use crate::store::columns::rows_limit;
use crate::store::flights::{
    Decided, FORGET_AT_MOST, ForgetTimer, Job, REMEMBER_ANSWERS, answer_all, fail_all, halves, is_about_one_of_them,
    observed,
};

/// How often a transaction is begun again before its submissions fail.
const MAX_ATTEMPTS: u32 = 4;
/// How often one asks whether a commit happened whose answer was lost, and how long between: together a
/// little longer than a database takes to restart.
const MAX_QUESTIONS: u32 = 8;
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(750);

/// What the tasks share.
pub struct Writer {
    /// Where they run.
    pub runtime: Handle,
    /// The connections that write.
    pub pool: Arc<Pool>,
    /// What waits.
    pub lanes: Lanes,
    /// Told of every commit.
    pub notices: Arc<Notices>,
    /// The declared types.
    pub catalog: Arc<Catalog>,
    /// Commit times.
    pub clock: Arc<dyn Clock>,
    /// Counts and times.
    pub metrics: Arc<Metrics>,
    /// Most submissions in one flight.
    pub max_batch: usize,
    /// When old answers are forgotten; whoever holds it does that.
    pub forget: Mutex<ForgetTimer>,
}

impl Writer {
    /// Queues a submission and waits for its answer.
    pub async fn write(self: &Arc<Writer>, log: LogId, submission: Submission) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        // Counted before it is queued: a task may take it at once.
        self.metrics.queue_depth.inc();
        match self.lanes.join(Job { log, submission, reply }) {
            Ok(true) => drop(self.runtime.spawn(self.clone().work(log))),
            Ok(false) => {}
            Err(error) => {
                self.metrics.queue_depth.dec();
                return Err(error);
            }
        }
        answer.await.unwrap_or_else(|_| Err(gone("write")))
    }

    /// Works until nothing waits.
    async fn work(self: Arc<Writer>, log: LogId) {
        let mut guard = Abandon { writer: &self, log, is_needed: true };
        while !self.lanes.is_done(log) {
            self.fly(log).await;
            self.forget().await;
        }
        guard.is_needed = false;
    }

    async fn fly(&self, log: LogId) {
        let begun = Instant::now();
        match self.begin(log).await {
            Ok(transaction) => {
                let jobs = self.counted(self.lanes.board(log, self.max_batch));
                self.carry_out(log, transaction, jobs, begun).await;
            }
            Err(error @ StoreError::Unavailable { .. }) => {
                fail_all(self.counted(self.lanes.clear(log)), error, &self.metrics);
            }
            Err(error) => fail_all(self.counted(self.lanes.board(log, self.max_batch)), error, &self.metrics),
        }
    }

    fn counted(&self, jobs: Vec<Job>) -> Vec<Job> {
        self.metrics.queue_depth.sub(i64::try_from(jobs.len()).unwrap_or(i64::MAX));
        jobs
    }

    /// A transaction under the lock of the log; a connection that had died in the pool is replaced.
    async fn begin(&self, log: LogId) -> Result<Transaction, StoreError> {
        let mut attempt = 1;
        loop {
            match Transaction::begin(&self.pool, log).await {
                Ok(transaction) => return Ok(transaction),
                Err(Failed::Again(reason, _)) if attempt < MAX_ATTEMPTS => self.again(reason),
                Err(failed) => return Err(failed.into_error()),
            }
            attempt += 1;
        }
    }

    fn again(&self, reason: &'static str) {
        tracing::debug!(reason, "a write transaction begins again");
        self.metrics.database_retries.with_label_values(&[reason]).inc();
    }

    /// Flies the jobs, and cuts the flight in two when one of them is the cause of its failure.
    async fn carry_out(&self, log: LogId, transaction: Transaction, jobs: Vec<Job>, begun: Instant) {
        let (mut waiting, mut transaction, mut begun) = (vec![jobs], Some(transaction), begun);
        while let Some(jobs) = waiting.pop() {
            self.metrics.batch_size.observe(observed(jobs.len()));
            let flown = self.attempts(log, transaction.take(), &jobs).await;
            self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
            begun = Instant::now();
            match flown {
                Ok(decided) => self.land(log, jobs, decided),
                Err((error, true)) if jobs.len() > 1 => {
                    tracing::debug!(%error, "a flight is cut in two");
                    let (first, second) = halves(jobs);
                    waiting.extend([second, first]);
                }
                Err((error, _)) => fail_all(jobs, error, &self.metrics),
            }
        }
    }

    /// Carries the jobs out, several times if need be. The error says whether one of them is its cause.
    async fn attempts(
        &self,
        log: LogId,
        mut begun: Option<Transaction>,
        jobs: &[Job],
    ) -> Result<Decided, (StoreError, bool)> {
        let mut attempt = 1;
        loop {
            let transaction = match begun.take() {
                Some(transaction) => transaction,
                None => self.begin(log).await.map_err(|error| (error, false))?,
            };
            let submissions = jobs.iter().map(|job| &job.submission).collect();
            match transaction.carry_out(&self.catalog, self.clock.now(), submissions).await {
                Ok(decided) => return Ok(decided),
                Err(Failed::Again(reason, _)) if attempt < MAX_ATTEMPTS => self.again(reason),
                Err(Failed::Unknown(decided, error)) => match self.happened(log, &decided, error).await {
                    Ok(true) => return Ok(*decided),
                    Ok(false) if attempt < MAX_ATTEMPTS => self.again("connection"),
                    Ok(false) => return Err((gone("commit"), false)),
                    Err(error) => return Err((error, false)),
                },
                Err(Failed::Cause(error)) => {
                    let is_one = is_about_one_of_them(&error) || matches!(error, StoreError::Unavailable { .. });
                    return Err((error, is_one));
                }
                Err(failed) => return Err((failed.into_error(), false)),
            }
            attempt += 1;
        }
    }

    /// The answer to a commit was lost: did it happen? When that cannot be found out, nobody is told that
    /// it did; an idempotency key makes trying again safe.
    async fn happened(&self, log: LogId, decided: &Decided, error: StoreError) -> Result<bool, StoreError> {
        self.pool.forget_free();
        // Without a change only refusals were to be remembered: deciding them again does no harm.
        let Some(last) = decided.writes.changes.last() else {
            return Ok(false);
        };
        for _ in 0..MAX_QUESTIONS {
            match self.ask(log, last).await {
                Ok(is_there) => {
                    tracing::warn!(%error, is_there, "the answer to a commit was lost; it was looked up");
                    return Ok(is_there);
                }
                Err(error) => tracing::warn!(%error, "cannot look up a commit yet"),
            }
            tokio::time::sleep(BETWEEN_QUESTIONS).await;
        }
        Err(error)
    }

    async fn ask(&self, log: LogId, change: &Change) -> Result<bool, StoreError> {
        let transaction = Transaction::begin(&self.pool, log).await.map_err(Failed::into_error)?;
        transaction.has(change).await
    }

    fn land(&self, log: LogId, jobs: Vec<Job>, decided: Decided) {
        let changes = u64::try_from(decided.writes.changes.len()).unwrap_or(0);
        if changes > 0 {
            self.metrics.changes.inc_by(changes);
            self.notices.committed(log, decided.head, decided.writes.changes);
        }
        answer_all(jobs, decided.answers, &self.metrics);
    }

    /// Forgets old answers when it is time and nobody else does.
    async fn forget(&self) {
        let now = self.clock.now();
        let Ok(mut timer) = self.forget.try_lock() else {
            return;
        };
        if timer.is_due(now) {
            let forgotten = self.forget_before(now.before(REMEMBER_ANSWERS).as_micros()).await;
            timer.forgot(now, forgotten);
        }
    }

    async fn forget_before(&self, micros: i64) -> Result<usize, StoreError> {
        let mut lease = self.pool.lend("forget answers").await?;
        let sql = "DELETE FROM scroll.idempotency WHERE ctid = ANY (ARRAY(SELECT ctid FROM scroll.idempotency \
                   WHERE created_at < ? ORDER BY created_at LIMIT ? FOR UPDATE SKIP LOCKED))";
        let statement: Statement<'_, BigInt> =
            Statement::new(sql, vec![micros.into(), rows_limit(FORGET_AT_MOST).into()]);
        let gone = statement.execute(lease.connection("forget answers")?).await.map_err(while_("forget answers"))?;
        lease.give_back();
        Ok(gone)
    }
}

/// Lets everybody go when a task ends by a panic or with the runtime.
struct Abandon<'a> {
    writer: &'a Writer,
    log: LogId,
    is_needed: bool,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if self.is_needed {
            tracing::error!("a writing task ended before its work");
            self.writer.lanes.abandon(self.log);
        }
    }
}

impl Failed {
    fn into_error(self) -> StoreError {
        match self {
            Failed::Again(_, error) | Failed::Refused(error) | Failed::Cause(error) | Failed::Unknown(_, error) => {
                error
            }
        }
    }
}
