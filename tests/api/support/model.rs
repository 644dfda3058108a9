//! An independent reading of the log: lines, their fold, their fingerprint. Nothing here is taken from the
//! code that made them.

use std::collections::BTreeMap;

use serde_json::Value;
use sha2::{Digest, Sha256};

#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The line without its line feed.
    pub raw: String,
    pub seq: u64,
    pub resource: String,
    pub id: String,
    pub verb: String,
    pub deleted: bool,
    pub data: Value,
    pub value: Value,
}

impl Entry {
    fn parse(raw: &str) -> Entry {
        let value: Value = serde_json::from_str(raw).unwrap_or_else(|error| panic!("{error}: {raw}"));
        let members: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let common = ["seq", "resource", "id", "type", "deleted", "data"];
        assert_eq!(&members[..6], common, "{raw}");
        let extra: Vec<&str> = ["time", "prev", "tx"].into_iter().filter(|name| members.contains(name)).collect();
        assert_eq!(&members[6..], extra, "{raw}");
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        Entry {
            raw: raw.to_owned(),
            seq: value["seq"].as_u64().unwrap(),
            resource: text("resource"),
            id: text("id"),
            verb: text("type"),
            deleted: value["deleted"].as_bool().unwrap(),
            data: value["data"].clone(),
            value,
        }
    }

    pub fn name(&self) -> (String, String) {
        (self.resource.clone(), self.id.clone())
    }

    /// The text of `data`, byte for byte.
    pub fn data_text(&self) -> &str {
        let from = self.raw.find(",\"data\":").unwrap() + 8;
        &self.raw[from..self.raw.len() - 1]
    }
}

/// Reads a body strictly as section 2 has it: no mark, one object per line, a line feed after each.
pub fn parse_lines(body: &[u8]) -> Vec<Entry> {
    if body.is_empty() {
        return Vec::new();
    }
    assert_eq!(body.first(), Some(&b'{'), "the first byte");
    assert_eq!(body.last(), Some(&b'\n'), "the last byte");
    assert!(!body.contains(&b'\r'));
    let text = std::str::from_utf8(body).unwrap();
    let lines: Vec<Entry> = text.strip_suffix('\n').unwrap().split('\n').map(Entry::parse).collect();
    assert!(lines.windows(2).all(|pair| pair[0].seq < pair[1].seq), "lines rise strictly");
    lines
}

/// The entities that live after these lines.
pub fn fold<'a>(lines: impl IntoIterator<Item = &'a Entry>) -> BTreeMap<(String, String), Entry> {
    let mut live = BTreeMap::new();
    for entry in lines {
        if entry.deleted {
            live.remove(&entry.name());
        } else {
            live.insert(entry.name(), entry.clone());
        }
    }
    live
}

/// Section 8: XOR of the first 8 bytes of SHA-256 over resource, id and seq.
pub fn fingerprint<'a>(entities: impl IntoIterator<Item = &'a Entry>) -> String {
    let mut bits = 0u64;
    for entity in entities {
        let digest = Sha256::digest(format!("{}\n{}\n{}", entity.resource, entity.id, entity.seq));
        bits ^= u64::from_be_bytes(digest[..8].try_into().unwrap());
    }
    format!("{bits:016x}")
}

/// `Scroll-Checkpoint` as it must be after these lines of a whole log.
pub fn checkpoint(seq: u64, lines: &[Entry]) -> String {
    let live = fold(lines.iter().filter(|entry| entry.seq <= seq));
    format!("seq={seq}, count={}, fingerprint=\"{}\"", live.len(), fingerprint(live.values()))
}

/// The log is dense up to its head.
#[track_caller]
pub fn assert_dense(lines: &[Entry]) {
    let seqs: Vec<u64> = lines.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, (1..=lines.len() as u64).collect::<Vec<_>>(), "numbers without a hole");
}

/// The current entities of a resource as the list says, page after page.
pub fn listed(client: &super::Client, resource: &str, limit: usize) -> Vec<String> {
    let mut all = Vec::new();
    let mut after = String::new();
    loop {
        let answer = client.get(&format!("/v1/entities/{resource}?limit={limit}{after}")).expect(200);
        let page = answer.json();
        let entities = page["entities"].as_array().unwrap().clone();
        assert!(entities.len() <= limit);
        all.extend(entities.iter().map(|line| line.to_string()));
        match page["next"].as_str() {
            Some(next) => {
                assert_eq!(entities.len(), limit, "a page that is not the last is full");
                after = format!(
                    "&after={}",
                    percent_encoding::utf8_percent_encode(next, percent_encoding::NON_ALPHANUMERIC)
                );
            }
            None => return all,
        }
    }
}
