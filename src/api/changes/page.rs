//! A page: fixed first, then its headers, then a producer fills the body from short reads.
//!
//! Before HTTP/1.1 a streamed body ends where the connection ends, so that a broken one looks whole: there a
//! page is added up first and sent with its exact length.

use actix_web::body::BodySize;
use actix_web::http::{StatusCode, Version, header};
use actix_web::{HttpRequest, HttpResponse};

use super::body::{self, Frame, Producer};
use super::encoding::Coding;
use super::headers::{self, Variant};
use super::{NDJSON, Reading, problem};
use crate::api::problem::Problem;
use crate::feed::{Page, PageRequest, lines, page};

/// Whether a page may be kept and squeezed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Answered at once: kept by a cache where it ends below the head, compressed where that is welcome.
    Prompt,
    /// Held back for a line: nothing on the way may keep it or wait for more of it.
    Held,
}

/// Answers a page at once.
pub async fn answer(reading: Reading, asked: PageRequest) -> Result<HttpResponse, Problem> {
    let (app, log) = (&reading.app, reading.log.id);
    let page = page::open(&*app.store, &app.catalog, log, &asked).await.map_err(problem)?;
    send(reading, &asked, page, Kind::Prompt).await
}

/// Sends a page that is fixed.
pub async fn send(reading: Reading, asked: &PageRequest, page: Page, kind: Kind) -> Result<HttpResponse, Problem> {
    let Reading { app, caller, log, request, form, .. } = &reading;
    let (form, log) = (*form, log.id);
    let is_empty = page.lines == 0 && form == NDJSON;
    let coding = if is_empty || kind == Kind::Held { Coding::Identity } else { coding(request) };
    let variant = Variant { key: &caller.key().id, log, form, coding };
    let etag = (kind == Kind::Prompt).then(|| headers::etag(&page, &variant)).flatten();
    let link = headers::next_link(request.path(), request.query_string(), asked, &page);
    let held = reading.condition.as_ref();
    let is_known = etag.as_ref().is_some_and(|etag| held.is_some_and(|held| held.weakly_matches(etag)));
    let mut response = HttpResponse::build(if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
    headers::describe(&mut response, &page, &link, etag.as_deref());
    if kind == Kind::Held {
        response.insert_header(headers::UNBUFFERED);
    }
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
    let size = if shows_its_end(request) {
        BodySize::Stream
    } else {
        body::size_of(&frame, lines::byte_length(&*app.store, log, &page).await.map_err(problem)?)
    };
    if reading.is_head() {
        return Ok(response.body(crate::api::body::Unsent(size)));
    }
    let producer = Producer {
        store: app.store.clone(),
        log,
        page,
        frame,
        coding,
        size,
        metrics: app.metrics.clone(),
        request_id: reading.request_id.to_string(),
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
