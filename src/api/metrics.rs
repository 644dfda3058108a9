//! `/metrics`, for a scraper: with an admin key, or without one on a listener of its own.

use actix_web::{HttpRequest, HttpResponse, web};

use super::App;
use super::extract::{Caller, Query};
use super::problem::Problem;
use crate::access::{Coverage, Scope};

const PROMETHEUS_TEXT: &str = "text/plain; version=0.0.4";

/// On the main listener. The key of one log sees that log's figures; where it is the only log, or with a key
/// for all logs, everything.
pub async fn read(app: web::Data<App>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Admin)?;
    Query::of(&request).only(&[])?;
    let text = match &caller.key().coverage {
        Coverage::One(_, name) if app.store.logs().await?.len() > 1 => app.metrics.render_for(name.as_str()),
        _ => app.metrics.render(),
    };
    answer(text)
}

/// On a listener that only the operator's network reaches.
pub async fn read_without_key(app: web::Data<App>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request).only(&[])?;
    answer(app.metrics.render())
}

fn answer(text: Result<String, prometheus::Error>) -> Result<HttpResponse, Problem> {
    let text = text.map_err(|error| Problem::internal(&error))?;
    Ok(HttpResponse::Ok().content_type(PROMETHEUS_TEXT).body(text))
}
