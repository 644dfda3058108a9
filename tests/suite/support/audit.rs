//! Holds everything that a store says of one log against the lines of that log.

use std::collections::{BTreeMap, BTreeSet};

use scroll::change::{Fields, Selection, Seq};
use scroll::entity::Link;
use scroll::entity::types::Catalog;
use scroll::store::{Depth, Scan};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::commands::{resource, seq};
use super::desk::{Desk, USUAL};
use super::model::{Count, Entry, Running, fold};

/// Dense numbers, fold(log) = entities, `prev` and `tx`, every tally, links. Gives the lines back.
pub async fn check_everything(desk: &Desk, catalog: &Catalog) -> Vec<Entry> {
    let lines = desk.lines().await;
    let seqs: Vec<i64> = lines.iter().map(|entry| entry.seq).collect();
    let head = desk.head().await;
    assert_eq!(seqs, (1..=head).collect::<Vec<_>>(), "numbers are dense up to the head");
    check_history(desk, &lines).await;
    check_entities(desk, &lines).await;
    check_compact(desk, &lines).await;
    check_links(desk, &lines, catalog).await;
    lines
}

/// Stored columns and tallies at every seq, and the extra members as they go out.
async fn check_history(desk: &Desk, lines: &[Entry]) {
    let stored = desk.store.audit_changes(desk.log, Seq::ZERO, usize::MAX).await.unwrap();
    assert_eq!(stored.len(), lines.len());
    let fields = Fields { time: true, prev: true, tx: true };
    let extended = desk.read(desk.whole().await, fields, USUAL).await;
    let extended: Vec<Value> =
        extended.split_inclusive(|byte| *byte == b'\n').map(|line| serde_json::from_slice(line).unwrap()).collect();
    assert_eq!(extended.len(), lines.len());
    let mut live: BTreeMap<(String, String), Entry> = BTreeMap::new();
    let (mut all, mut of_resource) = (Running::default(), BTreeMap::<String, Running>::new());
    let mut tx_before = 0;
    for ((entry, change), extended) in lines.iter().zip(&stored).zip(&extended) {
        let at = &entry.raw;
        assert_eq!((change.seq.get(), change.line.as_str(), change.deleted), (entry.seq, at.as_str(), entry.deleted));
        let prev = live.get(&entry.name()).map(|before| before.seq);
        assert_eq!(change.prev.map(Seq::get), prev, "prev of {at}");
        assert!(change.tx.get() == entry.seq || change.tx.get() == tx_before, "tx of {at}");
        tx_before = change.tx.get();
        assert_eq!(extended["prev"].as_i64(), prev, "fields=prev of {at}");
        assert_eq!(extended["tx"].as_i64(), Some(change.tx.get()), "fields=tx of {at}");
        assert_eq!(extended["time"].as_str(), Some(change.time.to_string().as_str()), "fields=time of {at}");
        let names: Vec<_> = extended.as_object().unwrap().keys().skip(6).collect();
        assert_eq!(names, ["time", "prev", "tx"]);
        let before = live.remove(&entry.name());
        for running in [&mut all, of_resource.entry(entry.resource.clone()).or_default()] {
            before.iter().for_each(|before| running.remove(before));
            if !entry.deleted {
                running.add(entry);
            }
        }
        if !entry.deleted {
            live.insert(entry.name(), entry.clone());
        }
        assert_eq!(Count::from(change.log_after), all.count(), "tally after {at}");
        assert_eq!(Count::from(change.resource_after), of_resource[&entry.resource].count(), "resource tally {at}");
        assert_eq!(Count::from(desk.tally_at(entry.seq).await), all.count(), "tally_at {at}");
    }
    assert_eq!(Count::from(desk.tally_at(0).await), Count::of([]));
    let position = desk.store.position(desk.log).await.unwrap();
    assert_eq!(Count::from(position.tally), Count::of(live.values()));
}

/// The entity table, point reads, pages by id and the list of resources.
async fn check_entities(desk: &Desk, lines: &[Entry]) {
    let live = fold(lines);
    let stored = desk.store.audit_entities(desk.log, None, usize::MAX).await.unwrap();
    let stored: Vec<_> = stored
        .into_iter()
        .map(|row| ((row.key.resource.to_string(), row.key.id.to_string()), row.seq.get(), row.bucket))
        .collect();
    let expected: Vec<_> = live.values().map(|entry| (entry.name(), entry.seq, bucket(entry))).collect();
    assert_eq!(stored, expected, "fold(log) = entities");
    for name in lines.iter().map(Entry::name).collect::<BTreeSet<_>>() {
        assert_eq!(desk.entity(&name.0, &name.1).await.as_ref(), live.get(&name), "{name:?}");
    }
    let resources: BTreeSet<&str> = lines.iter().map(|entry| entry.resource.as_str()).collect();
    let listed = desk.store.resources(desk.log).await.unwrap();
    let listed: Vec<_> = listed.into_iter().map(|(name, tally)| (name.to_string(), Count::from(tally))).collect();
    let expected: Vec<_> = resources
        .iter()
        .map(|name| (name.to_string(), Count::of(live.values().filter(|entry| entry.resource == *name))))
        .collect();
    assert_eq!(listed, expected, "resources with their tallies");
    for name in resources {
        let page = desk.store.entities(desk.log, &resource(name), None, usize::MAX).await.unwrap();
        let page: Vec<_> = page.iter().map(|(_, line)| line.to_string()).collect();
        let expected: Vec<_> = live.values().filter(|entry| entry.resource == name).map(|e| e.raw.clone()).collect();
        assert_eq!(page, expected, "entities of {name} in id order");
    }
}

fn bucket(entry: &Entry) -> i32 {
    let digest = Sha256::digest(format!("{}\n{}", entry.resource, entry.id));
    i32::from(digest[0]) << 8 | i32::from(digest[1])
}

/// A compact bootstrap is the live entities in the order of their lines.
async fn check_compact(desk: &Desk, lines: &[Entry]) {
    let at = seq(desk.head().await);
    let depth = Depth::Newest { at, skips_tombstones: true };
    let scan = Scan { after: Seq::ZERO, until: at, selection: Selection::All, depth };
    let mut expected: Vec<Entry> = fold(lines).into_values().collect();
    expected.sort_by_key(|entry| entry.seq);
    assert_eq!(desk.scanned(scan, USUAL).await, expected, "compact bootstrap = live entities");
}

/// The links are the declared members of the live entities.
async fn check_links(desk: &Desk, lines: &[Entry], catalog: &Catalog) {
    let stored = desk.store.audit_links(desk.log, None, usize::MAX).await.unwrap();
    let in_words = |link: &Link| (link.to.to_string(), link.from.to_string(), link.member.clone());
    let stored: BTreeSet<_> = stored.iter().map(in_words).collect();
    let mut expected = BTreeSet::new();
    for entry in fold(lines).values() {
        let declared = catalog.get(&resource(&entry.resource));
        for reference in declared.into_iter().flat_map(|declared| &declared.references) {
            if let Some(id) = entry.data[&reference.member].as_str() {
                let to = format!("{}/{id}", reference.target);
                expected.insert((to, format!("{}/{}", entry.resource, entry.id), reference.member.clone()));
            }
        }
    }
    assert_eq!(stored, expected, "links = declared references of live entities");
}
