//! `GET /v1/changes`: the log, page by page.
//!
//! A page is fixed first, then its headers are written, then a producer fills the body from short reads.
//! Before HTTP/1.1 a streamed body ends where the connection ends, so that a broken one looks whole: there a
//! page is added up first and sent with its exact length.

mod body;
mod encoding;
mod headers;
mod query;

use actix_web::body::BodySize;
use actix_web::http::{StatusCode, Version, header};
use actix_web::{HttpRequest, HttpResponse, web};

use self::body::{Frame, Producer};
use self::encoding::Coding;
use self::headers::{NDJSON, Variant};
use super::App;
use super::extract::{Accept, Caller, Query, RequestId, if_none_match};
use super::problem::Problem;
use crate::access::Scope;
use crate::feed::{FeedError, Page, lines, page};

pub use query::{DEFAULT_LIMIT, MAX_IDS};

/// The forms of a page, the preferred one first.
const FORMS: &[&str] = &[NDJSON, "application/json"];

/// Answers one page.
pub async fn read(
    app: web::Data<App>,
    caller: Caller,
    request_id: RequestId,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Read)?;
    let query = Query::of(&request);
    caller.require_resources_named(&query)?;
    let log = caller.log()?;
    let form = Accept::of(&request).choose(FORMS)?;
    let asked = query::page_request(&query, &caller)?;
    let condition = if_none_match(&request)?;
    let page = page::open(&*app.store, &app.catalog, log.id, &asked).await.map_err(problem)?;

    let is_empty = page.lines == 0 && form == NDJSON;
    let coding = if is_empty { Coding::Identity } else { coding(&request) };
    let variant = Variant { key: &caller.key().id, log: log.id, form, coding };
    let etag = headers::etag(&page, &variant);
    let link = headers::next_link(request.path(), request.query_string(), &asked, &page);
    let is_known = etag.as_ref().is_some_and(|etag| condition.is_some_and(|held| held.weakly_matches(etag)));
    let mut response = HttpResponse::build(if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
    headers::describe(&mut response, &page, &link, etag.as_deref());
    if is_known {
        return Ok(response.finish());
    }
    response.insert_header((header::CONTENT_TYPE, form));
    if is_empty {
        return Ok(response.finish());
    }
    if let Some(name) = coding.name() {
        response.insert_header((header::CONTENT_ENCODING, name));
    }
    let frame = frame(form, &page);
    let size = if shows_its_end(&request) {
        BodySize::Stream
    } else {
        body::size_of(&frame, lines::byte_length(&*app.store, log.id, &page).await.map_err(problem)?)
    };
    if request.method() == actix_web::http::Method::HEAD {
        return Ok(response.body(super::body::Unsent(size)));
    }
    let producer = Producer {
        store: app.store.clone(),
        log: log.id,
        page,
        frame,
        coding,
        size,
        metrics: app.metrics.clone(),
        request_id: request_id.to_string(),
    };
    let (body, work) = body::channel(producer);
    app.tasks.spawn("page", work);
    Ok(response.body(body))
}

/// True where the end of a streamed body can be told from a broken connection.
fn shows_its_end(request: &HttpRequest) -> bool {
    request.version() >= Version::HTTP_11
}

/// A body of a known length goes out as it is.
fn coding(request: &HttpRequest) -> Coding {
    if !shows_its_end(request) {
        return Coding::Identity;
    }
    let accepted = request.headers().get(header::ACCEPT_ENCODING);
    Coding::negotiate(accepted.and_then(|value| value.to_str().ok()))
}

fn frame(form: &str, page: &Page) -> Frame {
    if form == NDJSON {
        return Frame::Ndjson;
    }
    let (before, after) = headers::json_frame(page);
    Frame::Json { before, after }
}

/// What a feed's refusal means to a client.
pub fn problem(error: FeedError) -> Problem {
    match error {
        FeedError::UntilBelowSince { until, since } => {
            Problem::parameter("until", &until.to_string(), format!("a seq not below since, which is {since}"))
        }
        FeedError::UnknownResource { resource } => crate::entity::Refusal::UnknownResource { resource }.into(),
        FeedError::EpochChanged { expected, epoch } => Problem::EpochChanged { expected, epoch },
        FeedError::Behind { min_head } => Problem::ReplicaBehind { min_head },
        FeedError::CursorAhead { since, head, epoch } => Problem::CursorAhead { since, head, epoch },
        FeedError::CursorExpired { since, floor, head, epoch } => {
            let restart = "/v1/changes?since=0&compact=true".to_owned();
            Problem::CursorExpired { since, floor, head, epoch, restart }
        }
        FeedError::Store(error) => error.into(),
    }
}
