//! What a flight needs to know, in one round trip for all of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};

use super::error::Trouble;
use super::statement::{Statement, Value};
use crate::access::LogId;
use crate::change::{EntityKey, Line, Resource, Seq, Tally};
use crate::entity::{Facts, Link, Live, MAX_CASCADE, Needs, Remembered, RequestKey};
use crate::store::StoreError;
use crate::store::columns::{self, corrupt, entity_key, rows_limit, seq_of, tally};

const SQL: &str = include_str!("load.sql");
const OPERATION: &str = "load what a write needs";

type Columns = (
    BigInt,
    BigInt,
    Nullable<BigInt>,
    Nullable<BigInt>,
    Nullable<BigInt>,
    Nullable<Text>,
    Nullable<Text>,
    Nullable<Text>,
    Nullable<Binary>,
);
type Row =
    (i64, i64, Option<i64>, Option<i64>, Option<i64>, Option<String>, Option<String>, Option<String>, Option<Vec<u8>>);

/// Where a log stands, and on which history.
pub struct Standing {
    /// The newest change.
    pub head: Seq,
    /// The tally after it.
    pub tally: Tally,
    /// The epoch of the log.
    pub epoch: String,
    /// The timeline that is being written.
    pub timeline: String,
    /// The transaction that asked.
    pub xid: String,
}

/// Where a log stands, and what was asked for.
pub struct Loaded {
    /// `None` when there is no such log.
    pub standing: Option<Standing>,
    /// One answer for everything that was asked.
    pub facts: Facts,
}

/// Partitions of the changes.
const PARTITIONS: usize = 64;
/// Which partition a log is in, asked for once.
const WHICH: &str = "(SELECT n FROM generate_series(0, 63) AS n WHERE satisfies_hash_partition('scroll.changes'::regclass, 64, n, l.log_id))";

/// Loads what is asked for, each log from its own partition.
pub struct Loader {
    anywhere: Arc<str>,
    partitions: Vec<Arc<str>>,
    known: Mutex<BTreeMap<LogId, Arc<str>>>,
}

impl Loader {
    /// No log is known yet.
    pub fn new() -> Loader {
        let text = |changes: &str, nth: &str| Arc::from(SQL.replace("{changes}", changes).replace("{nth}", nth));
        let partitions = (0..PARTITIONS).map(|number| text(&format!("scroll.changes_{number:02}"), "-1")).collect();
        Loader { anywhere: text("scroll.changes", WHICH), partitions, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<LogId, Arc<str>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads everything that is asked for. Under the lock of the log, in a statement after it.
    pub async fn load(&self, mut connection: &AsyncPgConnection, log: LogId, needs: &Needs) -> Result<Loaded, Trouble> {
        let sql = self.known().get(&log).unwrap_or(&self.anywhere).clone();
        let rows: Vec<Row> = statement(&sql, log, needs).load(&mut connection).await?;
        let mut asked = Asked::new(needs);
        for row in rows {
            if let (0, Ok(partition)) = (row.0, usize::try_from(row.1))
                && let Some(text) = self.partitions.get(partition)
            {
                self.known().insert(log, text.clone());
            }
            asked.answer(row)?;
        }
        Ok(asked.finish())
    }
}

fn statement<'a>(sql: &'a str, log: LogId, needs: &'a Needs) -> Statement<'a, Columns> {
    let log = || Value::Integer(log.0);
    let values = vec![
        log(),
        log(),
        Value::texts(needs.entities.iter().map(|key| key.resource.as_str())),
        Value::texts(needs.entities.iter().map(|key| key.id.as_str())),
        log(),
        log(),
        Value::texts(needs.tallies.iter().map(Resource::as_str)),
        log(),
        Value::texts(needs.requests.iter().map(|request| request.method.as_str())),
        Value::texts(needs.requests.iter().map(|request| request.path.as_str())),
        Value::texts(needs.requests.iter().map(|request| request.key.as_str())),
        log(),
        Value::texts(needs.referrers.iter().map(|key| key.resource.as_str())),
        Value::texts(needs.referrers.iter().map(|key| key.id.as_str())),
        log(),
        Value::Integer(rows_limit(MAX_CASCADE).saturating_add(1)),
    ];
    Statement::new(sql, values)
}

/// Everything that was asked, with what is known of it so far.
struct Asked {
    standing: Option<Standing>,
    entities: Vec<(EntityKey, Option<Arc<Live>>)>,
    tallies: Vec<(Resource, Tally)>,
    requests: Vec<(RequestKey, Option<Remembered>)>,
    referrers: Vec<(EntityKey, Vec<Link>)>,
}

impl Asked {
    fn new(needs: &Needs) -> Asked {
        Asked {
            standing: None,
            entities: needs.entities.iter().map(|key| (key.clone(), None)).collect(),
            tallies: needs.tallies.iter().map(|resource| (resource.clone(), Tally::default())).collect(),
            requests: needs.requests.iter().map(|request| (request.clone(), None)).collect(),
            referrers: needs.referrers.iter().map(|key| (key.clone(), Vec::new())).collect(),
        }
    }

    fn answer(&mut self, row: Row) -> Result<(), StoreError> {
        let (kind, nth, number, count, fingerprint, a, b, c, hash) = row;
        let nth = usize::try_from(nth).unwrap_or(0).saturating_sub(1);
        let tally = || tally((count.unwrap_or(0), fingerprint.unwrap_or(0)));
        match (kind, number, a, b, c, hash) {
            (0, seq, Some(epoch), Some(timeline), Some(xid), _) => {
                let head = seq_of(seq.unwrap_or(0))?;
                self.standing = Some(Standing { head, tally: tally(), epoch, timeline, xid });
            }
            (1, Some(seq), Some(line), ..) => {
                let live = Arc::new(Live::stored(seq_of(seq)?, Line::from_stored(&line)));
                place(&mut self.entities, nth)?.1 = Some(live);
            }
            (2, ..) => place(&mut self.tallies, nth)?.1 = tally(),
            (3, _, Some(answer), _, _, Some(hash)) => {
                place(&mut self.requests, nth)?.1 = Some(columns::remembered(hash, &answer)?);
            }
            (4, _, Some(resource), Some(id), Some(member), _) => {
                let from = entity_key(&resource, &id)?;
                let (to, links) = place(&mut self.referrers, nth)?;
                links.push(Link { to: to.clone(), from, member });
            }
            (kind, ..) => return Err(corrupt(OPERATION, format!("a row of kind {kind} without its columns"))),
        }
        Ok(())
    }

    fn finish(self) -> Loaded {
        let referrers = self.referrers.into_iter().map(|(key, links)| {
            let links = (links.len() <= MAX_CASCADE).then_some(links);
            (key, links)
        });
        let facts = Facts {
            entities: self.entities,
            referrers: referrers.collect(),
            tallies: self.tallies,
            requests: self.requests,
        };
        Loaded { standing: self.standing, facts }
    }
}

fn place<T>(list: &mut [T], nth: usize) -> Result<&mut T, StoreError> {
    list.get_mut(nth).ok_or_else(|| corrupt(OPERATION, "a row that nobody asked for"))
}
