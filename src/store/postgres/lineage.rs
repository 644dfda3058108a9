//! Is this still the history that was answered from? After a failover, a restore, or a disk that was set
//! back, commits may be gone that clients know of, and their numbers would be given to other changes. So a
//! log that went back, or may have, gets a new epoch before anything is written to it.
//!
//! The database remembers in `scroll.settings` on which timeline of which system it was last seen, and
//! whether commits waited for a standby then. This server remembers the newest change of each log that it
//! acknowledged or showed. A new timeline without synchronous replication gives every log a new epoch; with
//! it, only those logs whose remembered change is not there. This is asked at the start, after every
//! reconnect, every second, and by every write under the lock of its log, so that no write comes first.
//!
//! What nobody remembers (all servers were down meanwhile, and the database came from a copy of the disk)
//! is not seen here; that needs a mark outside the database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use uuid::Uuid;

use super::connection::{Connector, Purpose};
use super::error::while_;
use super::marks::{self, Mark};
use super::notices::heads_of;
use super::origin::{Origin, store_origin, stored_origin};
use super::statement::{Statement, Value};
use crate::access::LogId;
use crate::change::Seq;
use crate::metrics::Metrics;
use crate::store::StoreError;
use crate::store::heads::Heads;

const OPERATION: &str = "compare the history of the database";
/// The advisory lock of those who compare: "scroll" in ASCII, and one more than that of the schema.
const LOCK: i64 = 0x7363_726f_6c6d;
/// Numbers of logs that are left out when logs may be lost: no key or cache may meet another log under the
/// number of a lost one.
const LOG_IDS_LEFT_OUT: i64 = 1_000_000;

/// What this server knows of the history.
pub struct Lineage {
    connector: Connector,
    heads: Arc<Heads>,
    metrics: Arc<Metrics>,
    known: Mutex<Known>,
    /// One comparison at a time.
    comparing: tokio::sync::Mutex<()>,
    histories: AtomicU64,
}

#[derive(Default)]
struct Known {
    origin: Option<Origin>,
    marks: BTreeMap<LogId, Mark>,
}

/// What a comparison came to.
enum Verdict {
    /// Nothing is lost.
    Whole,
    /// These logs are another history than the one that was answered from.
    Lost(Vec<LogId>),
    /// Any log may be.
    Unknown,
}

/// What is not as this server knows it.
#[derive(Default)]
struct Amiss {
    /// Logs whose mark is not there.
    missing: Vec<LogId>,
    /// Heads that are lower than they were: from, and to.
    lowered: Vec<(LogId, Seq, Seq)>,
}

impl Amiss {
    fn logs(&self) -> Vec<LogId> {
        let lowered = self.lowered.iter().map(|(log, ..)| *log);
        self.missing.iter().copied().chain(lowered).collect()
    }
}

/// What a comparison found and did.
struct Compared {
    origin: Origin,
    renewed: Vec<LogId>,
    lowered: Vec<(LogId, Seq, Seq)>,
}

