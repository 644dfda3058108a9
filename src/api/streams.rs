//! The open streams of this server: how many there may be, whose they are, and what ends them all at once.
//!
//! A key is looked up again while it has open streams, once for all of them: what was revoked or has expired
//! ends within the 30 seconds of PROTOCOL section 5. A shutdown ends every stream at once.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus::IntCounter;
use tokio::sync::{Notify, watch};

use super::Limits;
use super::extract::Caller;
use super::problem::Problem;
use crate::access::KeyHash;
use crate::change::time::Clock;
use crate::feed::End;
use crate::jitter;
use crate::metrics::Metrics;
use crate::store::Store;
use crate::tasks::Tasks;

/// The times that bound a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamTimes {
    /// How long a stream lasts at most, spread between these.
    pub max_age: RangeInclusive<Duration>,
    /// How often the key of an open stream is looked up again.
    pub key_check: Duration,
    /// How long a client may take nothing.
    pub max_stall: Duration,
}

impl Default for StreamTimes {
    /// As PROTOCOL section 5 promises; a key is looked up twice within its 30 seconds.
    fn default() -> StreamTimes {
        StreamTimes {
            max_age: Duration::from_mins(5)..=Duration::from_mins(15),
            key_check: Duration::from_secs(10),
            max_stall: Duration::from_secs(60),
        }
    }
}

/// How a stream is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A page that waits for a line.
    LongPoll,
    /// Lines without an end.
    Continuous,
    /// Server-sent events.
    Events,
}

impl Mode {
    /// The word that labels a metric.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::LongPoll => "long-poll",
            Mode::Continuous => "continuous",
            Mode::Events => "sse",
        }
    }
}

/// Every open stream.
pub struct Streams {
    open: Mutex<Open>,
    /// Keys are looked up now, not only when it is time.
    look_now: Notify,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    tasks: Tasks,
    max: usize,
    max_per_key: usize,
    key_check: Duration,
}

#[derive(Default)]
struct Open {
    count: usize,
    keys: HashMap<String, OfKey>,
    is_draining: bool,
    is_watched: bool,
}

/// The open streams of one key.
struct OfKey {
    hash: KeyHash,
    count: usize,
    ending: watch::Sender<Option<End>>,
}

/// One open stream, until this is dropped.
pub struct Pass {
    streams: Arc<Streams>,
    key: String,
    mode: Mode,
    reason: &'static str,
    /// Why it must end, once it must.
    pub ending: watch::Receiver<Option<End>>,
    /// Its lines are counted here.
    pub lines: IntCounter,
}

impl Streams {
    /// None is open yet.
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        tasks: Tasks,
        limits: &Limits,
        key_check: Duration,
    ) -> Streams {
        let (max, max_per_key) = (limits.streams, limits.streams_per_key);
        let (open, look_now) = (Mutex::default(), Notify::new());
        Streams { open, look_now, store, clock, metrics, tasks, max, max_per_key, key_check }
    }

    /// Opens a stream, unless there are too many; `Draining` once the server goes down.
    pub fn admit(self: &Arc<Self>, caller: &Caller, mode: Mode) -> Result<Pass, Problem> {
        let id = &caller.key().id;
        let ending = self.count_in(id, caller.key_hash())?;
        self.metrics.streams.with_label_values(&[mode.as_str()]).inc();
        Ok(Pass {
            streams: self.clone(),
            key: id.clone(),
            mode,
            reason: "left",
            ending,
            lines: self.metrics.stream_lines.with_label_values(&[mode.as_str()]),
        })
    }

    fn count_in(self: &Arc<Self>, id: &str, hash: &KeyHash) -> Result<watch::Receiver<Option<End>>, Problem> {
        let mut open = self.open();
        if open.is_draining {
            return Err(Problem::Draining);
        }
        if open.count >= self.max {
            return Err(Problem::TooManyStreams { whose: "this server", limit: self.max });
        }
        if open.keys.get(id).is_some_and(|of_key| of_key.count >= self.max_per_key) {
            return Err(Problem::TooManyStreams { whose: "this key", limit: self.max_per_key });
        }
        open.count += 1;
        let none = || OfKey { hash: hash.clone(), count: 0, ending: watch::Sender::new(None) };
        let of_key = open.keys.entry(id.to_owned()).or_insert_with(none);
        of_key.count += 1;
        let ending = of_key.ending.subscribe();
        if !std::mem::replace(&mut open.is_watched, true) {
            self.tasks.spawn("stream-keys", self.clone().watch_keys());
        }
        Ok(ending)
    }

    fn count_out(&self, id: &str) {
        let mut open = self.open();
        open.count = open.count.saturating_sub(1);
        let Some(of_key) = open.keys.get_mut(id) else { return };
        of_key.count = of_key.count.saturating_sub(1);
        if of_key.count == 0 {
            open.keys.remove(id);
        }
        if open.count == 0 {
            // The task that watches the keys ends with the last stream.
            self.look_now.notify_one();
        }
    }

    /// Ends every stream, and lets no new one in.
    pub fn drain(&self) {
        let mut open = self.open();
        open.is_draining = true;
        for of_key in open.keys.values() {
            of_key.ending.send_modify(|ending| *ending = Some(End::Drain));
        }
    }

    /// Looks the keys up at once; after a revocation.
    pub fn look_at_keys(&self) {
        self.look_now.notify_one();
    }

    async fn watch_keys(self: Arc<Self>) {
        loop {
            // Time or a wish, whichever comes first.
            let _ = tokio::time::timeout(jitter::around(self.key_check), self.look_now.notified()).await;
            let Some(keys) = self.keys_in_use() else { return };
            for (id, hash) in keys {
                self.look_at(&id, hash).await;
            }
        }
    }

    /// `None` when no stream is open: then nobody watches any more.
    fn keys_in_use(&self) -> Option<Vec<(String, KeyHash)>> {
        let mut open = self.open();
        open.is_watched = open.count > 0;
        let keys = open.keys.iter().map(|(id, of_key)| (id.clone(), of_key.hash.clone()));
        open.is_watched.then(|| keys.collect())
    }

    async fn look_at(&self, id: &str, hash: KeyHash) {
        let is_valid = match self.store.key(hash).await {
            Ok(key) => key.is_some_and(|key| key.is_valid_at(self.clock.now())),
            Err(error) => {
                tracing::warn!(%error, "the key of open streams cannot be looked up; trying again");
                true
            }
        };
        if let Some(of_key) = self.open().keys.get(id).filter(|_| !is_valid) {
            of_key.ending.send_if_modified(|ending| ending.is_none() && ending.replace(End::Key).is_none());
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Says how it ended; otherwise the client has left.
    pub fn ended(&mut self, reason: &'static str) {
        self.reason = reason;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.streams.count_out(&self.key);
        let mode = self.mode.as_str();
        self.streams.metrics.streams.with_label_values(&[mode]).dec();
        self.streams.metrics.streams_ended.with_label_values(&[mode, self.reason]).inc();
    }
}
