//! An independent reading of a log: lines parsed by another parser, folded, counted and fingerprinted
//! here.

use std::collections::BTreeMap;

use scroll::change::{Selection, Tally};
use scroll::store::Depth;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// One line of the log, read.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    pub seq: i64,
    pub resource: String,
    pub id: String,
    pub verb: String,
    pub deleted: bool,
    pub data: Value,
    /// The bytes, without the line feed.
    pub raw: String,
}

/// Members of a line, in their order.
const MEMBERS: [&str; 6] = ["seq", "resource", "id", "type", "deleted", "data"];

impl Entry {
    /// Reads a line that must have exactly the members of the protocol in their order.
    pub fn parse(raw: &str) -> Entry {
        let value: Value = serde_json::from_str(raw).unwrap_or_else(|error| panic!("{error} in {raw:?}"));
        let members = value.as_object().unwrap();
        assert_eq!(members.keys().collect::<Vec<_>>(), MEMBERS, "{raw}");
        assert!(!raw.contains(['\n', '\r', '\u{2028}', '\u{2029}', '\u{feff}']), "{raw:?}");
        let deleted = value["deleted"].as_bool().unwrap();
        assert!(value["data"].is_object() || (deleted && value["data"].is_null()), "{raw}");
        Entry {
            seq: value["seq"].as_i64().unwrap(),
            resource: value["resource"].as_str().unwrap().to_owned(),
            id: value["id"].as_str().unwrap().to_owned(),
            verb: value["type"].as_str().unwrap().to_owned(),
            deleted,
            data: value["data"].clone(),
            raw: raw.to_owned(),
        }
    }

    /// The entity it is about.
    pub fn name(&self) -> (String, String) {
        (self.resource.clone(), self.id.clone())
    }
}

/// Reads the bytes of a page: every line is ended by one line feed.
pub fn parse_page(bytes: &[u8]) -> Vec<Entry> {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'));
    text.split_terminator('\n').map(Entry::parse).collect()
}

/// The live entities after some lines: the newest line of each.
pub fn fold<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<(String, String), Entry> {
    let mut live = BTreeMap::new();
    for entry in entries {
        if entry.deleted {
            assert!(live.remove(&entry.name()).is_some(), "a tombstone of what was not live: {}", entry.raw);
        } else {
            live.insert(entry.name(), entry.clone());
        }
    }
    live
}

/// Count and fingerprint, as the protocol writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    pub count: u64,
    pub fingerprint: String,
}

/// The leaf of an entity whose newest line is this.
fn leaf(entry: &Entry) -> u64 {
    let digest = Sha256::digest(format!("{}\n{}\n{}", entry.resource, entry.id, entry.seq));
    u64::from_be_bytes(digest[..8].try_into().unwrap())
}

impl Count {
    /// Of these entities.
    pub fn of<'a>(live: impl IntoIterator<Item = &'a Entry>) -> Count {
        let mut running = Running::default();
        live.into_iter().for_each(|entry| running.add(entry));
        running.count()
    }
}

/// A count that moves along the log, for logs too long to count anew at every line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Running {
    count: u64,
    bits: u64,
}

impl Running {
    pub fn add(&mut self, entry: &Entry) {
        self.count += 1;
        self.bits ^= leaf(entry);
    }

    pub fn remove(&mut self, entry: &Entry) {
        self.count -= 1;
        self.bits ^= leaf(entry);
    }

    pub fn count(self) -> Count {
        Count { count: self.count, fingerprint: format!("{:016x}", self.bits) }
    }
}

impl From<Tally> for Count {
    fn from(tally: Tally) -> Count {
        Count { count: tally.count, fingerprint: tally.fingerprint.to_string() }
    }
}

/// What a scan of (after, until] must show, by looking at every line.
pub fn naive_scan(log: &[Entry], after: i64, until: i64, selection: &Selection, depth: Depth) -> Vec<Entry> {
    let is_selected = |entry: &Entry| match selection {
        Selection::All => true,
        Selection::Resources(names) => names.iter().any(|name| name.as_str() == entry.resource),
        Selection::Entities(name, ids) => {
            name.as_str() == entry.resource && ids.iter().any(|id| id.as_str() == entry.id)
        }
    };
    let is_shown = |entry: &Entry| match depth {
        Depth::All => true,
        Depth::Newest { at, skips_tombstones } => {
            let is_newer = |other: &Entry| other.seq > entry.seq && other.seq <= at.get();
            let is_superseded = log.iter().any(|other| other.name() == entry.name() && is_newer(other));
            !(is_superseded || skips_tombstones && entry.deleted)
        }
    };
    let in_range = log.iter().filter(|entry| entry.seq > after && entry.seq <= until);
    in_range.filter(|entry| is_selected(entry) && is_shown(entry)).cloned().collect()
}

#[test]
fn the_models_fingerprint_gives_the_vectors_of_the_protocol() {
    let entry = |resource: &str, id: &str, seq: i64| {
        Entry::parse(&format!(
            r#"{{"seq":{seq},"resource":"{resource}","id":"{id}","type":"created","deleted":false,"data":{{}}}}"#
        ))
    };
    let fingerprint = |entries: &[Entry]| Count::of(entries).fingerprint;
    let (one, two) = (entry("subscription", "sub_1", 1), entry("subscription", "sub_2", 2));
    assert_eq!(fingerprint(&[]), "0000000000000000");
    assert_eq!(fingerprint(std::slice::from_ref(&one)), "9326c70c13fec656");
    assert_eq!(fingerprint(&[one, two.clone()]), "093ecc7df62e6ee3");
    assert_eq!(fingerprint(&[entry("subscription", "sub_1", 3), two]), "1d27163658377b8a");
    assert_eq!(fingerprint(&[entry("customer", "kund/å€ 😀", 9_007_199_254_740_991)]), "add8c6aea40a2152");
}
