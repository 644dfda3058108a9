//! `Idempotency-Key`: 1 to 255 visible ASCII characters, once.

use actix_web::HttpRequest;

use crate::api::problem::Problem;

/// Longest key, in bytes.
const MAX_BYTES: usize = 255;

/// The key of this request, if it has one.
pub fn idempotency_key(request: &HttpRequest) -> Result<Option<String>, Problem> {
    let malformed = || Problem::header("Idempotency-Key", "1 to 255 visible ASCII characters, once");
    let mut lines = request.headers().get_all("idempotency-key");
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    let is_visible = line.as_bytes().iter().all(u8::is_ascii_graphic);
    if lines.next().is_some() || line.is_empty() || line.len() > MAX_BYTES || !is_visible {
        return Err(malformed());
    }
    line.to_str().map(|key| Some(key.to_owned())).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::test::TestRequest;

    #[test]
    fn keys_are_visible_ascii_and_stand_once() {
        let key = |value: &str| {
            idempotency_key(&TestRequest::default().append_header(("Idempotency-Key", value)).to_http_request())
        };
        assert_eq!(key("order-1!~").unwrap().as_deref(), Some("order-1!~"));
        assert_eq!(key(&"k".repeat(255)).unwrap().map(|key| key.len()), Some(255));
        for bad in ["", "a b", "ä", "a\tb", &"k".repeat(256)] {
            assert_eq!(key(bad).unwrap_err().kind().slug, "malformed-header", "{bad:?}");
        }
        let twice = TestRequest::default()
            .append_header(("Idempotency-Key", "a"))
            .append_header(("Idempotency-Key", "a"))
            .to_http_request();
        assert!(idempotency_key(&twice).is_err());
        assert_eq!(idempotency_key(&TestRequest::default().to_http_request()).unwrap(), None);
    }
}
