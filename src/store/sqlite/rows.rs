//! What one flight loads and writes, table by table. Everything here runs inside the flight's transaction.
//!
//! One row is asked for with `get_result`, which steps once, and not with `first`, which binds a LIMIT: the
//! value of a bound LIMIT is part of SQLite's plan, so each such query would be planned anew.

use std::sync::Arc;

use diesel::SqliteConnection;
use diesel::prelude::*;
use diesel::upsert::excluded;

use super::schema::{changes, entities, idempotency, links, logs};
use crate::access::LogId;
use crate::change::{Bucket, Change, EntityKey, Line, Resource, Seq, Tally, Timestamp};
use crate::entity::{Facts, Link, Live, MAX_CASCADE, Needs, Remembered, RequestKey, Writes};
use crate::store::StoreError;
use crate::store::columns::{self, count_to_db, entity_key, rows_limit, seq_of, tally};

/// Rows of one multi-row statement: 13 values each stay under SQLite's 32,766.
const ROWS_PER_INSERT: usize = 1_000;

#[derive(Insertable)]
#[diesel(table_name = changes, treat_none_as_default_value = false)]
struct NewChangeRow<'a> {
    log_id: i64,
    seq: i64,
    resource: &'a str,
    id: &'a str,
    deleted: bool,
    time: i64,
    prev: Option<i64>,
    tx: i64,
    count: i64,
    fingerprint: i64,
    resource_count: i64,
    resource_fingerprint: i64,
    line: &'a str,
}

impl<'a> NewChangeRow<'a> {
    fn new(log: LogId, change: &'a Change) -> NewChangeRow<'a> {
        NewChangeRow {
            log_id: log.0,
            seq: change.seq.get(),
            resource: change.key.resource.as_str(),
            id: change.key.id.as_str(),
            deleted: change.deleted,
            time: change.time.as_micros(),
            prev: change.prev.map(Seq::get),
            tx: change.tx.get(),
            count: count_to_db(change.log_after.count),
            fingerprint: change.log_after.fingerprint.to_bits(),
            resource_count: count_to_db(change.resource_after.count),
            resource_fingerprint: change.resource_after.fingerprint.to_bits(),
            line: change.line.as_str(),
        }
    }
}

#[derive(Insertable)]
#[diesel(table_name = entities, treat_none_as_default_value = false)]
struct NewEntityRow<'a> {
    log_id: i64,
    resource: &'a str,
    id: &'a str,
    seq: i64,
    bucket: i32,
}

#[derive(Insertable)]
#[diesel(table_name = links, treat_none_as_default_value = false)]
struct NewLinkRow<'a> {
    log_id: i64,
    target_resource: &'a str,
    target_id: &'a str,
    resource: &'a str,
    id: &'a str,
    member: &'a str,
}

/// The newest change of a log: its seq, and the tally after it.
pub fn head(connection: &mut SqliteConnection, log: LogId) -> Result<(Seq, Tally), StoreError> {
    let last: Option<(i64, i64, i64)> = changes::table
        .filter(changes::log_id.eq(log.0))
        .order(changes::seq.desc())
        .select((changes::seq, changes::count, changes::fingerprint))
        .get_result(connection)
        .optional()?;
    match last {
        None => Ok((Seq::ZERO, Tally::default())),
        Some((seq, count, fingerprint)) => Ok((seq_of(seq)?, tally((count, fingerprint)))),
    }
}

/// True when the log is there.
pub fn log_exists(connection: &mut SqliteConnection, log: LogId) -> Result<bool, StoreError> {
    Ok(diesel::select(diesel::dsl::exists(logs::table.find(log.0))).get_result(connection)?)
}

