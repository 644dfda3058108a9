//! One reference: a member whose value is the id of another entity.

use std::collections::BTreeSet;

use indexmap::IndexMap;

use super::file::Faults;
use super::schema::Violation;
use super::table::{Entry, Section};
use crate::change::json::Pointer;
use crate::change::{EntityId, Json, Resource};

/// What happens to the holder of a reference when its target is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDelete {
    /// The target cannot be deleted while it is pointed at.
    Restrict,
    /// The holder is deleted first.
    Cascade,
}

/// A member that holds the id of an entity of another resource, or of the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The name of the member, at the top of the data.
    pub member: String,
    /// The resource that it points at.
    pub target: Resource,
    /// What happens when the target is deleted.
    pub on_delete: OnDelete,
    /// The member may be neither absent nor null.
    pub required: bool,
}

impl Reference {
    /// What is wrong with this reference in `members`, the top of an entity's data.
    pub(super) fn violation(&self, members: &IndexMap<String, Json>) -> Option<Violation> {
        let here = || Pointer::to_member(&self.member).to_string();
        match members.get(&self.member) {
            None | Some(Json::Null) if !self.required => None,
            // As the keyword `required` of JSON Schema: a pointer names something that is there.
            None => Some(Violation::at("", format!("the member {:?} is required", self.member))),
            Some(Json::String(text)) if EntityId::parse(text).is_ok() => None,
            Some(Json::String(_)) => {
                let reason = format!("must be the id of a {}; {}", self.target, EntityId::EXPECTED);
                Some(Violation::at(here(), reason))
            }
            Some(other) => {
                let reason = format!("must be the id of a {}, a string, not {}", self.target, other.kind());
                Some(Violation::at(here(), reason))
            }
        }
    }
}

/// Reads `[resource.x.references.member]`. None when a fault leaves nothing to go on with.
pub(super) fn read(
    member: &str,
    entry: Entry<'_>,
    declared: &BTreeSet<Resource>,
    faults: &mut Faults,
) -> Option<Reference> {
    let mut section = Section::open(entry, faults)?;
    let target = section.required("resource", faults).and_then(|entry| read_target(entry, declared, faults));
    let on_delete = section
        .take("on_delete")
        .and_then(|entry| entry.choice(&[("restrict", OnDelete::Restrict), ("cascade", OnDelete::Cascade)], faults));
    let required = section.take("required").and_then(|entry| entry.switch(faults));
    section.finish(faults);
    Some(Reference {
        member: member.to_owned(),
        target: target?,
        on_delete: on_delete.unwrap_or(OnDelete::Restrict),
        required: required.unwrap_or(false),
    })
}

fn read_target(entry: Entry<'_>, declared: &BTreeSet<Resource>, faults: &mut Faults) -> Option<Resource> {
    let target = entry.resource(faults)?;
    if !declared.contains(&target) {
        faults.at(&entry.path, format_args!("{target} is not declared in this file"));
    }
    Some(target)
}
