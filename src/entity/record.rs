//! What an application did in a transaction of its own, as a change.
//!
//! Its database has decided already: a row that is there is written down, also when a declared reference of it
//! leads nowhere or a precondition is required, and a row that is gone leaves a tombstone, whatever declared
//! references point to it. Nothing goes with it: what the application's database took away, it reports row by
//! row. Only the form counts, because consumers read every line of a declared type by its schema.

use super::decide::{After, Decision, Effect, check_form, replaced, written};
use super::refusal::Refusal;
use super::state::{State, Undecided};
use super::types::ResourceType;
use super::{Command, Record};
use crate::change::Verb;

/// Decides what to write down. That an entity is gone which never was there is no news, and refused as such.
pub fn take_down(
    state: &State,
    declared: Option<&ResourceType>,
    command: &Command,
    record: &Record,
) -> Result<Decision, Undecided> {
    let current = state.live(&command.key)?;
    let verb = |usual: Verb| record.verb.clone().unwrap_or(usual);
    let Some(data) = &record.data else {
        current.ok_or_else(|| Refusal::EntityNotFound { entity: command.key.to_string() })?;
        let gone = Effect { key: command.key.clone(), verb: verb(Verb::deleted()), after: After::Gone { kept: None } };
        return Ok(Decision { effects: vec![gone], is_created: false });
    };
    check_form(declared, data)?;
    match current {
        None => Ok(written(command, verb(Verb::created()), data.clone(), true)),
        Some(live) => Ok(replaced(command, verb(Verb::updated()), live.data(), data.clone())),
    }
}
