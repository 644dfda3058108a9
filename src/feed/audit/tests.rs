//! A small sound log, and one break at a time: each is named, and named once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::change::{Bucket, EntityId, Epoch, Line, Resource, Tally, Timestamp, Verb};
use crate::entity::types::Catalog;
use crate::store::StoredEntity;

fn seq(value: i64) -> Seq {
    Seq::new(value).unwrap()
}

fn key(resource: &str, id: &str) -> EntityKey {
    EntityKey { resource: Resource::parse(resource).unwrap(), id: EntityId::parse(id).unwrap() }
}

fn link(from: &str, to: &str) -> Link {
    Link { from: key("subscription", from), to: key("customer", to), member: "customer".into() }
}

/// Everything that is stored of one log.
#[derive(Clone, Default)]
struct Stored {
    changes: Vec<Change>,
    entities: BTreeMap<EntityKey, StoredEntity>,
    links: Vec<Link>,
    purged_through: Seq,
}

impl Stored {
    fn write(&mut self, key: EntityKey, data: Option<&str>, tx: i64) {
        let number = self.changes.last().map_or(seq(1), |last| last.seq.forward(1));
        let prev = self.entities.get(&key).map(|row| row.seq);
        let now = data.map(|_| number);
        let verb = if data.is_some() { Verb::updated() } else { Verb::deleted() };
        let line = Line::render(number, &key, &verb, data.is_none(), data);
        let of = |changes: &[Change], resource: Option<&Resource>| {
            let mut matching = changes.iter().rev().filter(|change| resource.is_none_or(|r| change.key.resource == *r));
            matching.next().map(|change| if resource.is_some() { change.resource_after } else { change.log_after })
        };
        let log_after = of(&self.changes, None).unwrap_or_default().moved(&key, prev, now);
        let resource_after = of(&self.changes, Some(&key.resource)).unwrap_or_default().moved(&key, prev, now);
        match now {
            Some(seq) => {
                let row = StoredEntity { key: key.clone(), seq, bucket: Bucket::of(&key).get() };
                self.entities.insert(key.clone(), row);
            }
            None => drop(self.entities.remove(&key)),
        }
        let (time, tx, deleted) = (Timestamp::from_micros(0), seq(tx), data.is_none());
        self.changes.push(Change { seq: number, key, deleted, line, time, prev, tx, log_after, resource_after });
    }

