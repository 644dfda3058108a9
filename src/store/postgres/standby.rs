//! Hot standbys, for reads: when they may be asked, and what they have replayed.
//!
//! A standby lags. So every read says the least head that its snapshot must show, and the same connection
//! looks at the head first: replay only goes forward, so what it shows then, the read sees too. This server
//! thereby never shows a log from behind what it has shown before. A standby that cannot be reached, or
//! that falls too far behind, is left alone until it has caught up; meanwhile the primary answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::access::head_of;
use super::connection::{Connector, Purpose};
use super::error::while_;
use super::notices::heads_of;
use super::pool::Pool;
use super::readers::{Readers, Work, work};
use super::statement::Statement;
use crate::access::LogId;
use crate::change::Seq;
use crate::metrics::Metrics;
use crate::store::heads::Heads;
use crate::store::{OpenError, StoreError};

const OPERATION: &str = "read from a standby";
/// How long one read may take, the wait for replay included. Reads are short; a standby that is slower has
/// trouble, and the primary answers.
const READ: Duration = Duration::from_secs(4);
/// How long a read waits for a head that this server has shown already. A lag beyond that is not of the
/// usual kind.
const REPLAY: Duration = Duration::from_secs(1);
/// Between two looks at a head that is awaited: the first, and the longest.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LONGEST_LOOK: Duration = Duration::from_millis(100);
/// How often the heads of watched logs are asked for when nobody told of any.
const POLL: Duration = Duration::from_secs(1);
/// Before a standby that was lost is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// What makes two servers copies of one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    system: String,
    database: i64,
}

impl Identity {
    /// Of the database at the other end.
    pub async fn of(connection: &mut AsyncPgConnection) -> Result<Identity, StoreError> {
        let sql = "SELECT s.system_identifier::text, d.oid::bigint FROM pg_control_system() AS s \
                   CROSS JOIN pg_database AS d WHERE d.datname = current_database()";
        let statement: Statement<'_, (Text, BigInt)> = Statement::new(sql, Vec::new());
        let (system, database): (String, i64) =
            statement.get_result(connection).await.map_err(while_("identify a database"))?;
        Ok(Identity { system, database })
    }
}

/// The standbys behind one URL.
pub struct Standby {
    connector: Connector,
    identity: Identity,
    readers: Readers,
    pool: Arc<Pool>,
    heads: Arc<Heads>,
    metrics: Arc<Metrics>,
    is_usable: AtomicBool,
    /// Heads of the primary that nobody was shown yet.
    awaited: Mutex<BTreeMap<LogId, Seq>>,
    is_awaited: Notify,
}

impl Standby {
    /// The standbys of the database that has this identity. One that cannot be reached now is used later.
    pub async fn open(
        connector: Connector,
        identity: Identity,
        size: usize,
        heads: Arc<Heads>,
        metrics: Arc<Metrics>,
    ) -> Result<Arc<Standby>, OpenError> {
        let pool = Pool::new("standby", connector.clone(), size, &metrics);
        let readers = Readers::new(pool.clone(), Handle::current());
        let standby = Standby {
            connector,
            identity,
            readers,
            pool,
            heads,
            metrics,
            is_usable: AtomicBool::new(false),
            awaited: Mutex::default(),
            is_awaited: Notify::new(),
        };
        if let Ok(mut connection) = standby.connector.connect(Purpose::Work).await {
            standby.check(&mut connection).await?;
        }
        Ok(Arc::new(standby))
    }

    async fn check(&self, connection: &mut AsyncPgConnection) -> Result<(), OpenError> {
        let found = Identity::of(connection).await?;
        if found == self.identity {
            return Ok(());
        }
        let found = format!("system {}, database {}", found.system, found.database);
        Err(OpenError::NotAStandby { path: self.connector.place(), found })
    }

    /// True while reads may go there.
    pub fn is_usable(&self) -> bool {
        AtomicBool::load(&self.is_usable, Ordering::Acquire)
    }

