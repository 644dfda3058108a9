//! Does a log say the truth about itself? The audit of `scroll check`, pure.
//!
//! [`Audit`] takes every stored change in order and does its own computation beside it: numbers without a
//! hole, lines equal to their columns, `prev`, `tx`, and the tallies after each change. What it has folded
//! then becomes a [`Comparison`], which is held against the entity table and the link table in both
//! directions. One break is named once: what merely follows from it is not repeated.
//!
//! Lines at or below `purged_through` may be missing (PROTOCOL section 7), so a computation that needs
//! all lines starts above it, from the first stored tally with its own change undone.
//!
//! The audit works beside a running server: it looks at one head, and entities written after it are left
//! out of the comparison. It holds the names of all live entities in memory, and no line.

mod comparison;
mod finding;
mod line;
mod tallies;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use comparison::{Comparison, Report};
pub use finding::{Finding, Findings, MAX_FINDINGS};

use crate::change::{Change, EntityKey, Json, Seq};
use crate::entity::types::Catalog;
use crate::entity::{Link, links};
use crate::store::Position;
use tallies::Tallies;

/// A live entity as the log tells it.
struct Live {
    seq: Seq,
    links: Box<[Link]>,
}

/// The fold of a log, with everything that was found wrong on the way.
pub struct Audit {
    catalog: Arc<Catalog>,
    start: Position,
    last: Option<(Seq, Seq)>,
    changes: u64,
    live: BTreeMap<EntityKey, Live>,
    tallies: Tallies,
    findings: Findings,
}

impl Audit {
    /// Begins with where the log stood when the audit began.
    pub fn new(catalog: Arc<Catalog>, start: Position) -> Audit {
        let tallies = Tallies::new(start.purged_through > Seq::ZERO);
        let (live, findings) = (BTreeMap::new(), Findings::default());
        Audit { catalog, start, last: None, changes: 0, live, tallies, findings }
    }

    /// The newest change taken so far.
    pub fn head(&self) -> Seq {
        self.last.map_or(Seq::ZERO, |(seq, _)| seq)
    }

    /// Takes the next stored change.
    pub fn change(&mut self, change: &Change) {
        self.check_number(change.seq);
        self.check_tx(change);
        let data = match line::data_of(change) {
            Ok(data) => data,
            Err(what) => {
                self.findings.add(Finding::Line { seq: change.seq, what });
                Json::Null
            }
        };
        let prev = self.check_prev(change);
        if change.seq > self.start.purged_through {
            self.tallies.step(change, prev, &mut self.findings);
        }
        self.fold(change, &data);
        self.last = Some((change.seq, change.tx));
        self.changes += 1;
        if change.seq == self.start.head {
            self.check_position();
        }
    }

    /// Ends the fold: what it made is now held against the tables.
    pub fn compare(mut self) -> Comparison {
        let (head, last) = (self.start.head, self.head());
        if last < head {
            self.findings.add(Finding::Head { head, last });
        }
        let tally = self.tallies.settle(self.live.iter().map(|(key, live)| (key, live.seq)), &mut self.findings);
        Comparison::new(last, self.changes, tally, self.live, self.findings)
    }

    fn check_number(&mut self, seq: Seq) {
        let last = self.head();
        let after = last.max(self.start.purged_through);
        let is_next = seq == after.forward(1) || (last < seq && seq <= self.start.purged_through);
        if !is_next {
            self.findings.add(Finding::Gap { after, found: seq });
        }
    }

    /// A change begins a transaction or goes on with the one before it. Where lines before it were purged,
    /// the transaction may have begun with one of them.
    fn check_tx(&mut self, change: &Change) {
        let goes_on = self.last.is_some_and(|(_, tx)| change.tx == tx);
        let begins_after_last = self.head() < change.tx && change.tx <= change.seq;
        if !goes_on && !begins_after_last {
            self.findings.add(Finding::Tx { seq: change.seq, stored: change.tx });
        }
    }

    /// The entity's previous line if it was live then. Where that line was purged, the column is all there is.
    fn check_prev(&mut self, change: &Change) -> Option<Seq> {
        let computed = self.live.get(&change.key).map(|live| live.seq);
        let is_purged = |stored: Seq| {
            stored <= self.start.purged_through && stored < change.seq && computed.is_none_or(|known| known < stored)
        };
        if change.prev == computed || change.prev.is_some_and(is_purged) {
            return change.prev;
        }
        self.findings.add(Finding::Prev { seq: change.seq, stored: change.prev, computed });
        computed
    }

    fn fold(&mut self, change: &Change, data: &Json) {
        if change.deleted {
            self.live.remove(&change.key);
            return;
        }
        let links = links(&self.catalog, &change.key, data).into_iter().collect();
        self.live.insert(change.key.clone(), Live { seq: change.seq, links });
    }

    fn check_position(&mut self) {
        let (stored, computed) = (self.start.tally, self.tallies.of_log());
        if computed.is_some_and(|computed| computed != stored) {
            let computed = computed.unwrap_or_default();
            self.findings.add(Finding::Position { seq: self.start.head, stored, computed });
        }
    }
}

#[cfg(test)]
mod tests;
