//! Heads, within this server and between servers.
//!
//! Within: a `watch` for each log, moved after the commit. Between: `NOTIFY` after the commit and never
//! inside it (there it would hold a lock of the whole cluster through the flush to disk), on a connection
//! of its own, at most every 10 ms for all logs together. It is a hint. The truth is what the database
//! says, asked every second for the logs that anybody watches, so a lost hint costs a second and nothing
//! else.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel::result::QueryResult;
use diesel::sql_types::{BigInt, Nullable};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use futures::StreamExt as _;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior};

use super::connection::{Connector, Frame, Purpose};
use super::error::while_;
use super::lineage::Lineage;
use super::standby::Standby;
use super::statement::{Statement, Value};
use crate::access::LogId;
use crate::change::{Change, Seq};
use crate::metrics::Metrics;
use crate::store::heads::Heads;
use crate::store::{OpenError, Pooler, PostgresSettings, StoreError};

/// Least time between two `NOTIFY`s of one server.
const BETWEEN_NOTICES: Duration = Duration::from_millis(10);
/// How often the database is asked where the watched logs stand.
const POLL: Duration = Duration::from_secs(1);
/// The same where nobody can be heard, so that a reader still hears of a write soon.
const POLL_ALONE: Duration = Duration::from_millis(100);
/// PostgreSQL takes payloads below 8000 bytes.
const MAX_PAYLOAD_BYTES: usize = 7_900;
/// Waits before another attempt to connect: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// What this server has to tell the others.
pub struct Notices {
    heads: Arc<Heads>,
    lineage: Arc<Lineage>,
    standby: Option<Arc<Standby>>,
    untold: Mutex<BTreeMap<LogId, Seq>>,
    is_untold: Notify,
}

impl Notices {
    /// Nothing yet.
    pub fn new(heads: Arc<Heads>, lineage: Arc<Lineage>, standby: Option<Arc<Standby>>) -> Notices {
        Notices { heads, lineage, standby, untold: Mutex::new(BTreeMap::new()), is_untold: Notify::new() }
    }

    /// The primary has this head. Where a standby answers reads, nobody is woken before it shows it.
    fn moved(&self, log: LogId, head: Seq) {
        match self.standby.as_ref().filter(|standby| standby.is_usable()) {
            Some(standby) => standby.await_head(log, head),
            None => self.heads.moved(log, head),
        }
    }

    /// A commit of this server: its own readers wake at once, the other servers soon.
    pub fn committed(&self, log: LogId, head: Seq, changes: Vec<Change>) {
        self.heads.keep(log, changes);
        self.moved(log, head);
        self.untold.lock().unwrap_or_else(PoisonError::into_inner).insert(log, head);
        self.is_untold.notify_one();
    }

    fn has_untold(&self) -> bool {
        !self.untold.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// `log:head,log:head`, in as many payloads as it takes.
    fn payloads(&self) -> Vec<String> {
        let untold = std::mem::take(&mut *self.untold.lock().unwrap_or_else(PoisonError::into_inner));
        let mut payloads: Vec<String> = Vec::new();
        for (log, head) in untold {
            let notice = format!("{}:{head}", log.0);
            match payloads.last_mut() {
                Some(last) if last.len() + notice.len() < MAX_PAYLOAD_BYTES => {
                    last.push(',');
                    last.push_str(&notice);
                }
                _ => payloads.push(notice),
            }
        }
        payloads
    }

    /// Another server has told its heads.
    fn heard(&self, payload: &str) {
        for notice in payload.split(',') {
            let parsed = notice.split_once(':').and_then(|(log, head)| Some((log.parse().ok()?, Seq::parse(head)?)));
            if let Some((log, head)) = parsed {
                self.moved(LogId(log), head);
            }
        }
    }
}

/// How servers reach each other.
pub struct Channel {
    connector: Connector,
    /// A session of one's own can listen; a pooler's cannot.
    listens: bool,
    poll: Duration,
}

impl Channel {
    /// Past the pooler where there is a way.
    pub fn new(connector: Connector, settings: &PostgresSettings) -> Result<Channel, OpenError> {
        Ok(match (settings.pooler, &settings.listen_url) {
            (_, Some(url)) => Channel { connector: Connector::new(url, Pooler::None)?, listens: true, poll: POLL },
            (Pooler::None, None) => Channel { connector, listens: true, poll: POLL },
            (Pooler::Transaction, None) => Channel { connector, listens: false, poll: POLL_ALONE },
        })
    }

