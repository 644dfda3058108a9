//! Whole rows for `scroll check`, table by table, in key order.

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};

use super::error::while_;
use super::schema::{changes, entities, links};
use crate::access::LogId;
use crate::change::{Change, EntityId, EntityKey, Line, Resource, Seq, Timestamp};
use crate::entity::Link;
use crate::store::columns::{bad_name, entity_key, rows_limit, seq_of, tally};
use crate::store::{StoreError, StoredEntity};

#[derive(Queryable, Selectable)]
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
pub fn changes(
    connection: &mut SqliteConnection,
    log: LogId,
    after: Seq,
    limit: usize,
) -> Result<Vec<Change>, StoreError> {
    let rows: Vec<ChangeRow> = changes::table
        .filter(changes::log_id.eq(log.0).and(changes::seq.gt(after.get())))
        .order(changes::seq)
        .limit(rows_limit(limit))
        .select(ChangeRow::as_select())
        .load(connection)
        .map_err(while_("audit changes"))?;
    rows.into_iter().map(ChangeRow::into_change).collect()
}

/// Stored entities after a key.
pub fn entities(
    connection: &mut SqliteConnection,
    log: LogId,
    after: Option<&EntityKey>,
    limit: usize,
) -> Result<Vec<StoredEntity>, StoreError> {
    let (resource, id) = after.map_or(("", ""), |key| (key.resource.as_str(), key.id.as_str()));
    let later = entities::resource.gt(resource).or(entities::resource.eq(resource).and(entities::id.gt(id)));
    let rows: Vec<(String, String, i64, i32)> = entities::table
        .filter(entities::log_id.eq(log.0).and(later))
        .order((entities::resource, entities::id))
        .limit(rows_limit(limit))
        .select((entities::resource, entities::id, entities::seq, entities::bucket))
        .load(connection)
        .map_err(while_("audit entities"))?;
    let stored = rows.into_iter().map(|(resource, id, seq, bucket)| {
        Ok(StoredEntity { key: entity_key(&resource, &id)?, seq: seq_of(seq)?, bucket })
    });
    stored.collect()
}

#[derive(QueryableByName)]
#[diesel(table_name = links)]
struct LinkRow {
    target_resource: String,
    target_id: String,
    resource: String,
    id: String,
    member: String,
}

/// Stored links after a link. Row values compare as the primary key does, which the query builder cannot
/// write.
pub fn links(
    connection: &mut SqliteConnection,
    log: LogId,
    after: Option<&Link>,
    limit: usize,
) -> Result<Vec<Link>, StoreError> {
    let sql = "SELECT target_resource, target_id, resource, id, member FROM links WHERE log_id = ? \
               AND (target_resource, target_id, resource, id, member) > (?, ?, ?, ?, ?) \
               ORDER BY target_resource, target_id, resource, id, member LIMIT ?";
    let (to, from) = (after.map(|link| &link.to), after.map(|link| &link.from));
    let rows: Vec<LinkRow> = diesel::sql_query(sql)
        .bind::<BigInt, _>(log.0)
        .bind::<Text, _>(to.map_or("", |key| key.resource.as_str()))
        .bind::<Text, _>(to.map_or("", |key| key.id.as_str()))
        .bind::<Text, _>(from.map_or("", |key| key.resource.as_str()))
        .bind::<Text, _>(from.map_or("", |key| key.id.as_str()))
        .bind::<Text, _>(after.map_or("", |link| link.member.as_str()))
        .bind::<BigInt, _>(rows_limit(limit))
        .load(connection)
        .map_err(while_("audit links"))?;
    let stored = rows.into_iter().map(|row| {
        let to = entity_key(&row.target_resource, &row.target_id)?;
        Ok(Link { to, from: entity_key(&row.resource, &row.id)?, member: row.member })
    });
    stored.collect()
}

#[derive(QueryableByName)]
struct SaidRow {
    #[diesel(sql_type = Text)]
    said: String,
}

/// What SQLite finds in its own pages and indexes (at most 100 sentences, its own limit), and rows of logs
/// that do not exist.
pub fn storage(connection: &mut SqliteConnection) -> Result<Vec<String>, StoreError> {
    let failed = while_("audit the file");
    let check = "SELECT integrity_check AS said FROM pragma_integrity_check";
    let said: Vec<SaidRow> = diesel::sql_query(check).load(connection).map_err(&failed)?;
    let mut found: Vec<String> = said.into_iter().map(|row| row.said).filter(|said| said != "ok").collect();
    for table in ["changes", "entities", "links", "idempotency", "keys"] {
        let orphans = format!(
            "SELECT DISTINCT 'rows of {table} belong to log ' || log_id || ', which does not exist' AS said \
             FROM {table} WHERE log_id NOT IN (SELECT log_id FROM logs) LIMIT 10"
        );
        let orphans: Vec<SaidRow> = diesel::sql_query(orphans).load(connection).map_err(&failed)?;
        found.extend(orphans.into_iter().map(|row| row.said));
    }
    Ok(found)
}

/// Live entities of a resource in id order, with their newest lines.
pub fn newest_lines(
    connection: &mut SqliteConnection,
    log: LogId,
    resource: &Resource,
    after: Option<&EntityId>,
    limit: usize,
) -> Result<Vec<(EntityId, Line)>, StoreError> {
    let rows: Vec<(String, String)> = entities::table
        .inner_join(changes::table.on(changes::log_id.eq(entities::log_id).and(changes::seq.eq(entities::seq))))
        .filter(entities::log_id.eq(log.0).and(entities::resource.eq(resource.as_str())))
        .filter(entities::id.gt(after.map_or("", EntityId::as_str)))
        .order(entities::id)
        .limit(rows_limit(limit))
        .select((entities::id, changes::line))
        .load(connection)
        .map_err(while_("list entities"))?;
    let lines = rows.into_iter().map(|(id, line)| {
        let id = EntityId::parse(&id).map_err(bad_name("list entities"))?;
        Ok((id, Line::from_stored(&line)))
    });
    lines.collect()
}
