//! The catalog of declared resource types: what a state must look like, which actions it knows and where
//! it points. Pure data, read once at start; resources that are not declared have no rules at all.
//!
//! The declarations are one TOML file (`--types FILE`), checked as a whole: every fault is reported at
//! once, each with its place. All of it, with the defaults after `#`:
//!
//! ```toml
//! [resource.subscription]                # the resource name
//! prefix = "sub_"                        # starts the ids that the server makes; none
//! state = "status"                       # the member that `from` looks at; none
//! preconditions = "required"             # writes need If-Match or If-None-Match; "optional"
//! schema = { type = "object" }           # JSON Schema 2020-12 as a table, or as text in schema_json = '''{…}'''
//!
//! [resource.subscription.references.customer]   # the member that holds the id
//! resource = "customer"                  # where it points; must be declared too
//! on_delete = "cascade"                  # or "restrict"; "restrict"
//! required = false                       # true: may be neither absent nor null; false
//!
//! [resource.subscription.actions.cancel] # the name in the path
//! from = ["active", "paused"]            # states in which it is allowed; every state
//! set = { status = "canceled" }          # members that it sets, values as in JSON; nothing
//! type = "canceled"                      # the type of the line; "deleted" when it deletes, else "updated"
//! deletes = false                        # true: leaves a tombstone; false
//! keep_data = false                      # true: the tombstone carries the last data; false
//! ```
//!
//! In a schema, `format` is an annotation, as the standard has it, and `pattern` is matched in linear time
//! (no look-around, no back-references): what a client sends must not be able to hold up the writer.
//! A schema may only refer to itself; nothing is fetched.

mod action;
mod file;
mod reason;
mod reference;
mod schema;
mod table;
mod value;

use std::collections::BTreeMap;

use crate::change::{Json, Resource};

pub use action::Action;
pub use file::Faults;
pub use reference::{OnDelete, Reference};
pub use schema::Violation;

use schema::{MAX_VIOLATIONS, Schema};

/// The types that a server knows when it is not given a file.
const BUILTIN: &str = include_str!("builtin.toml");

/// All declared resource types of a server. The default one declares nothing.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    types: BTreeMap<Resource, ResourceType>,
    referrers: BTreeMap<Resource, Vec<(Resource, Reference)>>,
    strict: bool,
}

/// What is declared about one resource.
#[derive(Debug, Clone, Default)]
pub struct ResourceType {
    /// What the ids start with that the server makes.
    pub prefix: Option<String>,
    /// The member whose value [`Action::from`] names.
    pub state: Option<String>,
    /// Members that hold ids of other entities, sorted by member.
    pub references: Vec<Reference>,
    /// Writes without `If-Match` or `If-None-Match` are refused.
    pub preconditions_required: bool,
    actions: BTreeMap<String, Action>,
    schema: Option<Schema>,
}

impl Catalog {
    /// The built-in example (PROTOCOL section 9).
    pub fn builtin() -> Catalog {
        // The text is part of the program, and a test reads it: there is no fault to report here.
        Catalog::from_toml(BUILTIN).unwrap_or_default()
    }

    /// Reads declarations (the form is in the module's text); every fault at once.
    pub fn from_toml(text: &str) -> Result<Catalog, Faults> {
        file::read(text).map(Catalog::of)
    }

    /// Puts the references where they are looked up when their target goes.
    fn of(types: BTreeMap<Resource, ResourceType>) -> Catalog {
        let mut referrers: BTreeMap<Resource, Vec<(Resource, Reference)>> = BTreeMap::new();
        for (resource, declared) in &types {
            for reference in &declared.references {
                let pointing = referrers.entry(reference.target.clone()).or_default();
                pointing.push((resource.clone(), reference.clone()));
            }
        }
        Catalog { types, referrers, strict: false }
    }

    /// With `true`, resources that are not declared are refused on writes.
    #[must_use]
    pub fn strict(self, strict: bool) -> Catalog {
        Catalog { strict, ..self }
    }

    /// True when resources that are not declared are refused on writes.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// What is declared about `resource`.
    pub fn get(&self, resource: &Resource) -> Option<&ResourceType> {
        self.types.get(resource)
    }

    /// The declared names, sorted.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.types.keys()
    }

    /// References that point at `resource`, each with the resource that holds it, sorted by that and by
    /// member; empty when there are none.
    pub fn referrers(&self, resource: &Resource) -> &[(Resource, Reference)] {
        self.referrers.get(resource).map(Vec::as_slice).unwrap_or_default()
    }

    /// The references that `data` of `resource` holds, each with the id. Members that are absent or null
    /// hold none; members that are no string are left out, because [`ResourceType::validate`] refuses them.
    pub fn links<'a>(&'a self, resource: &Resource, data: &'a Json) -> Vec<(&'a Reference, &'a str)> {
        let (Some(declared), Some(members)) = (self.get(resource), data.as_object()) else {
            return Vec::new();
        };
        let held = |reference: &'a Reference| Some((reference, members.get(&reference.member)?.as_str()?));
        declared.references.iter().filter_map(held).collect()
    }

    /// The declared references as text, `membership.customer>customer;…`, sorted: equal exactly when the
    /// same members point at the same resources. `on_delete` and `required` are not part of it, because
    /// they do not change who points at whom.
    pub fn references_signature(&self) -> String {
        let of_type = |(resource, declared): (&Resource, &ResourceType)| {
            let one = |reference: &Reference| {
                format!("{resource}.{}>{}", table::quoted_if_needed(&reference.member), reference.target)
            };
            declared.references.iter().map(one).collect::<Vec<_>>()
        };
        self.types.iter().flat_map(of_type).collect::<Vec<_>>().join(";")
    }
}

impl ResourceType {
    /// The action of this name.
    pub fn action(&self, name: &str) -> Option<&Action> {
        self.actions.get(name)
    }

    /// All actions, sorted by name.
    pub fn actions(&self) -> impl Iterator<Item = (&str, &Action)> {
        self.actions.iter().map(|(name, action)| (name.as_str(), action))
    }

    /// Holds `data` against the schema and the references: all violations up to a limit of 20. Reasons name
    /// the rule and never repeat values of the data.
    pub fn validate(&self, data: &Json) -> Result<(), Vec<Violation>> {
        let Some(members) = data.as_object() else {
            return Err(vec![Violation::at("", format!("must be an object, not {}", data.kind()))]);
        };
        let mut violations: Vec<Violation> =
            self.references.iter().filter_map(|reference| reference.violation(members)).collect();
        if let Some(schema) = &self.schema {
            violations.extend(schema.violations(data));
        }
        violations.truncate(MAX_VIOLATIONS);
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }
}

#[cfg(test)]
mod tests;
