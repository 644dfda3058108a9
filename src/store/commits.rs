//! What this server has just committed to a log, for the one that follows it on behalf of all its readers.
//!
//! A hint and no promise: what another server wrote is not in it, and when it is not taken in time it is
//! let go. Whoever takes it knows from the numbers that something is missing, and reads that.

use std::sync::{Mutex, PoisonError};

use crate::change::Change;

/// Bytes of lines that wait to be taken. They are taken within a moment, unless the database answers slowly.
const MAX_WAITING_BYTES: usize = 4 << 20;

/// The changes of one log since they were last taken, oldest first.
#[derive(Debug, Default)]
pub struct Commits(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    changes: Vec<Change>,
    bytes: usize,
}

impl Commits {
    /// Everything that waits.
    pub fn take(&self) -> Vec<Change> {
        std::mem::take(&mut *self.waiting()).changes
    }

    /// Adds what was committed; when too much waits, all of it is let go.
    pub fn push(&self, changes: Vec<Change>) {
        let bytes: usize = changes.iter().map(|change| change.line.as_str().len()).sum();
        let mut waiting = self.waiting();
        if waiting.bytes.saturating_add(bytes) > MAX_WAITING_BYTES {
            *waiting = Waiting::default();
            return;
        }
        waiting.bytes += bytes;
        waiting.changes.extend(changes);
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{EntityId, EntityKey, Line, Resource, Seq, Tally, Timestamp, Verb};

    fn change(seq: i64, bytes: usize) -> Change {
        let key = EntityKey { resource: Resource::parse("note").unwrap(), id: EntityId::parse("n").unwrap() };
        let (seq, data) = (Seq::new(seq).unwrap(), format!("{{\"t\":\"{}\"}}", "x".repeat(bytes)));
        Change {
            line: Line::render(seq, &key, &Verb::created(), false, Some(&data)),
            seq,
            key,
            deleted: false,
            time: Timestamp::from_micros(0),
            prev: None,
            tx: seq,
            log_after: Tally::default(),
            resource_after: Tally::default(),
        }
    }

    #[test]
    fn what_waits_is_taken_once_and_in_order() {
        let commits = Commits::default();
        commits.push(vec![change(1, 0), change(2, 0)]);
        commits.push(vec![change(3, 0)]);
        let seqs: Vec<i64> = commits.take().iter().map(|change| change.seq.get()).collect();
        assert_eq!(seqs, [1, 2, 3]);
        assert!(commits.take().is_empty());
    }

    #[test]
    fn too_much_is_let_go_and_what_comes_then_is_kept() {
        let commits = Commits::default();
        commits.push(vec![change(1, MAX_WAITING_BYTES / 2)]);
        commits.push(vec![change(2, MAX_WAITING_BYTES / 2)]);
        assert!(commits.take().is_empty());
        commits.push(vec![change(3, 0)]);
        assert_eq!(commits.take().len(), 1);
    }
}
