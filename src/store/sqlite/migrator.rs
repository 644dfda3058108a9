//! Brings the schema to what this server knows, and refuses a schema that a newer one made.

use std::collections::BTreeSet;
use std::sync::Arc;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel_migrations::{EmbeddedMigrations, MigrationHarness as _, embed_migrations};

use super::schema::{changes, entities, links, logs, settings};
use crate::access::LogId;
use crate::change::{EntityId, EntityKey, Line, Resource, Seq};
use crate::entity::types::Catalog;
use crate::entity::{Live, State};
use crate::store::columns::bad_name;
use crate::store::{OpenError, StoreError};

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("migrations/sqlite");

/// The setting that remembers which references the links were computed for.
const LINKS_SETTING: &str = "references";

/// Applies what is missing.
pub fn migrate(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    refuse_newer(connection)?;
    connection.run_pending_migrations(MIGRATIONS).map_err(OpenError::Migration)?;
    Ok(())
}

/// For a command that works beside a server: the schema must be there already.
pub fn require_current(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    refuse_newer(connection)?;
    if connection.has_pending_migration(MIGRATIONS).map_err(OpenError::Migration)? {
        return Err(OpenError::OlderSchema);
    }
    Ok(())
}

fn refuse_newer(connection: &mut SqliteConnection) -> Result<(), OpenError> {
    use diesel::migration::{MigrationSource, MigrationVersion};
    use diesel::sqlite::Sqlite;
    let known = MigrationSource::<Sqlite>::migrations(&MIGRATIONS).map_err(OpenError::Migration)?;
    let known: BTreeSet<MigrationVersion<'_>> =
        known.iter().map(|migration| migration.name().version().as_owned()).collect();
    let applied = connection.applied_migrations().map_err(OpenError::Migration)?;
    match applied.into_iter().find(|version| !known.contains(version)) {
        Some(version) => Err(OpenError::NewerSchema { version: version.to_string() }),
        None => Ok(()),
    }
}

/// Recomputes every link when the declared references are others than those the links were made for.
pub fn refresh_links(connection: &mut SqliteConnection, catalog: &Arc<Catalog>) -> Result<(), StoreError> {
    let signature = catalog.references_signature();
    connection.immediate_transaction(|connection| {
        let known: Option<String> =
            settings::table.find(LINKS_SETTING).select(settings::value).get_result(connection).optional()?;
        if known.as_deref() == Some(signature.as_str()) {
            return Ok(());
        }
        diesel::delete(links::table).execute(connection)?;
        let log_ids: Vec<i64> = logs::table.select(logs::log_id).load(connection)?;
        for log_id in log_ids {
            for resource in catalog.resources() {
                link_resource(connection, catalog, LogId(log_id), resource)?;
            }
        }
        let row = (settings::name.eq(LINKS_SETTING), settings::value.eq(&signature));
        diesel::replace_into(settings::table).values(row).execute(connection)?;
        Ok(())
    })
}

/// Rows of one pass, so that a large resource is not held in memory.
const LINK_PASS_ROWS: i64 = 1_000;

fn link_resource(
    connection: &mut SqliteConnection,
    catalog: &Arc<Catalog>,
    log: LogId,
    resource: &Resource,
) -> Result<(), StoreError> {
    if catalog.get(resource).is_none_or(|declared| declared.references.is_empty()) {
        return Ok(());
    }
    let mut after = String::new();
    loop {
        let rows: Vec<(String, i64, String)> = entities::table
            .inner_join(changes::table.on(changes::log_id.eq(entities::log_id).and(changes::seq.eq(entities::seq))))
            .filter(entities::log_id.eq(log.0).and(entities::resource.eq(resource.as_str())))
            .filter(entities::id.gt(&after))
            .order(entities::id)
            .limit(LINK_PASS_ROWS)
            .select((entities::id, entities::seq, changes::line))
            .load(connection)?;
        let Some((last, ..)) = rows.last() else {
            return Ok(());
        };
        after.clone_from(last);
        for (id, seq, line) in rows {
            let id = EntityId::parse(&id).map_err(bad_name("refresh links"))?;
            let key = EntityKey { resource: resource.clone(), id };
            let live = Live::stored(Seq::new(seq).unwrap_or_default(), Line::from_stored(&line));
            let held: Vec<_> = State::links_held(catalog, &key, &live).into_iter().collect();
            super::rows::insert_links(connection, log, &held)?;
        }
    }
}
