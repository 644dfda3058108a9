//! The parts of the path, decoded here and once, from the path as it was sent: `a%2Fb`, `a%252Fb`, `..`
//! and `a+b` are each an entity of their own, whatever the framework makes of them.

use actix_web::HttpRequest;

use super::percent_decoded;
use crate::api::problem::Problem;
use crate::change::{EntityId, EntityKey, Resource};

/// Where the names stand in `/v1/entities/{resource}/{id}/{action}`.
const RESOURCE: usize = 2;
const ID: usize = 3;
const ACTION: usize = 4;

/// The raw segments of a path.
#[derive(Debug, Clone)]
pub struct Segments(Vec<String>);

impl Segments {
    /// The segments of this request's path.
    pub fn of(request: &HttpRequest) -> Segments {
        Segments::split(request.uri().path())
    }

    fn split(path: &str) -> Segments {
        let path = path.strip_prefix('/').unwrap_or(path);
        Segments(path.split('/').map(str::to_owned).collect())
    }

    /// The resource of an entity path.
    pub fn resource(&self) -> Result<Resource, Problem> {
        self.parsed(RESOURCE, "resource", Resource::EXPECTED, |text| Resource::parse(text).ok())
    }

    /// The id of an entity path.
    pub fn id(&self) -> Result<EntityId, Problem> {
        self.parsed(ID, "id", EntityId::EXPECTED, |text| EntityId::parse(text).ok())
    }

    /// The entity of an entity path.
    pub fn entity(&self) -> Result<EntityKey, Problem> {
        Ok(EntityKey { resource: self.resource()?, id: self.id()? })
    }

    /// The action of an entity path; which actions there are is for the domain to say.
    pub fn action(&self) -> Result<String, Problem> {
        self.parsed(ACTION, "action", "the name of an action", |text| Some(text.to_owned()))
    }

    /// The last segment, as text.
    pub fn last(&self, parameter: &'static str) -> Result<String, Problem> {
        let last = self.0.len().saturating_sub(1);
        self.parsed(last, parameter, "text without control characters", |text| {
            (!text.is_empty() && !text.chars().any(char::is_control)).then(|| text.to_owned())
        })
    }

    fn parsed<T>(
        &self,
        position: usize,
        parameter: &'static str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Problem> {
        let raw = self.0.get(position).map_or("", String::as_str);
        let text = percent_decoded(raw)
            .ok_or_else(|| Problem::parameter(parameter, raw, format!("{expected}, in percent-encoded UTF-8")))?;
        parse(&text).ok_or_else(|| Problem::parameter(parameter, raw, expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(path: &str) -> Result<String, Problem> {
        Segments::split(path).id().map(|id| id.to_string())
    }

    #[test]
    fn every_id_is_its_own_entity() {
        for (raw, expected) in [
            ("a%2Fb", "a/b"),
            ("a%252Fb", "a%2Fb"),
            ("..", ".."),
            (".", "."),
            ("%2e%2e", ".."),
            ("a+b", "a+b"),
            ("a%20b", "a b"),
            ("a%3Fb%23c", "a?b#c"),
            ("%C3%A4", "ä"),
        ] {
            assert_eq!(id(&format!("/v1/entities/plan/{raw}")).unwrap(), expected);
            assert_eq!(id(&format!("/v1/entities/plan/{raw}/cancel")).unwrap(), expected);
        }
    }

    #[test]
    fn ids_that_cannot_be_are_refused_by_name() {
        for raw in ["", "%00", "a%0Ab", "%7F", "%C2%85", "%", "%zz", "%FF", &"x".repeat(256)] {
            let document = id(&format!("/v1/entities/plan/{raw}")).unwrap_err().document("r");
            assert_eq!((&document["status"], &document["parameter"]), (&400.into(), &"id".into()), "{raw}");
        }
        let document = Segments::split("/v1/entities/Plan/a").resource().unwrap_err().document("r");
        assert_eq!(document["parameter"], "resource");
    }
}
