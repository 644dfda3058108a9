//! How writes are answered: the line that was written, as the feed will send it.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::problem::Problem;
use crate::change::{EntityKey, Epoch, Json, Line, Resource, Seq, json};
use crate::entity::precondition::etag;
use crate::entity::{Answer, Outcome};

/// `Scroll-Seq`: the number of the line that was written.
pub const SCROLL_SEQ: HeaderName = HeaderName::from_static("scroll-seq");
/// `Scroll-Epoch`: the identity of the log.
pub const SCROLL_EPOCH: HeaderName = HeaderName::from_static("scroll-epoch");
/// `Scroll-Head`: the newest seq.
pub const SCROLL_HEAD: HeaderName = HeaderName::from_static("scroll-head");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// What may stand unencoded in a segment of a path (RFC 3986, unreserved).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The response to a submission. A refusal that was remembered is told under the id of the request that
/// was first refused so.
pub fn respond(answer: Answer, epoch: &Epoch) -> Result<HttpResponse, Problem> {
    let mut response = match answer.result {
        Ok(outcome) => written(outcome, epoch),
        Err(refused) if answer.is_replayed => Problem::from(refused).render(&answer.request_id),
        Err(refused) => return Err(refused.into()),
    };
    if answer.is_replayed {
        response.headers_mut().insert(REPLAYED, header::HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn written(outcome: Outcome, epoch: &Epoch) -> HttpResponse {
    match outcome {
        Outcome::Entity { line, seq, is_created } => one(&line, seq, is_created, epoch),
        Outcome::Batch { tx, last, lines } => batch(tx, last, &lines, epoch),
    }
}

fn one(line: &Line, seq: Seq, is_created: bool, epoch: &Epoch) -> HttpResponse {
    let mut response = HttpResponse::build(if is_created { StatusCode::CREATED } else { StatusCode::OK });
    response.content_type("application/json");
    response.insert_header((SCROLL_SEQ, seq.to_string())).insert_header((header::ETAG, etag(seq)));
    response.insert_header((SCROLL_EPOCH, epoch.to_string()));
    if let Some(key) = is_created.then(|| key_of(line)).flatten() {
        response.insert_header((header::LOCATION, location(&key)));
    }
    response.body(format!("{line}\n"))
}

fn batch(tx: Option<Seq>, last: Option<Seq>, lines: &[Line], epoch: &Epoch) -> HttpResponse {
    let mut response = HttpResponse::Ok();
    response.content_type("application/json").insert_header((SCROLL_EPOCH, epoch.to_string()));
    if let Some(last) = last {
        response.insert_header((SCROLL_SEQ, last.to_string())).insert_header((header::ETAG, etag(last)));
    }
    let tx = tx.map_or("null".to_owned(), |tx| tx.to_string());
    let length = lines.iter().map(|line| line.as_str().len() + 1).sum::<usize>();
    let mut body = String::with_capacity(length + 48);
    body.push_str(&format!(r#"{{"tx":{tx},"changes":["#));
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(line.as_str());
    }
    body.push_str("]}\n");
    response.body(body)
}

/// Where an entity is read.
pub fn location(key: &EntityKey) -> String {
    format!("/v1/entities/{}/{}", key.resource, utf8_percent_encode(key.id.as_str(), SEGMENT))
}

/// The entity of a line. A replayed answer is only a line, and only the first request knew the id.
fn key_of(line: &Line) -> Option<EntityKey> {
    let parsed = json::parse_with_depth(line.as_str().as_bytes(), json::MAX_DEPTH + 1).ok()?;
    let member = |name: &str| parsed.as_object()?.get(name).and_then(Json::as_str).map(str::to_owned);
    let resource = Resource::parse(&member("resource")?).ok()?;
    Some(EntityKey { resource, id: crate::change::EntityId::parse(&member("id")?).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{EntityId, Verb};
    use crate::entity::Refusal;

    fn key(id: &str) -> EntityKey {
        EntityKey { resource: Resource::parse("plan").unwrap(), id: EntityId::parse(id).unwrap() }
    }

    fn epoch() -> Epoch {
        Epoch("e".into())
    }

    #[test]
    fn locations_lead_back_to_the_entity() {
        for (id, location_) in
            [("a/b", "a%2Fb"), ("a%2Fb", "a%252Fb"), ("..", ".."), ("ä b", "%C3%A4%20b"), ("a+b", "a%2Bb")]
        {
            assert_eq!(location(&key(id)), format!("/v1/entities/plan/{location_}"));
        }
    }

    #[test]
    fn a_created_line_names_its_place_even_when_replayed() {
        let seq = Seq::new(7).unwrap();
        let line = Line::render(seq, &key("a/b"), &Verb::created(), false, Some("{}"));
        let result = Ok(Outcome::Entity { line, seq, is_created: true });
        let answer = Answer { request_id: "first".into(), result, is_replayed: true };
        let response = respond(answer, &epoch()).unwrap();
        assert_eq!(response.status(), 201);
        let header = |name: &str| response.headers().get(name).unwrap().to_str().unwrap().to_owned();
        assert_eq!(header("location"), "/v1/entities/plan/a%2Fb");
        assert_eq!((header("scroll-seq").as_str(), header("etag").as_str()), ("7", "\"7\""));
        assert_eq!(header("idempotent-replayed"), "true");
    }

    #[test]
    fn a_remembered_refusal_is_told_under_the_first_request() {
        let refused = Refusal::PreconditionFailed { current: None };
        let answer = Answer { request_id: "first".into(), result: Err(refused.clone().into()), is_replayed: true };
        assert_eq!(respond(answer, &epoch()).unwrap().status(), 412);
        let answer = Answer { request_id: "now".into(), result: Err(refused.into()), is_replayed: false };
        assert!(respond(answer, &epoch()).is_err());
    }
}