    /// Runs a read of a log that must show at least this head.
    pub async fn read<T: Send + 'static>(
        &self,
        log: LogId,
        least: Seq,
        read: Arc<impl Work<T>>,
    ) -> Result<T, StoreError> {
        let work = work(move |connection| {
            let read = read.clone();
            Box::pin(async move {
                replayed(connection, log, least).await?;
                read(connection).await
            })
        });
        let done = match tokio::time::timeout(READ, self.readers.read(OPERATION, work)).await {
            Ok(done) => done,
            Err(_) => Err(StoreError::Unavailable { operation: OPERATION, source: "no answer in time".into() }),
        };
        if let Err(error @ StoreError::Unavailable { .. }) = &done {
            self.lost(&error.to_string());
        }
        done
    }

    /// The primary has this head; whoever waits for it is woken when it can be read here.
    pub fn await_head(&self, log: LogId, head: Seq) {
        let mut awaited = self.awaited.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = awaited.entry(log).or_default();
        *newest = head.max(*newest);
        drop(awaited);
        self.is_awaited.notify_one();
    }

    /// From now on the primary answers, so what it has told can be read.
    fn lost(&self, why: &str) {
        if self.is_usable.swap(false, Ordering::AcqRel) {
            tracing::warn!(why, standby = self.connector.place(), "the standby cannot be used; the primary answers");
        }
        self.metrics.standby_usable.set(0);
        self.pool.forget_free();
        for (log, head) in self.take_awaited() {
            self.heads.moved(log, head);
        }
    }

    fn take_awaited(&self) -> BTreeMap<LogId, Seq> {
        std::mem::take(&mut *self.awaited.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Lends nothing more.
    pub fn close(&self) {
        self.pool.close();
    }

    /// Follows what the standby has replayed until the task is ended.
    pub async fn follow(self: Arc<Standby>) {
        loop {
            if let Err(why) = self.follow_once().await {
                tracing::debug!(why, standby = self.connector.place(), "the standby cannot be followed");
                self.lost(&why);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn follow_once(&self) -> Result<(), String> {
        let mut connection = self.connector.connect(Purpose::Work).await.map_err(|error| error.to_string())?;
        self.check(&mut connection).await.map_err(|error| error.to_string())?;
        self.catch_up(&mut connection).await.map_err(|error| error.to_string())?;
        self.metrics.standby_usable.set(1);
        self.is_usable.store(true, Ordering::Release);
        tracing::info!(standby = self.connector.place(), "reads go to the standby");
        while self.is_usable() {
            self.show(&mut connection).await.map_err(|error| error.to_string())?;
            // Time that ran out is a reason to look, too.
            let _ = tokio::time::timeout(POLL, self.is_awaited.notified()).await;
        }
        Ok(())
    }

    /// Waits until the standby shows what this server has shown when it began to wait.
    async fn catch_up(&self, connection: &mut AsyncPgConnection) -> Result<(), StoreError> {
        let shown = self.heads.all();
        loop {
            let replayed = heads_of(connection, shown.iter().map(|(log, _)| *log).collect()).await?;
            let replayed: BTreeMap<LogId, Seq> = replayed.into_iter().collect();
            if shown.iter().all(|(log, head)| replayed.get(log).copied().unwrap_or_default() >= *head) {
                return Ok(());
            }
            tokio::time::sleep(LONGEST_LOOK).await;
        }
    }

    /// Moves the heads of all that is watched or awaited, until nothing is awaited any more.
    async fn show(&self, connection: &mut AsyncPgConnection) -> Result<(), StoreError> {
        let mut pause = FIRST_LOOK;
        let mut awaited = self.take_awaited();
        loop {
            let mut logs = self.heads.watched();
            awaited.retain(|log, _| logs.contains(log));
            logs.extend(awaited.keys().copied());
            for (log, head) in heads_of(connection, logs).await? {
                self.heads.moved(log, head);
                awaited.retain(|other, newest| *other != log || *newest > head);
            }
            if awaited.is_empty() || !self.is_usable() {
                return Ok(());
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_LOOK);
            for (log, head) in self.take_awaited() {
                let newest = awaited.entry(log).or_default();
                *newest = head.max(*newest);
                pause = FIRST_LOOK;
            }
        }
    }
}

/// Waits until this connection shows so much of a log.
async fn replayed(connection: &mut AsyncPgConnection, log: LogId, least: Seq) -> Result<(), StoreError> {
    let (deadline, mut pause) = (Instant::now() + REPLAY, FIRST_LOOK);
    while least > Seq::ZERO && head_of(connection, log).await? < least {
        if Instant::now() > deadline {
            return Err(StoreError::Busy { operation: OPERATION, source: Some("it is behind".into()) });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_LOOK);
    }
    Ok(())
}
