//! The committed head of each log, for those who wait for it, and what was committed, for those who follow.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::watch;

use super::commits::Commits;
use crate::access::LogId;
use crate::change::{Change, Seq};
use crate::metrics::Metrics;

/// One watch for each log that anybody asked for. A head moves forward, except when the database itself went
/// back ([`Heads::set_back`]).
pub struct Heads {
    watches: Mutex<BTreeMap<LogId, Watched>>,
    metrics: Arc<Metrics>,
}

struct Watched {
    sender: watch::Sender<Seq>,
    name: String,
    /// Fed only while somebody holds it.
    commits: Weak<Commits>,
}

impl Heads {
    /// No log is watched yet.
    pub fn new(metrics: Arc<Metrics>) -> Heads {
        Heads { watches: Mutex::new(BTreeMap::new()), metrics }
    }

    /// Begins to watch a log; whoever then reads its head and reports it with [`Heads::moved`] has
    /// subscribed before reading, so no commit falls between.
    pub fn watch(&self, log: LogId, name: &str) -> watch::Receiver<Seq> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = watches.entry(log).or_insert_with(|| Watched {
            sender: watch::Sender::new(Seq::ZERO),
            name: name.to_owned(),
            commits: Weak::new(),
        });
        watched.sender.subscribe()
    }

    /// The watch of a log, if there is one.
    pub fn get(&self, log: LogId) -> Option<watch::Receiver<Seq>> {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.get(&log).map(|watched| watched.sender.subscribe())
    }

    /// The logs that anybody waits for now.
    pub fn watched(&self) -> Vec<LogId> {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let waited_for = watches.iter().filter(|(_, watched)| watched.sender.receiver_count() > 0);
        waited_for.map(|(log, _)| *log).collect()
    }

    /// What this server commits to a watched log from now on.
    pub fn commits(&self, log: LogId) -> Arc<Commits> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = watches.get_mut(&log) else {
            return Arc::default();
        };
        watched.commits.upgrade().unwrap_or_else(|| {
            let commits = Arc::default();
            watched.commits = Arc::downgrade(&commits);
            commits
        })
    }

    /// A commit of this server.
    pub fn committed(&self, log: LogId, head: Seq, changes: Vec<Change>) {
        self.keep(log, changes);
        self.moved(log, head);
    }

    /// Keeps what was committed for whoever follows the log; before the head moves.
    pub fn keep(&self, log: LogId, changes: Vec<Change>) {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let commits = watches.get(&log).and_then(|watched| watched.commits.upgrade());
        drop(watches);
        if let Some(commits) = commits {
            commits.push(changes);
        }
    }

    /// A commit, or a read, saw this head.
    pub fn moved(&self, log: LogId, head: Seq) {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = watches.get(&log) else {
            return;
        };
        let is_newer = |known: &mut Seq| {
            let is_newer = head > *known;
            *known = head.max(*known);
            is_newer
        };
        if watched.sender.send_if_modified(is_newer) {
            self.metrics.head.with_label_values(&[watched.name.as_str()]).set(head.get());
        }
    }

    /// The newest head of a log that anybody was shown, as far as it is remembered.
    pub fn known(&self, log: LogId) -> Seq {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.get(&log).map_or(Seq::ZERO, |watched| *watched.sender.borrow())
    }

    /// Every head that is remembered.
    pub fn all(&self) -> Vec<(LogId, Seq)> {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.iter().map(|(log, watched)| (*log, *watched.sender.borrow())).collect()
    }

    /// The database has lost what made this head; whoever waits is woken. Nothing happens when the head has
    /// moved on meanwhile.
    pub fn set_back(&self, log: LogId, from: Seq, to: Seq) {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = watches.get(&log) else {
            return;
        };
        let is_unmoved = |known: &mut Seq| {
            let is_unmoved = *known == from;
            *known = if is_unmoved { to } else { *known };
            is_unmoved
        };
        if watched.sender.send_if_modified(is_unmoved) {
            self.metrics.head.with_label_values(&[watched.name.as_str()]).set(to.get());
        }
    }
}
