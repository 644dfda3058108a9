//! The port to the database, and its adapters. Only this folder knows diesel.
//!
//! A store keeps five promises, each a test that runs on every engine:
//!
//! - a submission is carried out whole or not at all, and its answer comes after the commit;
//! - within a log, changes are numbered in commit order without a hole;
//! - whoever could read seq N can read everything below it, and nothing appears there later;
//! - a read never waits for a writer, and holds nothing once it has answered;
//! - [`Store::head`] moves only after the commit it speaks of.

mod columns;
mod commits;
mod error;
mod flights;
mod heads;
mod open;
pub mod postgres;
pub mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

pub use commits::Commits;
pub use error::StoreError;
pub use open::{OpenError, OpenMode, OpenSettings, Pooler, PostgresSettings, is_postgres, open, sqlite_path};

use crate::access::{Key, KeyHash, Log, LogId, NewKey, Secret};
use crate::change::{Change, EntityId, EntityKey, Epoch, Fields, Line, LogName, Resource, Selection, Seq, Tally};
use crate::entity::{Answer, Link, Submission};

/// A database that keeps logs.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Carries out one submission. The future may be dropped: the write goes on, or does not begin.
    async fn write(&self, log: LogId, submission: Submission) -> Result<Answer, StoreError>;

    /// The newest committed seq of a log as this server knows it, and every later one.
    async fn head(&self, log: LogId) -> Result<watch::Receiver<Seq>, StoreError>;

    /// What this server commits to a log from now on, once [`Store::head`] was asked for it. An engine that
    /// tells nobody hands out one that stays empty: then everything is read.
    fn commits(&self, _log: LogId) -> Arc<Commits> {
        Arc::default()
    }

    /// Where a log stands.
    async fn position(&self, log: LogId) -> Result<Position, StoreError>;

    /// Where a log stands at its source: as [`Store::position`], unless reads come from a copy.
    async fn source_position(&self, log: LogId) -> Result<Position, StoreError> {
        self.position(log).await
    }

    /// True when reads may come from a copy that lags behind; then only the source can refuse a cursor.
    fn may_lag(&self) -> bool {
        false
    }

    /// Raised whenever a log may have got another epoch while this server runs.
    fn histories(&self) -> u64 {
        0
    }

    /// How far a page of at most `limit` matching lines reaches.
    async fn extent(&self, log: LogId, scan: Scan, limit: u64) -> Result<Extent, StoreError>;

    /// The next matching lines of a scan, as many as fit a [`ChunkSize`]; an empty chunk ends it.
    async fn chunk(&self, log: LogId, scan: Scan, fields: Fields, size: ChunkSize) -> Result<Chunk, StoreError>;

    /// The bytes of all lines of a scan with these extra members, line feeds included: exactly those of its
    /// chunks.
    async fn length(&self, log: LogId, scan: Scan, fields: Fields) -> Result<u64, StoreError>;

    /// Count and fingerprint of all live entities at a seq that the log has reached.
    async fn tally_at(&self, log: LogId, at: Seq) -> Result<Tally, StoreError>;

    /// True when the log ever had a line of this resource.
    async fn has_resource(&self, log: LogId, resource: &Resource) -> Result<bool, StoreError>;

    /// Every resource that the log ever had a line of, with its live entities.
    async fn resources(&self, log: LogId) -> Result<Vec<(Resource, Tally)>, StoreError>;

    /// The newest line of a live entity.
    async fn entity(&self, log: LogId, key: &EntityKey) -> Result<Option<(Seq, Line)>, StoreError>;

    /// The newest lines of live entities in id order, after an id.
    async fn entities(
        &self,
        log: LogId,
        resource: &Resource,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<(EntityId, Line)>, StoreError>;

    /// Makes a log; [`StoreError::Conflict`] when the name is taken.
    async fn create_log(&self, name: &LogName) -> Result<Log, StoreError>;

    /// Every log, by name.
    async fn logs(&self) -> Result<Vec<Log>, StoreError>;

    /// The log of this name.
    async fn log(&self, name: &LogName) -> Result<Option<Log>, StoreError>;

    /// Makes a key; [`StoreError::NotFound`] when its log does not exist.
    async fn create_key(&self, key: NewKey) -> Result<(Key, Secret), StoreError>;

    /// The keys that cover exactly this log, or every key.
    async fn keys(&self, within: Option<LogId>) -> Result<Vec<Key>, StoreError>;

    /// Revokes a key; false when there is no such key within this log (or at all).
    async fn revoke_key(&self, id: &str, within: Option<LogId>) -> Result<bool, StoreError>;

    /// The key of this hash, whether valid or not.
    async fn key(&self, hash: KeyHash) -> Result<Option<Key>, StoreError>;

    /// Stored changes after a seq, every column, for audits and for what another server wrote a moment ago.
    async fn audit_changes(&self, log: LogId, after: Seq, limit: usize) -> Result<Vec<Change>, StoreError>;

    /// Stored entities in key order, after a key, for audits.
    async fn audit_entities(
        &self,
        log: LogId,
        after: Option<EntityKey>,
        limit: usize,
    ) -> Result<Vec<StoredEntity>, StoreError>;

    /// Stored links in order, after a link, for audits.
    async fn audit_links(&self, log: LogId, after: Option<Link>, limit: usize) -> Result<Vec<Link>, StoreError>;

    /// What the engine itself finds wrong with its file, indexes included, one sentence each; empty when all
    /// is well. Looks at everything, so it takes its time.
    async fn audit_storage(&self) -> Result<Vec<String>, StoreError>;

    /// Can the store read and write now?
    async fn ready(&self) -> Result<(), StoreError>;

    /// Finishes what was accepted, accepts nothing more, and lets go of the database.
    async fn close(&self, deadline: Duration);
}

/// Where a log stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The identity of its history.
    pub epoch: Epoch,
    /// Its newest seq.
    pub head: Seq,
    /// The smallest non-zero cursor that a reader may hold.
    pub floor: Seq,
    /// The highest purged seq; above it every line is there.
    pub purged_through: Seq,
    /// All live entities at `head`.
    pub tally: Tally,
}

/// A row of the entity table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntity {
    /// The entity.
    pub key: EntityKey,
    /// Seq of its newest line.
    pub seq: Seq,
    /// Its bucket as stored.
    pub bucket: i32,
}

/// Which lines, of which part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// Exclusive lower bound.
    pub after: Seq,
    /// Inclusive upper bound.
    pub until: Seq,
    /// The filter.
    pub selection: Selection,
    /// Which of the matching lines.
    pub depth: Depth,
}

/// How much of an entity's history a scan shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Every line.
    All,
    /// For each entity its newest line up to `at`, which the scan's upper bound never exceeds.
    Newest {
        /// The seq that "newest" is judged at.
        at: Seq,
        /// Leave tombstones out: the reader holds nothing yet.
        skips_tombstones: bool,
    },
}

/// How far a page reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// How many lines match, counted up to the limit.
    pub matched: u64,
    /// The last of them, if any.
    pub last: Option<Seq>,
}

/// Bounds of one short read.
#[derive(Debug, Clone, Copy)]
pub struct ChunkSize {
    /// At most so many lines.
    pub lines: u32,
    /// Stop after so many bytes; a single longer line still comes whole.
    pub bytes: usize,
}

/// Some lines of a scan.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    /// The lines, each ended by a line feed.
    pub bytes: Bytes,
    /// How many.
    pub lines: u64,
    /// Seq of the last one.
    pub last: Option<Seq>,
}
