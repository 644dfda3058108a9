//! Whole rows for `scroll check`, table by table, in key order.

use diesel::prelude::{BoolExpressionMethods as _, ExpressionMethods as _, QueryDsl as _};
use diesel::sql_types::{BigInt, Integer, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::error::while_;
use super::schema::changes;
use super::statement::Statement;
use crate::access::LogId;
use crate::change::{Change, EntityId, EntityKey, Line, Resource, Seq, Timestamp};
use crate::entity::Link;
use crate::store::columns::{bad_name, entity_key, rows_limit, seq_of, tally};
use crate::store::{StoreError, StoredEntity};

#[derive(diesel::Queryable, diesel::Selectable)]
#[diesel(table_name = changes)]
struct ChangeRow {
    seq: i64,
    resource: String,
    id: String,
    deleted: bool,
    time: i64,
    prev: Option<i64>,
    tx: i64,
    count: i64,
    fingerprint: i64,
    resource_count: i64,
    resource_fingerprint: i64,
    line: String,
}

impl ChangeRow {
    fn into_change(self) -> Result<Change, StoreError> {
        Ok(Change {
            seq: seq_of(self.seq)?,
            key: entity_key(&self.resource, &self.id)?,
            deleted: self.deleted,
            line: Line::from_stored(&self.line),
            time: Timestamp::from_micros(self.time),
            prev: self.prev.map(seq_of).transpose()?,
            tx: seq_of(self.tx)?,
            log_after: tally((self.count, self.fingerprint)),
            resource_after: tally((self.resource_count, self.resource_fingerprint)),
        })
    }
}

/// Stored changes after a seq.
pub async fn changes(
    connection: &mut AsyncPgConnection,
    log: LogId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Change>, StoreError> {
    use diesel::SelectableHelper as _;
    let rows: Vec<ChangeRow> = changes::table
        .filter(changes::log_id.eq(log.0).and(changes::seq.gt(after.get())))
        .order(changes::seq)
        .limit(rows_limit(limit))
        .select(ChangeRow::as_select())
        .load(connection)
        .await
        .map_err(while_("audit changes"))?;
    rows.into_iter().map(ChangeRow::into_change).collect()
}

/// Stored entities after a key.
pub async fn entities(
    connection: &mut AsyncPgConnection,
    log: LogId,
    after: Option<&EntityKey>,
    limit: usize,
) -> Result<Vec<StoredEntity>, StoreError> {
    let (resource, id) = after.map_or(("", ""), |key| (key.resource.as_str(), key.id.as_str()));
    let sql = "SELECT resource, id, seq, bucket FROM scroll.entities WHERE log_id = ? AND (resource, id) > (?, ?) \
               ORDER BY resource, id LIMIT ?";
    let statement: Statement<'_, (Text, Text, BigInt, Integer)> =
        Statement::new(sql, vec![log.0.into(), resource.into(), id.into(), rows_limit(limit).into()]);
    let rows: Vec<(String, String, i64, i32)> = statement.load(connection).await.map_err(while_("audit entities"))?;
    let stored = rows.into_iter().map(|(resource, id, seq, bucket)| {
        Ok(StoredEntity { key: entity_key(&resource, &id)?, seq: seq_of(seq)?, bucket })
    });
    stored.collect()
}

/// Stored links after a link.
pub async fn links(
    connection: &mut AsyncPgConnection,
    log: LogId,
    after: Option<&Link>,
    limit: usize,
) -> Result<Vec<Link>, StoreError> {
    let sql = "SELECT target_resource, target_id, resource, id, member FROM scroll.links WHERE log_id = ? \
               AND (target_resource, target_id, resource, id, member) > (?, ?, ?, ?, ?) \
               ORDER BY target_resource, target_id, resource, id, member LIMIT ?";
    let (to, from) = (after.map(|link| &link.to), after.map(|link| &link.from));
    let values = vec![
        log.0.into(),
        to.map_or("", |key| key.resource.as_str()).into(),
        to.map_or("", |key| key.id.as_str()).into(),
        from.map_or("", |key| key.resource.as_str()).into(),
        from.map_or("", |key| key.id.as_str()).into(),
        after.map_or("", |link| link.member.as_str()).into(),
        rows_limit(limit).into(),
    ];
    let statement: Statement<'_, (Text, Text, Text, Text, Text)> = Statement::new(sql, values);
    let rows: Vec<(String, String, String, String, String)> =
        statement.load(connection).await.map_err(while_("audit links"))?;
    let stored = rows.into_iter().map(|(target_resource, target_id, resource, id, member)| {
        let to = entity_key(&target_resource, &target_id)?;
        Ok(Link { to, from: entity_key(&resource, &id)?, member })
    });
    stored.collect()
}

/// Rows of logs that do not exist. The server looks after its own files (`pg_amcheck`, data checksums).
pub async fn storage(connection: &mut AsyncPgConnection) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    for table in ["changes", "entities", "links", "idempotency", "keys"] {
        // From one log to the next along an index, however many rows each has.
        let sql = format!(
            "WITH RECURSIVE known AS ( \
               (SELECT log_id FROM scroll.{table} WHERE log_id IS NOT NULL ORDER BY log_id LIMIT 1) UNION ALL \
               SELECT (SELECT log_id FROM scroll.{table} WHERE log_id > known.log_id ORDER BY log_id LIMIT 1) \
                 FROM known WHERE known.log_id IS NOT NULL) \
             SELECT 'rows of {table} belong to log ' || log_id || ', which does not exist' FROM known \
              WHERE log_id IS NOT NULL AND log_id NOT IN (SELECT log_id FROM scroll.logs) LIMIT 10"
        );
        let statement: Statement<'_, Text> = Statement::new(sql, Vec::new());
        found.extend(statement.load::<String>(connection).await.map_err(while_("audit the tables"))?);
    }
    Ok(found)
}

/// Live entities of a resource in id order, with their newest lines.
pub async fn newest_lines(
    connection: &mut AsyncPgConnection,
    log: LogId,
    resource: &Resource,
    after: Option<&EntityId>,
    limit: usize,
) -> Result<Vec<(EntityId, Line)>, StoreError> {
    let rows = stored_lines(connection, log, resource, after.map_or("", EntityId::as_str), limit).await?;
    let lines = rows.into_iter().map(|(id, _, line)| {
        let id = EntityId::parse(&id).map_err(bad_name("list entities"))?;
        Ok((id, Line::from_stored(&line)))
    });
    lines.collect()
}

/// Id, seq and line of live entities of a resource after an id.
pub async fn stored_lines(
    connection: &mut AsyncPgConnection,
    log: LogId,
    resource: &Resource,
    after: &str,
    limit: usize,
) -> Result<Vec<(String, i64, String)>, StoreError> {
    let sql = "SELECT e.id, e.seq, c.line FROM (SELECT id, seq FROM scroll.entities \
               WHERE log_id = ? AND resource = ? AND id > ? ORDER BY id LIMIT ?) AS e \
               CROSS JOIN LATERAL (SELECT line FROM scroll.changes WHERE log_id = ? AND seq = e.seq LIMIT 1) AS c \
               ORDER BY e.id";
    let values = vec![log.0.into(), resource.as_str().into(), after.into(), rows_limit(limit).into(), log.0.into()];
    let statement: Statement<'_, (Text, BigInt, Text)> = Statement::new(sql, values);
    statement.load(connection).await.map_err(while_("list entities"))
}
