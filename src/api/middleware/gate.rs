//! Asks for the key, before anything is said about paths and methods, and turns away what is too long.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::{self, HeaderMap};
use actix_web::middleware::Next;
use actix_web::{Error, HttpMessage, web};

use crate::access::{Coverage, Key, KeyHash};
use crate::api::App;
use crate::api::extract::{Caller, LogRef};
use crate::api::problem::{Cause, Problem};
use crate::api::routes::is_public;
use crate::change::LogName;

/// What stands between a header's name and its value, and after it.
const HEADER_FRAME_BYTES: usize = 4;

/// Lets a request in, or answers it.
pub async fn gate(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match admit(&request).await {
        Ok(()) => next.call(request).await.map(ServiceResponse::map_into_boxed_body),
        Err(problem) => Ok(request.error_response(problem)),
    }
}

async fn admit(request: &ServiceRequest) -> Result<(), Problem> {
    let app = request.app_data::<web::Data<App>>().cloned();
    let app = app.ok_or_else(|| Problem::Internal(Cause::from("the shared state is missing")))?;
    if !is_public(request.uri().path()) {
        let caller = authenticate(&app, request.headers()).await?;
        request.extensions_mut().insert(caller);
    }
    let uri_bytes = request.uri().path_and_query().map_or(0, |part| part.as_str().len());
    if uri_bytes > app.limits.uri_bytes {
        return Err(Problem::UriTooLong { limit: app.limits.uri_bytes });
    }
    if header_bytes(request.headers()) > app.limits.header_bytes {
        return Err(Problem::HeadersTooLarge { limit: app.limits.header_bytes });
    }
    Ok(())
}

fn header_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_FRAME_BYTES).sum()
}

async fn authenticate(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    let secret = bearer(headers).ok_or(Problem::Unauthorized)?;
    let hash = KeyHash::of(secret);
    let key = app.keyring.valid_key(&hash).await?.ok_or(Problem::Unauthorized)?;
    let log = resolve_log(app, &key, headers).await;
    let has_named_log = headers.contains_key("scroll-log");
    Ok(Caller::new(key, hash, log, has_named_log))
}

/// The secret of the one `Authorization: Bearer` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut lines = headers.get_all(header::AUTHORIZATION);
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return None;
    };
    let (scheme, secret) = line.to_str().ok()?.trim_matches([' ', '\t']).split_once([' ', '\t'])?;
    let secret = secret.trim_matches([' ', '\t']);
    let is_plain = !secret.is_empty() && secret.bytes().all(|byte| byte.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && is_plain).then_some(secret)
}

/// A log that does not exist and one that the key does not cover are the same: not found.
async fn resolve_log(app: &App, key: &Key, headers: &HeaderMap) -> Result<LogRef, Problem> {
    let named = named_log(headers)?;
    match (&key.coverage, named) {
        (Coverage::One(id, name), None) => Ok(LogRef { id: *id, name: name.clone() }),
        (Coverage::One(id, name), Some(named)) if named == name.as_str() => Ok(LogRef { id: *id, name: name.clone() }),
        (Coverage::One(..), Some(named)) => Err(no_such_log(named)),
        (Coverage::All, None) => Err(Problem::header("Scroll-Log", LogName::EXPECTED)),
        (Coverage::All, Some(named)) => {
            let name = LogName::parse(named).map_err(|_| no_such_log(named))?;
            let id = app.keyring.log(&name).await?.ok_or_else(|| no_such_log(named))?;
            Ok(LogRef { id, name })
        }
    }
}

fn named_log(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let malformed = || Problem::header("Scroll-Log", LogName::EXPECTED);
    let mut lines = headers.get_all("scroll-log");
    let Some(line) = lines.next() else {
        return Ok(None);
    };
    let text = line.to_str().map_err(|_| malformed())?;
    if text.is_empty() || lines.next().is_some() { Err(malformed()) } else { Ok(Some(text)) }
}

fn no_such_log(named: &str) -> Problem {
    Problem::not_found(format!("the log {named}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    fn headers(lines: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(line).unwrap());
        }
        headers
    }

    #[test]
    fn a_key_comes_in_one_bearer_header() {
        for good in ["Bearer k-1", "bearer k-1", "BEARER   k-1  ", "Bearer\tk-1"] {
            assert_eq!(bearer(&headers(&[good])), Some("k-1"), "{good:?}");
        }
        for bad in ["Bearer", "Bearer ", "k-1", "Basic k-1", "Bearer a b", ""] {
            assert_eq!(bearer(&headers(&[bad])), None, "{bad:?}");
        }
        assert_eq!(bearer(&headers(&[])), None);
        assert_eq!(bearer(&headers(&["Bearer k-1", "Bearer k-1"])), None);
    }
}
