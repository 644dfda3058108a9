//! One operation of a batch: an object whose members are known, go with its `op`, and have their form.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::api::problem::Problem;
use crate::change::json::MAX_DEPTH;
use crate::change::{EntityId, EntityKey, Json, Resource};
use crate::entity::precondition::EtagCondition;
use crate::entity::{Command, Operation, Preconditions, Refusal};

const OPS: &str = "one of create, put, patch, delete and action";
const MEMBERS: [&str; 7] = ["op", "resource", "id", "data", "action", "if_match", "if_none_match"];

/// The members of an operation, all of them known.
pub struct Envelope(IndexMap<String, Json>);

/// An operation that is right, and may still lack an id.
#[derive(Debug)]
pub struct Addressed {
    resource: Resource,
    id: Option<EntityId>,
    operation: Operation,
    preconditions: Preconditions,
}

/// The resource that an operation names, if it names one well.
pub fn resource_named(item: &Json) -> Option<Resource> {
    Resource::parse(item.as_object()?.get("resource")?.as_str()?).ok()
}

impl Envelope {
    /// Takes the members.
    pub fn read(item: Json) -> Result<Envelope, Refusal> {
        let Json::Object(members) = item else {
            return Err(invalid(format!("an operation is an object, and this is {}", item.kind())));
        };
        match members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
            None => Ok(Envelope(members)),
            Some(_) => Err(invalid(format!("an operation has only the members {}", MEMBERS.join(", ")))),
        }
    }

    /// The operation that the members make.
    pub fn addressed(mut self) -> Result<Addressed, Refusal> {
        let op = self.text("op")?.ok_or_else(|| invalid(format!("`op` is missing: {OPS}")))?;
        let resource = self.text("resource")?.ok_or_else(|| invalid("`resource` is missing".into()))?;
        let resource = Resource::parse(&resource).map_err(|_| parameter("resource", &resource, Resource::EXPECTED))?;
        let id = self.text("id")?;
        let id = id.map(|id| EntityId::parse(&id).map_err(|_| parameter("id", &id, EntityId::EXPECTED))).transpose()?;
        if id.is_none() && op != "create" {
            return Err(invalid(format!(
                "`id` is missing; only `create` leaves it to the server, not `{}`",
                known(&op)
            )));
        }
        let preconditions = self.preconditions()?;
        let operation = self.operation(&op)?;
        match self.0.keys().next() {
            None => Ok(Addressed { resource, id, operation, preconditions }),
            Some(name) => Err(invalid(format!("`{name}` does not go with `{}`", known(&op)))),
        }
    }

    fn operation(&mut self, op: &str) -> Result<Operation, Refusal> {
        match op {
            "create" => self.data().map(Operation::Create),
            "put" => self.data().map(Operation::Put),
            "patch" => self.data().map(Operation::Patch),
            "delete" => Ok(Operation::Delete),
            "action" => {
                self.text("action")?.map(Operation::Action).ok_or_else(|| invalid("`action` is missing".into()))
            }
            "erase" => Err(invalid("the op `erase` is not available in this version".into())),
            _ => Err(invalid(format!("`op` is {OPS}"))),
        }
    }

    fn data(&mut self) -> Result<Arc<Json>, Refusal> {
        let data = self.0.shift_remove("data").ok_or_else(|| invalid("`data` is missing".into()))?;
        if data.depth() > MAX_DEPTH {
            return Err(invalid(format!("`data` is nested deeper than {MAX_DEPTH} levels")));
        }
        Ok(Arc::new(data))
    }

    fn preconditions(&mut self) -> Result<Preconditions, Refusal> {
        let if_match = self.condition("if_match", "* or one entity tag in double quotes")?;
        let if_none_match = self.condition("if_none_match", "*")?;
        if if_none_match.as_ref().is_some_and(|condition| *condition != EtagCondition::Any) {
            return Err(parameter_unseen("if_none_match", "*"));
        }
        Ok(Preconditions { if_match, if_none_match })
    }

    fn condition(&mut self, name: &'static str, expected: &str) -> Result<Option<EtagCondition>, Refusal> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        match EtagCondition::parse(&text) {
            Some(EtagCondition::Tags(tags)) if tags.len() != 1 => Err(parameter(name, &text, expected)),
            Some(condition) => Ok(Some(condition)),
            None => Err(parameter(name, &text, expected)),
        }
    }

    fn text(&mut self, name: &'static str) -> Result<Option<String>, Refusal> {
        match self.0.shift_remove(name) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(other) => Err(invalid(format!("`{name}` is a string, and this is {}", other.kind()))),
        }
    }
}

