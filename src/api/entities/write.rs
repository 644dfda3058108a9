//! The writes of one entity. Each reads its path and headers, then its body, and leaves the rest to the
//! writer.

use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::Bytes;
use std::sync::Arc;

use crate::access::Scope;
use crate::api::App;
use crate::api::extract::{Body, Caller, JSON_ONLY, RequestId, Segments, preconditions};
use crate::api::problem::Problem;
use crate::api::writes::Intake;
use crate::change::{EntityId, EntityKey, Json, Resource, json};
use crate::entity::{Command, Operation, Preconditions, Refusal, Refused, Work};

const MERGE_PATCH: &[&str] = &["application/merge-patch+json"];

/// `POST /v1/entities/{resource}`: creates with an id of the server's making.
pub async fn create(
    app: web::Data<App>,
    caller: Caller,
    request_id: RequestId,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let resource = writable_resource(&caller, &request)?;
    let preconditions = preconditions(&request)?;
    let intake = Intake::of(app.clone(), &caller, &request, request_id)?;
    let bytes = intake.body(Body::of(&request, payload), JSON_ONLY).await?;
    let key = EntityKey { id: new_id(&app, &resource)?, resource };
    intake.submit(&bytes, with_data(key, preconditions, &bytes, Operation::Create)).await
}

/// `PUT /v1/entities/{resource}/{id}`: creates or replaces.
pub async fn put(
    app: web::Data<App>,
    caller: Caller,
    request_id: RequestId,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let (key, preconditions) = target(&caller, &request)?;
    let intake = Intake::of(app, &caller, &request, request_id)?;
    let bytes = intake.body(Body::of(&request, payload), JSON_ONLY).await?;
    intake.submit(&bytes, with_data(key, preconditions, &bytes, Operation::Put)).await
}

/// `PATCH /v1/entities/{resource}/{id}`: merges (RFC 7396).
pub async fn patch(
    app: web::Data<App>,
    caller: Caller,
    request_id: RequestId,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let (key, preconditions) = target(&caller, &request)?;
    let intake = Intake::of(app, &caller, &request, request_id)?;
    let bytes = intake.body(Body::of(&request, payload), MERGE_PATCH).await?;
    intake.submit(&bytes, with_data(key, preconditions, &bytes, Operation::Patch)).await
}

/// `DELETE /v1/entities/{resource}/{id}`: appends a tombstone.
pub async fn delete(
    app: web::Data<App>,
    caller: Caller,
    request_id: RequestId,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let (key, preconditions) = target(&caller, &request)?;
    let intake = Intake::of(app, &caller, &request, request_id)?;
    let bytes = intake.optional_body(Body::of(&request, payload)).await?;
    intake.submit(&bytes, without_data(key, preconditions, &bytes, Operation::Delete)).await
}

/// `POST /v1/entities/{resource}/{id}/{action}`: a declared transition.
pub async fn act(
    app: web::Data<App>,
    caller: Caller,
    request_id: RequestId,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    let (key, preconditions) = target(&caller, &request)?;
    let action = Segments::of(&request).action()?;
    let intake = Intake::of(app, &caller, &request, request_id)?;
    let bytes = intake.optional_body(Body::of(&request, payload)).await?;
    intake.submit(&bytes, without_data(key, preconditions, &bytes, Operation::Action(action))).await
}

/// An id that nobody used before: a UUIDv7 behind the prefix that the resource declares.
pub fn new_id(app: &App, resource: &Resource) -> Result<EntityId, Problem> {
    let micros = u64::try_from(app.clock.now().as_micros()).unwrap_or(0);
    let nanos = u32::try_from(micros % 1_000_000).unwrap_or(0) * 1000;
    let time = uuid::Timestamp::from_unix(uuid::NoContext, micros / 1_000_000, nanos);
    let prefix = app.catalog.get(resource).and_then(|declared| declared.prefix.as_deref()).unwrap_or_default();
    EntityId::parse(&format!("{prefix}{}", uuid::Uuid::new_v7(time))).map_err(|error| Problem::internal(&error))
}

fn writable_resource(caller: &Caller, request: &HttpRequest) -> Result<Resource, Problem> {
    caller.require(Scope::Write)?;
    let resource = Segments::of(request).resource()?;
    caller.require_resource(&resource)?;
    Ok(resource)
}

fn target(caller: &Caller, request: &HttpRequest) -> Result<(EntityKey, Preconditions), Problem> {
    let resource = writable_resource(caller, request)?;
    let id = Segments::of(request).id()?;
    Ok((EntityKey { resource, id }, preconditions(request)?))
}

fn with_data(
    key: EntityKey,
    preconditions: Preconditions,
    bytes: &Bytes,
    operation: impl FnOnce(Arc<Json>) -> Operation,
) -> Result<Work, Refused> {
    let data = json::parse(bytes).map_err(|malformed| Refusal::InvalidBody { detail: malformed.to_string() })?;
    Ok(Work::One(Command { key, operation: operation(Arc::new(data)), preconditions }))
}

/// The body is empty, or an object without members, as clients send it that cannot send none.
fn without_data(
    key: EntityKey,
    preconditions: Preconditions,
    bytes: &Bytes,
    operation: Operation,
) -> Result<Work, Refused> {
    if !bytes.is_empty() {
        let body = json::parse(bytes).map_err(|malformed| Refusal::InvalidBody { detail: malformed.to_string() })?;
        if body.as_object().is_none_or(|members| !members.is_empty()) {
            let detail = format!("`{operation}` takes no body, or an object without members");
            return Err(Refusal::InvalidBody { detail }.into());
        }
    }
    Ok(Work::One(Command { key, operation, preconditions }))
}
