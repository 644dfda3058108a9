//! SQLite, the embedded default: one thread that writes for all logs, a few that read, plain diesel.
//!
//! Not diesel-async: its SQLite wrapper loads whole results before the first row, and dropping an
//! unfinished future of it panics on the runtime of an actix worker.

mod access;
mod audit;
mod candidates;
mod connection;
mod error;
mod migrator;
mod owner;
mod place;
mod readers;
mod room;
mod rows;
mod scan;
mod schema;
mod writer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use diesel::SqliteConnection;
use tokio::sync::{mpsc, oneshot, watch};

use self::connection::ProcessLock;
use self::error::gone;
use self::place::Place;
use self::readers::Readers;
use self::room::Room;
use self::writer::{Message, Writer};
use super::flights::{Job, QUEUE_SUBMISSIONS};
use super::heads::Heads;
use super::{
    Chunk, ChunkSize, Commits, Extent, OpenError, OpenMode, OpenSettings, Position, Scan, Store, StoreError,
    StoredEntity,
};
use crate::access::{Key, KeyHash, Log, LogId, NewKey, Secret};
use crate::change::time::Clock;
use crate::change::{Change, EntityId, EntityKey, Fields, Line, LogName, Resource, Seq, Tally};
use crate::entity::types::Catalog;
use crate::entity::{Answer, Link, Submission};
use crate::metrics::Metrics;

/// A store in one SQLite file.
pub struct SqliteStore {
    queue: Mutex<Option<mpsc::Sender<Message>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    readers: Arc<Readers>,
    heads: Arc<Heads>,
    place: Arc<Place>,
    room: Arc<Room>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// Held until the store is dropped.
    _lock: Option<ProcessLock>,
}

