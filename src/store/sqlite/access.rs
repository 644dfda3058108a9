//! Logs and keys in their tables.

use diesel::SqliteConnection;
use diesel::prelude::*;
use uuid::Uuid;

use super::error::while_;
use super::rows;
use super::schema::{changes, keys, logs};
use crate::access::{Key, KeyHash, Log, LogId, NewKey, Secret};
use crate::change::{Epoch, LogName, Resource, Seq, Tally, Timestamp};
use crate::store::columns::{StoredKey, bad_name, joined, seq_of};
use crate::store::{Position, StoreError};

type LogRow = (i64, String, String, i64);
const LOG_COLUMNS: (logs::log_id, logs::name, logs::epoch, logs::created_at) =
    (logs::log_id, logs::name, logs::epoch, logs::created_at);

#[derive(Queryable, Selectable)]
#[diesel(table_name = keys)]
struct KeyRow {
    key_id: String,
    hash: Vec<u8>,
    log_id: Option<i64>,
    scopes: String,
    resources: Option<String>,
    name: Option<String>,
    created_at: i64,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
}

/// Makes a log.
pub fn create_log(connection: &mut SqliteConnection, name: &LogName, now: Timestamp) -> Result<Log, StoreError> {
    let epoch = Uuid::new_v4().to_string();
    let row: LogRow = diesel::insert_into(logs::table)
        .values((logs::name.eq(name.as_str()), logs::epoch.eq(epoch), logs::created_at.eq(now.as_micros())))
        .returning(LOG_COLUMNS)
        .get_result(connection)
        .map_err(while_("create a log"))?;
    log_from(connection, row)
}

/// Every log, by name.
pub fn list_logs(connection: &mut SqliteConnection) -> Result<Vec<Log>, StoreError> {
    let rows: Vec<LogRow> =
        logs::table.order(logs::name).select(LOG_COLUMNS).load(connection).map_err(while_("list logs"))?;
    rows.into_iter().map(|row| log_from(connection, row)).collect()
}

/// The log of this name.
pub fn find_log(connection: &mut SqliteConnection, name: &LogName) -> Result<Option<Log>, StoreError> {
    let row: Option<LogRow> = logs::table
        .filter(logs::name.eq(name.as_str()))
        .select(LOG_COLUMNS)
        .get_result(connection)
        .optional()
        .map_err(while_("find a log"))?;
    row.map(|row| log_from(connection, row)).transpose()
}

fn log_from(connection: &mut SqliteConnection, (log_id, name, epoch, created_at): LogRow) -> Result<Log, StoreError> {
    let id = LogId(log_id);
    let (head, _) = rows::head(connection, id)?;
    let name = LogName::parse(&name).map_err(bad_name("read a log"))?;
    Ok(Log { id, name, epoch: Epoch(epoch.into()), head, created_at: Timestamp::from_micros(created_at) })
}

/// The name of a log; `None` when there is no such log.
pub fn log_name(connection: &mut SqliteConnection, log: LogId) -> Result<Option<String>, StoreError> {
    let name = logs::table.find(log.0).select(logs::name).get_result(connection);
    name.optional().map_err(while_("find a log"))
}

/// Where a log stands.
pub fn position(connection: &mut SqliteConnection, log: LogId) -> Result<Position, StoreError> {
    let failed = while_("read where a log stands");
    connection.transaction(|connection| {
        let (epoch, floor, purged_through): (String, i64, i64) = logs::table
            .find(log.0)
            .select((logs::epoch, logs::floor, logs::purged_through))
            .get_result(connection)
            .map_err(&failed)?;
        let (head, tally) = rows::head(connection, log)?;
        Ok(Position {
            epoch: Epoch(epoch.into()),
            head,
            floor: seq_of(floor)?,
            purged_through: seq_of(purged_through)?,
            tally,
        })
    })
}

/// True when the log ever had a line of this resource.
pub fn has_resource(connection: &mut SqliteConnection, log: LogId, resource: &Resource) -> Result<bool, StoreError> {
    let lines = changes::table.filter(changes::log_id.eq(log.0).and(changes::resource.eq(resource.as_str())));
    diesel::select(diesel::dsl::exists(lines)).get_result(connection).map_err(while_("find a resource"))
}

/// Every resource of a log: one step of the index from each name to the next.
pub fn resources(connection: &mut SqliteConnection, log: LogId) -> Result<Vec<(Resource, Tally)>, StoreError> {
    let mut found = Vec::new();
    let mut after = String::new();
    loop {
        let next: Option<String> = changes::table
            .filter(changes::log_id.eq(log.0).and(changes::resource.gt(&after)))
            .order(changes::resource)
            .select(changes::resource)
            .get_result(connection)
            .optional()
            .map_err(while_("list resources"))?;
        let Some(name) = next else {
            return Ok(found);
        };
        let resource = Resource::parse(&name).map_err(bad_name("list resources"))?;
        let tally = rows::resource_tally(connection, log, &resource)?;
        found.push((resource, tally));
        after = name;
    }
}