/// Loads everything that is asked for. Point reads with cached statements: in process each costs a few
/// microseconds, less than one statement with a list that must be planned anew.
pub fn load(connection: &mut SqliteConnection, log: LogId, needs: &Needs) -> Result<Facts, StoreError> {
    let mut facts = Facts::default();
    for key in &needs.entities {
        let live = newest_line(connection, log, key)?.map(|(seq, line)| Arc::new(Live::stored(seq, line)));
        facts.entities.push((key.clone(), live));
    }
    for key in &needs.referrers {
        facts.referrers.push((key.clone(), referrers(connection, log, key)?));
    }
    for resource in &needs.tallies {
        facts.tallies.push((resource.clone(), resource_tally(connection, log, resource)?));
    }
    for key in &needs.requests {
        facts.requests.push((key.clone(), remembered(connection, log, key)?));
    }
    Ok(facts)
}

/// The newest line of a live entity.
pub fn newest_line(
    connection: &mut SqliteConnection,
    log: LogId,
    key: &EntityKey,
) -> Result<Option<(Seq, Line)>, StoreError> {
    let row: Option<(i64, String)> = entities::table
        .inner_join(changes::table.on(changes::log_id.eq(entities::log_id).and(changes::seq.eq(entities::seq))))
        .filter(entities::log_id.eq(log.0))
        .filter(entities::resource.eq(key.resource.as_str()))
        .filter(entities::id.eq(key.id.as_str()))
        .select((entities::seq, changes::line))
        .get_result(connection)
        .optional()?;
    row.map(|(seq, line)| Ok((seq_of(seq)?, Line::from_stored(&line)))).transpose()
}

/// All live entities of a resource, as its newest change counted them.
pub fn resource_tally(connection: &mut SqliteConnection, log: LogId, resource: &Resource) -> Result<Tally, StoreError> {
    let last: Option<(i64, i64)> = changes::table
        .filter(changes::log_id.eq(log.0).and(changes::resource.eq(resource.as_str())))
        .order(changes::seq.desc())
        .select((changes::resource_count, changes::resource_fingerprint))
        .get_result(connection)
        .optional()?;
    Ok(last.map(tally).unwrap_or_default())
}

fn referrers(connection: &mut SqliteConnection, log: LogId, key: &EntityKey) -> Result<Option<Vec<Link>>, StoreError> {
    let limit = rows_limit(MAX_CASCADE).saturating_add(1);
    let rows: Vec<(String, String, String)> = links::table
        .filter(links::log_id.eq(log.0))
        .filter(links::target_resource.eq(key.resource.as_str()).and(links::target_id.eq(key.id.as_str())))
        .order((links::resource, links::id, links::member))
        .limit(limit)
        .select((links::resource, links::id, links::member))
        .load(connection)?;
    if rows.len() > MAX_CASCADE {
        return Ok(None);
    }
    let links = rows.into_iter().map(|(resource, id, member)| {
        let from = entity_key(&resource, &id)?;
        Ok(Link { to: key.clone(), from, member })
    });
    links.collect::<Result<Vec<_>, StoreError>>().map(Some)
}

fn remembered(
    connection: &mut SqliteConnection,
    log: LogId,
    key: &RequestKey,
) -> Result<Option<Remembered>, StoreError> {
    let row: Option<(Vec<u8>, String)> = idempotency::table
        .find((log.0, &key.method, &key.path, &key.key))
        .select((idempotency::body_hash, idempotency::answer))
        .get_result(connection)
        .optional()?;
    row.map(|(body_hash, answer)| columns::remembered(body_hash, &answer)).transpose()
}

/// Writes a flight down.
pub fn write(connection: &mut SqliteConnection, log: LogId, writes: &Writes, now: Timestamp) -> Result<(), StoreError> {
    insert_changes(connection, log, &writes.changes)?;
    write_entities(connection, log, &writes.entities)?;
    for link in &writes.links_gone {
        let row = links::table.find((
            log.0,
            link.to.resource.as_str(),
            link.to.id.as_str(),
            link.from.resource.as_str(),
            link.from.id.as_str(),
            link.member.as_str(),
        ));
        diesel::delete(row).execute(connection)?;
    }
    insert_links(connection, log, &writes.links_come)?;
    for (key, remembered) in &writes.remembered {
        remember(connection, log, key, remembered, now)?;
    }
    Ok(())
}

