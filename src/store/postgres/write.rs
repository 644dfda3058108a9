//! What a flight writes: one call of one SQL function, column by column.

use std::collections::BTreeSet;

use diesel::result::QueryResult;
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::error::{Trouble, while_};
use super::schema::write_flight;
use crate::access::LogId;
use crate::change::{Bucket, Change, EntityKey, Seq, Timestamp};
use crate::entity::{Link, Remembered, RequestKey, Writes};
use crate::store::StoreError;
use crate::store::columns::{answer_to_db, count_to_db};

/// Changes, column by column.
#[derive(Default)]
struct Changes<'a> {
    resource: Vec<&'a str>,
    id: Vec<&'a str>,
    deleted: Vec<bool>,
    prev: Vec<Option<i64>>,
    tx: Vec<i64>,
    count: Vec<i64>,
    fingerprint: Vec<i64>,
    resource_count: Vec<i64>,
    resource_fingerprint: Vec<i64>,
    line: Vec<&'a str>,
    bucket: Vec<Option<i32>>,
}

impl<'a> Changes<'a> {
    fn new(changes: &'a [Change]) -> Changes<'a> {
        let mut columns = Changes { bucket: buckets(changes), ..Changes::default() };
        for change in changes {
            columns.resource.push(change.key.resource.as_str());
            columns.id.push(change.key.id.as_str());
            columns.deleted.push(change.deleted);
            columns.prev.push(change.prev.map(Seq::get));
            columns.tx.push(change.tx.get());
            columns.count.push(count_to_db(change.log_after.count));
            columns.fingerprint.push(change.log_after.fingerprint.to_bits());
            columns.resource_count.push(count_to_db(change.resource_after.count));
            columns.resource_fingerprint.push(change.resource_after.fingerprint.to_bits());
            columns.line.push(change.line.as_str());
        }
        columns
    }
}

/// The bucket of each entity, beside its last change only: that one says how the entity is.
fn buckets(changes: &[Change]) -> Vec<Option<i32>> {
    let mut seen: BTreeSet<&EntityKey> = BTreeSet::new();
    let newest_first = changes.iter().rev();
    let mut buckets: Vec<_> =
        newest_first.map(|change| seen.insert(&change.key).then(|| Bucket::of(&change.key).get())).collect();
    buckets.reverse();
    buckets
}

/// Links, column by column.
#[derive(Default)]
pub struct Links<'a> {
    /// True for one that comes, false for one that goes.
    pub come: Vec<bool>,
    /// What it points to.
    pub target_resource: Vec<&'a str>,
    /// What it points to.
    pub target_id: Vec<&'a str>,
    /// Who points.
    pub resource: Vec<&'a str>,
    /// Who points.
    pub id: Vec<&'a str>,
    /// In which member.
    pub member: Vec<&'a str>,
}

impl<'a> Links<'a> {
    /// Adds links that come or go.
    pub fn add(&mut self, links: &'a [Link], come: bool) {
        for link in links {
            self.come.push(come);
            self.target_resource.push(link.to.resource.as_str());
            self.target_id.push(link.to.id.as_str());
            self.resource.push(link.from.resource.as_str());
            self.id.push(link.from.id.as_str());
            self.member.push(&link.member);
        }
    }
}

/// Answers to remember, column by column.
#[derive(Default)]
struct Answers<'a> {
    method: Vec<&'a str>,
    path: Vec<&'a str>,
    key: Vec<&'a str>,
    body_hash: Vec<&'a [u8]>,
    answer: Vec<String>,
}

impl<'a> Answers<'a> {
    fn new(all: &'a [(RequestKey, Remembered)]) -> Result<Answers<'a>, StoreError> {
        let mut columns = Answers::default();
        for (request, remembered) in all {
            columns.method.push(&request.method);
            columns.path.push(&request.path);
            columns.key.push(&request.key);
            columns.body_hash.push(&remembered.body_hash);
            columns.answer.push(answer_to_db(remembered)?);
        }
        Ok(columns)
    }
}

/// Writes a flight down, in this transaction or not at all.
pub async fn write(
    connection: &AsyncPgConnection,
    log: LogId,
    xid: Option<&str>,
    writes: &Writes,
    now: Timestamp,
) -> Result<(), Trouble> {
    let mut links = Links::default();
    links.add(&writes.links_gone, false);
    links.add(&writes.links_come, true);
    let answers = Answers::new(&writes.remembered)?;
    let first = first_of(&writes.changes);
    let answered = call(connection, (log, xid, first, now), Changes::new(&writes.changes), links, answers).await;
    Ok(answered.map(drop)?)
}

/// The number that the flight begins with; any when it has no change.
fn first_of(changes: &[Change]) -> Seq {
    match changes {
        [first, ..] => first.seq,
        [] => Seq::ZERO,
    }
}

/// Writes links down, and nothing else.
pub async fn write_links(connection: &AsyncPgConnection, log: LogId, links: Links<'_>) -> Result<(), StoreError> {
    let nothing = (Changes::default(), Answers::default());
    let at = (log, None, Seq::ZERO, Timestamp::from_micros(0));
    call(connection, at, nothing.0, links, nothing.1).await.map(drop).map_err(while_("write links"))
}

async fn call(
    mut connection: &AsyncPgConnection,
    (log, xid, first, now): (LogId, Option<&str>, Seq, Timestamp),
    changes: Changes<'_>,
    links: Links<'_>,
    answers: Answers<'_>,
) -> QueryResult<i32> {
    let call = write_flight(
        log.0,
        xid,
        first.get(),
        now.as_micros(),
        changes.resource,
        changes.id,
        changes.deleted,
        changes.prev,
        changes.tx,
        changes.count,
        changes.fingerprint,
        changes.resource_count,
        changes.resource_fingerprint,
        changes.line,
        changes.bucket,
        links.come,
        links.target_resource,
        links.target_id,
        links.resource,
        links.id,
        links.member,
        answers.method,
        answers.path,
        answers.key,
        answers.body_hash,
        answers.answer,
    );
    diesel::select(call).get_result(&mut connection).await
}
