//! What every handler shares: the store, the declared types, the clock, and what this server remembers
//! between requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::keyring::Keyring;
use super::problem::Problem;
use super::running::Running;
use super::streams::{StreamTimes, Streams};
use crate::access::LogId;
use crate::change::Epoch;
use crate::change::time::Clock;
use crate::entity::types::Catalog;
use crate::feed::tail::Tails;
use crate::metrics::Metrics;
use crate::store::Store;
use crate::tasks::Tasks;

/// How much one request may ask of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Largest body of a single write, in bytes.
    pub body_bytes: usize,
    /// Largest body of a batch, in bytes.
    pub batch_bytes: usize,
    /// Most operations of a batch.
    pub batch_operations: usize,
    /// Longest path with query, in bytes: what proxies on the way commonly let through.
    pub uri_bytes: usize,
    /// All headers together, in bytes.
    pub header_bytes: usize,
    /// Open streams and waiting long-polls of the server.
    pub streams: usize,
    /// Those of one key.
    pub streams_per_key: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes: 1 << 20,
            batch_bytes: 16 << 20,
            batch_operations: 10_000,
            uri_bytes: 8 << 10,
            header_bytes: 32 << 10,
            streams: 10_000,
            streams_per_key: 2_000,
        }
    }
}

/// The shared state.
pub struct App {
    /// The database.
    pub store: Arc<dyn Store>,
    /// The declared resource types.
    pub catalog: Arc<Catalog>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The instruments.
    pub metrics: Arc<Metrics>,
    /// Where background work is spawned.
    pub tasks: Tasks,
    /// How much one request may ask for.
    pub limits: Limits,
    /// Keys that were seen a moment ago.
    pub keyring: Keyring,
    /// Requests with an Idempotency-Key that are being carried out.
    pub running: Running,
    /// Open streams.
    pub streams: Arc<Streams>,
    /// How long they may last.
    pub stream_times: StreamTimes,
    /// What the followed logs have in memory.
    pub tails: Arc<Tails>,
    epochs: Mutex<HashMap<LogId, (u64, Epoch)>>,
    is_draining: AtomicBool,
}

impl App {
    /// Nothing remembered yet.
    pub fn new(
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
        tasks: Tasks,
        limits: Limits,
        stream_times: StreamTimes,
    ) -> App {
        let keyring = Keyring::new(store.clone(), clock.clone());
        let key_check = stream_times.key_check;
        let streams = Streams::new(store.clone(), clock.clone(), metrics.clone(), tasks.clone(), &limits, key_check);
        let tails = Tails::new(store.clone(), tasks.clone());
        App {
            streams: Arc::new(streams),
            stream_times,
            tails: Arc::new(tails),
            store,
            catalog,
            clock,
            metrics,
            tasks,
            limits,
            keyring,
            running: Running::default(),
            epochs: Mutex::default(),
            is_draining: AtomicBool::new(false),
        }
    }

    /// The epoch of a log. It is asked for once, and again whenever the store says that it may be another.
    pub async fn epoch(&self, log: LogId) -> Result<Epoch, Problem> {
        // Read before the epoch is: one that changes meanwhile is asked for again.
        let histories = self.store.histories();
        let known = self.epochs.lock().unwrap_or_else(PoisonError::into_inner).get(&log).cloned();
        if let Some((_, epoch)) = known.filter(|(seen, _)| *seen == histories) {
            return Ok(epoch);
        }
        let epoch = self.store.source_position(log).await?.epoch;
        self.epochs.lock().unwrap_or_else(PoisonError::into_inner).insert(log, (histories, epoch.clone()));
        Ok(epoch)
    }

    /// From now on nothing new is written, and streams end.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
        self.streams.drain();
    }

    /// True once the server goes down.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }
}
