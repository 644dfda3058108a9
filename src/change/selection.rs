//! Which lines a reader wants, and with which extra members.

use super::{EntityId, Resource};

/// The filter of a reader.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Selection {
    /// Every line of the log.
    #[default]
    All,
    /// The lines of these resources; sorted, each once, never empty.
    Resources(Vec<Resource>),
    /// The lines of these entities of one resource; sorted, each once, never empty.
    Entities(Resource, Vec<EntityId>),
}

impl Selection {
    /// The selection of some resources, sorted and without repetition.
    pub fn resources(mut resources: Vec<Resource>) -> Selection {
        resources.sort();
        resources.dedup();
        Selection::Resources(resources)
    }

    /// The selection of some entities of one resource, sorted and without repetition.
    pub fn entities(resource: Resource, mut ids: Vec<EntityId>) -> Selection {
        ids.sort();
        ids.dedup();
        Selection::Entities(resource, ids)
    }

    /// True when nothing is filtered out.
    pub fn is_all(&self) -> bool {
        matches!(self, Selection::All)
    }
}

/// The extra members that a reader asked for, written after `data` in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fields {
    /// `time`: the commit time.
    pub time: bool,
    /// `prev`: the entity's previous line if it was live then.
    pub prev: bool,
    /// `tx`: the first seq of the same transaction.
    pub tx: bool,
}

impl Fields {
    /// True when lines go out exactly as they are stored.
    pub fn is_empty(self) -> bool {
        !(self.time || self.prev || self.tx)
    }
}
