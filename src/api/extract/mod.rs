//! What a handler takes from a request, one extractor per file. Each reads strictly and answers with a
//! [`Problem`](crate::api::problem::Problem) when it cannot.
//!
//! Only [`Caller`] is taken before the handler begins. The others are asked for by the handler, one after
//! the other, because the order in which a request is judged is part of the contract: 403, 406, 400.

mod accept;
mod body;
mod caller;
mod idempotency;
mod params;
mod preconditions;
mod request_id;
mod segments;

pub use accept::{Accept, JSON_ONLY};
pub use body::Body;
pub use caller::{Caller, LogRef};
pub use idempotency::idempotency_key;
pub use params::{Params, Query};
pub use preconditions::{if_none_match, preconditions};
pub use request_id::RequestId;
pub use segments::Segments;

use actix_web::HttpRequest;
use percent_encoding::percent_decode_str;

/// Percent-decodes strictly: `None` when a `%` is not followed by two hex digits, or the bytes are not
/// UTF-8. Decoded once, whatever comes out.
fn percent_decoded(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once('%') {
        let mut digits = after.bytes().take(2).filter(u8::is_ascii_hexdigit);
        digits.next().and(digits.next())?;
        rest = after.get(2..)?;
    }
    percent_decode_str(text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

/// All lines of a list header joined by commas (RFC 9110 section 5.3): `Ok(None)` when there is none,
/// `Err` when a line is not visible ASCII.
fn joined_header(request: &HttpRequest, name: &str) -> Result<Option<String>, ()> {
    let mut lines = Vec::new();
    for value in request.headers().get_all(name) {
        lines.push(value.to_str().map_err(|_| ())?);
    }
    Ok((!lines.is_empty()).then(|| lines.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoding_is_strict_and_undone_once() {
        for (text, decoded) in [("a%2Fb", "a/b"), ("a%252Fb", "a%2Fb"), ("a+b", "a+b"), ("", ""), ("%C3%A4", "ä")] {
            assert_eq!(percent_decoded(text).as_deref(), Some(decoded));
        }
        for bad in ["%", "%2", "a%", "%zz", "%+1", "%ff", "%C3", "%ed%a0%80", "%2é"] {
            assert_eq!(percent_decoded(bad), None, "{bad}");
        }
    }
}
