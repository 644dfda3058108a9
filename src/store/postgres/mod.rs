//! PostgreSQL, for many servers on one database: diesel on an asynchronous connection, without libpq.
//!
//! Every server may write every log: the row of the log in `scroll.logs` is locked until the commit, and
//! that lock is the order of the log. See `transaction` for one write, `scan` for one read, `notices` for
//! how servers hear of each other.

mod access;
mod audit;
mod candidates;
mod connection;
mod error;
mod lanes;
mod lineage;
mod load;
mod marks;
mod migrator;
mod notices;
mod opening;
mod origin;
pub mod outbox;
mod pool;
mod readers;
mod reading;
mod scan;
mod schema;
mod session;
mod standby;
mod statement;
mod tls;
mod transaction;
mod write;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub use self::connection::redacted;
use self::lineage::Lineage;
use self::marks::Mark;
pub use self::opening::open;
use self::outbox::Drains;
use self::pool::Pool;
use self::readers::Readers;
use self::reading::Reading;
use self::scan::LineLength;
use self::writer::Writer;
use super::heads::Heads;
use super::{Chunk, ChunkSize, Commits, Extent, Position, Scan, Store, StoreError, StoredEntity};
use crate::access::{Key, KeyHash, Log, LogId, NewKey, Secret};
use crate::change::{Change, EntityId, EntityKey, Fields, Line, LogName, Resource, Seq, Tally};
use crate::entity::{Answer, Link, Submission};

/// A store in a PostgreSQL database.
pub struct PostgresStore {
    writer: Arc<Writer>,
    pool: Arc<Pool>,
    /// Reads of a log.
    reading: Reading,
    /// Everything else that reads.
    readers: Readers,
    chores: Readers,
    heads: Arc<Heads>,
    lineage: Arc<Lineage>,
    length: Arc<LineLength>,
    /// The tasks that end with the store.
    tasks: Vec<AbortHandle>,
    /// None beside a server: that one drains.
    drains: Option<Arc<Drains>>,
}

/// Boxes the future of a read; each run has its own copy of what it was asked.
macro_rules! work {
    ($connection:ident, [$($copied:ident),*], $call:expr) => {
        readers::work(move |$connection| {
            $(let $copied = $copied.clone();)*
            Box::pin(async move { $call.await })
        })
    };
}

#[async_trait]
impl Store for PostgresStore {
    async fn write(&self, log: LogId, submission: Submission) -> Result<Answer, StoreError> {
        self.writer.write(log, submission).await
    }

    async fn head(&self, log: LogId) -> Result<watch::Receiver<Seq>, StoreError> {
        // Only a watch that somebody waits on is kept up to date with what other servers write.
        let is_fresh = self.heads.watched().contains(&log);
        if let Some(receiver) = self.heads.get(log).filter(|receiver| is_fresh && *receiver.borrow() > Seq::ZERO) {
            return Ok(receiver);
        }
        let least = self.heads.known(log);
        let found = self.reading.read("find a log", log, least, work!(c, [], access::name_and_head(c, log))).await?;
        let (name, _) = found.ok_or(StoreError::NotFound { operation: "watch a log" })?;
        let receiver = self.heads.watch(log, &name);
        let least = self.heads.known(log);
        let head = self.reading.read("read a head", log, least, work!(c, [], access::head_of(c, log))).await?;
        self.heads.moved(log, head);
        Ok(receiver)
    }

    fn commits(&self, log: LogId) -> Arc<Commits> {
        self.heads.commits(log)
    }

    async fn position(&self, log: LogId) -> Result<Position, StoreError> {
        let (operation, least) = ("read where a log stands", self.heads.known(log));
        let position = self.reading.read(operation, log, least, work!(c, [], access::position(c, log))).await?;
        self.heads.moved(log, position.head);
        self.lineage.seen(log, Mark::at(&position));
        Ok(position)
    }

    async fn source_position(&self, log: LogId) -> Result<Position, StoreError> {
        self.readers.read("read where a log stands", work!(c, [], access::position(c, log))).await
    }

    fn may_lag(&self) -> bool {
        self.reading.standby.is_some()
    }

    fn histories(&self) -> u64 {
        self.lineage.histories()
    }

    async fn extent(&self, log: LogId, scan: Scan, limit: u64) -> Result<Extent, StoreError> {
        let least = scan.until;
        self.reading.read("measure a page", log, least, work!(c, [scan], scan::extent(c, log, &scan, limit))).await
    }

    async fn chunk(&self, log: LogId, scan: Scan, fields: Fields, size: ChunkSize) -> Result<Chunk, StoreError> {
        let (length, least) = (self.length.clone(), scan.until);
        let work = work!(c, [scan, length], scan::chunk(c, log, &scan, fields, size, &length));
        self.reading.read("read changes", log, least, work).await
    }

    async fn length(&self, log: LogId, scan: Scan, fields: Fields) -> Result<u64, StoreError> {
        let least = scan.until;
        self.reading.read("add up a page", log, least, work!(c, [scan], scan::length(c, log, &scan, fields))).await
    }

