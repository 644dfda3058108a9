//! Which logs have rows in the outbox, as far as this server has seen.
//!
//! A log is in this list exactly as long as a task drains it. What the poll finds while the task works is
//! noted beside it, and the task looks again before it takes the log off the list: nothing falls between.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::metrics::Metrics;

/// The list.
pub struct Waiting {
    logs: Mutex<BTreeMap<String, State>>,
    metrics: Arc<Metrics>,
}

struct State {
    /// Everything that this snapshot shows of the log is drained.
    since: String,
    /// More was found since the task last looked.
    has_more: bool,
    /// When the oldest row that is known was written.
    oldest: Option<Instant>,
}

impl Waiting {
    /// Nothing is known yet.
    pub fn new(metrics: Arc<Metrics>) -> Waiting {
        Waiting { logs: Mutex::new(BTreeMap::new()), metrics }
    }

    fn logs(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A poll found rows of this log that `since` did not show; true when a task must be started.
    pub fn found(&self, log: &str, since: &str) -> bool {
        match self.logs().entry(log.to_owned()) {
            Entry::Occupied(mut known) => {
                known.get_mut().has_more = true;
                false
            }
            Entry::Vacant(new) => {
                new.insert(State { since: since.to_owned(), has_more: false, oldest: None });
                true
            }
        }
    }

    /// The task begins to look: the snapshot since which it must.
    pub fn look(&self, log: &str) -> Option<String> {
        let mut logs = self.logs();
        let state = logs.get_mut(log)?;
        state.has_more = false;
        Some(state.since.clone())
    }

    /// The task has seen so many rows, the oldest of this age.
    pub fn seen(&self, log: &str, rows: usize, age: Duration) {
        if let Some(state) = self.logs().get_mut(log) {
            state.oldest = Instant::now().checked_sub(age);
        }
        self.metrics.outbox_waiting.with_label_values(&[log]).set(i64::try_from(rows).unwrap_or(i64::MAX));
    }

    /// Everything that this snapshot shows is drained.
    pub fn drained(&self, log: &str, until: &str) {
        if let Some(state) = self.logs().get_mut(log) {
            state.since = until.to_owned();
        }
    }

    /// The task found nothing more; true when the log is off the list and the task must end.
    pub fn leave(&self, log: &str) -> bool {
        let mut logs = self.logs();
        if logs.get(log).is_some_and(|state| state.has_more) {
            return false;
        }
        logs.remove(log);
        drop(logs);
        self.metrics.outbox_waiting.with_label_values(&[log]).set(0);
        self.metrics.outbox_oldest.with_label_values(&[log]).set(0.0);
        true
    }

    /// The log is off the list, and its figures are gone: there is no such log.
    pub fn forget(&self, log: &str) {
        self.logs().remove(log);
        // They are missing where nobody set them.
        let _ = self.metrics.outbox_waiting.remove_label_values(&[log]);
        let _ = self.metrics.outbox_oldest.remove_label_values(&[log]);
    }

    /// Tells how old the oldest rows are by now.
    pub fn tell_ages(&self) {
        for (log, state) in self.logs().iter() {
            if let Some(oldest) = state.oldest {
                let seconds = oldest.elapsed().as_secs_f64();
                self.metrics.outbox_oldest.with_label_values(&[log.as_str()]).set(seconds);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_while_a_log_is_drained_is_looked_at() {
        let waiting = Waiting::new(Arc::new(Metrics::new().unwrap()));
        assert!(waiting.found("a", "1:1:"));
        assert_eq!(waiting.look("a").as_deref(), Some("1:1:"));
        assert!(!waiting.found("a", "5:5:"), "a second task");
        waiting.drained("a", "4:4:");
        assert!(!waiting.leave("a"), "what came meanwhile was left behind");
        assert_eq!(waiting.look("a").as_deref(), Some("4:4:"));
        assert!(waiting.leave("a"));
        assert!(waiting.found("a", "6:6:"), "a log that was left is found again");
    }
}
