//! What a server does that reads from a copy which may lag behind its source.
//!
//! A copy never refuses by itself: its head, its floor and its epoch may be those of a moment ago. So the
//! source judges what the copy would refuse; where the source agrees with the client, or cannot be asked, the
//! copy gets time to catch up. It never answers from behind a cursor.

use tokio::time::{Instant, timeout};

use super::page::{MIN_HEAD_WAIT, Since, check_cursor, check_epoch};
use super::{FeedError, PageRequest};
use crate::access::LogId;
use crate::change::Seq;
use crate::store::{Position, Store, StoreError};

/// How long between two looks at a copy whose head says nothing, because it is the epoch that is awaited.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(250);

/// Admits a reader that the copy refused, or says for good why not.
pub async fn admit(
    store: &dyn Store,
    log: LogId,
    request: &PageRequest,
    refusal: FeedError,
) -> Result<(Position, Seq), FeedError> {
    if !is_of_a_position(&refusal) {
        return Err(refusal);
    }
    let source = match store.source_position(log).await {
        Ok(source) => {
            judge(&source, request)?;
            Some(source.head)
        }
        // It will judge again when it is back; until then waiting is all that can be done.
        Err(error) => {
            tracing::debug!(%error, "the source of a copy cannot be asked");
            None
        }
    };
    let needed = least_head(request).or(source).unwrap_or_default();
    caught_up(store, log, request, needed).await
}

/// True for what depends on where the log stands.
fn is_of_a_position(refusal: &FeedError) -> bool {
    match refusal {
        FeedError::EpochChanged { .. } | FeedError::CursorAhead { .. } | FeedError::CursorExpired { .. } => true,
        FeedError::UntilBelowSince { .. }
        | FeedError::UnknownResource { .. }
        | FeedError::Behind { .. }
        | FeedError::Store(_) => false,
    }
}

/// May this reader have what it asks for, where the log stands here?
fn judge(position: &Position, request: &PageRequest) -> Result<Seq, FeedError> {
    check_epoch(position, request.epoch.as_deref())?;
    check_cursor(position, request)
}

/// The head below which the request cannot be answered.
fn least_head(request: &PageRequest) -> Option<Seq> {
    let since = match request.since {
        Since::Now => None,
        Since::After(since) => Some(since),
    };
    [since, request.until, request.min_head].into_iter().flatten().max()
}

/// Waits until the copy admits the request, as long as `min_head` would wait.
async fn caught_up(
    store: &dyn Store,
    log: LogId,
    request: &PageRequest,
    needed: Seq,
) -> Result<(Position, Seq), FeedError> {
    let deadline = Instant::now() + MIN_HEAD_WAIT;
    let mut head = store.head(log).await?;
    loop {
        let position = store.position(log).await?;
        if let Ok(since) = judge(&position, request) {
            return Ok((position, since));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(FeedError::Behind { min_head: needed });
        }
        // Time that ran out is a reason to look again.
        if let Ok(Err(_)) = timeout(left.min(LOOK_AGAIN), head.changed()).await {
            return Err(StoreError::Draining { operation: "wait for a head" }.into());
        }
    }
}
