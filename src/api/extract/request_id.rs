//! The id of a request: made for it when it arrives, on its answer as `Scroll-Request-Id`, in every problem
//! as `instance`, and beside everything the log says of it.

use std::fmt;
use std::future::{Ready, ready};
use std::rc::Rc;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest};

use crate::api::problem::{Cause, Problem};

/// The id of a request, a UUID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Rc<str>);

impl RequestId {
    /// A fresh one.
    pub fn generate() -> RequestId {
        RequestId(uuid::Uuid::new_v4().to_string().into())
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromRequest for RequestId {
    type Error = Problem;
    type Future = Ready<Result<RequestId, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let id = request.extensions().get::<RequestId>().cloned();
        ready(id.ok_or_else(|| Problem::Internal(Cause::from("a request came past the frame"))))
    }
}