/// Opens the file, making it when it is not there. Blocks: migrations may take their time.
pub fn open(
    path: PathBuf,
    settings: &OpenSettings,
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<SqliteStore, OpenError> {
    // A command beside a server takes the lock only when nobody has it, to bring the schema up to date.
    let lock = match (settings.mode, ProcessLock::take(&path)) {
        (OpenMode::Exclusive, taken) => Some(taken?),
        (OpenMode::Beside, taken) => taken.ok(),
    };
    let mut connection = connection::open_writer(&path)?;
    match &lock {
        Some(_) => {
            migrator::migrate(&mut connection)?;
            owner::mark(&mut connection, &path)?;
        }
        None => migrator::require_current(&mut connection)?,
    }
    let lock = match settings.mode {
        OpenMode::Exclusive => {
            migrator::refresh_links(&mut connection, &catalog)?;
            lock
        }
        OpenMode::Beside => None,
    };
    let readers = Arc::new(Readers::start(&path)?);
    let place = Place::of(&path).map_err(|error| connection::unusable(&path, error))?;
    let place = Arc::new(place);
    let heads = Arc::new(Heads::new(metrics.clone()));
    let (sender, receiver) = mpsc::channel(QUEUE_SUBMISSIONS);
    let room = Arc::new(Room::default());
    let writer = Writer {
        connection,
        room: room.clone(),
        place: place.clone(),
        catalog,
        clock: clock.clone(),
        heads: heads.clone(),
        metrics: metrics.clone(),
        max_batch: settings.max_batch.max(1),
    };
    let thread = std::thread::Builder::new()
        .name("sqlite-write".into())
        .spawn(move || writer.run(receiver))
        .map_err(OpenError::Thread)?;
    Ok(SqliteStore {
        queue: Mutex::new(Some(sender)),
        writer: Mutex::new(Some(thread)),
        readers,
        heads,
        place,
        room,
        clock,
        metrics,
        _lock: lock,
    })
}

impl SqliteStore {
    fn send(&self, operation: &'static str, message: Message) -> Result<(), StoreError> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = queue.as_ref() else {
            return Err(StoreError::Draining { operation });
        };
        sender.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StoreError::Busy { operation, source: None },
            mpsc::error::TrySendError::Closed(_) => gone(operation),
        })
    }

    /// Runs something on the writing connection, between two flights.
    async fn chore<T: Send + 'static>(
        &self,
        operation: &'static str,
        chore: impl FnOnce(&mut SqliteConnection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let (place, room) = (self.place.clone(), self.room.clone());
        let job = move |connection: &mut SqliteConnection| {
            let done = place.check(operation).and_then(|()| connection.immediate_transaction(chore));
            done.as_ref().err().into_iter().for_each(|error| room.note(error));
            // Whoever asked may be gone.
            let _ = reply.send(done);
        };
        self.send(operation, Message::Chore(Box::new(job)))?;
        answer.await.unwrap_or_else(|_| Err(gone(operation)))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn write(&self, log: LogId, submission: Submission) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        // Counted before it waits: the writer, which sets the gauge when it takes it, may be quicker.
        self.metrics.queue_depth.inc();
        let sent = self.send("write", Message::Write(Box::new(Job { log, submission, reply })));
        sent.inspect_err(|_| self.metrics.queue_depth.dec())?;
        answer.await.unwrap_or_else(|_| Err(gone("write")))
    }

    async fn head(&self, log: LogId) -> Result<watch::Receiver<Seq>, StoreError> {
        // A watch that stands at zero may be one that another caller has just begun and not yet told the
        // head: only a read says that the log is empty.
        if let Some(receiver) = self.heads.get(log).filter(|receiver| *receiver.borrow() > Seq::ZERO) {
            return Ok(receiver);
        }
        let name = self.readers.read("find a log", move |connection| access::log_name(connection, log)).await?;
        let name = name.ok_or(StoreError::NotFound { operation: "watch a log" })?;
        let receiver = self.heads.watch(log, &name);
        let head = self.readers.read("read a head", move |connection| access::head_of(connection, log)).await?;
        self.heads.moved(log, head);
        Ok(receiver)
    }

    fn commits(&self, log: LogId) -> Arc<Commits> {
        self.heads.commits(log)
    }

    async fn position(&self, log: LogId) -> Result<Position, StoreError> {
        let position =
            self.readers.read("read where a log stands", move |connection| access::position(connection, log)).await?;
        self.heads.moved(log, position.head);
        Ok(position)
    }

    async fn extent(&self, log: LogId, scan: Scan, limit: u64) -> Result<Extent, StoreError> {
        self.readers.read("measure a page", move |connection| scan::extent(connection, log, &scan, limit)).await
    }

    async fn chunk(&self, log: LogId, scan: Scan, fields: Fields, size: ChunkSize) -> Result<Chunk, StoreError> {
        let read = move |connection: &mut SqliteConnection| scan::chunk(connection, log, &scan, fields, size);
        self.readers.read("read changes", read).await
    }

    async fn length(&self, log: LogId, scan: Scan, fields: Fields) -> Result<u64, StoreError> {
        self.readers.read("add up a page", move |connection| scan::length(connection, log, &scan, fields)).await
    }

    async fn tally_at(&self, log: LogId, at: Seq) -> Result<Tally, StoreError> {
        self.readers.read("read a checkpoint", move |connection| scan::tally_at(connection, log, at)).await
    }

    async fn has_resource(&self, log: LogId, resource: &Resource) -> Result<bool, StoreError> {
        let resource = resource.clone();
        let read = move |connection: &mut SqliteConnection| access::has_resource(connection, log, &resource);
        self.readers.read("find a resource", read).await
    }

    async fn resources(&self, log: LogId) -> Result<Vec<(Resource, Tally)>, StoreError> {
        self.readers.read("list resources", move |connection| access::resources(connection, log)).await
    }

    async fn entity(&self, log: LogId, key: &EntityKey) -> Result<Option<(Seq, Line)>, StoreError> {
        let key = key.clone();
        self.readers.read("read an entity", move |connection| rows::newest_line(connection, log, &key)).await
    }

    async fn entities(
        &self,
        log: LogId,
        resource: &Resource,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<(EntityId, Line)>, StoreError> {
        let resource = resource.clone();
        let read = move |connection: &mut SqliteConnection| {
            audit::newest_lines(connection, log, &resource, after.as_ref(), limit)
        };
        self.readers.read("list entities", read).await
    }

    async fn create_log(&self, name: &LogName) -> Result<Log, StoreError> {
        let (name, now) = (name.clone(), self.clock.now());
        self.chore("create a log", move |connection| access::create_log(connection, &name, now)).await
    }

    async fn logs(&self) -> Result<Vec<Log>, StoreError> {
        self.readers.read("list logs", access::list_logs).await
    }

    async fn log(&self, name: &LogName) -> Result<Option<Log>, StoreError> {
        let name = name.clone();
        self.readers.read("find a log", move |connection| access::find_log(connection, &name)).await
    }

    async fn create_key(&self, key: NewKey) -> Result<(Key, Secret), StoreError> {
        let now = self.clock.now();
        self.chore("create a key", move |connection| access::create_key(connection, &key, now)).await
    }

    async fn keys(&self, within: Option<LogId>) -> Result<Vec<Key>, StoreError> {
        self.readers.read("list keys", move |connection| access::list_keys(connection, within)).await
    }

    async fn revoke_key(&self, id: &str, within: Option<LogId>) -> Result<bool, StoreError> {
        let (id, now) = (id.to_owned(), self.clock.now());
        self.chore("revoke a key", move |connection| access::revoke_key(connection, &id, within, now)).await
    }

    async fn key(&self, hash: KeyHash) -> Result<Option<Key>, StoreError> {
        self.readers.read("find a key", move |connection| access::find_key(connection, &hash)).await
    }

    async fn audit_changes(&self, log: LogId, after: Seq, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.readers.read("audit changes", move |connection| audit::changes(connection, log, after, limit)).await
    }

    async fn audit_entities(
        &self,
        log: LogId,
        after: Option<EntityKey>,
        limit: usize,
    ) -> Result<Vec<StoredEntity>, StoreError> {
        let read = move |connection: &mut SqliteConnection| audit::entities(connection, log, after.as_ref(), limit);
        self.readers.read("audit entities", read).await
    }

    async fn audit_links(&self, log: LogId, after: Option<Link>, limit: usize) -> Result<Vec<Link>, StoreError> {
        let read = move |connection: &mut SqliteConnection| audit::links(connection, log, after.as_ref(), limit);
        self.readers.read("audit links", read).await
    }

    async fn audit_storage(&self) -> Result<Vec<String>, StoreError> {
        self.readers.read("audit the file", audit::storage).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.readers.read("answer", access::answer).await?;
        if self.room.is_short() {
            // Taking the lock would succeed on a full disk.
            self.chore("answer", room::try_write).await?;
            self.room.is_back();
            return Ok(());
        }
        // An immediate transaction: it takes the write lock, and gives it back.
        self.chore("answer", access::answer).await
    }

    async fn close(&self, deadline: Duration) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let readers = self.readers.clone();
        let stopped = tokio::task::spawn_blocking(move || {
            if writer.is_some_and(|thread| thread.join().is_err()) {
                tracing::error!("the writing thread had panicked");
            }
            readers.stop();
        });
        if tokio::time::timeout(deadline, stopped).await.is_err() {
            tracing::error!("the database threads did not end in time; what was answered is safe");
        }
    }
}
