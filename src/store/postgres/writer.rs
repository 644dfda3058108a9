//! The tasks that write: one for each log that has work, a few of them in a transaction at a time.
//!
//! A task takes whatever came in while the last commit was on its way, and asks for the lock of the log and
//! for what the decisions need in one go (DESIGN section 3). There is no timer. Tasks run on the runtime that
//! opened the store, whatever becomes of those who asked: a client that goes away cannot leave a transaction
//! open.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::sql_types::BigInt;
use diesel_async::RunQueryDsl;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, oneshot};

use super::error::{gone, while_};
use super::lanes::Lanes;
use super::lineage::Lineage;
use super::load::Loader;
use super::notices::Notices;
use super::pool::Pool;
use super::statement::Statement;
use super::transaction::{Failed, Grounds, Transaction};
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
    /// The history that is written on.
    pub lineage: Arc<Lineage>,
    /// How things are looked up.
    pub loader: Loader,
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

    /// What waits flies, and is cut in two when one of the jobs is the cause of its failure.
    async fn fly(&self, log: LogId) {
        let mut waiting = vec![self.counted(self.lanes.board(log, self.max_batch))];
        while let Some(jobs) = waiting.pop() {
            let begun = Instant::now();
            self.metrics.batch_size.observe(observed(jobs.len()));
            let flown = self.attempts(log, &jobs).await;
            self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
            match flown {
                Ok(decided) => self.land(log, jobs, decided),
                Err(Fell::Some(error)) if jobs.len() > 1 => {
                    tracing::debug!(%error, "a flight is cut in two");
                    let (first, second) = halves(jobs);
                    waiting.extend([second, first]);
                }
                Err(Fell::Some(error) | Fell::Everybody(error)) => fail_all(jobs, error, &self.metrics),
                Err(Fell::Unreachable(error)) => {
                    let behind = waiting.drain(..).flatten();
                    let jobs = jobs.into_iter().chain(behind).chain(self.counted(self.lanes.clear(log)));
                    fail_all(jobs.collect(), error, &self.metrics);
                }
            }
        }
    }

    fn counted(&self, jobs: Vec<Job>) -> Vec<Job> {
        self.metrics.queue_depth.sub(i64::try_from(jobs.len()).unwrap_or(i64::MAX));
        jobs
    }

    fn again(&self, reason: &'static str) {
        tracing::debug!(reason, "a write transaction begins again");
        self.metrics.database_retries.with_label_values(&[reason]).inc();
    }

    /// What is decided now stands on this.
    pub fn grounds(&self) -> Grounds<'_> {
        Grounds { catalog: &self.catalog, lineage: &self.lineage, loader: &self.loader, now: self.clock.now() }
    }

    /// Carries the jobs out, several times if need be.
    async fn attempts(&self, log: LogId, jobs: &[Job]) -> Result<Decided, Fell> {
        let mut attempt = 1;
        loop {
            match self.attempt(log, jobs).await {
                Ok(decided) => return Ok(decided),
                Err(Fall::Begin(Failed::Again(reason, _)) | Fall::Flight(Failed::Again(reason, _)))
                    if attempt < MAX_ATTEMPTS =>
                {
                    self.again(reason);
                }
                Err(Fall::Flight(Failed::Elsewhere)) if attempt < MAX_ATTEMPTS => {
                    self.again("history");
                    self.lineage.compare().await.map_err(Fell::Everybody)?;
                }
                Err(Fall::Flight(Failed::Unknown(decided, error))) => {
                    match self.happened(log, &decided, error).await.map_err(Fell::Everybody)? {
                        true => return Ok(*decided),
                        false if attempt < MAX_ATTEMPTS => self.again("connection"),
                        false => return Err(Fell::Everybody(gone("commit"))),
                    }
                }
                Err(fall) => return Err(fall.into()),
            }
            attempt += 1;
        }
    }

    async fn attempt(&self, log: LogId, jobs: &[Job]) -> Result<Decided, Fall> {
        let submissions: Vec<&Submission> = jobs.iter().map(|job| &job.submission).collect();
        let begun = Transaction::begin_for(&self.pool, log, self.grounds(), &submissions).await;
        let (transaction, loaded) = begun.map_err(Fall::Begin)?;
        transaction.carry_out(self.grounds(), loaded, submissions).await.map_err(Fall::Flight)
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
        let frame = self.pool.frame();
        let connection = lease.connection("forget answers")?;
        frame.enter(connection).await?;
        let gone = statement.execute(connection).await.map_err(while_("forget answers"));
        let gone = frame.leave(connection, gone).await?;
        lease.give_back();
        Ok(gone)
    }
}

/// Where one attempt failed.
enum Fall {
    /// Before anything was decided.
    Begin(Failed),
    /// After that.
    Flight(Failed),
}

/// Why a flight did not arrive.
enum Fell {
    /// One or some of the jobs are the cause.
    Some(StoreError),
    /// None of them is.
    Everybody(StoreError),
    /// The database does not answer: whoever waits should not wait once more.
    Unreachable(StoreError),
}

impl From<Fall> for Fell {
    fn from(fall: Fall) -> Fell {
        match fall {
            Fall::Flight(Failed::Cause(error)) if may_be_one(&error) => Fell::Some(error),
            Fall::Flight(failed) => Fell::Everybody(failed.into_error()),
            Fall::Begin(failed) => match failed.into_error() {
                error @ StoreError::Unavailable { .. } => Fell::Unreachable(error),
                error => Fell::Everybody(error),
            },
        }
    }
}

fn may_be_one(error: &StoreError) -> bool {
    is_about_one_of_them(error) || matches!(error, StoreError::Unavailable { .. })
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