impl Addressed {
    /// The command; `new_id` makes the id where the client left it to the server.
    pub fn command(self, new_id: impl FnOnce(&Resource) -> Result<EntityId, Problem>) -> Result<Command, Problem> {
        let id = match self.id {
            Some(id) => id,
            None => new_id(&self.resource)?,
        };
        let key = EntityKey { resource: self.resource, id };
        Ok(Command { key, operation: self.operation, preconditions: self.preconditions })
    }
}

/// An op as a message may repeat it.
fn known(op: &str) -> &str {
    match op {
        "create" | "put" | "patch" | "delete" | "action" => op,
        _ => "this op",
    }
}

fn invalid(detail: String) -> Refusal {
    Refusal::InvalidBody { detail }
}

fn parameter(name: &str, value: &str, expected: &str) -> Refusal {
    Refusal::InvalidParameter { parameter: name.into(), value: Some(value.into()), expected: expected.into() }
}

fn parameter_unseen(name: &str, expected: &str) -> Refusal {
    Refusal::InvalidParameter { parameter: name.into(), value: None, expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::json;

    fn read(text: &str) -> Result<Addressed, Refusal> {
        Envelope::read(json::parse_with_depth(text.as_bytes(), 130).unwrap()).and_then(Envelope::addressed)
    }

    #[test]
    fn every_op_is_read() {
        for good in [
            r#"{"op":"create","resource":"plan","data":{}}"#,
            r#"{"op":"create","resource":"plan","id":"a/b","data":{},"if_none_match":"*"}"#,
            r#"{"op":"put","resource":"plan","id":"a","data":null,"if_match":"\"5\""}"#,
            r#"{"op":"patch","resource":"plan","id":"a","data":{"x":null},"if_match":"*"}"#,
            r#"{"op":"delete","resource":"plan","id":".."}"#,
            r#"{"op":"action","resource":"plan","id":"a","action":"cancel"}"#,
        ] {
            assert!(read(good).is_ok(), "{good}");
        }
        let made = read(r#"{"op":"create","resource":"plan","data":{}}"#).unwrap();
        let command = made.command(|_| Ok(EntityId::parse("made").unwrap())).unwrap();
        assert_eq!(command.key.to_string(), "plan/made");
    }

    #[test]
    fn members_are_strict() {
        for bad in [
            "1",
            "{}",
            r#"{"op":"put","resource":"plan","id":"a","data":{},"x":1}"#,
            r#"{"op":"put","resource":"plan","data":{}}"#,
            r#"{"op":"put","resource":"plan","id":"a"}"#,
            r#"{"op":"put","resource":"plan","id":1,"data":{}}"#,
            r#"{"op":"put","resource":"plan","id":null,"data":{}}"#,
            r#"{"op":"put","resource":"plan","id":"a","data":{},"action":"x"}"#,
            r#"{"op":"delete","resource":"plan","id":"a","data":{}}"#,
            r#"{"op":"action","resource":"plan","id":"a"}"#,
            r#"{"op":"PUT","resource":"plan","id":"a","data":{}}"#,
            r#"{"op":"erase","resource":"plan","id":"a"}"#,
        ] {
            assert!(matches!(read(bad), Err(Refusal::InvalidBody { .. })), "{bad}");
        }
        for bad in [
            r#"{"op":"put","resource":"Plan","id":"a","data":{}}"#,
            r#"{"op":"put","resource":"plan","id":"","data":{}}"#,
            r#"{"op":"put","resource":"plan","id":"a","data":{},"if_match":"5"}"#,
            r#"{"op":"put","resource":"plan","id":"a","data":{},"if_match":"\"5\",\"6\""}"#,
            r#"{"op":"put","resource":"plan","id":"a","data":{},"if_none_match":"\"5\""}"#,
        ] {
            assert!(matches!(read(bad), Err(Refusal::InvalidParameter { .. })), "{bad}");
        }
    }

    #[test]
    fn data_has_its_own_depth() {
        let nested = |levels: usize| {
            let data = "[".repeat(levels) + &"]".repeat(levels);
            read(&format!(r#"{{"op":"put","resource":"plan","id":"a","data":{data}}}"#))
        };
        assert!(nested(128).is_ok());
        assert!(matches!(nested(129), Err(Refusal::InvalidBody { .. })));
    }
}
