//! One line of an import: `{"resource","id","data"}`, strict JSON, nothing else.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::change::json::{MAX_DEPTH, parse_with_depth};
use crate::change::{EntityId, EntityKey, Json, Resource};
use crate::entity::{Command, Operation, Preconditions, Refusal};

/// The members of a line.
const MEMBERS: [&str; 3] = ["resource", "id", "data"];

/// The command that a line asks for, or what is wrong with the line.
pub fn parse(bytes: &[u8]) -> Result<Command, String> {
    // The line is one level around its data.
    let parsed = parse_with_depth(bytes, MAX_DEPTH + 1).map_err(|malformed| without_line(&malformed.to_string()))?;
    let Json::Object(mut members) = parsed else {
        return Err(format!("expected an object with resource, id and data, not {}", parsed.kind()));
    };
    if let Some(unknown) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(format!("unknown member {unknown:?}; a line has resource, id and data only"));
    }
    let resource = Resource::parse(text(&members, "resource")?).map_err(|invalid| format!("resource: {invalid}"))?;
    let id = EntityId::parse(text(&members, "id")?).map_err(|invalid| format!("id: {invalid}"))?;
    match members.swap_remove("data") {
        Some(data @ Json::Object(_)) => Ok(Command {
            key: EntityKey { resource, id },
            operation: Operation::Put(Arc::new(data)),
            preconditions: Preconditions::default(),
        }),
        Some(other) => Err(format!("data must be an object, not {}", other.kind())),
        None => Err("the member data is missing".into()),
    }
}

fn text<'a>(members: &'a IndexMap<String, Json>, name: &str) -> Result<&'a str, String> {
    match members.get(name) {
        Some(Json::String(text)) => Ok(text),
        Some(other) => Err(format!("{name} must be a string, not {}", other.kind())),
        None => Err(format!("the member {name} is missing")),
    }
}

/// The JSON text is one line of a file: its own line number would only confuse.
fn without_line(said: &str) -> String {
    said.replace(" at line 1, column ", " at column ")
}

/// A refusal of the log, in words.
pub fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::SchemaViolation { errors } => {
            let each = errors.iter().map(|error| match error.pointer.as_str() {
                "" => error.reason.clone(),
                pointer => format!("{pointer}: {}", error.reason),
            });
            format!("data breaks the declared schema: {}", each.collect::<Vec<_>>().join("; "))
        }
        Refusal::ReferenceMissing { references } => {
            let each = references.iter().map(|reference| {
                let to = (&reference.target_resource, &reference.target_id);
                format!("{} points to {}/{}", reference.member, to.0, to.1)
            });
            format!("{}, which is not there; put referred-to entities first", each.collect::<Vec<_>>().join("; "))
        }
        Refusal::UnknownResource { resource } => format!("the resource {resource} is not declared (--strict)"),
        Refusal::PreconditionRequired { .. } => {
            "this resource asks for If-Match, which an import does not have; write it through the API".into()
        }
        // A put without precondition is refused for no other reason.
        other => format!("refused: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_put_with_its_data_as_written() {
        let command = parse(br#" {"data":{"n":1.0,"a":"\u00e9"},"id":"cus/1","resource":"customer"} "#).unwrap();
        assert_eq!(command.key.to_string(), "customer/cus/1");
        let Operation::Put(data) = command.operation else { panic!("{:?}", command.operation) };
        assert_eq!(data.to_string(), r#"{"n":1.0,"a":"é"}"#);
    }

    #[test]
    fn everything_else_is_refused_with_the_reason() {
        for (text, expected) in [
            ("", "ends too early"),
            ("[]", "not an array"),
            (r#"{"resource":"a","id":"1","data":{}"#, "ends too early"),
            (r#"{"resource":"a","id":"1","data":{}} x"#, "at column"),
            (r#"{"resource":"a","id":"1","data":{},"op":"put"}"#, "unknown member \"op\""),
            (r#"{"resource":"a","id":"1","id":"2","data":{}}"#, "twice"),
            (r#"{"resource":"a","id":"1","data":{"x":1,"x":2}}"#, "twice"),
            (r#"{"id":"1","data":{}}"#, "resource is missing"),
            (r#"{"resource":"a","data":{}}"#, "id is missing"),
            (r#"{"resource":"a","id":"1"}"#, "data is missing"),
            (r#"{"resource":"A","id":"1","data":{}}"#, "resource: expected a resource name"),
            (r#"{"resource":"a","id":"","data":{}}"#, "id: expected an id"),
            (r#"{"resource":"a","id":1,"data":{}}"#, "id must be a string, not a number"),
            (r#"{"resource":"a","id":"1","data":null}"#, "data must be an object, not null"),
            (r#"{"resource":"a","id":"1","data":"{}"}"#, "data must be an object, not a string"),
        ] {
            let said = parse(text.as_bytes()).unwrap_err();
            assert!(said.contains(expected) && !said.contains("at line"), "{text}: {said}");
        }
        assert!(parse(b"{\"resource\":\"a\",\"id\":\"\xff\",\"data\":{}}").unwrap_err().contains("UTF-8"));
    }

    #[test]
    fn data_may_be_as_deep_as_through_the_api() {
        let nested = |levels: usize| format!("{}{}", "{\"a\":".repeat(levels - 1) + "{}", "}".repeat(levels - 1));
        let line = |levels| format!(r#"{{"resource":"a","id":"1","data":{}}}"#, nested(levels));
        assert!(parse(line(128).as_bytes()).is_ok());
        assert!(parse(line(129).as_bytes()).unwrap_err().contains("deeper"));
    }
}
