//! One action: a transition with a name and rules of its own, and how it is read from the file.

use indexmap::IndexMap;

use super::file::Faults;
use super::reference::Reference;
use super::table::{Entry, Section};
use crate::change::{EntityId, Json, Verb};

/// A declared transition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// States in which it is allowed; None for every state.
    pub from: Option<Vec<String>>,
    /// Members that it sets, in the order of the file.
    pub set: IndexMap<String, Json>,
    /// The type of the line that it writes.
    pub verb: Verb,
    /// It deletes the entity: the line is a tombstone.
    pub deletes: bool,
    /// The tombstone carries the data, with the members of `set`.
    pub keep_data: bool,
}

/// What the rest of the resource says that its actions must agree with.
pub(super) struct Surroundings<'t> {
    /// The member that holds the state.
    pub(super) state: Option<&'t str>,
    /// The values that the schema allows for that member, when it lists them.
    pub(super) states: Option<&'t [Json]>,
    /// The references of the resource.
    pub(super) references: &'t [Reference],
}

/// Reads `[resource.x.actions.name]`. None when a fault leaves nothing to go on with.
pub(super) fn read(name: &str, entry: Entry<'_>, around: &Surroundings<'_>, faults: &mut Faults) -> Option<Action> {
    // An action's name has the form of a verb: both are `[a-z][a-z0-9_.-]{0,63}`.
    if Verb::parse(name).is_err() {
        faults.at(&entry.path, "expected an action name: a lower-case letter, then up to 63 of a-z, 0-9, _, . and -");
    }
    let path = entry.path.clone();
    let mut section = Section::open(entry, faults)?;
    let from = section.take("from").map(|entry| read_from(&entry, around, faults));
    let set = section.take("set").map(|entry| read_set(entry, around, faults));
    let deletes = section.take("deletes").and_then(|entry| entry.switch(faults)).unwrap_or(false);
    let keep_data = section.take("keep_data");
    let keeps = keep_data.as_ref().and_then(|entry| entry.switch(faults)).unwrap_or(false);
    if let Some(entry) = keep_data.filter(|_| keeps && !deletes) {
        faults.at(&entry.path, "only an action with deletes = true leaves a tombstone that could keep data");
    }
    let declared = section.take("type").and_then(|entry| read_verb(&entry, deletes, faults));
    section.finish(faults);
    if set.is_none() && !deletes {
        faults.at(&path, "neither sets nor deletes anything");
    }
    let verb = declared.unwrap_or_else(|| if deletes { Verb::deleted() } else { Verb::updated() });
    Some(Action { from, set: set.unwrap_or_default(), verb, deletes, keep_data: keeps })
}

fn read_from(entry: &Entry<'_>, around: &Surroundings<'_>, faults: &mut Faults) -> Vec<String> {
    if around.state.is_none() {
        faults.at(&entry.path, "the resource names no member that holds the state (state = \"…\")");
    }
    let mut from = Vec::new();
    for item in entry.items(faults) {
        let Some(state) = item.text(faults) else { continue };
        check_state(&item, &Json::String(state.to_owned()), around, faults);
        if from.iter().any(|known| known == state) {
            faults.at(&item.path, "stands twice");
        }
        from.push(state.to_owned());
    }
    from
}

fn read_set(entry: Entry<'_>, around: &Surroundings<'_>, faults: &mut Faults) -> IndexMap<String, Json> {
    let Some(section) = Section::open(entry, faults) else {
        return IndexMap::new();
    };
    let mut set = IndexMap::new();
    for (member, entry) in section.into_entries() {
        let Some(value) = entry.json(faults) else { continue };
        if around.state == Some(member) {
            check_state(&entry, &value, around, faults);
        }
        if around.references.iter().any(|reference| reference.member == member) {
            check_id(&entry, &value, faults);
        }
        set.insert(member.to_owned(), value);
    }
    set
}

fn check_state(entry: &Entry<'_>, value: &Json, around: &Surroundings<'_>, faults: &mut Faults) {
    if around.states.is_some_and(|states| !states.contains(value)) {
        let member = around.state.unwrap_or_default();
        faults.at(&entry.path, format_args!("{value} is not one of the values that the schema lists for {member}"));
    }
}

fn check_id(entry: &Entry<'_>, value: &Json, faults: &mut Faults) {
    match value.as_str().map(EntityId::parse) {
        None => {
            faults.at(&entry.path, format_args!("the member is a reference: expected a string, not {}", value.kind()))
        }
        Some(Err(wrong)) => faults.at(&entry.path, format_args!("the member is a reference: {wrong}")),
        Some(Ok(_)) => {}
    }
}

/// A verb may be any name, except that the reserved ones must be true.
fn read_verb(entry: &Entry<'_>, deletes: bool, faults: &mut Faults) -> Option<Verb> {
    let verb = match Verb::parse(entry.text(faults)?) {
        Ok(verb) => verb,
        Err(wrong) => {
            faults.at(&entry.path, wrong);
            return None;
        }
    };
    match verb.as_str() {
        "created" | "erased" => faults.at(&entry.path, format_args!("{verb} is reserved; no action does that")),
        "deleted" if !deletes => faults.at(&entry.path, "deleted needs deletes = true"),
        "updated" if deletes => faults.at(&entry.path, "updated does not say that the action deletes"),
        _ => {}
    }
    Some(verb)
}
