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

use super::connection::{Connector, Purpose};
use super::statement::{Statement, Value};
use crate::access::LogId;
use crate::change::{Change, Seq};
use crate::metrics::Metrics;
use crate::store::heads::Heads;

/// Least time between two `NOTIFY`s of one server.
const BETWEEN_NOTICES: Duration = Duration::from_millis(10);
/// How often the database is asked where the watched logs stand.
const POLL: Duration = Duration::from_secs(1);
/// PostgreSQL takes payloads below 8000 bytes.
const MAX_PAYLOAD_BYTES: usize = 7_900;
/// Waits before another attempt to connect: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// What this server has to tell the others.
pub struct Notices {
    heads: Arc<Heads>,
    untold: Mutex<BTreeMap<LogId, Seq>>,
    is_untold: Notify,
}

impl Notices {
    /// Nothing yet.
    pub fn new(heads: Arc<Heads>) -> Notices {
        Notices { heads, untold: Mutex::new(BTreeMap::new()), is_untold: Notify::new() }
    }

    /// A commit of this server: its own readers wake at once, the other servers soon.
    pub fn committed(&self, log: LogId, head: Seq, changes: Vec<Change>) {
        self.heads.committed(log, head, changes);
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
                self.heads.moved(LogId(log), head);
            }
        }
    }
}

/// Tells and hears heads until the task is ended. A connection that breaks is opened again.
pub async fn run(notices: Arc<Notices>, connector: Connector, metrics: Arc<Metrics>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let ended: Result<(), String> = match connector.connect(Purpose::Work).await {
            Ok(connection) => exchange(&notices, connection).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = ended {
            tracing::warn!(error, "the connection that tells heads between servers is gone; opening it again");
        }
        metrics.listen_reconnects.inc();
        pause = if began.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::time::sleep(pause).await;
    }
}

/// Listens first and asks then, so that nothing falls between.
async fn exchange(notices: &Notices, mut connection: AsyncPgConnection) -> QueryResult<()> {
    connection.batch_execute("LISTEN scroll").await?;
    let mut poll = tokio::time::interval(POLL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told_at = Instant::now() - BETWEEN_NOTICES;
    loop {
        match wait(notices, &mut connection, &mut poll, told_at).await {
            Event::Heard(notification) => notices.heard(&notification?),
            Event::Closed => return Ok(()),
            Event::Poll => ask(notices, &mut connection).await?,
            Event::Tell => {
                tell(notices, &mut connection).await?;
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

async fn tell(notices: &Notices, connection: &mut AsyncPgConnection) -> QueryResult<()> {
    for payload in notices.payloads() {
        let statement: Statement<'_, BigInt> =
            Statement::new("SELECT pg_notify('scroll', ?)", vec![payload.as_str().into()]);
        statement.execute(connection).await?;
    }
    Ok(())
}

async fn ask(notices: &Notices, connection: &mut AsyncPgConnection) -> QueryResult<()> {
    let watched: Vec<i64> = notices.heads.watched().into_iter().map(|log| log.0).collect();
    if watched.is_empty() {
        return Ok(());
    }
    let sql = "SELECT l.log_id, (SELECT seq FROM scroll.changes WHERE log_id = l.log_id ORDER BY seq DESC LIMIT 1) \
               FROM unnest(?) AS l (log_id)";
    let statement: Statement<'_, (BigInt, Nullable<BigInt>)> = Statement::new(sql, vec![Value::Integers(watched)]);
    let heads: Vec<(i64, Option<i64>)> = statement.load(connection).await?;
    for (log, head) in heads {
        notices.heads.moved(LogId(log), head.and_then(Seq::new).unwrap_or_default());
    }
    Ok(())
}
