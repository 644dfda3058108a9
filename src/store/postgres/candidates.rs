//! The numbers of the lines that a scan wants, as one SELECT over indexes that yields `seq`. The same
//! lines as on SQLite, in the words of another planner: lists are arrays, so that a text does not depend
//! on how long they are, and one walk of an index for each name is a LATERAL join.
//!
//! PostgreSQL cannot be told which index to use, and with few or old statistics it takes a wrong one. So
//! ranges are written as row comparisons with the order of an index, which no other index can serve.

use std::borrow::Cow;

use diesel_async::AsyncPgConnection;

use super::access;
use super::statement::Value;
use crate::access::LogId;
use crate::change::{EntityId, Resource, Selection, Seq};
use crate::store::{Depth, Scan, StoreError};

/// A compact read looks at the live entities as they are now, plus what was superseded since its own
/// moment. When more than this was written since, it walks the history instead: both are exact, and this
/// only decides which is cheaper.
const MAX_SUPERSEDED: u64 = 10_000;

/// A filtered read walks one index for each name; beyond this, one walk of the whole range with a look at
/// each name is no dearer.
const MAX_WALKS: usize = 100;

/// A SELECT in the making, with its values in order.
#[derive(Default)]
pub struct Candidates<'a> {
    sql: String,
    values: Vec<Value<'a>>,
}