    fn frame(&self) -> Frame {
        self.connector.frame(Purpose::Work)
    }
}

/// Tells and hears heads until the task is ended. A connection that breaks is opened again.
pub async fn run(notices: Arc<Notices>, channel: Channel, metrics: Arc<Metrics>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let ended: Result<(), StoreError> = match channel.connector.connect(Purpose::Work).await {
            Ok(connection) => exchange(&notices, &channel, connection).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "the connection that tells heads between servers is gone; opening it again");
        }
        metrics.listen_reconnects.inc();
        pause = if began.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(pause).await;
    }
}

/// Listens first and asks then, so that nothing falls between. A new connection may lead to another
/// database than the last one, so histories are compared first of all.
async fn exchange(notices: &Notices, channel: &Channel, mut connection: AsyncPgConnection) -> Result<(), StoreError> {
    notices.lineage.compare().await?;
    if channel.listens {
        connection.batch_execute("LISTEN scroll").await.map_err(while_("listen"))?;
    }
    let mut poll = tokio::time::interval(channel.poll);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told_at = Instant::now() - BETWEEN_NOTICES;
    let frame = channel.frame();
    loop {
        match wait(notices, &mut connection, &mut poll, told_at).await {
            Event::Heard(notification) => notices.heard(&notification.map_err(while_("hear"))?),
            Event::Closed => return Ok(()),
            Event::Poll => {
                frame.enter(&mut connection).await?;
                let asked = ask(notices, &mut connection).await;
                if frame.leave(&mut connection, asked).await? {
                    notices.lineage.compare().await?;
                }
            }
            Event::Tell => {
                frame.enter(&mut connection).await?;
                let told = tell(notices, &mut connection).await;
                frame.leave(&mut connection, told).await?;
                told_at = Instant::now();
            }
        }
    }
}

/// What woke the task.
enum Event {
    Heard(QueryResult<String>),
    Closed,
    Poll,
    Tell,
}

async fn wait(
    notices: &Notices,
    connection: &mut AsyncPgConnection,
    poll: &mut tokio::time::Interval,
    told_at: Instant,
) -> Event {
    let mut heard = pin!(connection.notifications_stream());
    let tell = async {
        // What is untold decides, not the wake-up: that one may be spent on a round that something else won.
        while !notices.has_untold() {
            notices.is_untold.notified().await;
        }
        tokio::time::sleep_until(told_at + BETWEEN_NOTICES).await;
    };
    tokio::select! {
        heard = heard.next() => match heard {
            Some(notification) => Event::Heard(notification.map(|notification| notification.payload)),
            None => Event::Closed,
        },
        _ = poll.tick() => Event::Poll,
        () = tell => Event::Tell,
    }
}

async fn tell(notices: &Notices, connection: &mut AsyncPgConnection) -> Result<(), StoreError> {
    for payload in notices.payloads() {
        let statement: Statement<'_, BigInt> =
            Statement::new("SELECT pg_notify('scroll', ?)", vec![payload.as_str().into()]);
        statement.execute(connection).await.map_err(while_("tell"))?;
    }
    Ok(())
}

/// Where the watched logs stand; true when the history must be compared.
async fn ask(notices: &Notices, connection: &mut AsyncPgConnection) -> Result<bool, StoreError> {
    for (log, head) in heads_of(connection, notices.heads.watched()).await? {
        notices.moved(log, head);
    }
    notices.lineage.look(connection).await
}

/// The heads of these logs.
pub async fn heads_of(connection: &mut AsyncPgConnection, logs: Vec<LogId>) -> Result<Vec<(LogId, Seq)>, StoreError> {
    if logs.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT l.log_id, (SELECT seq FROM scroll.changes WHERE log_id = l.log_id ORDER BY seq DESC LIMIT 1) \
               FROM unnest(?) AS l (log_id)";
    let values = vec![Value::Integers(logs.into_iter().map(|log| log.0).collect())];
    let statement: Statement<'_, (BigInt, Nullable<BigInt>)> = Statement::new(sql, values);
    let heads: Vec<(i64, Option<i64>)> = statement.load(connection).await.map_err(while_("read heads"))?;
    Ok(heads.into_iter().map(|(log, head)| (LogId(log), head.and_then(Seq::new).unwrap_or_default())).collect())
}
