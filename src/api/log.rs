//! `GET /v1/log`: what a consumer should know before it starts.

use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Map, Value, json};

use super::extract::{Caller, Query};
use super::problem::Problem;
use super::{App, Limits};
use crate::access::{Key, Scope};
use crate::change::json::MAX_DEPTH;
use crate::change::{Resource, Tally};
use crate::store::Position;

/// Describes the log. To a key that is limited to resources the others do not exist.
pub async fn read(app: web::Data<App>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Read)?;
    Query::of(&request).only(&[])?;
    let log = caller.log()?;
    let position = app.store.position(log.id).await?;
    let resources = app.store.resources(log.id).await?;
    let mut description = described(log.name.as_str(), &position, caller.key());
    description.insert("resources".into(), tallies(&resources, caller.key()));
    description.insert("limits".into(), limits(&app.limits));
    description.insert("server_time".into(), json!(app.clock.now().to_string()));
    Ok(HttpResponse::Ok().content_type("application/json").body(format!("{}\n", Value::Object(description))))
}

fn described(name: &str, position: &Position, key: &Key) -> Map<String, Value> {
    let whole = key.resources.is_none().then_some(position.tally);
    let mut description = Map::new();
    description.insert("log".into(), json!(name));
    description.insert("epoch".into(), json!(position.epoch.0));
    description.insert("head".into(), json!(position.head.get()));
    description.insert("floor".into(), json!(position.floor.get()));
    description.insert("purged_through".into(), json!(position.purged_through.get()));
    description.insert("count".into(), json!(whole.map(|tally| tally.count)));
    description.insert("fingerprint".into(), json!(whole.map(|tally| tally.fingerprint.to_string())));
    // Everything is kept: nothing purges yet.
    description.insert("retention".into(), json!({"history_seconds": null, "tombstone_seconds": null}));
    description
}

fn tallies(resources: &[(Resource, Tally)], key: &Key) -> Value {
    let visible = resources.iter().filter(|(resource, _)| key.covers(resource));
    let tally = |tally: &Tally| json!({"count": tally.count, "fingerprint": tally.fingerprint.to_string()});
    Value::Object(visible.map(|(resource, counted)| (resource.to_string(), tally(counted))).collect())
}

fn limits(limits: &Limits) -> Value {
    json!({
        "body_bytes": limits.body_bytes,
        "batch_bytes": limits.batch_bytes,
        "batch_operations": limits.batch_operations,
        "ids": super::changes::MAX_IDS,
        "depth": MAX_DEPTH,
        "uri_bytes": limits.uri_bytes,
        "header_bytes": limits.header_bytes,
        "streams": limits.streams,
        "streams_per_key": limits.streams_per_key,
    })
}
