//! May this be done, and what follows from it? One pure function.
//!
//! The order of the checks is RFC 9110's (section 13.2): is it there, do the preconditions hold, is the
//! content right. A refusal comes before any effect, so a refused command touches nothing.

use std::sync::Arc;

use super::cascade;
use super::refusal::{Reference as NamedReference, Refusal};
use super::state::{Live, State, Undecided};
use super::types::{Action, ResourceType, Violation};
use super::{Bounds, Command, Operation, precondition};
use crate::change::{EntityId, EntityKey, Json, Verb};

/// What a command leads to. Effects come in the order of their lines; the last is the command's own.
/// Without effects nothing changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The lines to write.
    pub effects: Vec<Effect>,
    /// The entity was not there before.
    pub is_created: bool,
}

/// One line to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effect {
    /// The entity.
    pub key: EntityKey,
    /// What happened to it.
    pub verb: Verb,
    /// What it is after.
    pub after: After,
}

/// An entity after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// It lives, with this state.
    Live(Arc<Json>),
    /// It is gone; the tombstone keeps this last state, if the action declares so.
    Gone {
        /// The state that the tombstone keeps.
        kept: Option<String>,
    },
}

/// Decides one command against what is known.
pub fn decide(state: &State, command: &Command, bounds: &Bounds) -> Result<Decision, Undecided> {
    let declared = state.catalog().get(&command.key.resource);
    if declared.is_none() && state.catalog().is_strict() {
        return Err(Refusal::UnknownResource { resource: command.key.resource.to_string() }.into());
    }
    match &command.operation {
        Operation::Create(data) => create(state, declared, command, data),
        Operation::Put(data) => put(state, declared, command, data),
        Operation::Patch(patch) => merge(state, declared, command, bounds, patch),
        Operation::Delete => delete(state, declared, command, bounds),
        Operation::Action(name) => act(state, declared, command, bounds, name),
        Operation::Record(record) => super::record::take_down(state, declared, command, record),
    }
}

fn create(
    state: &State,
    declared: Option<&ResourceType>,
    command: &Command,
    data: &Arc<Json>,
) -> Result<Decision, Undecided> {
    let current = state.live(&command.key)?;
    check_preconditions(command, None, current)?;
    if current.is_some() {
        return Err(Refusal::AlreadyExists { entity: command.key.to_string() }.into());
    }
    check_content(state, declared, &command.key, data)?;
    Ok(written(command, Verb::created(), data.clone(), true))
}

fn put(
    state: &State,
    declared: Option<&ResourceType>,
    command: &Command,
    data: &Arc<Json>,
) -> Result<Decision, Undecided> {
    let current = state.live(&command.key)?;
    check_preconditions(command, declared, current)?;
    check_content(state, declared, &command.key, data)?;
    match current {
        None => Ok(written(command, Verb::created(), data.clone(), true)),
        Some(live) => Ok(replaced(command, Verb::updated(), live.data(), data.clone())),
    }
}

fn merge(
    state: &State,
    declared: Option<&ResourceType>,
    command: &Command,
    bounds: &Bounds,
    patch: &Json,
) -> Result<Decision, Undecided> {
    let live = existing(state, &command.key)?;
    check_preconditions(command, declared, Some(live))?;
    let before = live.data();
    let after = Arc::new(Json::clone(before).merged(patch));
    check_depth(&after)?;
    check_content(state, declared, &command.key, &after)?;
    check_size(bounds, before, &after)?;
    Ok(replaced(command, Verb::updated(), before, after))
}

fn delete(
    state: &State,
    declared: Option<&ResourceType>,
    command: &Command,
    bounds: &Bounds,
) -> Result<Decision, Undecided> {
    let live = existing(state, &command.key)?;
    check_preconditions(command, declared, Some(live))?;
    removed(state, command, bounds, Verb::deleted(), None)
}

fn act(
    state: &State,
    declared: Option<&ResourceType>,
    command: &Command,
    bounds: &Bounds,
    name: &str,
) -> Result<Decision, Undecided> {
    let Some((declared, action)) = declared.and_then(|declared| Some((declared, declared.action(name)?))) else {
        let resource = command.key.resource.to_string();
        return Err(Refusal::ActionNotFound { resource, action: name.to_owned() }.into());
    };
    let live = existing(state, &command.key)?;
    check_preconditions(command, Some(declared), Some(live))?;
    let before = live.data();
    check_transition(declared, action, name, before)?;
    let after = Arc::new(with_members_set(before, action));
    if action.deletes {
        let kept = action.keep_data.then(|| after.to_string());
        return removed(state, command, bounds, action.verb.clone(), kept);
    }
    check_content(state, Some(declared), &command.key, &after)?;
    check_size(bounds, before, &after)?;
    Ok(replaced(command, action.verb.clone(), before, after))
}

