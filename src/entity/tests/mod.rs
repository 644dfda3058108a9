//! The rules of writing, without a database: what is known is put into the state by hand.

mod decisions;
mod flights;

use std::sync::Arc;

use super::precondition::EtagCondition;
use super::types::Catalog;
use super::*;
use crate::change::{EntityId, EntityKey, Json, Line, Resource, Seq, Tally, Timestamp, Verb};

/// A tree that cascades, and what must not lose its folder.
const TYPES: &str = r#"
[resource.folder]
preconditions = "optional"
[resource.folder.references.parent]
resource = "folder"
on_delete = "cascade"

[resource.file.references.folder]
resource = "folder"
on_delete = "restrict"
required = true

[resource.guarded]
preconditions = "required"
state = "status"
schema = { type = "object", required = ["status"], properties = { status = { enum = ["on", "off"] } } }
[resource.guarded.actions.switch]
from = ["on"]
set = { status = "off" }
type = "switched"
[resource.guarded.actions.drop]
deletes = true
keep_data = true
set = { status = "off" }
type = "dropped"
"#;

fn catalog() -> Arc<Catalog> {
    Arc::new(Catalog::from_toml(TYPES).unwrap())
}

fn key(resource: &str, id: &str) -> EntityKey {
    EntityKey { resource: Resource::parse(resource).unwrap(), id: EntityId::parse(id).unwrap() }
}

fn seq(value: i64) -> Seq {
    Seq::new(value).unwrap()
}

fn json(text: &str) -> Arc<Json> {
    Arc::new(crate::change::json::parse(text.as_bytes()).unwrap())
}

fn command(resource: &str, id: &str, operation: Operation) -> Command {
    Command { key: key(resource, id), operation, preconditions: Preconditions::default() }
}

fn put(resource: &str, id: &str, data: &str) -> Command {
    command(resource, id, Operation::Put(json(data)))
}

fn delete(resource: &str, id: &str) -> Command {
    command(resource, id, Operation::Delete)
}

fn with_if_match(mut command: Command, value: &str) -> Command {
    command.preconditions.if_match = EtagCondition::parse(value);
    command
}

fn live(resource: &str, id: &str, at: i64, data: &str) -> (EntityKey, Option<Arc<Live>>) {
    let key = key(resource, id);
    let line = Line::render(seq(at), &key, &Verb::created(), false, Some(data));
    (key, Some(Arc::new(Live::stored(seq(at), line))))
}

fn absent(resource: &str, id: &str) -> (EntityKey, Option<Arc<Live>>) {
    (key(resource, id), None)
}

fn link(from: &str, parent: &str) -> Link {
    Link { to: key("folder", parent), from: key("folder", from), member: "parent".into() }
}

fn submission(work: Work) -> Submission {
    Submission { request_id: "r".into(), idempotency: None, work, size_bytes: 1 }
}
