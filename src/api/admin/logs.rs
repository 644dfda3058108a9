//! `/v1/admin/logs`: a key for all logs makes them; a key of one log sees that one.

use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::form::Form;
use crate::access::{Log, Scope};
use crate::api::App;
use crate::api::extract::{Caller, Query};
use crate::api::problem::Problem;
use crate::change::LogName;
use crate::entity::Refusal;
use crate::store::StoreError;

/// Every log that the key may know of.
pub async fn list(app: web::Data<App>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Admin)?;
    Query::of(&request).only(&[])?;
    caller.check_named_log()?;
    let within = caller.manages();
    let logs = app.store.logs().await?.into_iter().filter(|log| within.is_none_or(|id| id == log.id));
    let listed: Vec<_> = logs.map(|log| listed(&log)).collect();
    Ok(HttpResponse::Ok().content_type("application/json").body(format!("{}\n", json!({ "logs": listed }))))
}

/// Makes a log.
pub async fn create(
    app: web::Data<App>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Admin)?;
    if caller.manages().is_some() {
        let detail = "only a key for all logs makes logs".to_owned();
        return Err(Problem::Forbidden { scope: None, detail });
    }
    Query::of(&request).only(&[])?;
    caller.check_named_log()?;
    let form = Form::read(&app, &request, payload, &["name"]).await?;
    let name = form.required("name", LogName::EXPECTED, |name| LogName::parse(name.as_str()?).ok())?;
    if app.is_draining() {
        return Err(Problem::Draining);
    }
    match app.store.create_log(&name).await {
        Ok(log) => Ok(HttpResponse::Created().content_type("application/json").body(created(&log))),
        Err(StoreError::Conflict { .. }) => Err(Refusal::AlreadyExists { entity: format!("the log {name}") }.into()),
        Err(error) => Err(error.into()),
    }
}

fn listed(log: &Log) -> serde_json::Value {
    json!({
        "name": log.name.as_str(),
        "epoch": log.epoch.0,
        "created_at": log.created_at.to_string(),
        "head": log.head.get(),
    })
}

fn created(log: &Log) -> String {
    let created = json!({"name": log.name.as_str(), "epoch": log.epoch.0, "created_at": log.created_at.to_string()});
    format!("{created}\n")
}
