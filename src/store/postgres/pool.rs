//! A few connections that are lent out, and made when they are needed.
//!
//! A connection comes back only when its borrower says that it is in order ([`Lease::give_back`]); one that
//! is dropped on the way, by an error, a panic or a lost race, is closed, and whatever transaction it was
//! in ends with it. Nobody ever gets a connection in an unknown state.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::PoolableConnection as _;
use prometheus::{IntCounter, IntGauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::connection::{Connector, Purpose};
use super::session::Frame;
use crate::metrics::Metrics;
use crate::store::StoreError;

/// How long one waits for a free connection; then the request is refused as busy.
const WAIT: Duration = Duration::from_secs(10);
/// Requests that may wait for a connection; one more is refused at once.
const MAX_WAITING: i64 = 1_024;

/// A connection, with what is worth knowing of it.
struct Member {
    connection: AsyncPgConnection,
    /// The statement that writes a flight is prepared on it.
    has_written: bool,
}

/// A pool of connections.
pub struct Pool {
    connector: Connector,
    free: Mutex<Vec<Member>>,
    permits: Arc<Semaphore>,
    open: IntGauge,
    waiting: IntGauge,
    waits: IntCounter,
}

impl Pool {
    /// At most so many connections; none is opened yet. `name` labels the metrics.
    pub fn new(name: &str, connector: Connector, size: usize, metrics: &Metrics) -> Arc<Pool> {
        Arc::new(Pool {
            connector,
            free: Mutex::new(Vec::new()),
            permits: Arc::new(Semaphore::new(size.max(1))),
            open: metrics.database_connections.with_label_values(&[name]),
            waiting: metrics.database_waiting.with_label_values(&[name]),
            waits: metrics.database_waits.with_label_values(&[name]),
        })
    }

    /// Borrows a connection, waiting for one if need be.
    pub async fn lend(self: &Arc<Pool>, operation: &'static str) -> Result<Lease, StoreError> {
        let permit = self.permit(operation).await?;
        if let Some(member) = self.take_free() {
            return Ok(self.lease(member, permit));
        }
        let connection = self.connector.connect(Purpose::Work).await?;
        Ok(self.lease(Member { connection, has_written: false }, permit))
    }

    /// How operations are bracketed on these connections.
    pub fn frame(&self) -> Frame {
        self.connector.frame(Purpose::Work)
    }

    fn lease(self: &Arc<Pool>, member: Member, permit: OwnedSemaphorePermit) -> Lease {
        self.open.inc();
        Lease { member: Some(member), pool: self.clone(), _permit: permit }
    }

    async fn permit(&self, operation: &'static str) -> Result<OwnedSemaphorePermit, StoreError> {
        let closed = |_| StoreError::Draining { operation };
        if let Ok(permit) = self.permits.clone().try_acquire_owned() {
            return Ok(permit);
        }
        if self.waiting.get() >= MAX_WAITING {
            return Err(StoreError::Busy { operation, source: None });
        }
        self.waits.inc();
        let _waiting = Waiting::new(&self.waiting);
        match tokio::time::timeout(WAIT, self.permits.clone().acquire_owned()).await {
            Ok(permit) => permit.map_err(closed),
            Err(_) => Err(StoreError::Busy { operation, source: Some("no connection became free in time".into()) }),
        }
    }

    fn take_free(&self) -> Option<Member> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut member) = free.pop() {
            self.open.dec();
            if !member.connection.is_broken() {
                return Some(member);
            }
        }
        None
    }

    /// Lends nothing more, and closes what is free; what is lent closes when it comes back.
    pub fn close(&self) {
        self.permits.close();
        self.forget_free();
    }

    /// Closes what is free: after one of them was found dead, the others most likely are, too.
    pub fn forget_free(&self) {
        let free = std::mem::take(&mut *self.free.lock().unwrap_or_else(PoisonError::into_inner));
        self.open.sub(i64::try_from(free.len()).unwrap_or(i64::MAX));
    }
}

/// Counted while it lives.
struct Waiting<'a>(&'a IntGauge);

impl<'a> Waiting<'a> {
    fn new(gauge: &'a IntGauge) -> Waiting<'a> {
        gauge.inc();
        Waiting(gauge)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A borrowed connection; closed when it is dropped.
pub struct Lease {
    member: Option<Member>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Lease {
    /// The connection.
    pub fn connection(&mut self, operation: &'static str) -> Result<&mut AsyncPgConnection, StoreError> {
        Ok(&mut self.member.as_mut().ok_or(StoreError::Draining { operation })?.connection)
    }

    /// True when the statement that writes a flight is prepared, so that another may be sent right behind it.
    pub fn has_written(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.has_written)
    }

    /// A flight was written. Behind a pooler nothing stays prepared.
    pub fn note_written(&mut self) {
        if let Some(member) = &mut self.member {
            member.has_written = self.pool.frame() == Frame::Session;
        }
    }

    /// True when the other side is gone.
    pub fn is_broken(&mut self) -> bool {
        self.member.as_mut().is_none_or(|member| member.connection.is_broken())
    }

    /// It is in order and in no transaction: the next one may have it.
    pub fn give_back(mut self) {
        if self.pool.permits.is_closed() {
            return;
        }
        if let Some(member) = self.member.take() {
            // It stays open: counted again for the drop of this lease.
            self.pool.open.inc();
            self.pool.free.lock().unwrap_or_else(PoisonError::into_inner).push(member);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.open.dec();
    }
}
