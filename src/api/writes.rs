//! The way of a write: access and headers first, then the body, then the writer.
//!
//! Whatever goes wrong after the body was read is an answer that an Idempotency-Key remembers, so with a
//! key even a refusal passes through the writer. A client that goes away can neither cancel a write half-way
//! nor free its key too early.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use tokio::sync::oneshot;

use super::App;
use super::answer::respond;
use super::extract::{Body, Caller, LogRef, Query, RequestId, idempotency_key};
use super::problem::{Cause, Problem};
use crate::access::LogId;
use crate::entity::idempotency::hash_body;
use crate::entity::{Answer, Bounds, IdempotentRequest, Refused, RequestKey, Submission, Work};
use crate::store::StoreError;

/// A write whose caller may do it and whose headers are right, before its body is read.
pub struct Intake {
    app: web::Data<App>,
    log: LogRef,
    request_id: RequestId,
    method: String,
    path: String,
    idempotency_key: Option<String>,
    bounds: Bounds,
}

impl Intake {
    /// Checks everything but scope, resource, and what the endpoint itself takes from the path and headers.
    pub fn of(
        app: web::Data<App>,
        caller: &Caller,
        request: &HttpRequest,
        request_id: RequestId,
    ) -> Result<Intake, Problem> {
        Query::of(request).only(&[])?;
        let log = caller.log()?.clone();
        let idempotency_key = idempotency_key(request)?;
        if app.is_draining() {
            return Err(Problem::Draining);
        }
        let path = request.uri().path_and_query().map_or(String::new(), ToString::to_string);
        let (resources, state_bytes) = (caller.key().resources.clone(), Some(app.limits.body_bytes));
        let bounds = Bounds { resources, state_bytes };
        Ok(Intake { app, log, request_id, method: request.method().to_string(), path, idempotency_key, bounds })
    }

    /// The work of a batch: there a state may be as large as the batch.
    pub fn for_batch(mut self) -> Intake {
        self.bounds.state_bytes = Some(self.app.limits.batch_bytes);
        self
    }

    /// The body, when its type is one of those that are read here.
    pub async fn body(&self, body: Body, types: &'static [&'static str]) -> Result<Bytes, Problem> {
        body.media_type(types)?;
        body.read(self.app.limits.body_bytes).await
    }

    /// The body of a request that needs none: its type matters only when there is one.
    pub async fn optional_body(&self, body: Body) -> Result<Bytes, Problem> {
        if body.is_announced() {
            body.media_type(super::extract::JSON_ONLY)?;
        }
        body.read(self.app.limits.body_bytes).await
    }

    /// Carries the work out and answers. `bytes` is the body that it came with.
    pub async fn submit(self, bytes: &Bytes, work: Result<Work, Refused>) -> Result<HttpResponse, Problem> {
        let idempotency = self.idempotency_key.map(|key| IdempotentRequest {
            key: RequestKey { method: self.method, path: self.path, key },
            body_hash: hash_body(bytes),
        });
        let work = match work {
            Ok(work) => work,
            Err(refused) if idempotency.is_some() => Work::Refused(refused),
            Err(refused) => return Err(refused.into()),
        };
        let request_id = self.request_id.to_string();
        let submission = Submission { request_id, idempotency, work, size_bytes: bytes.len(), bounds: self.bounds };
        let answer = carry_out(self.app.clone().into_inner(), self.log.id, submission).await?;
        respond(answer, &self.app.epoch(self.log.id).await?)
    }
}

/// The store goes on with a write whose client has gone, so only one that holds a turn needs a task of its
/// own: the turn must not end before the write does.
async fn carry_out(app: Arc<App>, log: LogId, submission: Submission) -> Result<Answer, Problem> {
    let Some(request) = &submission.idempotency else {
        return Ok(app.store.write(log, submission).await?);
    };
    let turn = app.running.begin(log, request)?;
    let (reply, answered) = oneshot::channel::<Result<Answer, StoreError>>();
    let store = app.store.clone();
    app.tasks.spawn("write", async move {
        let answer = store.write(log, submission).await;
        drop(turn);
        // Nobody listens when the client has gone.
        let _ = reply.send(answer);
    });
    let answer = answered.await.map_err(|_| Problem::Internal(Cause::from("a write ended without an answer")))?;
    Ok(answer?)
}
