//! The fold of a log held against its tables, in both directions.
//!
//! The tables are read in many short reads while a server may go on writing. Whatever disagrees is first
//! a suspect; entities that were written since the head of the fold are then left out.

use std::collections::{BTreeMap, BTreeSet};

use super::Live;
use super::finding::{Finding, Findings};
use crate::change::{Bucket, EntityKey, Seq, Tally};
use crate::entity::Link;
use crate::store::StoredEntity;

/// A comparison that is under way.
pub struct Comparison {
    head: Seq,
    changes: u64,
    tally: Tally,
    entities: BTreeMap<EntityKey, Seq>,
    links: BTreeSet<Link>,
    written_since: BTreeSet<EntityKey>,
    suspects: Vec<(EntityKey, Finding)>,
    findings: Findings,
}

/// The result for one log.
#[derive(Debug, Clone)]
pub struct Report {
    /// The head that the audit looked at.
    pub head: Seq,
    /// How many changes it read.
    pub changes: u64,
    /// All live entities at that head, by its own computation.
    pub tally: Tally,
    /// How many entities were written since, and therefore not compared.
    pub left_out: usize,
    /// What is wrong.
    pub findings: Findings,
}

impl Comparison {
    pub(super) fn new(
        head: Seq,
        changes: u64,
        tally: Tally,
        live: BTreeMap<EntityKey, Live>,
        findings: Findings,
    ) -> Comparison {
        let (mut entities, mut links) = (BTreeMap::new(), BTreeSet::new());
        for (key, live) in live {
            entities.insert(key, live.seq);
            links.extend(live.links);
        }
        let (written_since, suspects) = (BTreeSet::new(), Vec::new());
        Comparison { head, changes, tally, entities, links, written_since, suspects, findings }
    }

    /// Takes a row of the entity table.
    pub fn entity(&mut self, row: &StoredEntity) {
        let (key, stored) = (row.key.clone(), row.seq);
        if row.bucket != Bucket::of(&key).get() {
            self.findings.add(Finding::EntityBucket { key: key.clone(), stored: row.bucket });
        }
        let finding = match self.entities.remove(&key) {
            Some(computed) if computed == stored => return,
            Some(computed) => Finding::EntitySeq { key: key.clone(), stored, computed },
            None => Finding::EntityGhost { key: key.clone(), seq: stored },
        };
        self.suspects.push((key, finding));
    }

    /// Takes a row of the link table.
    pub fn link(&mut self, link: &Link) {
        if !self.links.remove(link) {
            self.suspects.push((link.from.clone(), Finding::LinkGhost(link.clone())));
        }
    }

    /// Takes the entity of a change that was committed after [`Report::head`]. Call it for all of them,
    /// after the last row.
    pub fn written_since(&mut self, key: &EntityKey) {
        self.written_since.insert(key.clone());
    }

    /// Everything was taken: what is left over is missing.
    pub fn finish(self) -> Report {
        let Comparison { entities, links, written_since, suspects, mut findings, .. } = self;
        let missing = entities.into_iter().map(|(key, seq)| (key.clone(), Finding::EntityMissing { key, seq }));
        let unlinked = links.into_iter().map(|link| (link.from.clone(), Finding::LinkMissing(link)));
        for (key, finding) in suspects.into_iter().chain(missing).chain(unlinked) {
            if !written_since.contains(&key) {
                findings.add(finding);
            }
        }
        let left_out = written_since.len();
        Report { head: self.head, changes: self.changes, tally: self.tally, left_out, findings }
    }
}
