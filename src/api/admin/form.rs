//! A strict JSON object as a request: members are taken by name, and none may be left over.
//!
//! Malformed JSON and unknown members are 400; a member that is missing or has a value it must not have is
//! 422 with its place, as everywhere.

use actix_web::HttpRequest;
use actix_web::web::Payload;
use bytes::Bytes;
use indexmap::IndexMap;

use crate::api::App;
use crate::api::extract::{Body, JSON_ONLY};
use crate::api::problem::Problem;
use crate::change::{Json, json};
use crate::entity::Refusal;
use crate::entity::types::Violation;

/// The members of a request body.
pub struct Form(IndexMap<String, Json>);

impl Form {
    /// Reads the body of this request; only `known` members may stand in it.
    pub async fn read(app: &App, request: &HttpRequest, payload: Payload, known: &[&str]) -> Result<Form, Problem> {
        let body = Body::of(request, payload);
        body.media_type(JSON_ONLY)?;
        Form::parse(&body.read(app.limits.body_bytes).await?, known)
    }

    fn parse(bytes: &Bytes, known: &[&str]) -> Result<Form, Problem> {
        match json::parse(bytes).map_err(|malformed| Problem::body(malformed.to_string()))? {
            Json::Object(members) => match members.keys().find(|name| !known.contains(&name.as_str())) {
                None => Ok(Form(members)),
                Some(_) => Err(Problem::body(format!("only the members {} are known here", known.join(", ")))),
            },
            other => Err(violation("", &format!("an object is due, and this is {}", other.kind()))),
        }
    }

    /// A member that must be there.
    pub fn required<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<T, Problem> {
        let missing = || violation("", &format!("the member `{name}` is missing"));
        self.optional(name, expected, parse)?.ok_or_else(missing)
    }

    /// A member that may be there.
    pub fn optional<T>(
        &self,
        name: &str,
        expected: &str,
        parse: impl FnOnce(&Json) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.0.get(name) else {
            return Ok(None);
        };
        parse(value).map(Some).ok_or_else(|| violation(&format!("/{name}"), &format!("expected {expected}")))
    }
}

/// Reads a body that should not be there, and refuses it unless it says nothing.
pub async fn no_body(app: &App, request: &HttpRequest, payload: Payload) -> Result<(), Problem> {
    let body = Body::of(request, payload);
    if body.is_announced() {
        body.media_type(JSON_ONLY)?;
    }
    let bytes = body.read(app.limits.body_bytes).await?;
    if bytes.is_empty() { Ok(()) } else { Form::parse(&bytes, &[]).map(|_| ()) }
}

/// A list of at least one item, each read by `parse`, none twice.
pub fn list<T: PartialEq>(value: &Json, parse: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
    let Json::Array(items) = value else {
        return None;
    };
    let mut list = Vec::new();
    for item in items {
        let item = parse(item.as_str()?)?;
        if list.contains(&item) {
            return None;
        }
        list.push(item);
    }
    (!list.is_empty()).then_some(list)
}

fn violation(pointer: &str, reason: &str) -> Problem {
    let errors = vec![Violation { pointer: pointer.to_owned(), reason: reason.to_owned() }];
    Refusal::SchemaViolation { errors }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Result<Form, Problem> {
        Form::parse(&Bytes::copy_from_slice(text.as_bytes()), &["log", "scopes"])
    }

    fn slug(problem: Option<Problem>) -> &'static str {
        problem.map_or("", |problem| problem.kind().slug)
    }

    #[test]
    fn bodies_are_strict() {
        for (text, expected) in [
            ("{\"log\":\"a\"}", ""),
            ("", "invalid-body"),
            ("{\"log\":\"a\",\"log\":\"a\"}", "invalid-body"),
            ("{\"logs\":\"a\"}", "invalid-body"),
            ("[]", "schema-violation"),
        ] {
            assert_eq!(slug(form(text).err()), expected, "{text}");
        }
    }

    #[test]
    fn members_are_required_and_read_by_their_form() {
        let form = form("{\"scopes\":[\"a\",\"b\"]}").unwrap();
        let scopes = |value: &Json| list(value, |text| Some(text.to_owned()));
        assert_eq!(form.required("scopes", "a list", scopes).unwrap(), ["a", "b"]);
        assert_eq!(slug(form.required("log", "a name", |_| Some(())).err()), "schema-violation");
        assert_eq!(slug(form.optional("scopes", "nothing", |_| None::<()>).err()), "schema-violation");
        for bad in ["[]", "[1]", "[\"a\",\"a\"]", "\"a\"", "null"] {
            assert_eq!(scopes(&json::parse(bad.as_bytes()).unwrap()), None, "{bad}");
        }
    }
}
