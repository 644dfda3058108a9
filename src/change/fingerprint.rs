//! The fingerprint of a set of entities (PROTOCOL section 8).
//!
//! The leaf of an entity is the first 8 bytes, big-endian, of SHA-256 over `resource "\n" id "\n" seq`,
//! where seq is that of its last line in decimal. A set is the XOR of its leaves, so adding, removing and
//! moving one entity each cost one hash, and the order of arrival does not matter. Content is left out on
//! purpose: any missed change or delete shows, because its seq differs.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{EntityKey, Seq};

/// XOR of leaves; 16 lower-case hex digits when written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// The fingerprint of the empty set.
    pub const EMPTY: Fingerprint = Fingerprint(0);

    /// The leaf of one entity whose last line is `seq`.
    pub fn leaf(key: &EntityKey, seq: Seq) -> Fingerprint {
        let mut hash = Sha256::new();
        hash.update(key.resource.as_str().as_bytes());
        hash.update(b"\n");
        hash.update(key.id.as_str().as_bytes());
        hash.update(b"\n");
        hash.update(seq.to_string().as_bytes());
        Fingerprint(first_eight_bytes(&hash.finalize()))
    }

    /// This set with `leaf` added, or removed when it was in.
    #[must_use]
    pub fn toggled(self, leaf: Fingerprint) -> Fingerprint {
        Fingerprint(self.0 ^ leaf.0)
    }

    /// The bits as the databases keep them.
    pub fn to_bits(self) -> i64 {
        i64::from_be_bytes(self.0.to_be_bytes())
    }

    /// From the bits that [`Fingerprint::to_bits`] gave.
    pub fn from_bits(bits: i64) -> Fingerprint {
        Fingerprint(u64::from_be_bytes(bits.to_be_bytes()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The first two bytes of SHA-256 over `resource "\n" id`: where a drill-down looks for an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bucket(u16);

impl Bucket {
    /// The bucket of an entity.
    pub fn of(key: &EntityKey) -> Bucket {
        let mut hash = Sha256::new();
        hash.update(key.resource.as_str().as_bytes());
        hash.update(b"\n");
        hash.update(key.id.as_str().as_bytes());
        let [first, second, ..] = first_eight_bytes(&hash.finalize()).to_be_bytes();
        Bucket(u16::from_be_bytes([first, second]))
    }

    /// The number as the databases keep it, 0 to 65535.
    pub fn get(self) -> i32 {
        i32::from(self.0)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

fn first_eight_bytes(digest: &[u8]) -> u64 {
    digest.iter().take(8).fold(0, |bits, byte| (bits << 8) | u64::from(*byte))
}

/// How many live entities there are, and their fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Live entities.
    pub count: u64,
    /// XOR of their leaves.
    pub fingerprint: Fingerprint,
}

impl Tally {
    /// The tally after `key` moved from its live line at `before` (if it had one) to `after` (if it has one).
    #[must_use]
    pub fn moved(self, key: &EntityKey, before: Option<Seq>, after: Option<Seq>) -> Tally {
        let mut tally = self;
        if let Some(seq) = before {
            tally.count = tally.count.saturating_sub(1);
            tally.fingerprint = tally.fingerprint.toggled(Fingerprint::leaf(key, seq));
        }
        if let Some(seq) = after {
            tally.count += 1;
            tally.fingerprint = tally.fingerprint.toggled(Fingerprint::leaf(key, seq));
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{EntityId, Resource};

    fn key(resource: &str, id: &str) -> EntityKey {
        EntityKey { resource: Resource::parse(resource).unwrap(), id: EntityId::parse(id).unwrap() }
    }

    fn seq(value: i64) -> Seq {
        Seq::new(value).unwrap()
    }

    #[test]
    fn vectors_of_the_protocol() {
        let (one, two) = (key("subscription", "sub_1"), key("subscription", "sub_2"));
        let mut tally = Tally::default();
        assert_eq!(tally.fingerprint.to_string(), "0000000000000000");
        tally = tally.moved(&one, None, Some(seq(1)));
        assert_eq!(tally.fingerprint.to_string(), "9326c70c13fec656");
        tally = tally.moved(&two, None, Some(seq(2)));
        assert_eq!(tally.fingerprint.to_string(), "093ecc7df62e6ee3");
        tally = tally.moved(&one, Some(seq(1)), Some(seq(3)));
        assert_eq!((tally.count, tally.fingerprint.to_string().as_str()), (2, "1d27163658377b8a"));
        let far = Tally::default().moved(&key("customer", "kund/å€ 😀"), None, Some(Seq::MAX));
        assert_eq!(far.fingerprint.to_string(), "add8c6aea40a2152");
    }

    #[test]
    fn buckets_of_the_protocol() {
        assert_eq!(Bucket::of(&key("subscription", "sub_1")).to_string(), "0dcc");
        assert_eq!(Bucket::of(&key("customer", "kund/å€ 😀")).to_string(), "2ae3");
    }

    #[test]
    fn what_is_added_and_removed_leaves_nothing() {
        let one = key("subscription", "sub_1");
        let there_and_back = Tally::default().moved(&one, None, Some(seq(7))).moved(&one, Some(seq(7)), None);
        assert_eq!(there_and_back, Tally::default());
        assert_eq!(Fingerprint::from_bits(Fingerprint(u64::MAX - 4).to_bits()), Fingerprint(u64::MAX - 4));
    }
}
