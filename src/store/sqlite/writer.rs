//! The one thread that writes. It takes whatever waited while the last commit was on its way to disk,
//! decides all of it in memory, writes it with a few statements, commits once, and only then moves the
//! heads and answers (DESIGN section 3). There is no timer: with one client a batch is one submission.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diesel::SqliteConnection;
use tokio::sync::{mpsc, oneshot};

use super::heads::Heads;
use super::rows;
use crate::access::LogId;
use crate::change::time::Clock;
use crate::change::{Seq, Timestamp};
use crate::entity::types::Catalog;
use crate::entity::{Answer, Flight, Submission};
use crate::metrics::Metrics;
use crate::store::StoreError;

/// Submissions that may wait; one more is refused as busy.
pub const QUEUE_SUBMISSIONS: usize = 4_096;
/// Bytes of requests that one flight takes up; a larger single request flies alone.
const MAX_FLIGHT_BYTES: usize = 1 << 20;
/// How long an answer is remembered: twice the 24 hours that are promised, so that a clock that steps
/// forward by an hour forgets nothing too early.
const REMEMBER_ANSWERS: Duration = Duration::from_secs(48 * 3_600);
/// How often old answers are forgotten, and how many at a time; when there are more, the next ones go
/// after the next flight, so that forgetting keeps up with any rate of writing.
const FORGET_EVERY: Duration = Duration::from_secs(60);
const FORGET_AT_MOST: usize = 1_000;

/// A submission on its way.
pub struct Job {
    /// The log it is for.
    pub log: LogId,
    /// What to do.
    pub submission: Submission,
    /// Where the answer goes; nobody may be listening any more.
    pub reply: oneshot::Sender<Result<Answer, StoreError>>,
}

/// Work on the writing connection that is no submission: logs, keys, a sign of life.
pub type Chore = Box<dyn FnOnce(&mut SqliteConnection) + Send>;

/// What the thread is sent.
pub enum Message {
    /// A submission.
    Write(Box<Job>),
    /// Something else to do between two flights.
    Chore(Chore),
}

/// What the thread works with.
pub struct Writer {
    /// The only connection that writes.
    pub connection: SqliteConnection,
    /// The declared types.
    pub catalog: Arc<Catalog>,
    /// Commit times.
    pub clock: Arc<dyn Clock>,
    /// Told of every commit.
    pub heads: Arc<Heads>,
    /// Counts and times.
    pub metrics: Arc<Metrics>,
    /// Most submissions in one flight.
    pub max_batch: usize,
}

/// What a flight came to, one answer for each job in order, and the heads it moved.
struct Flown {
    answers: Vec<Answer>,
    heads: Vec<(LogId, Seq)>,
    changes: u64,
}

impl Writer {
    /// Works until every sender is gone and the queue is empty.
    pub fn run(mut self, mut queue: mpsc::Receiver<Message>) {
        let mut forget_at = self.clock.now().after(FORGET_EVERY);
        let mut held_over = None;
        while let Some(message) = held_over.take().or_else(|| queue.blocking_recv()) {
            match message {
                Message::Chore(chore) => chore(&mut self.connection),
                Message::Write(first) => {
                    let (jobs, next) = gather(first, &mut queue, self.max_batch);
                    held_over = next;
                    self.metrics.queue_depth.set(i64::try_from(queue.len()).unwrap_or(i64::MAX));
                    self.fly(jobs);
                }
            }
            let now = self.clock.now();
            // A clock that was set back must not put it off for as long.
            forget_at = forget_at.min(now.after(FORGET_EVERY));
            if now >= forget_at && !self.forget(now) {
                forget_at = now.after(FORGET_EVERY);
            }
        }
    }

    fn fly(&mut self, jobs: Vec<Job>) {
        let begun = Instant::now();
        self.metrics.batch_size.observe(f64::from(u32::try_from(jobs.len()).unwrap_or(u32::MAX)));
        let flown = self.commit(&jobs);
        self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
        match flown {
            Ok(flown) => self.land(jobs, flown),
            Err(error) if jobs.len() > 1 && is_about_one_of_them(&error) => self.bisect(jobs),
            Err(error) => self.fail(jobs, error),
        }
    }

    /// The database refused what the decisions foresaw no reason to refuse. One of the jobs is the cause;
    /// the others must not pay for it.
    fn bisect(&mut self, mut jobs: Vec<Job>) {
        let second = jobs.split_off(jobs.len() / 2);
        self.fly(jobs);
        self.fly(second);
    }

    fn commit(&mut self, jobs: &[Job]) -> Result<Flown, StoreError> {
        let (catalog, now) = (&self.catalog, self.clock.now());
        self.connection.immediate_transaction(|connection| decide_and_write(connection, catalog, now, jobs))
    }

    fn land(&mut self, jobs: Vec<Job>, flown: Flown) {
        self.metrics.changes.inc_by(flown.changes);
        for (log, head) in flown.heads {
            self.heads.moved(log, head);
        }
        for (job, answer) in jobs.into_iter().zip(flown.answers) {
            self.metrics.writes.with_label_values(&[result_of(&answer)]).inc();
            // The client may be gone; the write stands.
            let _ = job.reply.send(Ok(answer));
        }
    }

