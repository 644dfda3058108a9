//! What a store's failure means to a client.

use super::{Cause, Problem};
use crate::entity::{Refusal, Refused};
use crate::store::StoreError;

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Problem {
        Problem::Refused(refused)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        Problem::Refused(refusal.into())
    }
}

/// `Conflict` and `NotFound` mean something else to every caller, who matches them first; what is left of
/// them here is a fault of ours.
impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let cause = Cause::of(&error);
        match error {
            StoreError::Busy { .. } => Problem::Busy(cause),
            StoreError::Draining { .. } => Problem::Draining,
            StoreError::Unavailable { .. } => Problem::StoreUnavailable(cause),
            StoreError::Full { .. } => Problem::StorageFull(cause),
            StoreError::Conflict { .. } | StoreError::NotFound { .. } | StoreError::Corrupt { .. } => {
                Problem::Internal(cause)
            }
        }
    }
}
