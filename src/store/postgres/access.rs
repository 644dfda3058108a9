//! Logs and keys in their tables.

use diesel::prelude::{
    ExpressionMethods as _, JoinOnDsl as _, NullableExpressionMethods as _, OptionalExtension as _, QueryDsl as _,
};
use diesel::sql_types::{BigInt, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use uuid::Uuid;

use super::error::while_;
use super::schema::{keys, logs};
use super::statement::{Statement, Value};
use crate::access::{Coverage, Key, KeyHash, Log, LogId, NewKey, Secret};
use crate::change::{EntityKey, Epoch, Line, LogName, Resource, Seq, Tally, Timestamp};
use crate::store::columns::{StoredKey, bad_name, joined, seq_of, tally};
use crate::store::{Position, StoreError};

/// A log with the newest change of it, in one snapshot.
const LOG_WITH_HEAD: &str = "SELECT l.log_id, l.name, l.epoch, l.created_at, l.floor, l.purged_through, \
     h.seq, h.count, h.fingerprint FROM scroll.logs AS l LEFT JOIN LATERAL (SELECT seq, count, fingerprint \
     FROM scroll.changes WHERE log_id = l.log_id ORDER BY seq DESC LIMIT 1) AS h ON true";

type LogColumns = (BigInt, Text, Text, BigInt, BigInt, BigInt, Nullable<BigInt>, Nullable<BigInt>, Nullable<BigInt>);
type LogRow = (i64, String, String, i64, i64, i64, Option<i64>, Option<i64>, Option<i64>);

async fn log_rows(
    connection: &mut AsyncPgConnection,
    operation: &'static str,
    condition: &str,
    values: Vec<Value<'_>>,
) -> Result<Vec<LogRow>, StoreError> {
    let statement: Statement<'_, LogColumns> = Statement::new(format!("{LOG_WITH_HEAD} {condition}"), values);
    statement.load(connection).await.map_err(while_(operation))
}

fn log_from(row: LogRow) -> Result<Log, StoreError> {
    let (log_id, name, epoch, created_at, .., head, _, _) = row;
    Ok(Log {
        id: LogId(log_id),
        name: LogName::parse(&name).map_err(bad_name("read a log"))?,
        epoch: Epoch(epoch.into()),
        head: seq_of(head.unwrap_or(0))?,
        created_at: Timestamp::from_micros(created_at),
    })
}

/// Makes a log.
pub async fn create_log(connection: &mut AsyncPgConnection, name: &LogName, now: Timestamp) -> Result<Log, StoreError> {
    let epoch = Uuid::new_v4().to_string();
    let row = (logs::name.eq(name.as_str()), logs::epoch.eq(&epoch), logs::created_at.eq(now.as_micros()));
    let inserted = diesel::insert_into(logs::table).values(row).returning(logs::log_id);
    let log_id: i64 = inserted.get_result(connection).await.map_err(while_("create a log"))?;
    Ok(Log { id: LogId(log_id), name: name.clone(), epoch: Epoch(epoch.into()), head: Seq::ZERO, created_at: now })
}

/// Every log, by name.
pub async fn list_logs(connection: &mut AsyncPgConnection) -> Result<Vec<Log>, StoreError> {
    let rows = log_rows(connection, "list logs", "ORDER BY l.name", Vec::new()).await?;
    rows.into_iter().map(log_from).collect()
}

/// The log of this name.
pub async fn find_log(connection: &mut AsyncPgConnection, name: &LogName) -> Result<Option<Log>, StoreError> {
    let rows = log_rows(connection, "find a log", "WHERE l.name = ?", vec![name.as_str().into()]).await?;
    rows.into_iter().next().map(log_from).transpose()
}

/// The name of a log and its head; `None` when there is no such log.
pub async fn name_and_head(
    connection: &mut AsyncPgConnection,
    log: LogId,
) -> Result<Option<(String, Seq)>, StoreError> {
    let rows = log_rows(connection, "find a log", "WHERE l.log_id = ?", vec![log.0.into()]).await?;
    let found = rows.into_iter().next();
    found.map(|(_, name, .., head, _, _)| Ok((name, seq_of(head.unwrap_or(0))?))).transpose()
}

/// Where a log stands.
pub async fn position(connection: &mut AsyncPgConnection, log: LogId) -> Result<Position, StoreError> {
    let operation = "read where a log stands";
    let rows = log_rows(connection, operation, "WHERE l.log_id = ?", vec![log.0.into()]).await?;
    let row = rows.into_iter().next().ok_or(StoreError::NotFound { operation })?;
    let (_, _, epoch, _, floor, purged_through, head, count, fingerprint) = row;
    Ok(Position {
        epoch: Epoch(epoch.into()),
        head: seq_of(head.unwrap_or(0))?,
        floor: seq_of(floor)?,
        purged_through: seq_of(purged_through)?,
        tally: tally((count.unwrap_or(0), fingerprint.unwrap_or(0))),
    })
}

/// The newest seq of a log.
pub async fn head_of(connection: &mut AsyncPgConnection, log: LogId) -> Result<Seq, StoreError> {
    let sql = "SELECT seq FROM scroll.changes WHERE log_id = ? ORDER BY seq DESC LIMIT 1";
    let statement: Statement<'_, BigInt> = Statement::new(sql, vec![log.0.into()]);
    let head: Option<i64> = statement.get_result(connection).await.optional().map_err(while_("read a head"))?;
    seq_of(head.unwrap_or(0))
}

/// True when the log ever had a line of this resource.
pub async fn has_resource(
    connection: &mut AsyncPgConnection,
    log: LogId,
    resource: &Resource,
) -> Result<bool, StoreError> {
    let sql = "SELECT resource FROM scroll.changes WHERE log_id = ? AND (resource, seq) > (?, 0) \
               ORDER BY resource, seq LIMIT 1";
    let statement: Statement<'_, Text> = Statement::new(sql, vec![log.0.into(), resource.as_str().into()]);
    let next: Option<String> = statement.get_result(connection).await.optional().map_err(while_("find a resource"))?;
    Ok(next.as_deref() == Some(resource.as_str()))
}

/// Every resource of a log: one step of the index from each name to the next.
pub async fn resources(connection: &mut AsyncPgConnection, log: LogId) -> Result<Vec<(Resource, Tally)>, StoreError> {
    let sql = "WITH RECURSIVE r (resource) AS ( \
                   (SELECT resource FROM scroll.changes WHERE log_id = ? ORDER BY resource LIMIT 1) \
                   UNION ALL \
                   SELECT (SELECT c.resource FROM scroll.changes AS c WHERE c.log_id = ? AND c.resource > r.resource \
                            ORDER BY c.resource LIMIT 1) FROM r WHERE r.resource IS NOT NULL) \
               SELECT r.resource, t.resource_count, t.resource_fingerprint FROM r CROSS JOIN LATERAL ( \
                   SELECT resource, resource_count, resource_fingerprint FROM scroll.changes \
                    WHERE log_id = ? AND (resource, seq) <= (r.resource, 9223372036854775807) \
                    ORDER BY resource DESC, seq DESC LIMIT 1) AS t \
                WHERE t.resource = r.resource ORDER BY r.resource";
    let statement: Statement<'_, (Text, BigInt, BigInt)> =
        Statement::new(sql, vec![log.0.into(), log.0.into(), log.0.into()]);
    let rows: Vec<(String, i64, i64)> = statement.load(connection).await.map_err(while_("list resources"))?;
    let found = rows.into_iter().map(|(name, count, fingerprint)| {
        let resource = Resource::parse(&name).map_err(bad_name("list resources"))?;
        Ok((resource, tally((count, fingerprint))))
    });
    found.collect()
}

/// The newest line of a live entity.
pub async fn newest_line(
    connection: &mut AsyncPgConnection,
    log: LogId,
    key: &EntityKey,
) -> Result<Option<(Seq, Line)>, StoreError> {
    let sql = "SELECT e.seq, c.line FROM (SELECT seq FROM scroll.entities \
               WHERE log_id = ? AND resource = ? AND id = ? LIMIT 1) AS e CROSS JOIN LATERAL ( \
               SELECT line FROM scroll.changes WHERE log_id = ? AND seq = e.seq LIMIT 1) AS c";
    let values = vec![log.0.into(), key.resource.as_str().into(), key.id.as_str().into(), log.0.into()];
    let statement: Statement<'_, (BigInt, Text)> = Statement::new(sql, values);
    let row: Option<(i64, String)> =
        statement.get_result(connection).await.optional().map_err(while_("read an entity"))?;
    row.map(|(seq, line)| Ok((seq_of(seq)?, Line::from_stored(&line)))).transpose()
}

/// Makes a key.
pub async fn create_key(
    connection: &mut AsyncPgConnection,
    new: &NewKey,
    now: Timestamp,
) -> Result<(Key, Secret), StoreError> {
    let operation = "create a key";
    let secret =
        Secret::generate().map_err(|error| StoreError::Unavailable { operation, source: error.to_string().into() })?;
    let log = match &new.log {
        None => None,
        Some(name) => Some(find_log(connection, name).await?.ok_or(StoreError::NotFound { operation })?),
    };
    let key = Key {
        id: format!("key_{}", Uuid::now_v7().simple()),
        coverage: log.as_ref().map_or(Coverage::All, |log| Coverage::One(log.id, log.name.clone())),
        scopes: new.scopes.clone(),
        resources: new.resources.clone(),
        name: new.name.clone(),
        created_at: now,
        expires_at: new.expires_at,
        revoked_at: None,
    };
    let resources = key.resources.as_ref().map(|resources| joined(resources.iter().map(Resource::as_str)));
    let row = (
        keys::key_id.eq(&key.id),
        keys::hash.eq(secret.hash().as_bytes().to_vec()),
        keys::log_id.eq(log.map(|log| log.id.0)),
        keys::scopes.eq(joined(key.scopes.iter().map(|scope| scope.as_str()))),
        keys::resources.eq(resources),
        keys::name.eq(&key.name),
        keys::created_at.eq(now.as_micros()),
        keys::expires_at.eq(key.expires_at.map(Timestamp::as_micros)),
    );
    diesel::insert_into(keys::table).values(row).execute(connection).await.map_err(while_(operation))?;
    Ok((key, secret))
}

type KeyRow = (
    String,
    Vec<u8>,
    Option<i64>,
    String,
    Option<String>,
    Option<String>,
    i64,
    Option<i64>,
    Option<i64>,
    Option<String>,
);

/// Keys with the names of their logs.
macro_rules! keys_with_logs {
    () => {
        keys::table.left_join(logs::table.on(keys::log_id.eq(logs::log_id.nullable()))).select((
            keys::key_id,
            keys::hash,
            keys::log_id,
            keys::scopes,
            keys::resources,
            keys::name,
            keys::created_at,
            keys::expires_at,
            keys::revoked_at,
            logs::name.nullable(),
        ))
    };
}

fn key_from(row: KeyRow) -> Result<Key, StoreError> {
    let (key_id, _, log_id, scopes, resources, name, created_at, expires_at, revoked_at, log_name) = row;
    let log = log_id.map(|log_id| (log_id, log_name));
    StoredKey { key_id, log, scopes, resources, name, times: (created_at, expires_at, revoked_at) }.into_key()
}

/// The keys of one log, or every key; the newest last.
pub async fn list_keys(connection: &mut AsyncPgConnection, within: Option<LogId>) -> Result<Vec<Key>, StoreError> {
    let failed = while_("list keys");
    let rows: Vec<KeyRow> = match within {
        None => keys_with_logs!().order(keys::key_id).load(connection).await.map_err(failed)?,
        Some(log) => {
            let covered = keys_with_logs!().filter(keys::log_id.eq(log.0));
            covered.order(keys::key_id).load(connection).await.map_err(failed)?
        }
    };
    rows.into_iter().map(key_from).collect()
}

/// Revokes a key. Revoked again it stays as it is, and is found.
pub async fn revoke_key(
    connection: &mut AsyncPgConnection,
    id: &str,
    within: Option<LogId>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "UPDATE scroll.keys SET revoked_at = coalesce(revoked_at, ?) WHERE key_id = ?";
    let (sql, mut values) = (sql.to_owned(), vec![now.as_micros().into(), id.into()]);
    let sql = match within {
        None => sql,
        Some(log) => {
            values.push(log.0.into());
            format!("{sql} AND log_id = ?")
        }
    };
    let statement: Statement<'_, BigInt> = Statement::new(sql, values);
    let revoked = statement.execute(connection).await.map_err(while_("revoke a key"))?;
    Ok(revoked > 0)
}

/// The key of this hash.
pub async fn find_key(connection: &mut AsyncPgConnection, hash: &KeyHash) -> Result<Option<Key>, StoreError> {
    let found = keys_with_logs!().filter(keys::hash.eq(hash.as_bytes().to_vec()));
    let row: Option<KeyRow> = found.first(connection).await.optional().map_err(while_("find a key"))?;
    match row {
        Some(row) if KeyHash::from_stored(row.1.clone()).is(hash) => key_from(row).map(Some),
        _ => Ok(None),
    }
}

/// A sign of life.
pub async fn answer(connection: &mut AsyncPgConnection) -> Result<(), StoreError> {
    connection.batch_execute("SELECT 1").await.map_err(while_("answer"))
}

/// Can it write? Takes the lock that a write takes on the table, and gives it back.
pub async fn answer_writable(connection: &mut AsyncPgConnection) -> Result<(), StoreError> {
    let statement: Statement<'_, Text> = Statement::new("SELECT current_setting('transaction_read_only')", Vec::new());
    let read_only: String = statement.get_result(connection).await.map_err(while_("answer"))?;
    if read_only != "off" {
        return Err(StoreError::Unavailable { operation: "answer", source: "the database only reads".into() });
    }
    let sql = "BEGIN; LOCK TABLE scroll.logs IN ROW EXCLUSIVE MODE; COMMIT";
    let locked = connection.batch_execute(sql).await;
    if locked.is_err() {
        // The transaction must not stay open on a connection that goes on.
        connection.batch_execute("ROLLBACK").await.map_err(while_("answer"))?;
    }
    locked.map_err(while_("answer"))
}