fn insert_changes(connection: &mut SqliteConnection, log: LogId, new: &[Change]) -> Result<(), StoreError> {
    // A statement of one row is prepared once and kept.
    if let [change] = new {
        diesel::insert_into(changes::table).values(NewChangeRow::new(log, change)).execute(connection)?;
        return Ok(());
    }
    for part in new.chunks(ROWS_PER_INSERT) {
        let rows: Vec<_> = part.iter().map(|change| NewChangeRow::new(log, change)).collect();
        diesel::insert_into(changes::table).values(&rows).execute(connection)?;
    }
    Ok(())
}

fn write_entities(
    connection: &mut SqliteConnection,
    log: LogId,
    written: &[(EntityKey, Option<Seq>)],
) -> Result<(), StoreError> {
    let mut live = Vec::with_capacity(written.len());
    for (key, seq) in written {
        let (resource, id) = (key.resource.as_str(), key.id.as_str());
        match seq {
            Some(seq) => {
                let bucket = Bucket::of(key).get();
                live.push(NewEntityRow { log_id: log.0, resource, id, seq: seq.get(), bucket });
            }
            None => {
                diesel::delete(entities::table.find((log.0, resource, id))).execute(connection)?;
            }
        }
    }
    let names = (entities::log_id, entities::resource, entities::id);
    if let [row] = live.as_slice() {
        let upsert = diesel::insert_into(entities::table).values(row).on_conflict(names);
        upsert.do_update().set(entities::seq.eq(excluded(entities::seq))).execute(connection)?;
        return Ok(());
    }
    for part in live.chunks(ROWS_PER_INSERT) {
        let upsert = diesel::insert_into(entities::table).values(part).on_conflict(names);
        upsert.do_update().set(entities::seq.eq(excluded(entities::seq))).execute(connection)?;
    }
    Ok(())
}

/// Writes links down.
pub fn insert_links(connection: &mut SqliteConnection, log: LogId, new: &[Link]) -> Result<(), StoreError> {
    for part in new.chunks(ROWS_PER_INSERT) {
        let rows: Vec<_> = part
            .iter()
            .map(|link| NewLinkRow {
                log_id: log.0,
                target_resource: link.to.resource.as_str(),
                target_id: link.to.id.as_str(),
                resource: link.from.resource.as_str(),
                id: link.from.id.as_str(),
                member: &link.member,
            })
            .collect();
        diesel::insert_into(links::table).values(&rows).execute(connection)?;
    }
    Ok(())
}

fn remember(
    connection: &mut SqliteConnection,
    log: LogId,
    key: &RequestKey,
    remembered: &Remembered,
    now: Timestamp,
) -> Result<(), StoreError> {
    let answer = columns::answer_to_db(remembered)?;
    let row = (
        idempotency::log_id.eq(log.0),
        idempotency::method.eq(&key.method),
        idempotency::path.eq(&key.path),
        idempotency::key.eq(&key.key),
        idempotency::body_hash.eq(&remembered.body_hash),
        idempotency::answer.eq(answer),
        idempotency::created_at.eq(now.as_micros()),
    );
    diesel::insert_into(idempotency::table).values(row).execute(connection)?;
    Ok(())
}

/// Forgets remembered answers made before a moment, a bounded number at a time.
pub fn forget_answers(
    connection: &mut SqliteConnection,
    before: Timestamp,
    at_most: usize,
) -> Result<usize, StoreError> {
    let old: Vec<(i64, String, String, String)> = idempotency::table
        .filter(idempotency::created_at.lt(before.as_micros()))
        .order(idempotency::created_at)
        .limit(rows_limit(at_most))
        .select((idempotency::log_id, idempotency::method, idempotency::path, idempotency::key))
        .load(connection)?;
    for (log_id, method, path, key) in &old {
        diesel::delete(idempotency::table.find((log_id, method, path, key))).execute(connection)?;
    }
    Ok(old.len())
}