/// Makes a key.
pub fn create_key(
    connection: &mut SqliteConnection,
    new: &NewKey,
    now: Timestamp,
) -> Result<(Key, Secret), StoreError> {
    let operation = "create a key";
    let secret =
        Secret::generate().map_err(|error| StoreError::Unavailable { operation, source: error.to_string().into() })?;
    let log_id = match &new.log {
        None => None,
        Some(name) => Some(find_log(connection, name)?.ok_or(StoreError::NotFound { operation })?.id.0),
    };
    let row = KeyRow {
        key_id: format!("key_{}", Uuid::now_v7().simple()),
        hash: secret.hash().as_bytes().to_vec(),
        log_id,
        scopes: joined(new.scopes.iter().map(|scope| scope.as_str())),
        resources: new.resources.as_ref().map(|resources| joined(resources.iter().map(Resource::as_str))),
        name: new.name.clone(),
        created_at: now.as_micros(),
        expires_at: new.expires_at.map(Timestamp::as_micros),
        revoked_at: None,
    };
    diesel::insert_into(keys::table)
        .values((
            keys::key_id.eq(&row.key_id),
            keys::hash.eq(&row.hash),
            keys::log_id.eq(row.log_id),
            keys::scopes.eq(&row.scopes),
            keys::resources.eq(&row.resources),
            keys::name.eq(&row.name),
            keys::created_at.eq(row.created_at),
            keys::expires_at.eq(row.expires_at),
        ))
        .execute(connection)
        .map_err(while_(operation))?;
    Ok((key_from(connection, row)?, secret))
}

/// The keys of one log, or every key; the newest last.
pub fn list_keys(connection: &mut SqliteConnection, within: Option<LogId>) -> Result<Vec<Key>, StoreError> {
    let mut query = keys::table.order(keys::key_id).select(KeyRow::as_select()).into_boxed();
    if let Some(log) = within {
        query = query.filter(keys::log_id.eq(log.0));
    }
    let rows: Vec<KeyRow> = query.load(connection).map_err(while_("list keys"))?;
    rows.into_iter().map(|row| key_from(connection, row)).collect()
}

/// Revokes a key. Revoked again it stays as it is, and is found.
pub fn revoke_key(
    connection: &mut SqliteConnection,
    id: &str,
    within: Option<LogId>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let failed = while_("revoke a key");
    let row: Option<(Option<i64>, Option<i64>)> = keys::table
        .find(id)
        .select((keys::log_id, keys::revoked_at))
        .get_result(connection)
        .optional()
        .map_err(&failed)?;
    let Some((log_id, revoked_at)) = row else {
        return Ok(false);
    };
    if within.is_some_and(|log| log_id != Some(log.0)) {
        return Ok(false);
    }
    if revoked_at.is_none() {
        let revoked = keys::revoked_at.eq(now.as_micros());
        diesel::update(keys::table.find(id)).set(revoked).execute(connection).map_err(&failed)?;
    }
    Ok(true)
}

/// The key of this hash.
pub fn find_key(connection: &mut SqliteConnection, hash: &KeyHash) -> Result<Option<Key>, StoreError> {
    let row: Option<KeyRow> = keys::table
        .filter(keys::hash.eq(hash.as_bytes()))
        .select(KeyRow::as_select())
        .get_result(connection)
        .optional()
        .map_err(while_("find a key"))?;
    match row {
        Some(row) if KeyHash::from_stored(row.hash.clone()).is(hash) => key_from(connection, row).map(Some),
        _ => Ok(None),
    }
}

fn key_from(connection: &mut SqliteConnection, row: KeyRow) -> Result<Key, StoreError> {
    let log = match row.log_id {
        None => None,
        Some(log_id) => Some((log_id, log_name(connection, LogId(log_id))?)),
    };
    let times = (row.created_at, row.expires_at, row.revoked_at);
    let KeyRow { key_id, scopes, resources, name, .. } = row;
    StoredKey { key_id, log, scopes, resources, name, times }.into_key()
}

/// The head of a log, for whoever begins to watch it.
pub fn head_of(connection: &mut SqliteConnection, log: LogId) -> Result<Seq, StoreError> {
    rows::head(connection, log).map(|(head, _)| head)
}

/// A sign of life.
pub fn answer(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    diesel::sql_query("SELECT 1").execute(connection).map(drop).map_err(while_("answer"))
}
