//! The body of a request: of a type that is read, uncompressed, within a limit, and not stalled.

use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::{Method, header};
use actix_web::web::{Bytes, BytesMut, Payload};
use futures::StreamExt;

use crate::api::problem::Problem;

/// How long a client may send nothing before its body counts as not coming: long enough for a bad mobile
/// line, short enough that stalled uploads do not pile up.
const IDLE: Duration = Duration::from_secs(30);

/// A body that has not been read yet.
pub struct Body {
    request: HttpRequest,
    payload: Payload,
}

impl Body {
    /// The body of this request.
    pub fn of(request: &HttpRequest, payload: Payload) -> Body {
        Body { request: request.clone(), payload }
    }

    /// Which of the types that are read here it has; 415 for another, none, a charset other than UTF-8, or
    /// a Content-Encoding.
    pub fn media_type(&self, offers: &'static [&'static str]) -> Result<&'static str, Problem> {
        let is_patch = self.request.method() == Method::PATCH;
        let refused = Problem::UnsupportedMediaType { expected: offers, is_patch };
        let headers = self.request.headers();
        let mut types = headers.get_all(header::CONTENT_TYPE);
        let (Some(value), None) = (types.next(), types.next()) else {
            return Err(refused);
        };
        if headers.contains_key(header::CONTENT_ENCODING) {
            return Err(refused);
        }
        value.to_str().ok().and_then(|value| offered(value, offers)).ok_or(refused)
    }

    /// True when the request announces a body.
    pub fn is_announced(&self) -> bool {
        let headers = self.request.headers();
        headers.contains_key(header::TRANSFER_ENCODING) || self.announced_length().is_some_and(|length| length > 0)
    }

    /// All of it; 413 over `limit` bytes, 408 when it stalls.
    pub async fn read(mut self, limit: usize) -> Result<Bytes, Problem> {
        let too_large = || Problem::TooLarge { limit: format!("{limit} bytes of body") };
        if self.announced_length().is_some_and(|length| length > u64::try_from(limit).unwrap_or(u64::MAX)) {
            return Err(too_large());
        }
        let mut bytes = BytesMut::new();
        loop {
            let next = tokio::time::timeout(IDLE, self.payload.next()).await;
            match next.map_err(|_| Problem::RequestTimeout)? {
                None => return Ok(bytes.freeze()),
                Some(Ok(piece)) if piece.len() > limit.saturating_sub(bytes.len()) => return Err(too_large()),
                Some(Ok(piece)) => bytes.extend_from_slice(&piece),
                Some(Err(_)) => return Err(Problem::body("the body ended before it was complete")),
            }
        }
    }

    fn announced_length(&self) -> Option<u64> {
        let length = self.request.headers().get(header::CONTENT_LENGTH)?;
        length.to_str().ok()?.parse().ok()
    }
}

fn offered(value: &str, offers: &'static [&'static str]) -> Option<&'static str> {
    let mut parts = value.split(';').map(|part| part.trim_matches([' ', '\t']));
    let essence = parts.next()?.to_ascii_lowercase();
    for parameter in parts {
        let (name, value) = parameter.split_once('=')?;
        if name.eq_ignore_ascii_case("charset") && !value.trim_matches('"').eq_ignore_ascii_case("utf-8") {
            return None;
        }
    }
    offers.iter().copied().find(|offer| *offer == essence)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFERS: &[&str] = &["application/json", "application/x-ndjson"];

    #[test]
    fn content_types_are_compared_without_case_and_in_utf_8_only() {
        for good in ["application/json", "Application/JSON;charset=UTF-8", "application/json; charset=\"utf-8\"; a=b"] {
            assert_eq!(offered(good, OFFERS), Some("application/json"), "{good}");
        }
        assert_eq!(offered("application/x-ndjson", OFFERS), Some("application/x-ndjson"));
        for bad in ["", "text/plain", "application/json; charset=latin1", "application/json;x", "application/jsonx"] {
            assert_eq!(offered(bad, OFFERS), None, "{bad}");
        }
    }
}
