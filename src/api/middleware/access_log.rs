//! One event per request, when its answer has ended. Never headers, query values or bodies: they may hold
//! keys and personal data. The path is there, since it names what was asked for.

use std::time::Instant;

use actix_web::http::{Method, StatusCode};

use crate::api::extract::{Caller, RequestId};

/// What is said of a request; it is said when this is dropped.
#[derive(Debug)]
pub struct Entry {
    began: Instant,
    request_id: RequestId,
    method: Method,
    path: String,
    status: StatusCode,
    caller: Option<Caller>,
    bytes: u64,
    is_whole: bool,
}

impl Entry {
    /// A request that came at `began`.
    pub fn new(began: Instant, request_id: RequestId, method: Method, path: String, status: StatusCode) -> Entry {
        Entry { began, request_id, method, path, status, caller: None, bytes: 0, is_whole: false }
    }

    /// Names who asked.
    pub fn by(mut self, caller: Option<Caller>) -> Entry {
        self.caller = caller;
        self
    }

    /// Some bytes of the body went out.
    pub fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// The body went out to its end. Without this it was cut off: it failed, or the client left.
    pub fn ended(&mut self) {
        self.is_whole = true;
    }

    /// True when the body did not come to its end.
    pub fn is_cut_off(&self) -> bool {
        !self.is_whole
    }

    /// The bytes of the body that went out.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let key = self.caller.as_ref().map(|caller| caller.key().id.as_str());
        let log = self.caller.as_ref().and_then(|caller| caller.log().ok()).map(|log| log.name.as_str());
        tracing::info!(
            request.id = %self.request_id,
            method = %self.method,
            path = %self.path,
            status = self.status.as_u16(),
            duration_ms = self.began.elapsed().as_secs_f64() * 1000.0,
            bytes = self.bytes,
            key,
            log,
            cut_off = self.is_cut_off(),
            "answered"
        );
    }
}
