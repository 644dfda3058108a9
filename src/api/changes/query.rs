//! The query of the feed, read strictly (PROTOCOL section 3): which mode it asks for, and what of it.

use std::ops::RangeInclusive;
use std::time::Duration;

use actix_web::HttpRequest;

use crate::api::extract::{Caller, Params, Query};
use crate::api::problem::Problem;
use crate::change::{EntityId, Fields, Resource, Selection, Seq};
use crate::feed::form::Framing;
use crate::feed::{PageRequest, Since};

/// Every parameter of the feed.
const KNOWN: &[&str] = &[
    "since",
    "limit",
    "until",
    "resource",
    "id",
    "compact",
    "wait",
    "feed",
    "heartbeat",
    "control",
    "min_head",
    "epoch",
    "floor",
    "fields",
];

/// What does not go with each mode, whatever its value: the cells of the table that are marked with a dash.
/// `wait` and `feed` choose a mode and are judged there.
const NOT_IN_PAGES: &[&str] = &["heartbeat", "control"];
const NOT_IN_LONG_POLLS: &[&str] = &["until", "compact", "heartbeat", "control"];
const NOT_IN_CONTINUOUS: &[&str] = &["until", "compact", "wait"];
const NOT_IN_EVENTS: &[&str] = &["until", "compact", "wait", "feed"];

/// Lines of a page that asks for no number.
pub const DEFAULT_LIMIT: u64 = 100;
/// An endless answer that asks for no number has no last line.
const NO_LIMIT: u64 = u64::MAX;
/// Most entities that one request names.
pub const MAX_IDS: usize = 100;
/// How long a page may be held back: below the 60 s after which common proxies let go of a silent connection.
const WAIT_SECONDS: RangeInclusive<u64> = 0..=55;
/// Time between two signs of life, and what it is when nobody asks for another.
const HEARTBEAT_SECONDS: RangeInclusive<u64> = 1..=60;
const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(15);

/// What a request asks for.
pub struct Asked {
    /// The lines.
    pub page: PageRequest,
    /// How they are answered.
    pub mode: Mode,
}

/// The four columns of the table in PROTOCOL section 3.
pub enum Mode {
    /// Answered at once.
    Page,
    /// Answered when there is a line.
    LongPoll {
        /// At last after so long.
        wait: Duration,
    },
    /// Never done: continuous, or server-sent events.
    Endless(Endless),
}

/// An answer without an end.
pub struct Endless {
    /// Which of the two.
    pub framing: Framing,
    /// Longest time without a sign of life.
    pub heartbeat: Duration,
    /// Control lines between the lines.
    pub has_control: bool,
}

/// Reads a request; `is_events` says that the client accepts server-sent events.
pub fn asked(query: &Query, caller: &Caller, is_events: bool, request: &HttpRequest) -> Result<Asked, Problem> {
    let params = query.only(KNOWN)?;
    let mode = mode(&params, is_events)?;
    let default_limit = if matches!(mode, Mode::Endless(_)) { NO_LIMIT } else { DEFAULT_LIMIT };
    let mut page = page_request(&params, caller, default_limit)?;
    if is_events && let Some(last) = last_event_id(request)? {
        page.since = Since::After(last);
    }
    Ok(Asked { page, mode })
}

fn mode(params: &Params, is_events: bool) -> Result<Mode, Problem> {
    if is_events {
        without(params, NOT_IN_EVENTS, "server-sent events")?;
        // They are always there, so that asking for them to be left away is in vain.
        let has_control = params
            .parsed("control", "true: events of control are always sent", |text| (text == "true").then_some(true))?;
        return endless(params, Framing::Events, has_control.unwrap_or(true));
    }
    if params.parsed("feed", "the word continuous", |text| (text == "continuous").then_some(()))?.is_some() {
        without(params, NOT_IN_CONTINUOUS, "a continuous feed")?;
        let has_control = params.boolean("control")?.unwrap_or(false);
        return endless(params, Framing::Lines, has_control);
    }
    match params.seconds("wait", WAIT_SECONDS)?.filter(|wait| !wait.is_zero()) {
        Some(wait) => without(params, NOT_IN_LONG_POLLS, "a long-poll").map(|()| Mode::LongPoll { wait }),
        None => without(params, NOT_IN_PAGES, "a page").map(|()| Mode::Page),
    }
}

