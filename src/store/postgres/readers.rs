//! Short work on a borrowed connection, in a task of its own.
//!
//! Whoever asks may be gone at any moment, in the middle of an answer from the database; the task goes on
//! to the end of its statement, so that the connection is in order for the next one. No connection is held
//! while somebody waits for a client.

use std::sync::Arc;

use diesel_async::AsyncPgConnection;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::error::{gone, is_broken};
use super::pool::Pool;
use super::session::Frame;
use crate::store::StoreError;

/// Something to do on a connection; a read may be done twice.
pub trait Work<T>:
    for<'c> Fn(&'c mut AsyncPgConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync + 'static
{
}

impl<T, W> Work<T> for W where
    W: for<'c> Fn(&'c mut AsyncPgConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync + 'static
{
}

/// Says that a closure is work, where it is not handed over at once.
pub fn work<T, W>(work: W) -> W
where
    W: for<'c> Fn(&'c mut AsyncPgConnection) -> BoxFuture<'c, Result<T, StoreError>> + Send + Sync + 'static,
{
    work
}

/// Runs work on the connections of a pool.
#[derive(Clone)]
pub struct Readers {
    pool: Arc<Pool>,
    runtime: Handle,
}

impl Readers {
    /// On this pool, in tasks of this runtime.
    pub fn new(pool: Arc<Pool>, runtime: Handle) -> Readers {
        Readers { pool, runtime }
    }

    /// Runs a read. One whose connection broke, most likely while it lay in the pool, is run once more on a
    /// new one.
    pub async fn read<T: Send + 'static>(&self, operation: &'static str, read: impl Work<T>) -> Result<T, StoreError> {
        let pool = self.pool.clone();
        let task = self.runtime.spawn(async move {
            match run(&pool, operation, &read).await {
                Err((_, true)) => {
                    pool.forget_free();
                    run(&pool, operation, &read).await.map_err(|(error, _)| error)
                }
                done => done.map_err(|(error, _)| error),
            }
        });
        task.await.unwrap_or_else(|_| Err(gone(operation)))
    }

    /// Runs something that changes the database, once: it is one statement, so it happens or does not.
    pub async fn change<T: Send + 'static>(
        &self,
        operation: &'static str,
        change: impl Work<T>,
    ) -> Result<T, StoreError> {
        let pool = self.pool.clone();
        let task = self.runtime.spawn(async move { run(&pool, operation, &change).await.map_err(|(error, _)| error) });
        task.await.unwrap_or_else(|_| Err(gone(operation)))
    }
}

/// The error says whether it was the connection that failed.
async fn run<T>(pool: &Arc<Pool>, operation: &'static str, work: &impl Work<T>) -> Result<T, (StoreError, bool)> {
    let mut lease = pool.lend(operation).await.map_err(|error| (error, false))?;
    let done = match lease.connection(operation) {
        Ok(connection) => within(pool.frame(), connection, work).await,
        Err(error) => Err(error),
    };
    let is_broken = lease.is_broken() || done.as_ref().is_err_and(is_broken);
    if !is_broken {
        lease.give_back();
    }
    done.map_err(|error| (error, is_broken))
}

async fn within<T>(frame: Frame, connection: &mut AsyncPgConnection, work: &impl Work<T>) -> Result<T, StoreError> {
    frame.enter(connection).await?;
    let done = work(connection).await;
    frame.leave(connection, done).await
}