    fn sound() -> Stored {
        let mut stored = Stored::default();
        stored.write(key("customer", "cus_1"), Some("{}"), 1);
        stored.write(key("subscription", "sub_1"), Some(r#"{"customer":"cus_1","status":"active"}"#), 2);
        stored.write(key("subscription", "sub_2"), Some(r#"{"customer":"cus_1"}"#), 3);
        stored.write(key("subscription", "sub_1"), Some(r#"{"customer":"cus_1","status":"paused"}"#), 3);
        stored.write(key("customer", "cus_2"), Some(r#"{"name":"\u2028\"x"}"#), 5);
        stored.write(key("subscription", "sub_2"), None, 6);
        stored.write(key("customer", "cus_1"), Some(r#"{"n":1.0}"#), 7);
        stored.links = vec![link("sub_1", "cus_1")];
        stored
    }

    fn position(&self) -> Position {
        let last = self.changes.last();
        Position {
            epoch: Epoch("e".into()),
            head: last.map_or(Seq::ZERO, |change| change.seq),
            floor: Seq::ZERO,
            purged_through: self.purged_through,
            tally: last.map_or(Tally::default(), |change| change.log_after),
        }
    }

    fn change(&mut self, number: i64) -> &mut Change {
        self.changes.iter_mut().find(|change| change.seq == seq(number)).unwrap()
    }

    fn rewrite(&mut self, number: i64, from: &str, to: &str) {
        let change = self.change(number);
        let text = change.line.as_str().replace(from, to);
        assert_ne!(text, change.line.as_str());
        change.line = Line::from_stored(&text);
    }

    fn purge(&mut self, numbers: &[i64], through: i64) {
        self.changes.retain(|change| !numbers.contains(&change.seq.get()));
        self.purged_through = seq(through);
    }

    fn audit_from(&self, position: Position, written_since: &[EntityKey]) -> Report {
        let mut audit = Audit::new(Arc::new(Catalog::builtin()), position);
        self.changes.iter().for_each(|change| audit.change(change));
        let mut comparison = audit.compare();
        self.entities.values().for_each(|row| comparison.entity(row));
        self.links.iter().for_each(|link| comparison.link(link));
        written_since.iter().for_each(|key| comparison.written_since(key));
        comparison.finish()
    }

    fn findings(&self) -> Vec<Finding> {
        let report = self.audit_from(self.position(), &[]);
        assert_eq!(report.findings.total(), u64::try_from(report.findings.first().len()).unwrap());
        report.findings.first().to_vec()
    }
}

/// The one finding of a sound log with one break.
fn found(break_it: impl FnOnce(&mut Stored)) -> Finding {
    let mut stored = Stored::sound();
    break_it(&mut stored);
    let findings = stored.findings();
    assert_eq!(findings.len(), 1, "{findings:?}");
    findings.into_iter().next().unwrap()
}

fn in_words(break_it: impl FnOnce(&mut Stored)) -> String {
    found(break_it).to_string()
}

fn wrong(tally: Tally) -> Tally {
    tally.moved(&key("customer", "nobody"), None, Some(seq(1)))
}

#[test]
fn a_sound_log_is_clean_and_counted() {
    let stored = Stored::sound();
    let report = stored.audit_from(stored.position(), &[]);
    assert_eq!(report.findings.first(), []);
    assert_eq!((report.head, report.changes, report.tally.count), (seq(7), 7, 3));
    assert_eq!(report.tally, stored.position().tally);
    assert_eq!(Stored::default().findings(), []);
}

#[test]
fn a_missing_change_is_named() {
    let mut stored = Stored::sound();
    stored.changes.remove(4);
    let findings = stored.findings();
    assert!(findings.contains(&Finding::Gap { after: seq(4), found: seq(6) }), "{findings:?}");
    assert_eq!(findings.first().unwrap().to_string(), "numbers: 5 should come after 4, but 6 does");
}

#[test]
fn a_missing_end_is_named() {
    let mut stored = Stored::sound();
    let position = stored.position();
    stored.changes.pop();
    let report = stored.audit_from(position, &[]);
    assert!(report.findings.first().contains(&Finding::Head { head: seq(7), last: seq(6) }));
}

#[test]
fn a_line_that_is_not_as_written_is_named() {
    for (from, to, expected) in [
        (r#""seq":2"#, r#""seq":3"#, "seq is 3, but its column says 2"),
        (r#""seq":2"#, r#""seq": 2"#, "compact form"),
        (r#""resource":"subscription""#, r#""resource":"customer""#, "resource is \"customer\""),
        (r#""id":"sub_1""#, r#""id":"sub_9""#, "id is \"sub_9\""),
        (r#""deleted":false"#, r#""deleted":true"#, "deleted is true"),
        (r#""type":"updated""#, r#""type":"Up dated""#, "type: expected"),
        (r#""type":"updated","deleted":false"#, r#""deleted":false,"type":"updated""#, "has the members"),
        (r#""active"}}"#, r#""active"},"more":1}"#, "has the members"),
        (r#""active"}}"#, r#""active"}"#, "ends too early"),
        (r#""active"}}"#, r#""active","status":1}}"#, "twice"),
    ] {
        let said = in_words(|stored| stored.rewrite(2, from, to));
        assert!(said.starts_with("change 2: line: ") && said.contains(expected), "{said}");
        assert!(!said.contains("active"), "{said}");
    }
    let said = in_words(|stored| stored.rewrite(7, r#"{"n":1.0}"#, "null"));
    assert!(said.contains("data is null"), "{said}");
    let said = in_words(|stored| stored.rewrite(6, r#""data":null"#, r#""data":[]"#));
    assert!(said.contains("data is an array"), "{said}");
}

#[test]
fn a_tombstone_may_keep_its_data() {
    let mut stored = Stored::sound();
    stored.rewrite(6, r#""data":null"#, r#""data":{"status":"active"}"#);
    assert_eq!(stored.findings(), []);
}

#[test]
fn a_wrong_prev_is_named_and_not_followed() {
    for wrong in [None, Some(seq(1)), Some(seq(3))] {
        let finding = found(|stored| stored.change(4).prev = wrong);
        assert_eq!(finding, Finding::Prev { seq: seq(4), stored: wrong, computed: Some(seq(2)) });
    }
    assert_eq!(in_words(|stored| stored.change(5).prev = Some(seq(1))), "change 5: prev is 1, should be null");
}

#[test]
fn a_wrong_tx_is_named() {
    for (change, wrong) in [(2, 1), (4, 2), (5, 4), (5, 6), (7, 0)] {
        let mut stored = Stored::sound();
        stored.change(change).tx = seq(wrong);
        let expected = Finding::Tx { seq: seq(change), stored: seq(wrong) };
        // Change 2 goes on from change 1 when it says so: that is another transaction, and a sound one.
        assert_eq!(stored.findings().contains(&expected), (change, wrong) != (2, 1), "{change} {wrong}");
    }
}

#[test]
fn a_wrong_tally_is_named_once_and_where_it_begins() {
    let finding = found(|stored| stored.change(3).log_after = wrong(stored.change(3).log_after));
    assert!(matches!(finding, Finding::LogTally { seq, .. } if seq.get() == 3), "{finding:?}");
    let finding = found(|stored| stored.change(3).resource_after = wrong(stored.change(3).resource_after));
    assert!(matches!(finding, Finding::ResourceTally { seq, .. } if seq.get() == 3), "{finding:?}");
    let mut carried_on = Stored::sound();
    carried_on.changes.iter_mut().skip(2).for_each(|change| change.log_after = wrong(change.log_after));
    let findings = carried_on.findings();
    assert!(matches!(findings.as_slice(), [Finding::LogTally { seq, .. }, Finding::Position { .. }] if seq.get() == 3));
}

#[test]
fn a_position_that_states_another_tally_is_named() {
    let stored = Stored::sound();
    let mut position = stored.position();
    position.tally = wrong(position.tally);
    let report = stored.audit_from(position, &[]);
    assert!(matches!(report.findings.first(), [Finding::Position { .. }]));
}

#[test]
fn the_entity_table_is_held_against_the_fold_in_both_directions() {
    let customer = key("customer", "cus_2");
    let finding = found(|stored| drop(stored.entities.remove(&key("customer", "cus_2"))));
    assert_eq!(finding, Finding::EntityMissing { key: customer.clone(), seq: seq(5) });
    let ghost = key("subscription", "sub_2");
    let row = StoredEntity { key: ghost.clone(), seq: seq(3), bucket: Bucket::of(&ghost).get() };
    let finding = found(|stored| drop(stored.entities.insert(ghost.clone(), row)));
    assert_eq!(finding, Finding::EntityGhost { key: ghost.clone(), seq: seq(3) });
    let finding = found(|stored| stored.entities.get_mut(&key("customer", "cus_1")).unwrap().seq = seq(1));
    assert_eq!(finding, Finding::EntitySeq { key: key("customer", "cus_1"), stored: seq(1), computed: seq(7) });
}

#[test]
fn a_wrong_bucket_is_named() {
    let said = in_words(|stored| stored.entities.get_mut(&key("subscription", "sub_1")).unwrap().bucket = 10);
    assert_eq!(said, "entity subscription/sub_1: bucket is 000a, should be 0dcc");
}

#[test]
fn the_link_table_is_held_against_the_data_in_both_directions() {
    assert_eq!(found(|stored| stored.links.clear()), Finding::LinkMissing(link("sub_1", "cus_1")));
    let finding = found(|stored| stored.links.push(link("sub_2", "cus_1")));
    assert_eq!(finding, Finding::LinkGhost(link("sub_2", "cus_1")));
    assert_eq!(
        finding.to_string(),
        "link subscription/sub_2.customer to customer/cus_1: stored, but no entity holds it"
    );
}

#[test]
fn what_was_written_meanwhile_is_left_out() {
    let mut stored = Stored::sound();
    let position = stored.position();
    stored.entities.remove(&key("subscription", "sub_1"));
    stored.links.clear();
    let report = stored.audit_from(position, &[key("subscription", "sub_1")]);
    assert_eq!((report.findings.total(), report.left_out), (0, 1));
}

#[test]
fn purged_lines_are_no_damage() {
    let mut stored = Stored::sound();
    stored.purge(&[2, 3], 3);
    assert_eq!(stored.findings(), []);
    let mut stored = Stored::sound();
    stored.purge(&[1, 2], 4);
    assert_eq!(stored.findings(), []);
}

#[test]
fn damage_shows_after_a_purge_too() {
    let mut stored = Stored::sound();
    stored.purge(&[2, 3], 3);
    stored.changes.retain(|change| change.seq != seq(5));
    assert!(stored.findings().contains(&Finding::Gap { after: seq(4), found: seq(6) }));
    let mut stored = Stored::sound();
    // The line of a live entity must not be purged: the tallies at the head remember it.
    stored.purge(&[4], 5);
    stored.entities.remove(&key("subscription", "sub_1"));
    stored.links.clear();
    let findings = stored.findings();
    assert!(
        findings.iter().any(|finding| matches!(finding, Finding::Remainder { resource: None, .. })),
        "{findings:?}"
    );
}

#[test]
fn a_ruined_log_is_counted_to_the_end_and_told_to_a_limit() {
    let mut findings = Findings::default();
    (0..250).for_each(|n| findings.add(Finding::Tx { seq: seq(n), stored: seq(n) }));
    assert_eq!((findings.first().len(), findings.total()), (MAX_FINDINGS, 250));
}