fn existing<'a>(state: &'a State, key: &EntityKey) -> Result<&'a Arc<Live>, Undecided> {
    state.live(key)?.ok_or_else(|| Refusal::EntityNotFound { entity: key.to_string() }.into())
}

/// `declared` is `None` where the resource's own demand for preconditions does not apply: a create names
/// an entity that nobody can have seen.
fn check_preconditions(
    command: &Command,
    declared: Option<&ResourceType>,
    current: Option<&Arc<Live>>,
) -> Result<(), Undecided> {
    let seq = current.map(|live| live.seq);
    let current = seq.map(precondition::etag);
    if declared.is_some_and(|declared| declared.preconditions_required) && !command.preconditions.is_present() {
        return Err(Refusal::PreconditionRequired { current }.into());
    }
    if !command.preconditions.hold_for(seq) {
        return Err(Refusal::PreconditionFailed { current }.into());
    }
    Ok(())
}

fn check_depth(data: &Json) -> Result<(), Undecided> {
    if data.depth() > crate::change::json::MAX_DEPTH {
        let detail = format!("the merged state is nested deeper than {} levels", crate::change::json::MAX_DEPTH);
        return Err(Refusal::InvalidBody { detail }.into());
    }
    Ok(())
}

/// A state that was sent whole was measured as a body; one that grows piece by piece is measured here.
fn check_size(bounds: &Bounds, before: &Json, after: &Json) -> Result<(), Undecided> {
    match bounds.state_bytes {
        Some(limit) if before != after && after.to_string().len() > limit => {
            Err(Refusal::StateTooLarge { limit }.into())
        }
        _ => Ok(()),
    }
}

fn check_content(
    state: &State,
    declared: Option<&ResourceType>,
    key: &EntityKey,
    data: &Json,
) -> Result<(), Undecided> {
    check_form(declared, data)?;
    if declared.is_some() {
        check_references(state, key, data)?;
    }
    Ok(())
}

/// The state is an object, and what the declared schema asks for.
pub fn check_form(declared: Option<&ResourceType>, data: &Json) -> Result<(), Refusal> {
    if data.as_object().is_none() {
        let reason = format!("an object is due, and this is {}", data.kind());
        return Err(Refusal::SchemaViolation { errors: vec![Violation { pointer: String::new(), reason }] });
    }
    match declared {
        Some(declared) => declared.validate(data).map_err(|errors| Refusal::SchemaViolation { errors }),
        None => Ok(()),
    }
}

/// Every reference points to a live entity. An entity may point to itself: it lives once it is written.
fn check_references(state: &State, key: &EntityKey, data: &Json) -> Result<(), Undecided> {
    let mut references = Vec::new();
    for (reference, id) in state.catalog().links(&key.resource, data) {
        let target = EntityId::parse(id).ok().map(|id| EntityKey { resource: reference.target.clone(), id });
        let is_live = match &target {
            Some(target) => target == key || state.live(target)?.is_some(),
            None => false,
        };
        if !is_live {
            references.push(NamedReference::new(key, &reference.member, reference.target.as_str(), id));
        }
    }
    if references.is_empty() { Ok(()) } else { Err(Refusal::ReferenceMissing { references }.into()) }
}

fn check_transition(declared: &ResourceType, action: &Action, name: &str, before: &Json) -> Result<(), Undecided> {
    let Some(from) = &action.from else {
        return Ok(());
    };
    let member = declared.state.as_deref().unwrap_or_default();
    let state = before.as_object().and_then(|members| members.get(member)).and_then(Json::as_str);
    if state.is_some_and(|state| from.iter().any(|allowed| allowed == state)) {
        return Ok(());
    }
    let state = state.map(str::to_owned);
    Err(Refusal::TransitionRefused { action: name.to_owned(), state, from: from.clone() }.into())
}

fn with_members_set(before: &Json, action: &Action) -> Json {
    let mut members = before.as_object().cloned().unwrap_or_default();
    for (name, value) in &action.set {
        members.insert(name.clone(), value.clone());
    }
    Json::Object(members)
}

/// A decision to write this state.
pub fn written(command: &Command, verb: Verb, data: Arc<Json>, is_created: bool) -> Decision {
    let effect = Effect { key: command.key.clone(), verb, after: After::Live(data) };
    Decision { effects: vec![effect], is_created }
}

/// A decision to write this state where it differs from the one before.
pub fn replaced(command: &Command, verb: Verb, before: &Arc<Json>, after: Arc<Json>) -> Decision {
    if *before == after {
        return Decision { effects: Vec::new(), is_created: false };
    }
    written(command, verb, after, false)
}

fn removed(
    state: &State,
    command: &Command,
    bounds: &Bounds,
    verb: Verb,
    kept: Option<String>,
) -> Result<Decision, Undecided> {
    let mut effects = cascade::children_first(state, &command.key, bounds)?;
    effects.push(Effect { key: command.key.clone(), verb, after: After::Gone { kept } });
    Ok(Decision { effects, is_created: false })
}
