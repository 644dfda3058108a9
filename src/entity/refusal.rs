//! Why a write is refused. A refusal changes nothing, and it is an answer like any other: it can be
//! remembered under an Idempotency-Key, which is why it can be written down.

use serde::{Deserialize, Serialize};

use super::types::Violation;
use crate::change::EntityKey;

/// A refusal, and which operation of a batch it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The reason.
    pub refusal: Refusal,
    /// Position in the batch, from 0; `None` for a single write.
    pub index: Option<usize>,
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Refused {
        Refused { refusal, index: None }
    }
}

/// The reasons, each one problem of PROTOCOL section 6.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// The body is not what the endpoint reads: not JSON, or an envelope with a wrong or unknown member.
    InvalidBody {
        /// What is wrong, and where.
        detail: String,
    },
    /// A name in the request does not have its form.
    InvalidParameter {
        /// Which parameter.
        parameter: String,
        /// What was sent, when it may be repeated.
        value: Option<String>,
        /// The form in words.
        expected: String,
    },
    /// The resource is not declared and the server is strict, or it was never seen in this log.
    UnknownResource {
        /// Its name.
        resource: String,
    },
    /// There is no live entity of this name.
    EntityNotFound {
        /// The entity, `resource/id`.
        entity: String,
    },
    /// The resource declares no action of this name.
    ActionNotFound {
        /// The resource.
        resource: String,
        /// The action.
        action: String,
    },
    /// A create met a live entity.
    AlreadyExists {
        /// The entity, `resource/id`.
        entity: String,
    },
    /// The action is not allowed from the state the entity is in.
    TransitionRefused {
        /// The action.
        action: String,
        /// The state it is in; `None` when it has none.
        state: Option<String>,
        /// The states it is allowed from.
        from: Vec<String>,
    },
    /// A reference points to no live entity.
    ReferenceMissing {
        /// The references that do.
        references: Vec<Reference>,
    },
    /// Entities that must not lose it still point to this one.
    StillReferenced {
        /// Some of those that the key covers.
        references: Vec<Reference>,
    },
    /// A delete would take entities with it that the key does not cover. An answer about access: it is not
    /// remembered.
    OutsideKey,
    /// One delete would take more entities with it than one transaction carries.
    CascadeTooLarge {
        /// The limit.
        limit: usize,
    },
    /// `If-Match` or `If-None-Match` does not hold.
    PreconditionFailed {
        /// The ETag of the entity as it is, `None` when it is absent.
        current: Option<String>,
    },
    /// The resource asks for `If-Match` or `If-None-Match`, and there is none.
    PreconditionRequired {
        /// The ETag of the entity as it is, `None` when it is absent.
        current: Option<String>,
    },
    /// The state would be larger than one may be. Like a body that is too large, it is not remembered.
    StateTooLarge {
        /// The limit, in bytes of the compact form.
        limit: usize,
    },
    /// The state would break the declared schema, or is no object.
    SchemaViolation {
        /// Where and why.
        errors: Vec<Violation>,
    },
    /// The Idempotency-Key was used for a request with another body.
    IdempotencyMismatch {
        /// The key.
        key: String,
    },
}

impl Refusal {
    /// True when an Idempotency-Key remembers it: not what is about the key or about limits, where the same
    /// request may meet others.
    pub fn is_remembered(&self) -> bool {
        !matches!(self, Refusal::OutsideKey | Refusal::StateTooLarge { .. })
    }
}

/// One reference as a refusal names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The resource that holds it.
    pub resource: String,
    /// The entity that holds it.
    pub id: String,
    /// The member that holds it.
    pub member: String,
    /// The resource it points to.
    pub target_resource: String,
    /// The entity it points to.
    pub target_id: String,
}

impl Reference {
    /// A reference held by `from` in `member`, pointing to `target_resource`/`target_id`.
    pub fn new(from: &EntityKey, member: &str, target_resource: &str, target_id: &str) -> Reference {
        Reference {
            resource: from.resource.to_string(),
            id: from.id.to_string(),
            member: member.to_owned(),
            target_resource: target_resource.to_owned(),
            target_id: target_id.to_owned(),
        }
    }
}
