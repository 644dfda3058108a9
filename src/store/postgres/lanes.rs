//! The queues of the logs: one lane for each log that has work, none for the others.
//!
//! A lane is there exactly as long as a task works on it. Whoever adds the first job starts the task; the
//! task takes the lane away in the same moment in which it sees that nothing waits. So there is never a
//! job without a task, and never a second task.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::access::LogId;
use crate::store::StoreError;
use crate::store::flights::{Cabin, Job, QUEUE_SUBMISSIONS};

/// Every lane.
pub struct Lanes {
    state: Mutex<State>,
    running: watch::Sender<usize>,
}

struct State {
    waiting: BTreeMap<LogId, VecDeque<Job>>,
    is_open: bool,
}

impl Lanes {
    /// None yet.
    pub fn new() -> Lanes {
        let state = State { waiting: BTreeMap::new(), is_open: true };
        Lanes { state: Mutex::new(state), running: watch::Sender::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a job; true when a task must be started for its log.
    pub fn join(&self, job: Job) -> Result<bool, StoreError> {
        let operation = "write";
        let mut state = self.state();
        if !state.is_open {
            return Err(StoreError::Draining { operation });
        }
        match state.waiting.entry(job.log) {
            Entry::Occupied(lane) if lane.get().len() >= QUEUE_SUBMISSIONS => {
                Err(StoreError::Busy { operation, source: None })
            }
            Entry::Occupied(mut lane) => {
                lane.get_mut().push_back(job);
                Ok(false)
            }
            Entry::Vacant(lane) => {
                lane.insert(VecDeque::from([job]));
                self.running.send_modify(|running| *running += 1);
                Ok(true)
            }
        }
    }

    /// True when nothing waits; then the lane is gone, and the task must end.
    pub fn is_done(&self, log: LogId) -> bool {
        let mut state = self.state();
        if state.waiting.get(&log).is_some_and(|lane| !lane.is_empty()) {
            return false;
        }
        state.waiting.remove(&log);
        self.running.send_modify(|running| *running = running.saturating_sub(1));
        true
    }

    /// Takes what waits, up to the bounds of one flight.
    pub fn board(&self, log: LogId, max_batch: usize) -> Vec<Job> {
        let mut cabin = Cabin::new(max_batch);
        let mut state = self.state();
        let Some(lane) = state.waiting.get_mut(&log) else {
            return Vec::new();
        };
        while !cabin.is_full() {
            match lane.pop_front() {
                Some(job) => cabin.board(job),
                None => break,
            }
        }
        cabin.into_jobs()
    }

    /// Takes everything that waits: the database does not answer, and nobody should wait once more.
    pub fn clear(&self, log: LogId) -> Vec<Job> {
        self.state().waiting.get_mut(&log).map(std::mem::take).unwrap_or_default().into()
    }

    /// The task of a lane has died: whoever waits is let go, and the next job starts another task.
    pub fn abandon(&self, log: LogId) {
        // Dropped outside the lock: each wakes somebody.
        let waiting = self.state().waiting.remove(&log);
        if waiting.is_some() {
            self.running.send_modify(|running| *running = running.saturating_sub(1));
        }
    }

    /// Takes no more, and waits until everything that was accepted is done; false when time ran out.
    pub async fn close(&self, deadline: Duration) -> bool {
        self.state().is_open = false;
        let mut running = self.running.subscribe();
        let done = running.wait_for(|running| *running == 0);
        tokio::time::timeout(deadline, done).await.is_ok()
    }
}
