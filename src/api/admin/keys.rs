//! `/v1/admin/keys`: a key of one log manages the keys of that log; the others do not exist for it.

use std::collections::BTreeSet;

use actix_web::web::Payload;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::{Map, Value, json};

use super::form::{Form, list as list_of, no_body};
use crate::access::{Coverage, KEY_NAME_EXPECTED, Key, NewKey, Scope, is_key_name};
use crate::api::App;
use crate::api::extract::{Caller, Query, Segments};
use crate::api::problem::Problem;
use crate::change::{LogName, Resource, Timestamp};
use crate::store::StoreError;

const MEMBERS: &[&str] = &["log", "scopes", "resources", "name", "expires_at"];

/// Every key that the key may know of, without its secret.
pub async fn list(app: web::Data<App>, caller: Caller, request: HttpRequest) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Admin)?;
    Query::of(&request).only(&[])?;
    caller.check_named_log()?;
    let keys = app.store.keys(caller.manages()).await?;
    let listed: Vec<Value> = keys.iter().map(|key| Value::Object(listed(key))).collect();
    Ok(HttpResponse::Ok().content_type("application/json").body(format!("{}\n", json!({ "keys": listed }))))
}

/// Makes a key; its secret is in this answer and nowhere else.
pub async fn create(
    app: web::Data<App>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Admin)?;
    Query::of(&request).only(&[])?;
    caller.check_named_log()?;
    let form = Form::read(&app, &request, payload, MEMBERS).await?;
    let asked = asked_key(&form)?;
    check_reach(&caller, &asked)?;
    if app.is_draining() {
        return Err(Problem::Draining);
    }
    match app.store.create_key(asked).await {
        Ok((key, secret)) => {
            Ok(HttpResponse::Created().content_type("application/json").body(created(&key, secret.reveal())))
        }
        Err(StoreError::NotFound { .. }) => Err(Problem::not_found("this log")),
        Err(error) => Err(error.into()),
    }
}

/// Revokes a key.
pub async fn revoke(
    app: web::Data<App>,
    caller: Caller,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, Problem> {
    caller.require(Scope::Admin)?;
    Query::of(&request).only(&[])?;
    let id = Segments::of(&request).last("id")?;
    caller.check_named_log()?;
    no_body(&app, &request, payload).await?;
    let is_revoked = app.store.revoke_key(&id, caller.manages()).await?;
    app.keyring.forget_keys();
    app.streams.look_at_keys();
    if is_revoked { Ok(HttpResponse::NoContent().finish()) } else { Err(Problem::not_found("this key")) }
}

fn asked_key(form: &Form) -> Result<NewKey, Problem> {
    let log = form.required("log", "the name of a log, or * for all", |log| match log.as_str()? {
        "*" => Some(None),
        name => LogName::parse(name).ok().map(Some),
    })?;
    let scopes =
        form.required("scopes", "some of read, write and admin, each once", |scopes| list_of(scopes, Scope::parse))?;
    let resources = form.optional("resources", "resource names, each once", |resources| {
        list_of(resources, |name| Resource::parse(name).ok())
    })?;
    let name = form.optional("name", KEY_NAME_EXPECTED, |name| {
        name.as_str().filter(|name| is_key_name(name)).map(str::to_owned)
    })?;
    let expires_at =
        form.optional("expires_at", "a time as RFC 3339 writes it", |time| Timestamp::parse(time.as_str()?))?;
    Ok(NewKey { log, scopes: BTreeSet::from_iter(scopes), resources, name, expires_at })
}

/// Nobody makes a key that reaches further than their own.
fn check_reach(caller: &Caller, asked: &NewKey) -> Result<(), Problem> {
    let is_within = match (&caller.key().coverage, &asked.log) {
        (Coverage::All, _) => true,
        (Coverage::One(_, own), Some(name)) => own == name,
        (Coverage::One(..), None) => false,
    };
    if !is_within {
        return Err(Problem::not_found("this log"));
    }
    let covers = |asked: &Vec<Resource>| asked.iter().all(|resource| caller.key().covers(resource));
    if caller.key().resources.is_none() || asked.resources.as_ref().is_some_and(covers) {
        return Ok(());
    }
    let detail = "a key that is limited to resources makes keys for those only".to_owned();
    Err(Problem::Forbidden { scope: None, detail })
}

fn listed(key: &Key) -> Map<String, Value> {
    let mut listed = Map::new();
    listed.insert("id".into(), json!(key.id));
    listed.insert("log".into(), json!(key.coverage.to_string()));
    listed.insert("scopes".into(), json!(key.scopes));
    let resources = key.resources.as_ref();
    listed.insert(
        "resources".into(),
        json!(resources.map(|names| names.iter().map(Resource::as_str).collect::<Vec<_>>())),
    );
    listed.insert("name".into(), json!(key.name));
    listed.insert("expires_at".into(), json!(key.expires_at.map(|time| time.to_string())));
    listed.insert("created_at".into(), json!(key.created_at.to_string()));
    listed.insert("revoked_at".into(), json!(key.revoked_at.map(|time| time.to_string())));
    listed
}

fn created(key: &Key, secret: &str) -> String {
    let mut created = Map::new();
    created.insert("id".into(), json!(key.id));
    created.insert("key".into(), json!(secret));
    let rest = listed(key).into_iter().filter(|(name, _)| name != "id" && name != "revoked_at");
    created.extend(rest);
    format!("{}\n", Value::Object(created))
}