impl Lineage {
    /// Nothing is known yet.
    pub fn new(connector: Connector, heads: Arc<Heads>, metrics: Arc<Metrics>) -> Lineage {
        let (known, comparing, histories) = (Mutex::default(), tokio::sync::Mutex::default(), AtomicU64::new(0));
        Lineage { connector, heads, metrics, known, comparing, histories }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raised whenever logs may have got another epoch.
    pub fn histories(&self) -> u64 {
        AtomicU64::load(&self.histories, Ordering::Acquire)
    }

    /// This change of a log was acknowledged or shown.
    pub fn seen(&self, log: LogId, mark: Mark) {
        let mut known = self.known();
        if known.marks.get(&log).is_none_or(|last| !last.is_after(&mark)) {
            known.marks.insert(log, mark);
        }
    }

    /// Under the lock of the log: may a write go on top of what stands there?
    pub fn admits(&self, log: LogId, timeline: &str, epoch: &str, head: Seq) -> bool {
        let known = self.known();
        let is_same = known.origin.as_ref().is_some_and(|origin| origin.timeline == timeline);
        let mark = known.marks.get(&log);
        is_same && mark.is_none_or(|mark| mark.epoch != epoch || mark.seq <= head)
    }

    /// Looks whether a comparison is due: the database is another, or heads have gone back.
    pub async fn look(&self, connection: &mut AsyncPgConnection) -> Result<bool, StoreError> {
        let origin = Origin::read(connection).await?;
        let is_another = self.known().origin.as_ref() != Some(&origin);
        Ok(is_another || !self.lowered(connection).await?.is_empty())
    }

    /// Heads that were shown and are not reached any more.
    async fn lowered(&self, connection: &mut AsyncPgConnection) -> Result<Vec<(LogId, Seq, Seq)>, StoreError> {
        let shown = self.heads.all();
        let heads = heads_of(connection, shown.iter().map(|(log, _)| *log).collect()).await?;
        let heads: BTreeMap<LogId, Seq> = heads.into_iter().collect();
        let now = |log| heads.get(&log).copied().unwrap_or_default();
        Ok(shown.into_iter().map(|(log, from)| (log, from, now(log))).filter(|(_, from, to)| to < from).collect())
    }

    /// Compares, and gives new epochs where it must.
    pub async fn compare(&self) -> Result<(), StoreError> {
        let _alone = self.comparing.lock().await;
        let mut connection = self.connector.connect(Purpose::Work).await?;
        let begin = format!("{}; SELECT pg_advisory_xact_lock({LOCK})", self.connector.frame(Purpose::Work).begin());
        connection.batch_execute(&begin).await.map_err(while_(OPERATION))?;
        // Whatever fails closes the connection, and nothing has happened.
        let compared = self.renew(&mut connection).await?;
        connection.batch_execute("COMMIT").await.map_err(while_(OPERATION))?;
        self.go_on(compared);
        Ok(())
    }

    /// In the transaction: finds out, and gives new epochs.
    async fn renew(&self, connection: &mut AsyncPgConnection) -> Result<Compared, StoreError> {
        let origin = Origin::read(connection).await?;
        let stored = stored_origin(connection).await?;
        let amiss = self.amiss(connection).await?;
        let renewed = match self.verdict(&origin, stored.as_ref(), amiss.missing) {
            Verdict::Whole => Vec::new(),
            Verdict::Lost(logs) => self.give_epochs(connection, Some(logs)).await?,
            Verdict::Unknown => self.give_epochs(connection, None).await?,
        };
        if stored.as_ref() != Some(&origin) {
            store_origin(connection, &origin).await?;
        }
        Ok(Compared { origin, renewed, lowered: amiss.lowered })
    }

    /// What is not as it was. A standby can show a commit before the primary does, and what is being
    /// committed holds the lock of its log; so whatever seems amiss is looked at again under that lock.
    async fn amiss(&self, connection: &mut AsyncPgConnection) -> Result<Amiss, StoreError> {
        let found = self.look_for_amiss(connection).await?;
        let suspects = found.logs();
        if suspects.is_empty() {
            return Ok(found);
        }
        let sql = "SELECT log_id FROM scroll.logs WHERE log_id = ANY (?) ORDER BY log_id FOR NO KEY UPDATE";
        let values = vec![Value::Integers(suspects.into_iter().map(|log| log.0).collect())];
        let statement: Statement<'_, BigInt> = Statement::new(sql, values);
        let _locked: Vec<i64> = statement.load(connection).await.map_err(while_(OPERATION))?;
        self.look_for_amiss(connection).await
    }

    async fn look_for_amiss(&self, connection: &mut AsyncPgConnection) -> Result<Amiss, StoreError> {
        let marks = self.known().marks.clone();
        let missing = marks::missing(connection, &marks).await?;
        Ok(Amiss { missing, lowered: self.lowered(connection).await? })
    }

    fn verdict(&self, origin: &Origin, stored: Option<&Origin>, missing: Vec<LogId>) -> Verdict {
        let seen = self.known().origin.clone();
        let was_synchronous = |stored: &Origin| stored.is_synchronous && seen.is_none_or(|seen| seen.is_synchronous);
        match stored {
            Some(stored) if !origin.continues(stored) && !was_synchronous(stored) => Verdict::Unknown,
            _ if missing.is_empty() => Verdict::Whole,
            _ => Verdict::Lost(missing),
        }
    }

    /// New epochs for these logs, or for all; no write comes between.
    async fn give_epochs(
        &self,
        connection: &mut AsyncPgConnection,
        lost: Option<Vec<LogId>>,
    ) -> Result<Vec<LogId>, StoreError> {
        let sql = "SELECT log_id, name FROM scroll.logs ORDER BY log_id FOR NO KEY UPDATE";
        let statement: Statement<'_, (BigInt, Text)> = Statement::new(sql, Vec::new());
        let logs: Vec<(i64, String)> = statement.load(connection).await.map_err(while_(OPERATION))?;
        let is_chosen = |log: &LogId| lost.as_ref().is_none_or(|lost| lost.contains(log));
        let chosen: Vec<(LogId, String)> =
            logs.into_iter().map(|(log, name)| (LogId(log), name)).filter(|(log, _)| is_chosen(log)).collect();
        let heads: BTreeMap<LogId, Seq> =
            heads_of(connection, chosen.iter().map(|(log, _)| *log).collect()).await?.into_iter().collect();
        for (log, name) in &chosen {
            give_epoch(connection, *log).await?;
            let to = heads.get(log).copied().unwrap_or_default();
            let known = self.known().marks.get(log).map(|mark| mark.seq.get());
            tracing::error!(log = name, known, head = %to, "the log went back, or may have: it gets a new epoch");
        }
        if lost.is_none() {
            let sql = format!(
                "SELECT setval(s, nextval(s) + {LOG_IDS_LEFT_OUT}) \
                 FROM pg_get_serial_sequence('scroll.logs', 'log_id') AS s"
            );
            connection.batch_execute(&sql).await.map_err(while_(OPERATION))?;
        }
        Ok(chosen.into_iter().map(|(log, _)| log).collect())
    }

    /// After the commit: this server goes on from what is there now.
    fn go_on(&self, compared: Compared) {
        let Compared { origin, renewed, lowered } = compared;
        // First, so that no commit of the new history finds a head above its own.
        for (log, from, to) in &lowered {
            self.heads.set_back(*log, *from, *to);
        }
        self.metrics.epochs_changed.inc_by(u64::try_from(renewed.len()).unwrap_or(0));
        let is_moved = {
            let mut known = self.known();
            let is_moved = known.origin.as_ref().is_some_and(|seen| !origin.continues(seen));
            known.origin = Some(origin);
            known.marks.retain(|log, _| !renewed.contains(log));
            is_moved
        };
        if is_moved || !renewed.is_empty() || !lowered.is_empty() {
            self.histories.fetch_add(1, Ordering::AcqRel);
        }
    }
}

async fn give_epoch(connection: &mut AsyncPgConnection, log: LogId) -> Result<(), StoreError> {
    let epoch = Uuid::new_v4().to_string();
    let values = vec![epoch.as_str().into(), log.0.into()];
    let statement: Statement<'_, BigInt> = Statement::new("UPDATE scroll.logs SET epoch = ? WHERE log_id = ?", values);
    statement.execute(connection).await.map(drop).map_err(while_(OPERATION))
}
