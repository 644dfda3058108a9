//! Every refusal that a client can meet: one variant per documented problem (PROTOCOL section 6).
//!
//! A handler returns a [`Problem`]; the outermost middleware renders it, because only there the request id
//! is known for every way in which a request can fail. What the client reads is a stable slug and a
//! helpful sentence; the cause goes to the log, once, and never to the client.

mod document;
mod from;
pub mod kind;
mod refused;

use std::fmt;

use actix_web::http::{Method, StatusCode};
use actix_web::{HttpResponse, ResponseError};

pub use document::{MEDIA_TYPE, allow_list, instance};
pub use kind::Kind;

use crate::access::Scope;
use crate::change::{Epoch, Seq};
use crate::entity::{Refusal, Refused};

/// Why a request is not answered as it wished.
#[derive(Debug, Clone)]
pub enum Problem {
    /// 400: a header.
    MalformedHeader {
        /// Which.
        header: &'static str,
        /// The form in words.
        expected: &'static str,
    },
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden {
        /// The scope that is missing; `None` when the key is limited to other resources, or to one log.
        scope: Option<Scope>,
        /// Why, in words.
        detail: String,
    },
    /// 404.
    NotFound {
        /// What is not there, in words.
        what: String,
    },
    /// 405.
    MethodNotAllowed {
        /// What the path answers to.
        allow: Vec<Method>,
    },
    /// 406.
    NotAcceptable {
        /// The forms there are.
        offers: &'static [&'static str],
    },
    /// 408.
    RequestTimeout,
    /// 409: `since`, `until` or `at` is above the head.
    CursorAhead {
        /// What was sent.
        since: Seq,
        /// The newest seq.
        head: Seq,
        /// The identity of the log.
        epoch: Epoch,
    },
    /// 409.
    EpochChanged {
        /// What the client holds.
        expected: String,
        /// What the log has.
        epoch: Epoch,
    },
    /// 409: the same request still runs.
    IdempotencyInProgress {
        /// Its Idempotency-Key.
        key: String,
    },
    /// 410.
    CursorExpired {
        /// What was sent.
        since: Seq,
        /// The smallest cursor that can be resumed.
        floor: Seq,
        /// The newest seq.
        head: Seq,
        /// The identity of the log.
        epoch: Epoch,
        /// A URL that works.
        restart: String,
    },
    /// 413.
    TooLarge {
        /// The limit, in words.
        limit: String,
    },
    /// 414.
    UriTooLong {
        /// Most bytes of path and query.
        limit: usize,
    },
    /// 415.
    UnsupportedMediaType {
        /// The types that are read.
        expected: &'static [&'static str],
        /// The request was a PATCH, whose answer names them in `Accept-Patch`.
        is_patch: bool,
    },
    /// 431.
    HeadersTooLarge {
        /// Most bytes of all headers.
        limit: usize,
    },
    /// What the domain refuses, be it decided by the writer or seen before: 400, 404, 409, 412, 422, 428.
    /// Such an answer can be remembered under an Idempotency-Key.
    Refused(Refused),
    /// 500.
    Internal(Cause),
    /// 503: `min_head` was not reached in time.
    ReplicaBehind {
        /// What was asked for.
        min_head: Seq,
    },
    /// 503: the server, or the key, has as many open streams as it may.
    TooManyStreams {
        /// Whose limit it is, in words.
        whose: &'static str,
        /// The limit.
        limit: usize,
    },
    /// 503.
    StoreUnavailable(Cause),
    /// 503.
    Busy(Cause),
    /// 503.
    Draining,
    /// 507.
    StorageFull(Cause),
}

/// What the log says of a failure; the client never sees it.
#[derive(Debug, Clone)]
pub struct Cause(String);

impl Cause {
    /// The chain of an error, outermost first.
    pub fn of(error: &(dyn std::error::Error + 'static)) -> Cause {
        let chain = std::iter::successors(Some(error), |error| error.source());
        Cause(chain.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Cause {
        Cause(text.to_owned())
    }
}

impl From<String> for Cause {
    fn from(text: String) -> Cause {
        Cause(text)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Problem {
    /// A parameter that cannot be used; `value` is repeated to the client.
    pub fn parameter(parameter: &str, value: &str, expected: impl Into<String>) -> Problem {
        let value = Some(value.to_owned());
        Refusal::InvalidParameter { parameter: parameter.to_owned(), value, expected: expected.into() }.into()
    }

    /// A parameter that cannot be used, without its value: it may be a secret.
    pub fn parameter_unseen(parameter: &str, expected: impl Into<String>) -> Problem {
        Refusal::InvalidParameter { parameter: parameter.to_owned(), value: None, expected: expected.into() }.into()
    }

    /// A body that cannot be read.
    pub fn body(detail: impl Into<String>) -> Problem {
        Refusal::InvalidBody { detail: detail.into() }.into()
    }

    /// A header that cannot be used; its value is not repeated.
    pub fn header(header: &'static str, expected: &'static str) -> Problem {
        Problem::MalformedHeader { header, expected }
    }

    /// Something that is not there, in words: `this log`, `subscription/sub_1`.
    pub fn not_found(what: impl Into<String>) -> Problem {
        Problem::NotFound { what: what.into() }
    }

    /// A fault of ours, with what the log shall say.
    pub fn internal(error: &(dyn std::error::Error + 'static)) -> Problem {
        Problem::Internal(Cause::of(error))
    }

    /// Writes the cause to the log, under the request id. Called once, by the middleware that renders.
    pub fn log(&self, request_id: &str) {
        let slug = self.kind().slug;
        match self {
            Problem::Internal(cause) => tracing::error!(request_id, slug, %cause, "request failed"),
            Problem::StoreUnavailable(cause) | Problem::StorageFull(cause) => {
                tracing::error!(request_id, slug, %cause, "the store refused");
            }
            Problem::Busy(cause) => tracing::warn!(request_id, slug, %cause, "the store is busy"),
            _ => {}
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind().slug, self.detail())
    }
}

impl std::error::Error for Problem {}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.kind().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// A shell that keeps the problem; the middleware replaces it by the document.
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status_code())
    }
}