    async fn tally_at(&self, log: LogId, at: Seq) -> Result<Tally, StoreError> {
        self.reading.read("read a checkpoint", log, at, work!(c, [], scan::tally_at(c, log, at))).await
    }

    async fn has_resource(&self, log: LogId, resource: &Resource) -> Result<bool, StoreError> {
        let (operation, least, resource) = ("find a resource", self.heads.known(log), resource.clone());
        let work = work!(c, [resource], access::has_resource(c, log, &resource));
        // Only the primary knows that there is none.
        Ok(self.reading.read(operation, log, least, work.clone()).await?
            || (self.may_lag() && self.readers.read(operation, work).await?))
    }

    async fn resources(&self, log: LogId) -> Result<Vec<(Resource, Tally)>, StoreError> {
        let least = self.heads.known(log);
        self.reading.read("list resources", log, least, work!(c, [], access::resources(c, log))).await
    }

    async fn entity(&self, log: LogId, key: &EntityKey) -> Result<Option<(Seq, Line)>, StoreError> {
        let (key, least) = (key.clone(), self.heads.known(log));
        self.reading.read("read an entity", log, least, work!(c, [key], access::newest_line(c, log, &key))).await
    }

    async fn entities(
        &self,
        log: LogId,
        resource: &Resource,
        after: Option<EntityId>,
        limit: usize,
    ) -> Result<Vec<(EntityId, Line)>, StoreError> {
        let (resource, least) = (resource.clone(), self.heads.known(log));
        let work = work!(c, [resource, after], audit::newest_lines(c, log, &resource, after.as_ref(), limit));
        self.reading.read("list entities", log, least, work).await
    }

    async fn create_log(&self, name: &LogName) -> Result<Log, StoreError> {
        let (name, now) = (name.clone(), self.writer.clock.now());
        self.chores.change("create a log", work!(c, [name], access::create_log(c, &name, now))).await
    }

    async fn logs(&self) -> Result<Vec<Log>, StoreError> {
        self.readers.read("list logs", work!(c, [], access::list_logs(c))).await
    }

    async fn log(&self, name: &LogName) -> Result<Option<Log>, StoreError> {
        let name = name.clone();
        self.readers.read("find a log", work!(c, [name], access::find_log(c, &name))).await
    }

    async fn create_key(&self, key: NewKey) -> Result<(Key, Secret), StoreError> {
        let now = self.writer.clock.now();
        self.chores.change("create a key", work!(c, [key], access::create_key(c, &key, now))).await
    }

    async fn keys(&self, within: Option<LogId>) -> Result<Vec<Key>, StoreError> {
        self.readers.read("list keys", work!(c, [], access::list_keys(c, within))).await
    }

    async fn revoke_key(&self, id: &str, within: Option<LogId>) -> Result<bool, StoreError> {
        let (id, now) = (id.to_owned(), self.writer.clock.now());
        self.chores.change("revoke a key", work!(c, [id], access::revoke_key(c, &id, within, now))).await
    }

    async fn key(&self, hash: KeyHash) -> Result<Option<Key>, StoreError> {
        self.readers.read("find a key", work!(c, [hash], access::find_key(c, &hash))).await
    }

    async fn audit_changes(&self, log: LogId, after: Seq, limit: usize) -> Result<Vec<Change>, StoreError> {
        self.readers.read("audit changes", work!(c, [], audit::changes(c, log, after, limit))).await
    }

    async fn audit_entities(
        &self,
        log: LogId,
        after: Option<EntityKey>,
        limit: usize,
    ) -> Result<Vec<StoredEntity>, StoreError> {
        self.readers.read("audit entities", work!(c, [after], audit::entities(c, log, after.as_ref(), limit))).await
    }

    async fn audit_links(&self, log: LogId, after: Option<Link>, limit: usize) -> Result<Vec<Link>, StoreError> {
        self.readers.read("audit links", work!(c, [after], audit::links(c, log, after.as_ref(), limit))).await
    }

    async fn audit_storage(&self) -> Result<Vec<String>, StoreError> {
        self.readers.read("audit the tables", work!(c, [], audit::storage(c))).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        self.readers.read("answer", work!(c, [], access::answer(c))).await?;
        self.chores.read("answer", work!(c, [], access::answer_writable(c))).await
    }

    async fn close(&self, deadline: Duration) {
        let drained = async {
            match &self.drains {
                Some(drains) => drains.stopped(deadline).await,
                None => true,
            }
        };
        if !futures::future::join(self.writer.lanes.close(deadline), drained).await.eq(&(true, true)) {
            tracing::error!("not all writes ended in time; what was answered is safe");
        }
        self.pool.close();
        self.writer.pool.close();
        if let Some(standby) = &self.reading.standby {
            standby.close();
        }
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        if let Some(drains) = &self.drains {
            drains.stop();
        }
    }
}
