//! From what stands in columns to what it means, and back; the same on every engine.

use std::collections::BTreeSet;

use super::StoreError;
use crate::access::{Coverage, Key, LogId, Scope};
use crate::change::key::InvalidName;
use crate::change::{EntityId, EntityKey, Fingerprint, LogName, Resource, Seq, Tally, Timestamp};
use crate::entity::{Remembered, idempotency};

/// A stored name, number or answer that no code of ours could have written.
pub fn corrupt(operation: &'static str, detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt { operation, detail: detail.into() }
}

/// For names read from a table.
pub fn bad_name(operation: &'static str) -> impl Fn(InvalidName) -> StoreError {
    move |error| corrupt(operation, format!("a stored name has not its form: {error}"))
}

/// A count never comes near the limit of the column: every entity has a seq, and those end at 2^53.
pub fn count_to_db(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Count and fingerprint as two columns keep them.
pub fn tally((count, fingerprint): (i64, i64)) -> Tally {
    Tally { count: u64::try_from(count).unwrap_or(0), fingerprint: Fingerprint::from_bits(fingerprint) }
}

/// A stored seq.
pub fn seq_of(value: i64) -> Result<Seq, StoreError> {
    Seq::new(value).ok_or_else(|| corrupt("read a seq", format!("a stored seq is {value}")))
}

/// An entity's name from its columns.
pub fn entity_key(resource: &str, id: &str) -> Result<EntityKey, StoreError> {
    let resource = Resource::parse(resource).map_err(bad_name("read a resource"))?;
    let id = EntityId::parse(id).map_err(bad_name("read an id"))?;
    Ok(EntityKey { resource, id })
}

/// A remembered answer from its columns.
pub fn remembered(body_hash: Vec<u8>, answer: &str) -> Result<Remembered, StoreError> {
    let unreadable = || corrupt("read a remembered answer", "a stored answer cannot be read");
    Ok(Remembered { body_hash, answer: idempotency::decode(answer).ok_or_else(unreadable)? })
}

/// A remembered answer as a column keeps it.
pub fn answer_to_db(remembered: &Remembered) -> Result<String, StoreError> {
    idempotency::encode(&remembered.answer).map_err(|error| corrupt("remember an answer", error.to_string()))
}

/// The columns of a key that need a look; the others are what they are.
pub struct StoredKey {
    /// What names it.
    pub key_id: String,
    /// The number and the name of its log, when it covers one; the name is missing when that log is.
    pub log: Option<(i64, Option<String>)>,
    /// Words, comma between.
    pub scopes: String,
    /// Names, comma between.
    pub resources: Option<String>,
    /// What people call it.
    pub name: Option<String>,
    /// When it was made, ends, was revoked.
    pub times: (i64, Option<i64>, Option<i64>),
}

impl StoredKey {
    /// The key.
    pub fn into_key(self) -> Result<Key, StoreError> {
        let operation = "read a key";
        let coverage = match self.log {
            None => Coverage::All,
            Some((log_id, name)) => {
                let name = name.ok_or_else(|| corrupt(operation, format!("key {} names no log", self.key_id)))?;
                Coverage::One(LogId(log_id), LogName::parse(&name).map_err(bad_name(operation))?)
            }
        };
        let scopes: Option<BTreeSet<Scope>> = self.scopes.split(',').map(Scope::parse).collect();
        let resources =
            self.resources.map(|names| names.split(',').map(Resource::parse).collect::<Result<Vec<_>, _>>());
        let (created_at, expires_at, revoked_at) = self.times;
        Ok(Key {
            coverage,
            scopes: scopes.ok_or_else(|| corrupt(operation, format!("key {} has an unknown scope", self.key_id)))?,
            resources: resources.transpose().map_err(bad_name(operation))?,
            id: self.key_id,
            name: self.name,
            created_at: Timestamp::from_micros(created_at),
            expires_at: expires_at.map(Timestamp::from_micros),
            revoked_at: revoked_at.map(Timestamp::from_micros),
        })
    }
}

/// Words with a comma between, as one column keeps them.
pub fn joined<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(",")
}

/// A limit as a statement takes it.
pub fn rows_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
