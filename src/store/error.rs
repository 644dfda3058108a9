//! What can go wrong in a store, by what it means; never an HTTP status, and never silent.

use std::error::Error;

/// Why a store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Something of this name is there already.
    #[error("{operation}: it exists already")]
    Conflict {
        /// What was tried.
        operation: &'static str,
    },
    /// What the operation is about does not exist.
    #[error("{operation}: it does not exist")]
    NotFound {
        /// What was tried.
        operation: &'static str,
    },
    /// Too much is waiting, or the database is held by somebody else. Nothing was done; try again.
    #[error("{operation}: busy")]
    Busy {
        /// What was tried.
        operation: &'static str,
        /// The database's words, when it was the database.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The store is closing. Nothing was done.
    #[error("{operation}: the store is closing")]
    Draining {
        /// What was tried.
        operation: &'static str,
    },
    /// The database cannot be reached or refuses to work. Whether a write happened may be unknown.
    #[error("{operation}: the database is unavailable")]
    Unavailable {
        /// What was tried.
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// There is no room left: the disk, or the numbers of a log. Nothing was done.
    #[error("{operation}: no room left")]
    Full {
        /// What was tried.
        operation: &'static str,
        /// The database's words, when it was the database.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// What is stored contradicts itself.
    #[error("{operation}: stored data is damaged: {detail}")]
    Corrupt {
        /// What was tried.
        operation: &'static str,
        /// What contradicts what.
        detail: String,
    },
}

impl StoreError {
    /// An error of the same kind, for the others that one failure is about; the cause stays with the
    /// first, so that it is logged once.
    #[must_use]
    pub fn same_kind(&self) -> StoreError {
        match self {
            StoreError::Conflict { operation } => StoreError::Conflict { operation },
            StoreError::NotFound { operation } => StoreError::NotFound { operation },
            StoreError::Busy { operation, .. } => StoreError::Busy { operation, source: None },
            StoreError::Draining { operation } => StoreError::Draining { operation },
            StoreError::Unavailable { operation, .. } => {
                StoreError::Unavailable { operation, source: "see the first failure of this batch".into() }
            }
            StoreError::Full { operation, .. } => StoreError::Full { operation, source: None },
            StoreError::Corrupt { operation, detail } => StoreError::Corrupt { operation, detail: detail.clone() },
        }
    }
}
