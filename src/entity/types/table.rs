//! A table of the file while it is read: it knows its place, and what nobody asked for is a fault.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::file::Faults;
use crate::change::Resource;
use crate::change::json::write_string;

/// A value of the file and its place, such as `resource.subscription.prefix`.
pub(super) struct Entry<'t> {
    pub(super) path: String,
    pub(super) value: &'t DeValue<'t>,
}

/// An open table.
pub(super) struct Section<'t> {
    path: String,
    /// What has not been taken yet, with its position in the file.
    members: BTreeMap<&'t str, (usize, &'t DeValue<'t>)>,
    /// The names that have been asked for.
    known: Vec<&'static str>,
}

impl<'t> Section<'t> {
    /// Opens a table; anything else, and an empty one, is a fault.
    pub(super) fn open(entry: Entry<'t>, faults: &mut Faults) -> Option<Section<'t>> {
        let Some(section) = Section::of(&entry) else {
            faults.at(&entry.path, format_args!("expected a table, not {}", kind(entry.value)));
            return None;
        };
        if section.members.is_empty() {
            faults.at(&entry.path, "the table is empty");
            return None;
        }
        Some(section)
    }

    /// The table of an entry, when it is one.
    pub(super) fn of(entry: &Entry<'t>) -> Option<Section<'t>> {
        match entry.value {
            DeValue::Table(table) => Some(Section::of_table(entry.path.clone(), table)),
            _ => None,
        }
    }

    /// A table whose place is known.
    pub(super) fn of_table(path: String, table: &'t DeTable<'t>) -> Section<'t> {
        let member = |(name, value): (&'t toml::Spanned<_>, &'t toml::Spanned<_>)| {
            let name: &'t std::borrow::Cow<'t, str> = name.get_ref();
            (name.as_ref(), (value.span().start, value.get_ref()))
        };
        Section { path, members: table.iter().map(member).collect(), known: Vec::new() }
    }

    /// Takes a member out.
    pub(super) fn take(&mut self, name: &'static str) -> Option<Entry<'t>> {
        self.known.push(name);
        let (_, value) = self.members.remove(name)?;
        Some(Entry { path: joined(&self.path, name), value })
    }

    /// Takes a member out that must be there.
    pub(super) fn required(&mut self, name: &'static str, faults: &mut Faults) -> Option<Entry<'t>> {
        let entry = self.take(name);
        if entry.is_none() {
            faults.at(&joined(&self.path, name), "is missing");
        }
        entry
    }

    /// Reports what has not been taken.
    pub(super) fn finish(self, faults: &mut Faults) {
        for name in self.members.keys() {
            let known = self.known.join(", ");
            faults.at(&joined(&self.path, name), format_args!("unknown; this table has {known}"));
        }
    }

    /// All members, whatever they are called, in the order of the file.
    pub(super) fn into_entries(self) -> Vec<(&'t str, Entry<'t>)> {
        let mut members: Vec<_> = self.members.into_iter().collect();
        members.sort_by_key(|(_, (position, _))| *position);
        members.into_iter().map(|(name, (_, value))| (name, Entry { path: joined(&self.path, name), value })).collect()
    }
}

impl<'t> Entry<'t> {
    /// The text of a string.
    pub(super) fn text(&self, faults: &mut Faults) -> Option<&'t str> {
        match self.value {
            DeValue::String(text) => Some(text),
            other => {
                faults.at(&self.path, format_args!("expected a string, not {}", kind(other)));
                None
            }
        }
    }

    /// The text of a string that is not empty.
    pub(super) fn name(&self, faults: &mut Faults) -> Option<&'t str> {
        let text = self.text(faults)?;
        if text.is_empty() {
            faults.at(&self.path, "is empty; leave it out instead");
        }
        Some(text)
    }

    /// A resource name.
    pub(super) fn resource(&self, faults: &mut Faults) -> Option<Resource> {
        let parsed = Resource::parse(self.text(faults)?);
        parsed.map_err(|wrong| faults.at(&self.path, wrong)).ok()
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)], faults: &mut Faults) -> Option<T> {
        let text = self.text(faults)?;
        let chosen = choices.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if chosen.is_none() {
            let words: Vec<_> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
            faults.at(&self.path, format_args!("expected {}", words.join(" or ")));
        }
        chosen
    }

    /// True or false.
    pub(super) fn switch(&self, faults: &mut Faults) -> Option<bool> {
        match self.value {
            DeValue::Boolean(value) => Some(*value),
            other => {
                faults.at(&self.path, format_args!("expected true or false, not {}", kind(other)));
                None
            }
        }
    }

    /// The items of an array, each with its place; anything else, and an empty one, is a fault.
    pub(super) fn items(&self, faults: &mut Faults) -> Vec<Entry<'t>> {
        match self.value {
            DeValue::Array(items) if items.is_empty() => faults.at(&self.path, "the array is empty"),
            DeValue::Array(_) => {}
            other => faults.at(&self.path, format_args!("expected an array, not {}", kind(other))),
        }
        self.elements()
    }

    /// The items, when this is an array.
    pub(super) fn elements(&self) -> Vec<Entry<'t>> {
        let DeValue::Array(items) = self.value else {
            return Vec::new();
        };
        let element = |(index, item): (usize, &'t toml::Spanned<DeValue<'t>>)| Entry {
            path: format!("{}[{index}]", self.path),
            value: item.get_ref(),
        };
        items.iter().enumerate().map(element).collect()
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

fn joined(path: &str, name: &str) -> String {
    let name = quoted_if_needed(name);
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

/// A name as it may stand between dots: bare when TOML allows that, else in quotes.
pub(super) fn quoted_if_needed(name: &str) -> String {
    let bare = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if bare {
        return name.to_owned();
    }
    let mut quoted = String::new();
    write_string(&mut quoted, name);
    quoted
}
