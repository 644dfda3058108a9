//! The tallies after each change, computed again beside the stored ones.

use std::collections::BTreeMap;

use super::finding::{Finding, Findings};
use crate::change::{Change, EntityKey, Resource, Seq, Tally};

/// The tally of one set of entities, moved change by change.
#[derive(Default)]
struct Chain {
    own: Option<Tally>,
    stored: Option<Tally>,
}

impl Chain {
    /// Moves on by one change. Gives the right tally when the stored one is wrong here and not merely
    /// because the one before it was.
    fn step(&mut self, change: &Change, prev: Option<Seq>, stored: Tally, starts_in_the_middle: bool) -> Option<Tally> {
        let now = (!change.deleted).then_some(change.seq);
        let base = if starts_in_the_middle { stored.moved(&change.key, now, prev) } else { Tally::default() };
        let own = self.own.unwrap_or(base).moved(&change.key, prev, now);
        let inherited = self.stored.unwrap_or(base).moved(&change.key, prev, now);
        (self.own, self.stored) = (Some(own), Some(stored));
        (stored != own && stored != inherited).then_some(own)
    }
}

/// The tallies of a log and of each of its resources.
pub struct Tallies {
    starts_in_the_middle: bool,
    log: Chain,
    resources: BTreeMap<Resource, Chain>,
}

impl Tallies {
    /// Nothing counted yet. After a purge the count starts in the middle: with the first stored tally.
    pub fn new(starts_in_the_middle: bool) -> Tallies {
        Tallies { starts_in_the_middle, log: Chain::default(), resources: BTreeMap::new() }
    }

    /// Takes the next change, whose entity had its previous live line at `prev`.
    pub fn step(&mut self, change: &Change, prev: Option<Seq>, findings: &mut Findings) {
        let (seq, resource) = (change.seq, &change.key.resource);
        if let Some(computed) = self.log.step(change, prev, change.log_after, self.starts_in_the_middle) {
            findings.add(Finding::LogTally { seq, stored: change.log_after, computed });
        }
        let chain = self.resources.entry(resource.clone()).or_default();
        if let Some(computed) = chain.step(change, prev, change.resource_after, self.starts_in_the_middle) {
            let resource = resource.clone();
            findings.add(Finding::ResourceTally { seq, resource, stored: change.resource_after, computed });
        }
    }

    /// The computed tally of the log, once a change was taken.
    pub fn of_log(&self) -> Option<Tally> {
        self.log.own
    }

    /// Holds the result against what is live at the end, and gives the tally of that.
    pub fn settle<'a>(&self, live: impl Iterator<Item = (&'a EntityKey, Seq)>, findings: &mut Findings) -> Tally {
        let mut of_log = Tally::default();
        let mut of_resources: BTreeMap<&Resource, Tally> = BTreeMap::new();
        for (key, seq) in live {
            of_log = of_log.moved(key, None, Some(seq));
            let tally = of_resources.entry(&key.resource).or_default();
            *tally = tally.moved(key, None, Some(seq));
        }
        for (resource, chain) in &self.resources {
            let computed = of_resources.get(resource).copied().unwrap_or_default();
            compare(Some(resource), chain, computed, findings);
        }
        compare(None, &self.log, of_log, findings);
        of_log
    }
}

fn compare(resource: Option<&Resource>, chain: &Chain, computed: Tally, findings: &mut Findings) {
    if let Some(stored) = chain.own
        && stored != computed
    {
        findings.add(Finding::Remainder { resource: resource.cloned(), stored, computed });
    }
}
