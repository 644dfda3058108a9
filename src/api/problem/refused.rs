//! How a refusal of the domain reads to a client.

use serde_json::{Value, json};

use super::document::shortened;
use super::{Kind, kind as kinds};
use crate::entity::MAX_GENERATIONS;
use crate::entity::types::Violation;
use crate::entity::{Refusal, Refused};

fn unknown_resource(resource: &str) -> String {
    format!("the resource `{}` is neither declared nor was it ever seen in this log", shortened(resource))
}

fn resource_members(resource: &str) -> Vec<(&'static str, Value)> {
    let expected = "a resource that is declared or was seen in this log";
    vec![("parameter", json!("resource")), ("value", json!(shortened(resource))), ("expected", json!(expected))]
}

fn invalid_parameter(parameter: &str, value: Option<&str>, expected: &str) -> Vec<(&'static str, Value)> {
    let mut members = vec![("parameter", json!(shortened(parameter)))];
    members.extend(value.map(|value| ("value", json!(shortened(value)))));
    members.push(("expected", json!(expected)));
    members
}

fn schema_violation(errors: &[Violation]) -> String {
    let first = errors.first().map(|error| match error.pointer.as_str() {
        "" => error.reason.clone(),
        pointer => format!("{pointer}: {}", error.reason),
    });
    first.unwrap_or_else(|| kinds::SCHEMA_VIOLATION.when.to_owned())
}

/// Which kind a refusal is.
pub fn kind(refusal: &Refusal) -> &'static Kind {
    match refusal {
        Refusal::InvalidBody { .. } => &kinds::INVALID_BODY,
        Refusal::InvalidParameter { .. } => &kinds::INVALID_PARAMETER,
        Refusal::UnknownResource { .. } => &kinds::UNKNOWN_RESOURCE,
        Refusal::EntityNotFound { .. } | Refusal::ActionNotFound { .. } => &kinds::NOT_FOUND,
        Refusal::AlreadyExists { .. } => &kinds::ALREADY_EXISTS,
        Refusal::TransitionRefused { .. } => &kinds::TRANSITION_REFUSED,
        Refusal::ReferenceMissing { .. } => &kinds::REFERENCE_MISSING,
        Refusal::StillReferenced { .. } | Refusal::CascadeTooLarge { .. } => &kinds::STILL_REFERENCED,
        Refusal::OutsideKey => &kinds::FORBIDDEN,
        Refusal::StateTooLarge { .. } => &kinds::TOO_LARGE,
        Refusal::PreconditionFailed { .. } => &kinds::PRECONDITION_FAILED,
        Refusal::PreconditionRequired { .. } => &kinds::PRECONDITION_REQUIRED,
        Refusal::SchemaViolation { .. } => &kinds::SCHEMA_VIOLATION,
        Refusal::IdempotencyMismatch { .. } => &kinds::IDEMPOTENCY_MISMATCH,
    }
}

/// The sentence for the client; in a batch it names the operation.
pub fn detail(refused: &Refused) -> String {
    let detail = detail_of_refusal(&refused.refusal);
    match refused.index {
        Some(index) => format!("operation {index}: {detail}"),
        None => detail,
    }
}

fn detail_of_refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::InvalidBody { detail } => detail.clone(),
        Refusal::InvalidParameter { parameter, expected, .. } => format!("`{parameter}`: expected {expected}"),
        Refusal::UnknownResource { resource } => unknown_resource(resource),
        Refusal::EntityNotFound { entity } => format!("{entity} does not exist"),
        Refusal::ActionNotFound { resource, action } => {
            format!("{resource} declares no action `{}`", shortened(action))
        }
        Refusal::AlreadyExists { entity } => format!("{entity} exists already"),
        Refusal::TransitionRefused { action, state, from } => {
            let state = state.as_deref().map_or("none".to_owned(), shortened);
            format!("`{action}` is allowed from {}; the state is {state}", from.join(", "))
        }
        Refusal::ReferenceMissing { references } => match references.first() {
            Some(first) => format!(
                "`{}` points to {}/{}, which does not exist",
                first.member,
                first.target_resource,
                shortened(&first.target_id)
            ),
            None => kinds::REFERENCE_MISSING.when.to_owned(),
        },
        Refusal::StillReferenced { references } => match references.first() {
            Some(first) => format!("{}/{} still points to it in `{}`", first.resource, first.id, first.member),
            None => "entities that this key does not cover still point to it".to_owned(),
        },
        Refusal::OutsideKey => "this delete would take entities with it that the key does not cover".to_owned(),
        Refusal::StateTooLarge { limit } => format!("the state would have more than {limit} bytes in its compact form"),
        Refusal::CascadeTooLarge { limit } => format!(
            "this delete would take more than {limit} entities with it, or more than {MAX_GENERATIONS} \
             generations of them; delete those that point to it first, some at a time, then delete it again"
        ),
        Refusal::PreconditionFailed { current: Some(etag) } => format!("the entity's ETag is {etag}"),
        Refusal::PreconditionFailed { current: None } => "the entity does not exist".to_owned(),
        Refusal::PreconditionRequired { .. } => kinds::PRECONDITION_REQUIRED.when.to_owned(),
        Refusal::SchemaViolation { errors } => schema_violation(errors),
        Refusal::IdempotencyMismatch { .. } => kinds::IDEMPOTENCY_MISMATCH.when.to_owned(),
    }
}

/// The members beyond those of RFC 9457.
pub fn members(refused: &Refused) -> Vec<(&'static str, Value)> {
    let mut members = members_of_refusal(&refused.refusal);
    // Those about keys and limits have no such member.
    let index = refused.index.filter(|_| refused.refusal.is_remembered());
    members.extend(index.map(|index| ("index", json!(index))));
    members
}

fn members_of_refusal(refusal: &Refusal) -> Vec<(&'static str, Value)> {
    match refusal {
        Refusal::InvalidParameter { parameter, value, expected } => {
            invalid_parameter(parameter, value.as_deref(), expected)
        }
        Refusal::UnknownResource { resource } => resource_members(resource),
        Refusal::TransitionRefused { action, state, .. } => vec![("action", json!(action)), ("state", json!(state))],
        Refusal::ReferenceMissing { references } | Refusal::StillReferenced { references } => {
            vec![("references", json!(references))]
        }
        Refusal::CascadeTooLarge { .. } => vec![("references", json!([]))],
        Refusal::PreconditionFailed { current } | Refusal::PreconditionRequired { current } => {
            vec![("current", json!(current))]
        }
        Refusal::SchemaViolation { errors } => vec![("errors", json!(errors))],
        Refusal::IdempotencyMismatch { key } => vec![("key", json!(key))],
        Refusal::InvalidBody { .. }
        | Refusal::EntityNotFound { .. }
        | Refusal::ActionNotFound { .. }
        | Refusal::AlreadyExists { .. }
        | Refusal::OutsideKey
        | Refusal::StateTooLarge { .. } => Vec::new(),
    }
}
