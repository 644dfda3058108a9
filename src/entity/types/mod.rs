//! stub
use crate::change::{Json, Resource, Verb};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
#[derive(Debug, Default)]
pub struct Catalog {
    types: BTreeMap<Resource, ResourceType>,
    strict: bool,
}
#[derive(Debug)]
pub struct ResourceType {
    pub prefix: Option<String>,
    pub state: Option<String>,
    pub references: Vec<Reference>,
    pub preconditions_required: bool,
}
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    pub member: String,
    pub target: Resource,
    pub on_delete: OnDelete,
    pub required: bool,
}
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDelete {
    Restrict,
    Cascade,
}
#[derive(Debug)]
pub struct Action {
    pub from: Option<Vec<String>>,
    pub set: IndexMap<String, Json>,
    pub verb: Verb,
    pub deletes: bool,
    pub keep_data: bool,
}
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    pub pointer: String,
    pub reason: String,
}
impl Catalog {
    pub fn builtin() -> Catalog {
        Catalog::default()
    }
    pub fn is_strict(&self) -> bool {
        self.strict
    }
    pub fn get(&self, resource: &Resource) -> Option<&ResourceType> {
        self.types.get(resource)
    }
    pub fn referrers(&self, _: &Resource) -> &[(Resource, Reference)] {
        &[]
    }
    pub fn links<'a>(&'a self, _: &Resource, _: &'a Json) -> Vec<(&'a Reference, &'a str)> {
        vec![]
    }
    pub fn references_signature(&self) -> String {
        String::new()
    }
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.types.keys()
    }
}
impl ResourceType {
    pub fn action(&self, _: &str) -> Option<&Action> {
        None
    }
    pub fn validate(&self, _: &Json) -> Result<(), Vec<Violation>> {
        Ok(())
    }
}
