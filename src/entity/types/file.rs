//! Reading the file of declared types: the whole of it is checked, and every fault is reported at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use toml::de::DeTable;

use super::action::{self, Action, Surroundings};
use super::reference::{self, Reference};
use super::schema::Schema;
use super::table::{Entry, Section};
use super::{ResourceType, schema};
use crate::change::{EntityId, Json, Resource};

/// Longest prefix of ids, in bytes: with a UUID after it an id is far from its own limit.
const MAX_PREFIX_BYTES: usize = 64;
/// Most syntax errors that are reported; one slip can make a parser stumble many times.
pub(super) const MAX_SYNTAX_ERRORS: usize = 20;

/// Everything that is wrong with a file, each with its place:
/// `resource.subscription.actions.cancel.from[2]: …`, or `line 3: …` when it is not TOML at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Faults(pub Vec<String>);

impl Faults {
    /// Adds a fault; one that is known already (the meta-schema finds some many times) is not repeated.
    pub(super) fn at(&mut self, place: &str, what: impl fmt::Display) {
        let fault = format!("{place}: {what}");
        if !self.0.contains(&fault) {
            self.0.push(fault);
        }
    }
}

/// Reads the declarations.
pub(super) fn read(text: &str) -> Result<BTreeMap<Resource, ResourceType>, Faults> {
    let (document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(syntax_faults(text, &errors));
    }
    let mut faults = Faults::default();
    let mut root = Section::of_table(String::new(), document.get_ref());
    let types = root.required("resource", &mut faults).map(|entry| read_resources(entry, &mut faults));
    root.finish(&mut faults);
    if faults.0.is_empty() { Ok(types.unwrap_or_default()) } else { Err(faults) }
}

fn syntax_faults(text: &str, errors: &[toml::de::Error]) -> Faults {
    let mut faults = Faults::default();
    for error in errors.iter().take(MAX_SYNTAX_ERRORS) {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        faults.at(&format!("line {line}"), error.message());
    }
    faults
}

fn read_resources(entry: Entry<'_>, faults: &mut Faults) -> BTreeMap<Resource, ResourceType> {
    let Some(section) = Section::open(entry, faults) else {
        return BTreeMap::new();
    };
    let entries = section.into_entries();
    // References may point at what is declared further down, and at what has faults of its own.
    let declared = entries.iter().filter_map(|(name, _)| Resource::parse(name).ok()).collect();
    let mut types = BTreeMap::new();
    for (name, entry) in entries {
        let resource = Resource::parse(name).map_err(|wrong| faults.at(&entry.path, wrong));
        let read = read_resource(entry, &declared, faults);
        if let (Ok(resource), Some(read)) = (resource, read) {
            types.insert(resource, read);
        }
    }
    types
}

/// Reads `[resource.x]`. The actions come last, because they are held against everything else.
fn read_resource(entry: Entry<'_>, declared: &BTreeSet<Resource>, faults: &mut Faults) -> Option<ResourceType> {
    let mut section = Section::open(entry, faults)?;
    let prefix = section.take("prefix").and_then(|entry| read_prefix(&entry, faults));
    let state = section.take("state").and_then(|entry| entry.name(faults));
    let preconditions = section
        .take("preconditions")
        .and_then(|entry| entry.choice(&[("required", true), ("optional", false)], faults));
    let source = read_schema_source(&mut section, faults);
    let references = section.take("references").map(|entry| read_references(entry, declared, faults));
    let references = references.unwrap_or_default();
    let states = state.zip(source.as_ref()).and_then(|(state, (_, source))| schema::listed_values(source, state));
    let around = Surroundings { state, states, references: &references };
    let actions = section.take("actions").map(|entry| read_actions(entry, &around, faults));
    section.finish(faults);
    Some(ResourceType {
        prefix,
        state: state.map(str::to_owned),
        preconditions_required: preconditions.unwrap_or(false),
        actions: actions.unwrap_or_default(),
        schema: source.and_then(|(place, source)| Schema::compile(&place, &source, faults)),
        references,
    })
}

fn read_prefix(entry: &Entry<'_>, faults: &mut Faults) -> Option<String> {
    let prefix = entry.name(faults)?;
    if prefix.len() > MAX_PREFIX_BYTES {
        faults.at(&entry.path, format_args!("is longer than {MAX_PREFIX_BYTES} bytes"));
    } else if !prefix.is_empty() && EntityId::parse(prefix).is_err() {
        faults.at(&entry.path, "ids hold no control characters");
    }
    Some(prefix.to_owned())
}

/// The schema, in whichever of its two forms, with its place.
fn read_schema_source(section: &mut Section<'_>, faults: &mut Faults) -> Option<(String, Json)> {
    match (section.take("schema"), section.take("schema_json")) {
        (Some(table), None) => {
            let place = table.path.clone();
            let source = table.json(faults)?;
            // Only to report what is no table, or an empty one.
            Section::open(table, faults).map(|_| (place, source))
        }
        (None, Some(text)) => match crate::change::json::parse(text.text(faults)?.as_bytes()) {
            Ok(source) => Some((text.path, source)),
            Err(malformed) => {
                faults.at(&text.path, malformed);
                None
            }
        },
        (Some(table), Some(_)) => {
            faults.at(&table.path, "stands beside schema_json; one of them must go");
            None
        }
        (None, None) => None,
    }
}

fn read_references(entry: Entry<'_>, declared: &BTreeSet<Resource>, faults: &mut Faults) -> Vec<Reference> {
    let Some(section) = Section::open(entry, faults) else {
        return Vec::new();
    };
    let mut references: Vec<_> = section
        .into_entries()
        .into_iter()
        .filter_map(|(member, entry)| reference::read(member, entry, declared, faults))
        .collect();
    references.sort_by(|one, other| one.member.cmp(&other.member));
    references
}

fn read_actions(entry: Entry<'_>, around: &Surroundings<'_>, faults: &mut Faults) -> BTreeMap<String, Action> {
    let Some(section) = Section::open(entry, faults) else {
        return BTreeMap::new();
    };
    section
        .into_entries()
        .into_iter()
        .filter_map(|(name, entry)| Some((name.to_owned(), action::read(name, entry, around, faults)?)))
        .collect()
}
