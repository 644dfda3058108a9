//! Who asks: a valid key and the log it speaks of. The gate puts it into the request before any routing;
//! here it is taken out and asked what it may.

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest};

use super::Query;
use crate::access::{Coverage, Key, KeyHash, LogId, Scope};
use crate::api::problem::Problem;
use crate::change::{LogName, Resource, Selection};

/// A log that a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRef {
    /// Its number inside the store.
    pub id: LogId,
    /// Its name.
    pub name: LogName,
}

/// A valid key, and the log that it speaks of in this request.
#[derive(Debug, Clone)]
pub struct Caller {
    key: Arc<Key>,
    hash: KeyHash,
    /// Judged when it is asked for: a missing scope is said before a missing header.
    log: Result<LogRef, Problem>,
    has_named_log: bool,
}

impl Caller {
    /// A caller; `has_named_log` says that a `Scroll-Log` header was there.
    pub fn new(key: Arc<Key>, hash: KeyHash, log: Result<LogRef, Problem>, has_named_log: bool) -> Caller {
        Caller { key, hash, log, has_named_log }
    }

    /// What the key is looked up by, for whoever stays longer than one look at it.
    pub fn key_hash(&self) -> &KeyHash {
        &self.hash
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// 403 unless the key allows this.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        if self.key.allows(scope) {
            return Ok(());
        }
        Err(Problem::Forbidden { scope: Some(scope), detail: format!("this key lacks the scope `{scope}`") })
    }

    /// 403 unless the key covers the resource.
    pub fn require_resource(&self, resource: &Resource) -> Result<(), Problem> {
        if self.key.covers(resource) {
            return Ok(());
        }
        let detail = format!("this key is limited to other resources than `{resource}`");
        Err(Problem::Forbidden { scope: None, detail })
    }

    /// 403 unless the key covers every resource that `resource=` names.
    pub fn require_resources_named(&self, query: &Query) -> Result<(), Problem> {
        query.resources_named("resource").iter().try_for_each(|name| self.require_resource(name))
    }

    /// The log of this request: 400 when a key for all logs names none, 404 when it is none of the key's.
    pub fn log(&self) -> Result<&LogRef, Problem> {
        self.log.as_ref().map_err(Problem::clone)
    }

    /// The same where no log is needed: only a log that was named must be there.
    pub fn check_named_log(&self) -> Result<(), Problem> {
        if self.has_named_log { self.log().map(|_| ()) } else { Ok(()) }
    }

    /// The one log whose keys this key manages; `None` when it manages all.
    pub fn manages(&self) -> Option<LogId> {
        match &self.key.coverage {
            Coverage::One(log, _) => Some(*log),
            Coverage::All => None,
        }
    }

    /// What a read without `resource=` shows to this key.
    pub fn selection(&self) -> Selection {
        match &self.key.resources {
            Some(resources) => Selection::resources(resources.clone()),
            None => Selection::All,
        }
    }
}

impl FromRequest for Caller {
    type Error = Problem;
    type Future = Ready<Result<Caller, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(request.extensions().get::<Caller>().cloned().ok_or(Problem::Unauthorized))
    }
}
