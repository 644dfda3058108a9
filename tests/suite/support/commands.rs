//! Commands and submissions in one line each.

use std::sync::Arc;

use scroll::change::{EntityId, EntityKey, Json, LogName, Resource, Seq};
use scroll::entity::idempotency::hash_body;
use scroll::entity::precondition::EtagCondition;
use scroll::entity::{Command, IdempotentRequest, Operation, Preconditions, RequestKey, Submission, Work};

pub fn resource(name: &str) -> Resource {
    Resource::parse(name).unwrap()
}

pub fn entity_id(id: &str) -> EntityId {
    EntityId::parse(id).unwrap()
}

pub fn key(resource_name: &str, id: &str) -> EntityKey {
    EntityKey { resource: resource(resource_name), id: entity_id(id) }
}

pub fn log_name(name: &str) -> LogName {
    LogName::parse(name).unwrap()
}

pub fn seq(value: i64) -> Seq {
    Seq::new(value).unwrap()
}

pub fn json(text: &str) -> Arc<Json> {
    Arc::new(scroll::change::json::parse(text.as_bytes()).unwrap())
}

fn command(resource: &str, id: &str, operation: Operation) -> Command {
    Command { key: key(resource, id), operation, preconditions: Preconditions::default() }
}

pub fn create(resource: &str, id: &str, data: &str) -> Command {
    command(resource, id, Operation::Create(json(data)))
}

pub fn put(resource: &str, id: &str, data: &str) -> Command {
    command(resource, id, Operation::Put(json(data)))
}

pub fn patch(resource: &str, id: &str, data: &str) -> Command {
    command(resource, id, Operation::Patch(json(data)))
}

pub fn delete(resource: &str, id: &str) -> Command {
    command(resource, id, Operation::Delete)
}

pub fn action(resource: &str, id: &str, name: &str) -> Command {
    command(resource, id, Operation::Action(name.to_owned()))
}

/// The command with `If-Match`.
pub fn if_match(mut command: Command, value: &str) -> Command {
    command.preconditions.if_match = Some(EtagCondition::parse(value).unwrap());
    command
}

/// The command with `If-None-Match`.
pub fn if_none_match(mut command: Command, value: &str) -> Command {
    command.preconditions.if_none_match = Some(EtagCondition::parse(value).unwrap());
    command
}

pub fn submission(work: Work) -> Submission {
    Submission { request_id: "req".to_owned(), idempotency: None, work, size_bytes: 100 }
}

pub fn one(command: Command) -> Submission {
    submission(Work::One(command))
}

pub fn batch(commands: Vec<Command>) -> Submission {
    submission(Work::Batch(commands))
}

/// The submission with an Idempotency-Key, as a `POST` with this body that has this request id.
pub fn remembered(submission: Submission, name: &str, body: &str, request_id: &str) -> Submission {
    let key = RequestKey { method: "POST".into(), path: "/v1/batch".into(), key: name.to_owned() };
    let idempotency = Some(IdempotentRequest { key, body_hash: hash_body(body.as_bytes()) });
    Submission { request_id: request_id.to_owned(), idempotency, ..submission }
}
