//! What an audit can find, each said in one line that names what is wrong and where.

use std::fmt;

use crate::change::{Bucket, EntityKey, Resource, Seq, Tally};
use crate::entity::Link;

/// Most findings that are kept; beyond it they are only counted, so that a ruined log stays readable.
pub const MAX_FINDINGS: usize = 100;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// The numbers are not dense.
    Gap {
        /// The change before, or `purged_through`.
        after: Seq,
        /// The change that came.
        found: Seq,
    },
    /// The log ends before its head.
    Head {
        /// Its head.
        head: Seq,
        /// Its newest change.
        last: Seq,
    },
    /// A line is not well-formed, or not what its columns say.
    Line {
        /// The change.
        seq: Seq,
        /// What is wrong with it.
        what: String,
    },
    /// `prev` is not the entity's previous live line.
    Prev {
        /// The change.
        seq: Seq,
        /// As stored.
        stored: Option<Seq>,
        /// As it should be.
        computed: Option<Seq>,
    },
    /// `tx` neither begins with this change nor goes on from the one before.
    Tx {
        /// The change.
        seq: Seq,
        /// As stored.
        stored: Seq,
    },
    /// Count or fingerprint of the log after a change is wrong, from this change on.
    LogTally {
        /// The change.
        seq: Seq,
        /// As stored.
        stored: Tally,
        /// As it should be.
        computed: Tally,
    },
    /// Count or fingerprint of a resource after a change is wrong, from this change on.
    ResourceTally {
        /// The change.
        seq: Seq,
        /// The resource.
        resource: Resource,
        /// As stored.
        stored: Tally,
        /// As it should be.
        computed: Tally,
    },
    /// The lines that a purge left do not add up to the stored tally at the head.
    Remainder {
        /// The resource, `None` for the whole log.
        resource: Option<Resource>,
        /// As the stored tallies say.
        stored: Tally,
        /// As the lines say.
        computed: Tally,
    },
    /// The position of the log states another tally than its changes.
    Position {
        /// The head it was read at.
        seq: Seq,
        /// As stated.
        stored: Tally,
        /// As it should be.
        computed: Tally,
    },
    /// Live in the log, but not in the entity table.
    EntityMissing {
        /// The entity.
        key: EntityKey,
        /// Its newest line.
        seq: Seq,
    },
    /// In the entity table, but not live in the log.
    EntityGhost {
        /// The entity.
        key: EntityKey,
        /// Its seq in the table.
        seq: Seq,
    },
    /// The entity table points to another line than the newest.
    EntitySeq {
        /// The entity.
        key: EntityKey,
        /// As stored.
        stored: Seq,
        /// Its newest line.
        computed: Seq,
    },
    /// An entity lies in the wrong bucket.
    EntityBucket {
        /// The entity.
        key: EntityKey,
        /// As stored.
        stored: i32,
    },
    /// An entity holds a reference that the link table does not have.
    LinkMissing(Link),
    /// The link table has a reference that no live entity holds.
    LinkGhost(Link),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Gap { after, found } => {
                write!(f, "numbers: {} should come after {after}, but {found} does", after.forward(1))
            }
            Finding::Head { head, last } => write!(f, "numbers: the head is {head}, but the newest change is {last}"),
            Finding::Line { seq, what } => write!(f, "change {seq}: line: {what}"),
            Finding::Prev { seq, stored, computed } => {
                write!(f, "change {seq}: prev is {}, should be {}", or_null(*stored), or_null(*computed))
            }
            Finding::Tx { seq, stored } => {
                write!(f, "change {seq}: tx is {stored}, which neither begins here nor goes on from the change before")
            }
            Finding::LogTally { seq, stored, computed } => {
                write!(f, "change {seq}: tally of the log is {}, should be {}", Said(stored), Said(computed))
            }
            Finding::ResourceTally { seq, resource, stored, computed } => {
                write!(f, "change {seq}: tally of {resource} is {}, should be {}", Said(stored), Said(computed))
            }
            Finding::Remainder { resource, stored, computed } => {
                let what = resource.as_ref().map_or("the log", Resource::as_str);
                write!(f, "head: tally of {what} is {}, but the lines give {}", Said(stored), Said(computed))
            }
            Finding::Position { seq, stored, computed } => {
                write!(f, "head {seq}: the log states {}, should be {}", Said(stored), Said(computed))
            }
            entity => entity.fmt_tables(f),
        }
    }
}

impl Finding {
    fn fmt_tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::EntityMissing { key, seq } => {
                write!(f, "entity {key}: live since change {seq}, but missing among the entities")
            }
            Finding::EntityGhost { key, seq } => {
                write!(f, "entity {key}: among the entities with seq {seq}, but not live in the log")
            }
            Finding::EntitySeq { key, stored, computed } => {
                write!(f, "entity {key}: seq is {stored}, but its newest change is {computed}")
            }
            Finding::EntityBucket { key, stored } => {
                write!(f, "entity {key}: bucket is {stored:04x}, should be {}", Bucket::of(key))
            }
            Finding::LinkMissing(link) => {
                write!(f, "link {}.{} to {}: held by the entity, but not stored", link.from, link.member, link.to)
            }
            Finding::LinkGhost(link) => {
                write!(f, "link {}.{} to {}: stored, but no entity holds it", link.from, link.member, link.to)
            }
            // Everything else is about changes and was written above.
            _ => Ok(()),
        }
    }
}

struct Said<'a>(&'a Tally);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count {} fingerprint {}", self.0.count, self.0.fingerprint)
    }
}

fn or_null(seq: Option<Seq>) -> String {
    seq.map_or_else(|| "null".to_owned(), |seq| seq.to_string())
}

/// The findings of one log: the first [`MAX_FINDINGS`], and how many there are.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    first: Vec<Finding>,
    total: u64,
}

impl Findings {
    /// Adds one.
    pub fn add(&mut self, finding: Finding) {
        if self.first.len() < MAX_FINDINGS {
            self.first.push(finding);
        }
        self.total += 1;
    }

    /// The first of them, in the order they were found.
    pub fn first(&self) -> &[Finding] {
        &self.first
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.total
    }
}
