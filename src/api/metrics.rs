//! `/metrics`, for a scraper: with an admin key, or without one on a listener of its own.

use actix_web::{HttpRequest, HttpResponse, web};

use super::App;
use super::extract::{Caller, Query};
use super::problem::Problem;
use crate::access::Scope;

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4";

/// On the main listener.
pub async fn read(app: web::Data<App>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Admin)?;
    read_without_key(app, request).await
}

/// On a listener that only the operator's network reaches.
pub async fn read_without_key(app: web::Data<App>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request).only(&[])?;
    let text = app.metrics.render().map_err(|error| Problem::internal(&error))?;
    Ok(HttpResponse::Ok().content_type(PROMETHEUS_TEXT).body(text))
}
