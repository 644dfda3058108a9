//! What the writers of all engines share: submissions on their way, how much of them flies together, how
//! they are decided, answered and counted. An adapter adds the transaction around it and nothing else, so
//! that a batch means the same everywhere.

use std::time::Duration;

use tokio::sync::oneshot;

use super::StoreError;
use crate::access::LogId;
use crate::change::{Seq, Timestamp};
use crate::entity::{Answer, Facts, Flight, Needs, Submission, Writes};
use crate::metrics::Metrics;

/// Submissions that may wait; one more is refused as busy.
pub const QUEUE_SUBMISSIONS: usize = 4_096;
/// Bytes of requests that one flight takes up; a larger single request flies alone.
pub const MAX_FLIGHT_BYTES: usize = 1 << 20;
/// How long an answer is remembered: twice the 24 hours that are promised, so that a clock that steps
/// forward by an hour forgets nothing too early.
pub const REMEMBER_ANSWERS: Duration = Duration::from_hours(48);
/// Most old answers that are forgotten between two flights; when there are more, the next ones go after
/// the next flight, so that forgetting keeps up with any rate of writing.
pub const FORGET_AT_MOST: usize = 1_000;
/// How often old answers are looked for when there were none left.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// A submission on its way.
pub struct Job {
    /// The log it is for.
    pub log: LogId,
    /// What to do.
    pub submission: Submission,
    /// Where the answer goes; nobody may be listening any more.
    pub reply: oneshot::Sender<Result<Answer, StoreError>>,
}

/// Collects what flies together, up to the bounds.
pub struct Cabin {
    jobs: Vec<Job>,
    bytes: usize,
    max_batch: usize,
}

impl Cabin {
    /// Room for so many submissions, but at least for one.
    pub fn new(max_batch: usize) -> Cabin {
        Cabin { jobs: Vec::new(), bytes: 0, max_batch: max_batch.max(1) }
    }

    /// True when nothing more may board.
    pub fn is_full(&self) -> bool {
        self.jobs.len() >= self.max_batch || self.bytes >= MAX_FLIGHT_BYTES
    }

    /// Takes one more.
    pub fn board(&mut self, job: Job) {
        self.bytes = self.bytes.saturating_add(job.submission.size_bytes);
        self.jobs.push(job);
    }

    /// Everybody on board, in order.
    pub fn into_jobs(self) -> Vec<Job> {
        self.jobs
    }
}

/// One flight of one log while it is decided. What must be loaded is asked for, so that the same steps
/// serve an engine that blocks and one that awaits.
pub struct Deciding<'a> {
    flight: Flight,
    submissions: Vec<&'a Submission>,
    answers: Vec<Answer>,
    is_foreseen: bool,
}

/// A flight that is decided: what to write, where the log then stands, and one answer for each submission.
pub struct Decided {
    /// In the order of the submissions.
    pub answers: Vec<Answer>,
    /// The newest seq.
    pub head: Seq,
    /// What to write down.
    pub writes: Writes,
}

impl<'a> Deciding<'a> {
    /// Begins with a flight that stands on the newest change.
    pub fn new(flight: Flight, submissions: Vec<&'a Submission>) -> Deciding<'a> {
        Deciding { flight, submissions, answers: Vec::new(), is_foreseen: false }
    }

    /// Goes as far as what is known allows: what must be loaded next, or `None` when all is decided.
    pub fn go_on(&mut self) -> Option<Needs> {
        if !self.is_foreseen {
            let needs = self.flight.foresee(self.submissions.iter().copied());
            if !needs.is_empty() {
                return Some(needs);
            }
            self.is_foreseen = true;
        }
        while let Some(submission) = self.submissions.get(self.answers.len()) {
            match self.flight.take(submission) {
                Ok(answer) => self.answers.push(answer),
                Err(needs) => return Some(*needs),
            }
        }
        None
    }

    /// Takes what was loaded.
    pub fn learn(&mut self, facts: Facts) {
        self.flight.learn(facts);
    }

    /// What came of it; numbers may have run out.
    pub fn finish(self) -> Result<Decided, StoreError> {
        let head = self.flight.head();
        if head > Seq::MAX {
            return Err(StoreError::Full { operation: "number a change", source: None });
        }
        Ok(Decided { answers: self.answers, head, writes: self.flight.finish() })
    }
}

/// Answers everybody, in order. Only after the commit, and after the heads have moved.
pub fn answer_all(jobs: Vec<Job>, answers: Vec<Answer>, metrics: &Metrics) {
    for (job, answer) in jobs.into_iter().zip(answers) {
        metrics.writes.with_label_values(&[result_of(&answer)]).inc();
        // The client may be gone; the write stands.
        let _ = job.reply.send(Ok(answer));
    }
}

/// Every job gets an error of the same kind; the first one the cause itself.
pub fn fail_all(jobs: Vec<Job>, error: StoreError, metrics: &Metrics) {
    let mut error = error;
    for job in jobs {
        let next = error.same_kind();
        metrics.writes.with_label_values(&["failed"]).inc();
        // The client may be gone.
        let _ = job.reply.send(Err(std::mem::replace(&mut error, next)));
    }
}

/// Cuts a flight that failed in two. One of the jobs is the cause; the others must not pay for it.
pub fn halves(mut jobs: Vec<Job>) -> (Vec<Job>, Vec<Job>) {
    let second = jobs.split_off(jobs.len() / 2);
    (jobs, second)
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
pub fn is_about_one_of_them(error: &StoreError) -> bool {
    match error {
        StoreError::Conflict { .. } | StoreError::NotFound { .. } | StoreError::Corrupt { .. } => true,
        StoreError::Full { source, .. } => source.is_none(),
        StoreError::Busy { .. } | StoreError::Draining { .. } | StoreError::Unavailable { .. } => false,
    }
}

/// A count as a metric observes it.
pub fn observed(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// When old answers are looked for again.
pub struct ForgetTimer(Timestamp);

impl ForgetTimer {
    /// The first time is one interval from now.
    pub fn new(now: Timestamp) -> ForgetTimer {
        ForgetTimer(now.after(FORGET_EVERY))
    }

    /// True when it is time.
    pub fn is_due(&mut self, now: Timestamp) -> bool {
        // A clock that was set back must not put it off for as long.
        self.0 = self.0.min(now.after(FORGET_EVERY));
        now >= self.0
    }

    /// Says how it went: when everything old is gone, or could not go, the next time is one interval away.
    pub fn forgot(&mut self, now: Timestamp, result: Result<usize, StoreError>) {
        let has_more = match result {
            Ok(count) => {
                tracing::debug!(count, "forgot remembered answers");
                count >= FORGET_AT_MOST
            }
            Err(error) => {
                tracing::warn!(%error, "remembered answers could not be forgotten; trying again later");
                false
            }
        };
        if !has_more {
            self.0 = now.after(FORGET_EVERY);
        }
    }
}