fn endless(params: &Params, framing: Framing, has_control: bool) -> Result<Mode, Problem> {
    let heartbeat = params.seconds("heartbeat", HEARTBEAT_SECONDS)?.unwrap_or(DEFAULT_HEARTBEAT);
    Ok(Mode::Endless(Endless { framing, heartbeat, has_control }))
}

fn without(params: &Params, names: &[&'static str], mode: &str) -> Result<(), Problem> {
    match names.iter().find(|name| params.has(name)) {
        Some(name) => Err(Problem::parameter_unseen(name, format!("no such parameter: it does not go with {mode}"))),
        None => Ok(()),
    }
}

/// Where a browser wants to go on; an empty one counts as absent.
fn last_event_id(request: &HttpRequest) -> Result<Option<Seq>, Problem> {
    let malformed = || Problem::header("Last-Event-ID", "the id of an event: digits without sign or leading zero");
    let mut lines = request.headers().get_all("last-event-id");
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(malformed());
    }
    match line.to_str().map_err(|_| malformed())? {
        "" => Ok(None),
        digits => Seq::parse(digits).map(Some).ok_or_else(malformed),
    }
}

/// What of the log is asked for. The caller decides what "all resources" means.
fn page_request(params: &Params, caller: &Caller, default_limit: u64) -> Result<PageRequest, Problem> {
    let named = params.words("resource", Resource::EXPECTED, |name| Resource::parse(name).ok())?;
    Ok(PageRequest {
        since: since(params)?,
        until: params.seq("until")?,
        limit: params.limit("limit")?.unwrap_or(default_limit),
        selection: selection(params, named.as_deref(), caller)?,
        named: named.unwrap_or_default(),
        is_compact: params.boolean("compact")?.unwrap_or(false),
        fields: fields(params)?,
        epoch: params.parsed("epoch", "the epoch of a log", |text| (!text.is_empty()).then(|| text.to_owned()))?,
        min_head: params.seq("min_head")?,
        floor: params.seq("floor")?,
    })
}

fn since(params: &Params) -> Result<Since, Problem> {
    let expected = "digits without sign or leading zero, up to 9223372036854775807, or the word now";
    let since = params.parsed("since", expected, |text| match text {
        "now" => Some(Since::Now),
        digits => Seq::parse(digits).map(Since::After),
    })?;
    Ok(since.unwrap_or(Since::After(Seq::ZERO)))
}

fn selection(params: &Params, named: Option<&[Resource]>, caller: &Caller) -> Result<Selection, Problem> {
    let ids = params.list("id", EntityId::EXPECTED, |id| EntityId::parse(id).ok())?;
    match (named, ids) {
        (None, None) => Ok(caller.selection()),
        (Some(resources), None) => Ok(Selection::resources(resources.to_vec())),
        (Some([resource]), Some(ids)) => {
            if ids.len() > MAX_IDS {
                return Err(Problem::parameter_unseen("id", format!("at most {MAX_IDS} ids")));
            }
            Ok(Selection::entities(resource.clone(), ids))
        }
        (_, Some(_)) => Err(Problem::parameter_unseen("id", "exactly one resource beside it")),
    }
}

fn fields(params: &Params) -> Result<Fields, Problem> {
    let named = params.words("fields", "a list of time, prev and tx", |name| match name {
        "time" => Some(Fields { time: true, ..Fields::default() }),
        "prev" => Some(Fields { prev: true, ..Fields::default() }),
        "tx" => Some(Fields { tx: true, ..Fields::default() }),
        _ => None,
    })?;
    let all = named.unwrap_or_default().into_iter();
    Ok(all.fold(Fields::default(), |sum, one| Fields {
        time: sum.time || one.time,
        prev: sum.prev || one.prev,
        tx: sum.tx || one.tx,
    }))
}
