//! The vocabulary of the log, pure: what a change is, how it is named, numbered, written and counted.
//!
//! Nothing here knows a database or HTTP. Both sides of the product meet in these types: the write
//! side makes [`Change`]s, the read side hands their finished lines to consumers.

pub mod fingerprint;
pub mod json;
pub mod key;
pub mod line;
pub mod selection;
pub mod seq;
pub mod time;

use std::sync::Arc;

pub use fingerprint::{Bucket, Fingerprint, Tally};
pub use json::Json;
pub use key::{EntityId, EntityKey, LogName, Resource, Verb};
pub use line::Line;
pub use selection::{Fields, Selection};
pub use seq::Seq;
pub use time::Timestamp;

/// One line of the log, with what the store keeps beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its number in the log.
    pub seq: Seq,
    /// The entity it is about.
    pub key: EntityKey,
    /// True for a tombstone.
    pub deleted: bool,
    /// The finished bytes (PROTOCOL section 2), without the line feed.
    pub line: Line,
    /// When it was committed.
    pub time: Timestamp,
    /// Seq of the entity's previous line, if the entity was live then.
    pub prev: Option<Seq>,
    /// First seq of the same transaction.
    pub tx: Seq,
    /// All live entities of the log after this change.
    pub log_after: Tally,
    /// All live entities of this change's resource after it.
    pub resource_after: Tally,
}

/// Identity of one history of a log: a new one begins when the log went back (a restore).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Epoch(pub Arc<str>);

impl std::fmt::Display for Epoch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
