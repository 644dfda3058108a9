//! The one thread that writes. It takes whatever waited while the last commit was on its way to disk,
//! decides all of it in memory, writes it with a few statements, commits once, and only then moves the
//! heads and answers (DESIGN section 3). There is no timer: with one client a batch is one submission.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use diesel::SqliteConnection;
use tokio::sync::mpsc;

use super::place::Place;
use super::room::Room;
use super::rows;
use crate::access::LogId;
use crate::change::time::Clock;
use crate::change::{Change, Seq, Timestamp};
use crate::entity::types::Catalog;
use crate::entity::{Answer, Flight, Submission};
use crate::metrics::Metrics;
use crate::store::StoreError;
use crate::store::flights::{
    Cabin, Decided, Deciding, FORGET_AT_MOST, ForgetTimer, Job, REMEMBER_ANSWERS, answer_all, fail_all, halves,
    is_about_one_of_them, observed,
};
use crate::store::heads::Heads;

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
    /// Told of a full disk.
    pub room: Arc<Room>,
    /// Where its file must still be.
    pub place: Arc<Place>,
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

/// What a flight came to, one answer for each job in order, and the logs that went on.
struct Flown {
    answers: Vec<Answer>,
    logs: Vec<(LogId, Seq, Vec<Change>)>,
}

impl Writer {
    /// Works until every sender is gone and the queue is empty.
    pub fn run(mut self, mut queue: mpsc::Receiver<Message>) {
        let mut forget = ForgetTimer::new(self.clock.now());
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
            if forget.is_due(now) {
                forget.forgot(now, self.forget(now));
            }
        }
    }

    fn fly(&mut self, jobs: Vec<Job>) {
        let begun = Instant::now();
        self.metrics.batch_size.observe(observed(jobs.len()));
        let flown = self.commit(&jobs);
        self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
        match flown {
            Ok(flown) => self.land(jobs, flown),
            // The database refused what the decisions foresaw no reason to refuse.
            Err(error) if jobs.len() > 1 && is_about_one_of_them(&error) => {
                let (first, second) = halves(jobs);
                self.fly(first);
                self.fly(second);
            }
            Err(error) => {
                self.room.note(&error);
                fail_all(jobs, error, &self.metrics);
            }
        }
    }

    fn commit(&mut self, jobs: &[Job]) -> Result<Flown, StoreError> {
        self.place.check("write")?;
        let (catalog, now) = (&self.catalog, self.clock.now());
        self.connection.immediate_transaction(|connection| decide_and_write(connection, catalog, now, jobs))
    }

    fn land(&mut self, jobs: Vec<Job>, flown: Flown) {
        for (log, head, changes) in flown.logs {
            self.metrics.changes.inc_by(u64::try_from(changes.len()).unwrap_or(0));
            self.heads.committed(log, head, changes);
        }
        answer_all(jobs, flown.answers, &self.metrics);
    }

    fn forget(&mut self, now: Timestamp) -> Result<usize, StoreError> {
        let before = now.before(REMEMBER_ANSWERS);
        self.connection.immediate_transaction(|connection| rows::forget_answers(connection, before, FORGET_AT_MOST))
    }
}

/// Takes what waits, up to the bounds; a message that does not belong to this flight is handed back.
fn gather(first: Box<Job>, queue: &mut mpsc::Receiver<Message>, max_batch: usize) -> (Vec<Job>, Option<Message>) {
    let mut cabin = Cabin::new(max_batch);
    cabin.board(*first);
    while !cabin.is_full() {
        match queue.try_recv() {
            Ok(Message::Write(job)) => cabin.board(*job),
            Ok(other) => return (cabin.into_jobs(), Some(other)),
            Err(_) => break,
        }
    }
    (cabin.into_jobs(), None)
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
    let mut flown = Flown { answers: Vec::new(), logs: Vec::new() };
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
    let flight = Flight::new(catalog.clone(), now, head, tally);
    let mut deciding = Deciding::new(flight, jobs.iter().map(|(_, submission)| *submission).collect());
    while let Some(needs) = deciding.go_on() {
        deciding.learn(rows::load(connection, log, &needs)?);
    }
    let Decided { answers: decided, head, writes } = deciding.finish()?;
    answers.extend(jobs.iter().map(|(index, _)| *index).zip(decided));
    if !writes.is_empty() {
        rows::write(connection, log, &writes, now)?;
        flown.logs.push((log, head, writes.changes));
    }
    Ok(())
}
