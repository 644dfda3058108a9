//! Brings the schema to what this server knows, and refuses a schema that a newer one made.
//!
//! Servers that start at once wait for each other at an advisory lock; whoever comes second finds nothing
//! left to do. All that is missing is applied in one transaction, so a start that breaks off leaves what
//! was there before.

use std::sync::Arc;

use diesel::prelude::{ExpressionMethods as _, OptionalExtension as _, QueryDsl as _};
use diesel::sql_types::{Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};

use super::audit::stored_lines;
use super::error::while_;
use super::schema::{logs, settings};
use super::statement::Statement;
use super::write::{self, Links};
use crate::access::LogId;
use crate::change::{EntityId, EntityKey, Line, Resource, Seq};
use crate::entity::types::Catalog;
use crate::entity::{Live, State};
use crate::store::columns::bad_name;
use crate::store::{OpenError, OpenMode, StoreError};

/// Every migration, in order. Forward only.
const MIGRATIONS: [(&str, &str); 2] = [
    ("0001", include_str!("../../../migrations/postgres/0001_log/up.sql")),
    ("0002", include_str!("../../../migrations/postgres/0002_outbox/up.sql")),
];

/// The advisory lock of the schema: "scroll" in ASCII. Other applications of the database take others.
const LOCK: i64 = 0x7363_726f_6c6c;

/// The setting that remembers which references the links were computed for.
const LINKS_SETTING: &str = "references";

/// Rows of one pass, so that a large resource is not held in memory.
const LINK_PASS_ROWS: usize = 1_000;

/// Applies what is missing. A command beside a server brings up an empty database and leaves an older
/// schema to the server.
pub async fn migrate(connection: &mut AsyncPgConnection, mode: OpenMode) -> Result<(), OpenError> {
    let applied = applied(connection).await?;
    refuse_newer(&applied)?;
    if pending(&applied).next().is_none() {
        return Ok(());
    }
    if mode == OpenMode::Beside && !applied.is_empty() {
        return Err(OpenError::OlderSchema);
    }
    begin_alone(connection).await?;
    let done = apply_pending(connection, mode).await;
    end(connection, done).await
}

async fn apply_pending(connection: &mut AsyncPgConnection, mode: OpenMode) -> Result<(), OpenError> {
    // Whoever held the lock before may have done it.
    let applied = applied(connection).await?;
    refuse_newer(&applied)?;
    if mode == OpenMode::Beside && !applied.is_empty() {
        return Ok(());
    }
    let failed = |error: diesel::result::Error| OpenError::Migration(Box::new(error));
    let table = "CREATE SCHEMA IF NOT EXISTS scroll; CREATE TABLE IF NOT EXISTS scroll.__diesel_schema_migrations \
                 (version VARCHAR(50) PRIMARY KEY, run_on TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)";
    connection.batch_execute(table).await.map_err(failed)?;
    for (version, sql) in pending(&applied) {
        tracing::info!(version, "bringing the schema up to date");
        connection.batch_execute(sql).await.map_err(failed)?;
        let statement: Statement<'_, Text> =
            Statement::new("INSERT INTO scroll.__diesel_schema_migrations (version) VALUES (?)", vec![version.into()]);
        statement.execute(connection).await.map_err(failed)?;
    }
    Ok(())
}

/// A transaction under the advisory lock.
async fn begin_alone(connection: &mut AsyncPgConnection) -> Result<(), OpenError> {
    let sql = format!("BEGIN; SELECT pg_advisory_xact_lock({LOCK})");
    connection.batch_execute(&sql).await.map_err(|error| OpenError::Migration(Box::new(error)))
}

async fn end<E: From<StoreError>>(connection: &mut AsyncPgConnection, done: Result<(), E>) -> Result<(), E> {
    match done {
        Ok(()) => Ok(connection.batch_execute("COMMIT").await.map_err(while_("bring the schema up to date"))?),
        Err(error) => {
            // The connection is closed after this in any case.
            drop(connection.batch_execute("ROLLBACK").await);
            Err(error)
        }
    }
}

