//! `GET /v1/entities/{resource}/{id}`: the newest line of an entity that lives.

use actix_web::http::{StatusCode, header};
use actix_web::{HttpRequest, HttpResponse, web};

use crate::access::Scope;
use crate::api::answer::{SCROLL_EPOCH, SCROLL_HEAD, SCROLL_SEQ};
use crate::api::extract::{Caller, Query, Segments, if_none_match};
use crate::api::problem::Problem;
use crate::api::{App, wait_until_head};
use crate::entity::Refusal;
use crate::entity::precondition::etag;

/// Answers one entity.
pub async fn read(app: web::Data<App>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Read)?;
    let path = Segments::of(&request);
    let resource = path.resource()?;
    caller.require_resource(&resource)?;
    let min_head = Query::of(&request).only(&["min_head"])?.seq("min_head")?;
    let key = path.entity()?;
    let condition = if_none_match(&request)?;
    let log = caller.log()?;
    let head = wait_until_head(&app, log.id, min_head).await?;
    let epoch = app.epoch(log.id).await?;
    let found = app.store.entity(log.id, &key).await?;
    let (seq, line) = found.ok_or_else(|| Refusal::EntityNotFound { entity: key.to_string() })?;

    let is_known = condition.is_some_and(|held| held.weakly_matches(&seq.to_string()));
    let mut response = HttpResponse::build(if is_known { StatusCode::NOT_MODIFIED } else { StatusCode::OK });
    response
        .insert_header((SCROLL_SEQ, seq.to_string()))
        // The line may be newer than the head that was read before it.
        .insert_header((SCROLL_HEAD, head.max(seq).to_string()))
        .insert_header((SCROLL_EPOCH, epoch.to_string()))
        .insert_header((header::ETAG, etag(seq)))
        .insert_header((header::CACHE_CONTROL, "private, no-cache"));
    if is_known {
        return Ok(response.finish());
    }
    Ok(response.content_type("application/json").body(format!("{line}\n")))
}
