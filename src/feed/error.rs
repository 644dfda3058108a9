//! Why a reader gets no lines.

use crate::change::{Epoch, Seq};
use crate::store::StoreError;

/// The reasons, each one problem of PROTOCOL section 6.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The upper bound lies below the lower one.
    #[error("until lies below since")]
    UntilBelowSince {
        /// The upper bound that was asked for.
        until: Seq,
        /// The lower bound.
        since: Seq,
    },
    /// A resource that is neither declared nor was ever seen in this log.
    #[error("resource {resource} is not known here")]
    UnknownResource {
        /// Its name.
        resource: String,
    },
    /// The client holds another history of the log.
    #[error("the epoch has changed")]
    EpochChanged {
        /// What the client holds.
        expected: String,
        /// What is true.
        epoch: Epoch,
    },
    /// This server did not reach the head that the client asked for in time.
    #[error("this server is behind")]
    Behind {
        /// The head that was asked for.
        min_head: Seq,
    },
    /// The cursor is ahead of the head: another log, a restore, a typo.
    #[error("the cursor is ahead of the head")]
    CursorAhead {
        /// The cursor.
        since: Seq,
        /// The newest seq.
        head: Seq,
        /// The identity of the history here.
        epoch: Epoch,
    },
    /// Deletes after this cursor have been purged; the reader may hold what is gone.
    #[error("the cursor has expired")]
    CursorExpired {
        /// The cursor.
        since: Seq,
        /// The smallest cursor that is good.
        floor: Seq,
        /// The newest seq.
        head: Seq,
        /// The identity of the history here.
        epoch: Epoch,
    },
    /// The store could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}
