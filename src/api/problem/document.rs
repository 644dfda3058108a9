//! The document of a problem: RFC 9457 members, our own, and the headers that go with the status.

use std::ops::RangeInclusive;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::{Method, header};
use serde_json::{Map, Value, json};

use super::{Kind, Problem, kind, refused};
use crate::jitter;

/// The media type of every refusal.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Longest piece of a request that a problem repeats, in characters.
const MAX_REPEATED: usize = 128;

/// Retry-After for what passes by itself, jittered.
const RETRY_AFTER: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(3);
/// The same for a place among the open streams: those last minutes, so coming back at once is in vain.
const RETRY_STREAM_AFTER: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(30);

/// `instance` for a request.
pub fn instance(request_id: &str) -> String {
    format!("urn:uuid:{request_id}")
}

impl Problem {
    /// The response, named after a request.
    pub fn render(&self, request_id: &str) -> HttpResponse {
        let mut response = HttpResponse::build(actix_web::ResponseError::status_code(self));
        response.content_type(MEDIA_TYPE).insert_header((header::CACHE_CONTROL, "no-store"));
        for (name, value) in self.headers() {
            response.insert_header((name, value));
        }
        response.body(self.document(request_id).to_string())
    }

    /// The body.
    pub fn document(&self, request_id: &str) -> Value {
        let kind = self.kind();
        let mut document = Map::new();
        document.insert("type".into(), json!(format!("/problems/{}", kind.slug)));
        document.insert("title".into(), json!(kind.title));
        document.insert("status".into(), json!(kind.status));
        document.insert("detail".into(), json!(self.detail()));
        document.insert("instance".into(), json!(instance(request_id)));
        for (name, value) in self.members() {
            document.insert(name.into(), value);
        }
        Value::Object(document)
    }