    /// Every job gets an error of the same kind; the first one the cause itself.
    fn fail(&mut self, jobs: Vec<Job>, error: StoreError) {
        let mut error = Some(error);
        for job in jobs {
            let this = error.as_ref().map(StoreError::same_kind);
            let this = error.take().or(this).unwrap_or_else(|| super::error::gone("write"));
            error = Some(this.same_kind());
            self.metrics.writes.with_label_values(&["failed"]).inc();
            // The client may be gone.
            let _ = job.reply.send(Err(this));
        }
    }

    /// True when there may be more to forget.
    fn forget(&mut self, now: Timestamp) -> bool {
        let before = now.before(REMEMBER_ANSWERS);
        let forgotten = self
            .connection
            .immediate_transaction(|connection| rows::forget_answers(connection, before, FORGET_AT_MOST));
        match forgotten {
            Ok(count) => {
                tracing::debug!(count, "forgot remembered answers");
                count >= FORGET_AT_MOST
            }
            Err(error) => {
                tracing::warn!(%error, "remembered answers could not be forgotten; trying again later");
                false
            }
        }
    }
}

/// Takes what waits, up to the bounds; a message that does not belong to this flight is handed back.
fn gather(first: Box<Job>, queue: &mut mpsc::Receiver<Message>, max_batch: usize) -> (Vec<Job>, Option<Message>) {
    let mut bytes = first.submission.size_bytes;
    let mut jobs = vec![*first];
    while jobs.len() < max_batch && bytes < MAX_FLIGHT_BYTES {
        match queue.try_recv() {
            Ok(Message::Write(job)) => {
                bytes = bytes.saturating_add(job.submission.size_bytes);
                jobs.push(*job);
            }
            Ok(other) => return (jobs, Some(other)),
            Err(_) => break,
        }
    }
    (jobs, None)
}

fn decide_and_write(
    connection: &mut SqliteConnection,
    catalog: &Arc<Catalog>,
    now: Timestamp,
    jobs: &[Job],
) -> Result<Flown, StoreError> {
    let mut by_log: BTreeMap<LogId, Vec<usize>> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        by_log.entry(job.log).or_default().push(index);
    }
    let mut flown = Flown { answers: Vec::new(), heads: Vec::new(), changes: 0 };
    let mut answers: BTreeMap<usize, Answer> = BTreeMap::new();
    for (log, indices) in by_log {
        let jobs: Vec<(usize, &Submission)> =
            indices.into_iter().filter_map(|index| Some((index, &jobs.get(index)?.submission))).collect();
        fly_log(connection, catalog, now, log, &jobs, &mut answers, &mut flown)?;
    }
    flown.answers = answers.into_values().collect();
    Ok(flown)
}

fn fly_log(
    connection: &mut SqliteConnection,
    catalog: &Arc<Catalog>,
    now: Timestamp,
    log: LogId,
    jobs: &[(usize, &Submission)],
    answers: &mut BTreeMap<usize, Answer>,
    flown: &mut Flown,
) -> Result<(), StoreError> {
    if !rows::log_exists(connection, log)? {
        return Err(StoreError::NotFound { operation: "write" });
    }
    let (head, tally) = rows::head(connection, log)?;
    let mut flight = Flight::new(catalog.clone(), now, head, tally);
    loop {
        let needs = flight.foresee(jobs.iter().map(|(_, submission)| *submission));
        if needs.is_empty() {
            break;
        }
        flight.learn(rows::load(connection, log, &needs)?);
    }
    for (index, submission) in jobs {
        let answer = loop {
            match flight.take(submission) {
                Ok(answer) => break answer,
                Err(needs) => flight.learn(rows::load(connection, log, &needs)?),
            }
        };
        answers.insert(*index, answer);
    }
    if flight.head() > Seq::MAX {
        return Err(StoreError::Full { operation: "number a change", source: None });
    }
    let (head, writes) = (flight.head(), flight.finish());
    if !writes.is_empty() {
        rows::write(connection, log, &writes, now)?;
        flown.changes += u64::try_from(writes.changes.len()).unwrap_or(0);
        flown.heads.push((log, head));
    }
    Ok(())
}

/// How a submission ended, as the metric of it is labelled.
fn result_of(answer: &Answer) -> &'static str {
    match answer {
        Answer { is_replayed: true, .. } => "replayed",
        Answer { result: Ok(_), .. } => "accepted",
        Answer { result: Err(_), .. } => "refused",
    }
}

/// Errors that another batch would not meet: not those of the whole database.
fn is_about_one_of_them(error: &StoreError) -> bool {
    match error {
        StoreError::Conflict { .. } | StoreError::NotFound { .. } | StoreError::Corrupt { .. } => true,
        StoreError::Full { source, .. } => source.is_none(),
        StoreError::Busy { .. } | StoreError::Draining { .. } | StoreError::Unavailable { .. } => false,
    }
}
