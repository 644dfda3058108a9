//! Which lines a reader wants, and with which extra members.

use super::{EntityId, EntityKey, Resource};

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

    /// True when lines about this entity are wanted.
    pub fn includes(&self, key: &EntityKey) -> bool {
        match self {
            Selection::All => true,
            Selection::Resources(resources) => resources.binary_search(&key.resource).is_ok(),
            Selection::Entities(resource, ids) => *resource == key.resource && ids.binary_search(&key.id).is_ok(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_includes_what_it_names_and_nothing_else() {
        let resource = |name: &str| Resource::parse(name).unwrap();
        let id = |id: &str| EntityId::parse(id).unwrap();
        let key = |name: &str, of: &str| EntityKey { resource: resource(name), id: id(of) };
        let resources = Selection::resources(vec![resource("plan"), resource("note"), resource("plan")]);
        let entities = Selection::entities(resource("note"), vec![id("b"), id("a,c")]);
        for (entity, of_resources, of_entities) in [
            (key("note", "b"), true, true),
            (key("note", "a,c"), true, true),
            (key("note", "a"), true, false),
            (key("plan", "b"), true, false),
            (key("notes", "b"), false, false),
        ] {
            assert!(Selection::All.includes(&entity));
            assert_eq!(resources.includes(&entity), of_resources, "{entity:?}");
            assert_eq!(entities.includes(&entity), of_entities, "{entity:?}");
        }
    }
}