    /// Which kind it is.
    pub fn kind(&self) -> &'static Kind {
        match self {
            Problem::MalformedHeader { .. } => &kind::MALFORMED_HEADER,
            Problem::Unauthorized => &kind::UNAUTHORIZED,
            Problem::Forbidden { .. } => &kind::FORBIDDEN,
            Problem::NotFound { .. } => &kind::NOT_FOUND,
            Problem::MethodNotAllowed { .. } => &kind::METHOD_NOT_ALLOWED,
            Problem::NotAcceptable { .. } => &kind::NOT_ACCEPTABLE,
            Problem::RequestTimeout => &kind::REQUEST_TIMEOUT,
            Problem::CursorAhead { .. } => &kind::CURSOR_AHEAD,
            Problem::EpochChanged { .. } => &kind::EPOCH_CHANGED,
            Problem::IdempotencyInProgress { .. } => &kind::IDEMPOTENCY_IN_PROGRESS,
            Problem::CursorExpired { .. } => &kind::CURSOR_EXPIRED,
            Problem::TooLarge { .. } => &kind::TOO_LARGE,
            Problem::UriTooLong { .. } => &kind::URI_TOO_LONG,
            Problem::UnsupportedMediaType { .. } => &kind::UNSUPPORTED_MEDIA_TYPE,
            Problem::HeadersTooLarge { .. } => &kind::HEADERS_TOO_LARGE,
            Problem::Refused(refused) => refused::kind(&refused.refusal),
            Problem::Internal(_) => &kind::INTERNAL,
            Problem::ReplicaBehind { .. } => &kind::REPLICA_BEHIND,
            Problem::TooManyStreams { .. } => &kind::TOO_MANY_STREAMS,
            Problem::StoreUnavailable(_) => &kind::STORE_UNAVAILABLE,
            Problem::Busy(_) => &kind::BUSY,
            Problem::Draining => &kind::DRAINING,
            Problem::StorageFull(_) => &kind::STORAGE_FULL,
        }
    }

    /// The sentence for the client.
    pub fn detail(&self) -> String {
        match self {
            Problem::Forbidden { detail, .. } => detail.clone(),
            Problem::MalformedHeader { header, expected } => format!("the header {header}: expected {expected}"),
            Problem::NotFound { what } => format!("{} does not exist", shortened(what)),
            Problem::NotAcceptable { offers } => format!("this can be answered as {}", offers.join(" or ")),
            Problem::CursorAhead { since, head, .. } => format!("the cursor {since} is ahead of the newest seq {head}"),
            Problem::EpochChanged { expected, epoch } => {
                format!("the log is now {epoch}, no longer {}", shortened(expected))
            }
            Problem::CursorExpired { since, floor, .. } => {
                format!("deletes after {since} were purged; the smallest cursor that can be resumed is {floor}")
            }
            Problem::TooLarge { limit } => format!("at most {limit}"),
            Problem::UriTooLong { limit } => format!("path and query may have {limit} bytes"),
            Problem::HeadersTooLarge { limit } => format!("all headers together may have {limit} bytes"),
            Problem::UnsupportedMediaType { expected, .. } => {
                format!("send Content-Type {} in UTF-8, without a Content-Encoding", expected.join(" or "))
            }
            Problem::ReplicaBehind { min_head } => format!("this server has not reached {min_head} yet"),
            Problem::TooManyStreams { whose, limit } => format!("{whose} may have {limit} open streams, and has them"),
            Problem::Refused(refused) => refused::detail(refused),
            Problem::MethodNotAllowed { allow } => format!("this path answers {}", allow_list(allow)),
            Problem::Unauthorized
            | Problem::RequestTimeout
            | Problem::IdempotencyInProgress { .. }
            | Problem::Internal(_)
            | Problem::StoreUnavailable(_)
            | Problem::Busy(_)
            | Problem::Draining
            | Problem::StorageFull(_) => self.kind().when.to_owned(),
        }
    }

    fn members(&self) -> Vec<(&'static str, Value)> {
        match self {
            Problem::MalformedHeader { header, expected } => {
                vec![("parameter", json!(header)), ("expected", json!(expected))]
            }
            Problem::Forbidden { scope, .. } => scope.map(|scope| ("scope", json!(scope))).into_iter().collect(),
            Problem::CursorAhead { since, head, epoch } => {
                vec![("since", json!(since.get())), ("head", json!(head.get())), ("epoch", json!(epoch.0))]
            }
            Problem::EpochChanged { expected, epoch } => {
                vec![("expected", json!(shortened(expected))), ("epoch", json!(epoch.0))]
            }
            Problem::CursorExpired { since, floor, head, epoch, restart } => vec![
                ("since", json!(since.get())),
                ("floor", json!(floor.get())),
                ("head", json!(head.get())),
                ("epoch", json!(epoch.0)),
                ("restart", json!(restart)),
            ],
            Problem::IdempotencyInProgress { key } => vec![("key", json!(key))],
            Problem::Refused(refused) => refused::members(refused),
            Problem::Unauthorized
            | Problem::NotFound { .. }
            | Problem::MethodNotAllowed { .. }
            | Problem::NotAcceptable { .. }
            | Problem::UnsupportedMediaType { .. }
            | Problem::RequestTimeout
            | Problem::TooLarge { .. }
            | Problem::UriTooLong { .. }
            | Problem::HeadersTooLarge { .. }
            | Problem::Internal(_)
            | Problem::ReplicaBehind { .. }
            | Problem::TooManyStreams { .. }
            | Problem::StoreUnavailable(_)
            | Problem::Busy(_)
            | Problem::Draining
            | Problem::StorageFull(_) => Vec::new(),
        }
    }

    /// The headers that belong to the problem.
    fn headers(&self) -> Vec<(header::HeaderName, String)> {
        match self {
            Problem::Unauthorized => vec![(header::WWW_AUTHENTICATE, "Bearer".to_owned())],
            Problem::MethodNotAllowed { allow } => vec![(header::ALLOW, allow_list(allow))],
            Problem::UnsupportedMediaType { expected, is_patch: true } => {
                vec![(header::HeaderName::from_static("accept-patch"), expected.join(", "))]
            }
            Problem::UnsupportedMediaType { expected, is_patch: false } => {
                vec![(header::ACCEPT, expected.join(", "))]
            }
            Problem::IdempotencyInProgress { .. }
            | Problem::ReplicaBehind { .. }
            | Problem::StoreUnavailable(_)
            | Problem::Busy(_)
            | Problem::Draining => vec![(header::RETRY_AFTER, seconds(&RETRY_AFTER))],
            Problem::TooManyStreams { .. } => vec![(header::RETRY_AFTER, seconds(&RETRY_STREAM_AFTER))],
            Problem::MalformedHeader { .. }
            | Problem::Forbidden { .. }
            | Problem::NotFound { .. }
            | Problem::NotAcceptable { .. }
            | Problem::RequestTimeout
            | Problem::CursorAhead { .. }
            | Problem::EpochChanged { .. }
            | Problem::CursorExpired { .. }
            | Problem::TooLarge { .. }
            | Problem::UriTooLong { .. }
            | Problem::HeadersTooLarge { .. }
            | Problem::Refused(_)
            | Problem::Internal(_)
            | Problem::StorageFull(_) => Vec::new(),
        }
    }
}