fn refuse_newer(applied: &[String]) -> Result<(), OpenError> {
    let is_known = |version: &String| MIGRATIONS.iter().any(|(known, _)| known == version);
    match applied.iter().find(|version| !is_known(version)) {
        Some(version) => Err(OpenError::NewerSchema { version: version.clone() }),
        None => Ok(()),
    }
}

fn pending(applied: &[String]) -> impl Iterator<Item = (&'static str, &'static str)> {
    MIGRATIONS.into_iter().filter(|(version, _)| !applied.iter().any(|applied| applied == version))
}

/// The versions that were applied; none when the schema is not there.
async fn applied(connection: &mut AsyncPgConnection) -> Result<Vec<String>, OpenError> {
    let failed = while_("look at the schema");
    let sql = "SELECT to_regclass('scroll.__diesel_schema_migrations')::text";
    let statement: Statement<'_, Nullable<Text>> = Statement::new(sql, Vec::new());
    let table: Option<String> = statement.get_result(connection).await.map_err(&failed)?;
    if table.is_none() {
        return Ok(Vec::new());
    }
    let sql = "SELECT version::text FROM scroll.__diesel_schema_migrations ORDER BY version";
    let statement: Statement<'_, Text> = Statement::new(sql, Vec::new());
    Ok(statement.load(connection).await.map_err(&failed)?)
}

/// Recomputes every link when the declared references are others than those the links were made for.
/// Nobody writes meanwhile.
pub async fn refresh_links(connection: &mut AsyncPgConnection, catalog: &Arc<Catalog>) -> Result<(), OpenError> {
    let signature = catalog.references_signature();
    if known_signature(connection).await?.as_deref() == Some(signature.as_str()) {
        return Ok(());
    }
    begin_alone(connection).await?;
    let done = recompute_links(connection, catalog, &signature).await;
    Ok(end(connection, done).await?)
}

async fn known_signature(connection: &mut AsyncPgConnection) -> Result<Option<String>, StoreError> {
    let known = settings::table.find(LINKS_SETTING).select(settings::value).first(connection).await;
    known.optional().map_err(while_("read a setting"))
}

async fn recompute_links(
    connection: &mut AsyncPgConnection,
    catalog: &Arc<Catalog>,
    signature: &str,
) -> Result<(), StoreError> {
    let failed = while_("refresh links");
    let sql = "LOCK TABLE scroll.logs IN EXCLUSIVE MODE; DELETE FROM scroll.links";
    connection.batch_execute(sql).await.map_err(&failed)?;
    let log_ids: Vec<i64> = logs::table.select(logs::log_id).load(connection).await.map_err(&failed)?;
    for log_id in log_ids {
        for resource in catalog.resources() {
            link_resource(connection, catalog, LogId(log_id), resource).await?;
        }
    }
    let row = (settings::name.eq(LINKS_SETTING), settings::value.eq(signature));
    let upsert = diesel::insert_into(settings::table).values(row).on_conflict(settings::name);
    let upsert = upsert.do_update().set(settings::value.eq(signature));
    upsert.execute(connection).await.map(drop).map_err(&failed)
}

async fn link_resource(
    connection: &mut AsyncPgConnection,
    catalog: &Arc<Catalog>,
    log: LogId,
    resource: &Resource,
) -> Result<(), StoreError> {
    if catalog.get(resource).is_none_or(|declared| declared.references.is_empty()) {
        return Ok(());
    }
    let mut after = String::new();
    loop {
        let rows = stored_lines(connection, log, resource, &after, LINK_PASS_ROWS).await?;
        let Some((last, ..)) = rows.last() else {
            return Ok(());
        };
        after.clone_from(last);
        let mut held = Vec::new();
        for (id, seq, line) in rows {
            let id = EntityId::parse(&id).map_err(bad_name("refresh links"))?;
            let key = EntityKey { resource: resource.clone(), id };
            let live = Live::stored(Seq::new(seq).unwrap_or_default(), Line::from_stored(&line));
            held.extend(State::links_held(catalog, &key, &live));
        }
        let mut links = Links::default();
        links.add(&held, true);
        write::write_links(connection, log, links).await?;
    }
}
