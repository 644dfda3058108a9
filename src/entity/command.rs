//! What a client asks for, and what it is answered.

use std::fmt;
use std::sync::Arc;

use super::{Preconditions, Refusal, Refused, RequestKey};
use crate::change::{EntityKey, Json, Line, Resource, Seq, Verb};

/// One thing to do to one entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The entity.
    pub key: EntityKey,
    /// What to do.
    pub operation: Operation,
    /// Under which condition.
    pub preconditions: Preconditions,
}

/// What can be done to an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Make it; it must not be there.
    Create(Arc<Json>),
    /// Make or replace it.
    Put(Arc<Json>),
    /// Merge into it (RFC 7396).
    Patch(Arc<Json>),
    /// Remove it.
    Delete,
    /// Carry out a declared transition.
    Action(String),
    /// Take down what an application did in a transaction of its own.
    Record(Record),
}

/// What an application's own database did to an entity. It is a fact already, so it is not asked whether it
/// was allowed; only its form is held against the declared type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The state after it; `None` when the entity is gone.
    pub data: Option<Arc<Json>>,
    /// What the line says; `None` for `created`, `updated` or `deleted`.
    pub verb: Option<Verb>,
}

/// One request to write: all of it happens, or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// Names the answer, so that a remembered one is given again to the letter.
    pub request_id: String,
    /// The Idempotency-Key and what it belongs to, when the client sent one.
    pub idempotency: Option<IdempotentRequest>,
    /// What to do.
    pub work: Work,
    /// How large the request was; a flight is bounded by the sum.
    pub size_bytes: usize,
    /// How far it may go.
    pub bounds: Bounds,
}

/// How far a submission may go, beyond what the types allow. The default is as far as it likes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bounds {
    /// The resources that its key covers; `None` for all.
    pub resources: Option<Vec<Resource>>,
    /// Most bytes of the compact form of a state that it leads to without having sent it whole; `None` for
    /// any number.
    pub state_bytes: Option<usize>,
}

impl Bounds {
    /// True when the submission may touch, and be told of, this resource.
    pub fn covers(&self, resource: &Resource) -> bool {
        self.resources.as_ref().is_none_or(|covered| covered.contains(resource))
    }
}

/// An Idempotency-Key, with the hash of the body it came with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotentRequest {
    /// Key, method and path.
    pub key: RequestKey,
    /// SHA-256 of the body.
    pub body_hash: Vec<u8>,
}

/// The work of a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// A single write.
    One(Command),
    /// An atomic batch.
    Batch(Vec<Command>),
    /// A request that was refused before it became a command. It passes through the writer only so that
    /// its answer is remembered, or the one remembered earlier is given.
    Refused(Refused),
}

impl Work {
    /// The commands to carry out.
    pub fn commands(&self) -> &[Command] {
        match self {
            Work::One(command) => std::slice::from_ref(command),
            Work::Batch(commands) => commands,
            Work::Refused(_) => &[],
        }
    }
}

/// What a write that was carried out is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A single write.
    Entity {
        /// The line it wrote, or the existing one when nothing changed.
        line: Line,
        /// The seq of that line.
        seq: Seq,
        /// The entity was not there before.
        is_created: bool,
    },
    /// An atomic batch.
    Batch {
        /// First seq it wrote, `None` when nothing changed.
        tx: Option<Seq>,
        /// Last seq it wrote.
        last: Option<Seq>,
        /// One line per operation.
        lines: Vec<Line>,
    },
}

/// The answer to a submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The id of the request that was first answered so.
    pub request_id: String,
    /// What it was.
    pub result: Result<Outcome, Refused>,
    /// True when this was remembered from an earlier request.
    pub is_replayed: bool,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Create(_) => "create",
            Operation::Put(_) => "put",
            Operation::Patch(_) => "patch",
            Operation::Delete => "delete",
            Operation::Action(_) => "action",
            Operation::Record(_) => "record",
        })
    }
}

impl Refusal {
    /// This refusal as that of the operation at `index` of a batch.
    pub fn at(self, index: usize) -> Refused {
        Refused { refusal: self, index: Some(index) }
    }
}
