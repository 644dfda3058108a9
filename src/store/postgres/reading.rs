//! Where a read goes: to a standby that shows enough, else to the primary.

use std::sync::Arc;

use super::readers::{Readers, Work, work};
use super::standby::Standby;
use crate::access::LogId;
use crate::change::Seq;
use crate::metrics::Metrics;
use crate::store::StoreError;

/// The connections that read.
pub struct Reading {
    /// To the primary.
    pub primary: Readers,
    /// To the standbys, where there are any.
    pub standby: Option<Arc<Standby>>,
    /// Counts what the primary had to answer after all.
    pub metrics: Arc<Metrics>,
}

impl Reading {
    /// Runs a read of a log whose snapshot must show at least this head.
    pub async fn read<T: Send + 'static>(
        &self,
        operation: &'static str,
        log: LogId,
        least: Seq,
        read: impl Work<T>,
    ) -> Result<T, StoreError> {
        let Some(standby) = &self.standby else {
            return self.primary.read(operation, read).await;
        };
        let read = Arc::new(read);
        if standby.is_usable() {
            match standby.read(log, least, read.clone()).await {
                Ok(found) => return Ok(found),
                Err(error) => tracing::debug!(%error, operation, "the primary answers instead of the standby"),
            }
        }
        self.metrics.standby_fallbacks.inc();
        self.primary.read(operation, work(move |connection| read(connection))).await
    }
}
