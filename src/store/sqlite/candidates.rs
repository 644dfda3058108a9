//! The numbers of the lines that a scan wants, as one SELECT over indexes that yields `seq`.

use diesel::SqliteConnection;
use diesel::query_builder::{BoxedSqlQuery, SqlQuery};
use diesel::sql_types::{BigInt, Text};
use diesel::sqlite::Sqlite;

use super::rows;
use crate::access::LogId;
use crate::change::{Selection, Seq};
use crate::store::{Depth, Scan, StoreError};

/// A compact read looks at the live entities as they are now, plus what was superseded since its own
/// moment. When more than this was written since, it walks the history instead: both are exact, and this
/// only decides which is cheaper.
const MAX_SUPERSEDED: u64 = 10_000;

/// A filtered read walks one index for each name and merges; SQLite merges at most 500, and long before
/// that one walk of the whole range with a look at each name is no dearer.
const MAX_WALKS: usize = 100;

enum Value {
    Integer(i64),
    Text(String),
}

/// A SELECT in the making, with its values in order.
#[derive(Default)]
pub struct Candidates {
    sql: String,
    values: Vec<Value>,
}

impl Candidates {
    /// The SELECT for this scan.
    pub fn find(connection: &mut SqliteConnection, log: LogId, scan: &Scan) -> Result<Candidates, StoreError> {
        let mut candidates = Candidates::default();
        match scan.depth {
            Depth::All => candidates.all(log, scan),
            Depth::Newest { at, skips_tombstones } => {
                let (head, _) = rows::head(connection, log)?;
                if head.distance_from(at) <= MAX_SUPERSEDED {
                    candidates.newest_from_entities(log, scan, at, skips_tombstones);
                } else {
                    candidates.newest_from_history(log, scan, at, skips_tombstones);
                }
            }
        }
        Ok(candidates)
    }

    /// The text; [`Candidates::bind`] fills it.
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// Binds the values in their order.
    pub fn bind<'a>(&self, query: BoxedSqlQuery<'a, Sqlite, SqlQuery>) -> BoxedSqlQuery<'a, Sqlite, SqlQuery> {
        self.values.iter().fold(query, |query, value| match value {
            Value::Integer(integer) => query.bind::<BigInt, _>(*integer),
            Value::Text(text) => query.bind::<Text, _>(text.clone()),
        })
    }

    fn push(&mut self, sql: &str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    fn integer(&mut self, value: i64) -> &mut Self {
        self.values.push(Value::Integer(value));
        self
    }

    fn text(&mut self, value: &str) -> &mut Self {
        self.values.push(Value::Text(value.to_owned()));
        self
    }

    fn range(&mut self, column: &str, log: LogId, scan: &Scan) -> &mut Self {
        let condition = format!("log_id = ? AND {column} > ? AND {column} <= ?");
        self.push(&condition).integer(log.0).integer(scan.after.get()).integer(scan.until.get())
    }

    fn filter(&mut self, selection: &Selection) -> &mut Self {
        match selection {
            Selection::All => self,
            Selection::Resources(resources) => {
                self.push(" AND resource IN (").push(&marks(resources.len())).push(")");
                resources.iter().fold(self, |this, resource| this.text(resource.as_str()))
            }
            Selection::Entities(resource, ids) => {
                self.push(" AND resource = ? AND id IN (").push(&marks(ids.len())).push(")").text(resource.as_str());
                ids.iter().fold(self, |this, id| this.text(id.as_str()))
            }
        }
    }

    /// Every line: one walk of an index for each resource or entity, merged.
    fn all(&mut self, log: LogId, scan: &Scan) {
        match &scan.selection {
            Selection::All => {
                self.push("SELECT seq FROM changes NOT INDEXED WHERE ").range("seq", log, scan);
            }
            Selection::Resources(names) if names.len() > MAX_WALKS => self.all_in_one_walk(log, scan),
            Selection::Entities(_, ids) if ids.len() > MAX_WALKS => self.all_in_one_walk(log, scan),
            Selection::Resources(resources) => {
                for (index, resource) in resources.iter().enumerate() {
                    self.push(if index == 0 { "" } else { " UNION ALL " });
                    self.push("SELECT seq FROM changes INDEXED BY changes_by_resource WHERE ").range("seq", log, scan);
                    self.push(" AND resource = ?").text(resource.as_str());
                }
            }
            Selection::Entities(resource, ids) => {
                for (index, id) in ids.iter().enumerate() {
                    self.push(if index == 0 { "" } else { " UNION ALL " });
                    self.push("SELECT seq FROM changes INDEXED BY changes_by_entity WHERE ").range("seq", log, scan);
                    self.push(" AND resource = ? AND id = ?").text(resource.as_str()).text(id.as_str());
                }
            }
        }
    }

    fn all_in_one_walk(&mut self, log: LogId, scan: &Scan) {
        self.push("SELECT seq FROM changes NOT INDEXED WHERE ").range("seq", log, scan).filter(&scan.selection);
    }

    /// The newest line of each entity at `at`, by walking the lines and asking for a newer one.
    fn newest_from_history(&mut self, log: LogId, scan: &Scan, at: Seq, skips_tombstones: bool) {
        self.push("SELECT seq FROM changes AS c NOT INDEXED WHERE ").range("seq", log, scan).filter(&scan.selection);
        if skips_tombstones {
            self.push(" AND deleted = 0");
        }
        self.and_newest(at);
    }

    /// The same from the live entities: those whose line was not superseded since `at`, those whose line
    /// was (the first change after `at` names it as `prev`), and the tombstones.
    fn newest_from_entities(&mut self, log: LogId, scan: &Scan, at: Seq, skips_tombstones: bool) {
        let by_seq = if matches!(scan.selection, Selection::Entities(..)) { "" } else { "INDEXED BY entities_by_seq" };
        self.push("SELECT seq FROM entities ").push(by_seq).push(" WHERE ");
        self.range("seq", log, scan).filter(&scan.selection);
        self.push(" UNION ALL SELECT prev FROM changes NOT INDEXED WHERE ").range("prev", log, scan);
        self.push(" AND seq > ?").integer(at.get()).filter(&scan.selection);
        if !skips_tombstones {
            self.push(" UNION ALL SELECT seq FROM changes AS c INDEXED BY changes_tombstones WHERE deleted AND ");
            self.range("seq", log, scan).filter(&scan.selection).and_newest(at);
        }
    }

    fn and_newest(&mut self, at: Seq) {
        self.push(
            " AND NOT EXISTS (SELECT 1 FROM changes AS n INDEXED BY changes_by_entity WHERE n.log_id = c.log_id \
             AND n.resource = c.resource AND n.id = c.id AND n.seq > c.seq AND n.seq <= ?)",
        )
        .integer(at.get());
    }
}

fn marks(count: usize) -> String {
    vec!["?"; count].join(",")
}
