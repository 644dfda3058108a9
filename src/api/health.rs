//! `/healthz` and `/readyz`: for whoever restarts the process, and for whoever sends it traffic.

use actix_web::{HttpRequest, HttpResponse, web};

use super::App;
use super::extract::Query;
use super::problem::Problem;

/// Alive, whatever the state of the database.
pub async fn alive(request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request).only(&[])?;
    Ok(HttpResponse::Ok().content_type("application/json").body("{\"status\":\"alive\"}\n"))
}

/// Reads and writes would work now.
pub async fn ready(app: web::Data<App>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    Query::of(&request).only(&[])?;
    if app.is_draining() {
        return Err(Problem::Draining);
    }
    app.store.ready().await?;
    Ok(HttpResponse::Ok().content_type("application/json").body("{\"status\":\"ready\"}\n"))
}
