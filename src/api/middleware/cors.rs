//! Cross-origin requests: only origins that the operator names, compared as they are written.
//!
//! Our own few lines instead of a crate: refusals must be problem documents, preflights need no key, and
//! both are decided in the frame.

use actix_web::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, HttpResponseBuilder};

/// How long a browser may keep a preflight, in seconds: long enough to spare one per request, short enough
/// that an origin which is named no more notices within minutes.
const MAX_AGE_SECONDS: &str = "600";
/// What a script may send.
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, Accept, If-Match, If-None-Match, Idempotency-Key, \
                               Last-Event-ID, Scroll-Log, Scroll-Consumer";
const ALLOWED_METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE";
/// What a script may read.
const EXPOSED_HEADERS: &str = "Scroll-Next, Scroll-Head, Scroll-Floor, Scroll-Epoch, Scroll-Up-To-Date, Scroll-Dense, \
                               Scroll-Checkpoint, Scroll-Seq, Scroll-Request-Id, Link, ETag, Location, Retry-After, \
                               Idempotent-Replayed, WWW-Authenticate, Allow, Accept-Patch";

/// The origins that are let in.
#[derive(Debug, Clone, Default)]
pub struct Cors {
    origins: Vec<String>,
}

impl Cors {
    /// Lets in exactly these.
    pub fn new(origins: Vec<String>) -> Cors {
        Cors { origins }
    }

    /// The origin of a request, when it is one of those let in.
    pub fn origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(header::ORIGIN)?;
        self.origins.iter().any(|known| known.as_bytes() == origin.as_bytes()).then(|| origin.clone())
    }

    /// True when answers depend on the origin at all.
    pub fn is_on(&self) -> bool {
        !self.origins.is_empty()
    }
}

/// True when a request only asks whether another would be let in.
pub fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight of an origin that is let in.
pub fn preflight() -> HttpResponse {
    let mut response = HttpResponseBuilder::new(StatusCode::NO_CONTENT);
    response
        .insert_header((header::ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS))
        .insert_header((header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS))
        .insert_header((header::ACCESS_CONTROL_MAX_AGE, MAX_AGE_SECONDS));
    response.finish()
}

/// The headers that every answer to such an origin has.
pub fn headers(origin: &HeaderValue) -> [(HeaderName, HeaderValue); 2] {
    [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED_HEADERS)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked_by(origin: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
        headers
    }

    #[test]
    fn only_named_origins_are_let_in() {
        let cors = Cors::new(vec!["https://app.example".into()]);
        assert!(cors.origin(&asked_by("https://app.example")).is_some());
        for other in ["https://app.example.evil", "http://app.example", "https://APP.example", "null", "*"] {
            assert_eq!(cors.origin(&asked_by(other)), None, "{other}");
        }
        assert_eq!(cors.origin(&HeaderMap::new()), None);
        assert_eq!(Cors::default().origin(&asked_by("https://app.example")), None);
    }

    #[test]
    fn a_preflight_is_an_options_that_asks_for_a_method() {
        let mut headers = asked_by("https://app.example");
        assert!(!is_preflight(&Method::OPTIONS, &headers));
        headers.insert(header::ACCESS_CONTROL_REQUEST_METHOD, HeaderValue::from_static("GET"));
        assert!(is_preflight(&Method::OPTIONS, &headers));
        assert!(!is_preflight(&Method::GET, &headers));
    }
}