/// The value of an `Allow` header.
pub fn allow_list(methods: &[Method]) -> String {
    methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ")
}

/// A time within the bounds, in whole seconds.
fn seconds(bounds: &RangeInclusive<Duration>) -> String {
    format!("{:.0}", jitter::between(bounds).as_secs_f64())
}

/// A piece of a request, cut to what a problem repeats.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_REPEATED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::{Epoch, Seq};
    use crate::entity::Refusal;

    #[test]
    fn documents_have_the_members_of_the_contract() {
        let problem = Problem::CursorAhead { since: Seq::MAX, head: Seq::ZERO, epoch: Epoch("e".into()) };
        let document = problem.document("0b0c");
        assert_eq!(document["type"], "/problems/cursor-ahead");
        assert_eq!((&document["status"], &document["head"], &document["epoch"]), (&409.into(), &0.into(), &"e".into()));
        assert_eq!(document["since"], 9_007_199_254_740_991_i64);
        assert_eq!(document["instance"], "urn:uuid:0b0c");
    }

    #[test]
    fn a_refusal_in_a_batch_names_its_operation() {
        let refused = Refusal::AlreadyExists { entity: "plan/a".into() }.at(3);
        let document = Problem::from(refused).document("r");
        assert_eq!((&document["status"], &document["index"]), (&409.into(), &3.into()));
    }

    #[test]
    fn headers_go_with_the_status() {
        let header = |problem: Problem, name: &str| {
            problem.render("r").headers().get(name).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(header(Problem::Unauthorized, "www-authenticate").as_deref(), Some("Bearer"));
        let allow = vec![Method::GET, Method::HEAD];
        assert_eq!(header(Problem::MethodNotAllowed { allow }, "allow").as_deref(), Some("GET, HEAD"));
        for _ in 0..20 {
            let seconds = header(Problem::Draining, "retry-after").unwrap();
            assert!(["1", "2", "3"].contains(&seconds.as_str()), "{seconds}");
            let seconds = header(Problem::TooManyStreams { whose: "this key", limit: 1 }, "retry-after").unwrap();
            assert!((5..=30).contains(&seconds.parse::<u32>().unwrap()), "{seconds}");
        }
    }

    #[test]
    fn causes_never_reach_the_client() {
        let cause = || super::super::Cause::from("SELECT secret FROM /var/lib");
        for problem in [
            Problem::Internal(cause()),
            Problem::Busy(cause()),
            Problem::StoreUnavailable(cause()),
            Problem::StorageFull(cause()),
        ] {
            assert!(!problem.document("r").to_string().contains("SELECT"));
        }
    }

    #[test]
    fn long_pieces_of_a_request_are_cut() {
        let document = Problem::parameter("id", &"ä".repeat(10_000), "an id").document("r");
        assert!(document["value"].as_str().unwrap().chars().count() <= MAX_REPEATED + 1);
    }
}
