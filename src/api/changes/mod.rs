//! `GET /v1/changes`: the log, page by page or as it grows.
//!
//! One endpoint in four modes (PROTOCOL section 3). What all of them share is judged here, in the order of the
//! contract; then `page` answers at once, `poll` waits for a line first, and `live` never ends.

mod body;
mod encoding;
mod headers;
mod live;
mod live_body;
mod page;
mod poll;
mod query;

use std::rc::Rc;

use actix_web::http::Method;
use actix_web::{HttpRequest, HttpResponse, web};

use self::query::{Asked, Mode};
use super::App;
use super::connection::Signs;
use super::extract::{Accept, Caller, LogRef, Query, RequestId, if_none_match};
use super::problem::Problem;
use crate::access::Scope;
use crate::entity::precondition::EtagCondition;
use crate::feed::FeedError;

pub use query::{DEFAULT_LIMIT, MAX_IDS};

/// The media type of lines.
const NDJSON: &str = "application/x-ndjson";
/// The media type of a page for clients that cannot read headers.
const JSON: &str = "application/json";
/// The media type of server-sent events.
const EVENTS: &str = "text/event-stream";
/// The forms there are, the preferred one first.
const FORMS: &[&str] = &[NDJSON, JSON, EVENTS];
/// Those of them that have no end.
const ENDLESS_FORMS: &[&str] = &[NDJSON, EVENTS];

/// A request that was read and may be answered.
struct Reading {
    app: web::Data<App>,
    caller: Caller,
    log: LogRef,
    request_id: RequestId,
    request: HttpRequest,
    form: &'static str,
    condition: Option<EtagCondition>,
}

/// Answers in the mode that is asked for.
pub async fn read(
    app: web::Data<App>,
    caller: Caller,
    request_id: RequestId,
    request: HttpRequest,
) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Read)?;
    let query = Query::of(&request);
    caller.require_resources_named(&query)?;
    let log = caller.log()?.clone();
    let forms = if query.mentions("feed") { ENDLESS_FORMS } else { FORMS };
    let form = Accept::of(&request).choose(forms)?;
    let Asked { page, mode } = query::asked(&query, &caller, form == EVENTS, &request)?;
    let condition = if_none_match(&request)?;
    let reading = Reading { app, caller, log, request_id, request, form, condition };
    match mode {
        Mode::Page => page::answer(reading, page).await,
        Mode::LongPoll { wait } => poll::answer(reading, page, wait).await,
        Mode::Endless(endless) => live::answer(reading, page, endless).await,
    }
}

impl Reading {
    fn is_head(&self) -> bool {
        self.request.method() == Method::HEAD
    }

    /// What the connection and whoever answers on it tell each other.
    fn signs(&self) -> Rc<Signs> {
        self.request.conn_data::<Rc<Signs>>().cloned().unwrap_or_default()
    }
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