impl<'a> Candidates<'a> {
    /// The first `limit` numbers of this scan, in order.
    pub async fn find(
        connection: &mut AsyncPgConnection,
        log: LogId,
        scan: &'a Scan,
        limit: i64,
    ) -> Result<Candidates<'a>, StoreError> {
        let mut candidates = Candidates::default();
        match scan.depth {
            Depth::All => candidates.all(log, scan, limit),
            Depth::Newest { at, skips_tombstones } => {
                let head = access::head_of(connection, log).await?;
                if head.distance_from(at) <= MAX_SUPERSEDED {
                    candidates.newest_from_entities(log, scan, at, skips_tombstones, limit);
                } else {
                    candidates.newest_from_history(log, scan, at, skips_tombstones, limit);
                }
            }
        }
        Ok(candidates)
    }

    /// The text and its values.
    pub fn into_parts(self) -> (String, Vec<Value<'a>>) {
        (self.sql, self.values)
    }

    fn push(&mut self, sql: &str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    fn integer(&mut self, value: i64) -> &mut Self {
        self.values.push(Value::Integer(value));
        self
    }

    fn text(&mut self, value: &'a str) -> &mut Self {
        self.values.push(Value::Text(Cow::Borrowed(value)));
        self
    }

    fn texts(&mut self, values: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.values.push(Value::texts(values));
        self
    }

    fn range(&mut self, column: &str, log: LogId, scan: &Scan) -> &mut Self {
        let condition = format!("log_id = ? AND {column} > ? AND {column} <= ?");
        self.push(&condition).integer(log.0).integer(scan.after.get()).integer(scan.until.get())
    }

    fn filter(&mut self, selection: &'a Selection) -> &mut Self {
        match selection {
            Selection::All => self,
            Selection::Resources(resources) => {
                self.push(" AND resource = ANY (?)").texts(resources.iter().map(Resource::as_str))
            }
            Selection::Entities(resource, ids) => self
                .push(" AND resource = ? AND id = ANY (?)")
                .text(resource.as_str())
                .texts(ids.iter().map(EntityId::as_str)),
        }
    }

    /// Every line: one walk of an index for each resource or entity, merged.
    fn all(&mut self, log: LogId, scan: &'a Scan, limit: i64) {
        match &scan.selection {
            Selection::Resources(resources) if resources.len() <= MAX_WALKS => {
                self.walks(resources.iter().map(Resource::as_str)).push("log_id = ? AND ").integer(log.0);
                self.push("(resource, seq) > (k.name, ?) AND (resource, seq) <= (k.name, ?)");
                self.integer(scan.after.get()).integer(scan.until.get());
                self.push(" ORDER BY resource, seq LIMIT ?) AS c").integer(limit);
            }
            Selection::Entities(resource, ids) if ids.len() <= MAX_WALKS => {
                self.walks(ids.iter().map(EntityId::as_str)).push("log_id = ? AND ").integer(log.0);
                self.push("(resource, id, seq) > (?, k.name, ?)").text(resource.as_str()).integer(scan.after.get());
                self.push(" AND (resource, id, seq) <= (?, k.name, ?)");
                self.text(resource.as_str()).integer(scan.until.get());
                self.push(" ORDER BY resource, id, seq LIMIT ?) AS c").integer(limit);
            }
            selection => {
                self.push("SELECT seq FROM scroll.changes WHERE ").range("seq", log, scan).filter(selection);
            }
        }
        self.end(limit);
    }

    /// One walk for each name, each no longer than the whole may be.
    fn walks(&mut self, names: impl IntoIterator<Item = &'a str>) -> &mut Self {
        self.push("SELECT seq FROM unnest(?) AS k (name) CROSS JOIN LATERAL (SELECT seq FROM scroll.changes WHERE ");
        self.texts(names)
    }

    fn end(&mut self, limit: i64) {
        self.push(" ORDER BY seq LIMIT ?").integer(limit);
    }

    /// The newest line of each entity at `at`, by walking the lines and asking for a newer one.
    fn newest_from_history(&mut self, log: LogId, scan: &'a Scan, at: Seq, skips_tombstones: bool, limit: i64) {
        self.push("SELECT seq FROM scroll.changes AS c WHERE ").range("seq", log, scan).filter(&scan.selection);
        if skips_tombstones {
            self.push(" AND NOT deleted");
        }
        self.and_newest(log, at).end(limit);
    }

    /// The same from the live entities: those whose line was not superseded since `at`, those whose line
    /// was (the first change after `at` names it as `prev`), and the tombstones. Each part stops at the
    /// limit by itself: the planner would rather sort all of them.
    fn newest_from_entities(&mut self, log: LogId, scan: &'a Scan, at: Seq, skips_tombstones: bool, limit: i64) {
        self.push("SELECT seq FROM ((").live(log, scan, limit).push(")");
        self.push(" UNION ALL (SELECT prev FROM scroll.changes WHERE ").range("prev", log, scan);
        self.push(" AND seq > ?").integer(at.get()).filter(&scan.selection);
        self.push(" ORDER BY prev LIMIT ?)").integer(limit);
        if !skips_tombstones {
            self.push(" UNION ALL (SELECT seq FROM scroll.changes AS c WHERE deleted AND ");
            self.range("seq", log, scan).filter(&scan.selection).and_newest(log, at);
            self.push(" ORDER BY seq LIMIT ?)").integer(limit);
        }
        self.push(") AS u").end(limit);
    }

    /// The live entities whose line lies in the range; named ones through their names.
    fn live(&mut self, log: LogId, scan: &'a Scan, limit: i64) -> &mut Self {
        let Selection::Entities(resource, ids) = &scan.selection else {
            self.push("SELECT seq FROM scroll.entities WHERE ").range("seq", log, scan).filter(&scan.selection);
            return self.push(" ORDER BY seq LIMIT ?").integer(limit);
        };
        self.push("SELECT e.seq FROM unnest(?) AS k (name) CROSS JOIN LATERAL (SELECT seq FROM scroll.entities WHERE ");
        self.texts(ids.iter().map(EntityId::as_str));
        self.push("log_id = ? AND resource = ? AND id = k.name LIMIT 1) AS e").integer(log.0).text(resource.as_str());
        self.push(" WHERE e.seq > ? AND e.seq <= ?").integer(scan.after.get()).integer(scan.until.get())
    }

    /// No later line of the same entity up to `at`: the next one in the order of entities is another's, or
    /// too late.
    fn and_newest(&mut self, log: LogId, at: Seq) -> &mut Self {
        self.push(
            " AND NOT EXISTS (SELECT 1 FROM (SELECT n.resource, n.id, n.seq FROM scroll.changes AS n \
             WHERE n.log_id = ? AND (n.resource, n.id, n.seq) > (c.resource, c.id, c.seq) \
             ORDER BY n.resource, n.id, n.seq LIMIT 1) AS s \
             WHERE s.resource = c.resource AND s.id = c.id AND s.seq <= ?)",
        )
        .integer(log.0)
        .integer(at.get())
    }
}
