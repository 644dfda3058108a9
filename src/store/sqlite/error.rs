//! What SQLite says, as what it means.

use std::error::Error;

use diesel::result::{DatabaseErrorKind, Error as DieselError};

use crate::store::StoreError;

/// Turns a diesel error into a [`StoreError`] of this operation; for `map_err`.
pub fn while_(operation: &'static str) -> impl Fn(DieselError) -> StoreError {
    move |error| {
        let text = error.to_string();
        match error {
            DieselError::NotFound => StoreError::NotFound { operation },
            DieselError::DatabaseError(DatabaseErrorKind::UniqueViolation, _) => StoreError::Conflict { operation },
            // diesel hands over SQLite's message, not its code; these texts are fixed in SQLite (sqlite3ErrStr).
            _ if text.contains("database is locked") || text.contains("database table is locked") => {
                StoreError::Busy { operation, source: Some(boxed(error)) }
            }
            _ if text.contains("database or disk is full") => {
                StoreError::Full { operation, source: Some(boxed(error)) }
            }
            _ if text.contains("malformed") || text.contains("not a database") => {
                StoreError::Corrupt { operation, detail: text }
            }
            _ => StoreError::Unavailable { operation, source: boxed(error) },
        }
    }
}

/// The worker thread is gone: it panicked, or the store was closed.
pub fn gone(operation: &'static str) -> StoreError {
    StoreError::Unavailable { operation, source: "the database thread has ended".into() }
}

/// Inside a diesel transaction both kinds of error travel as ours.
impl From<DieselError> for StoreError {
    fn from(error: DieselError) -> StoreError {
        while_("transaction")(error)
    }
}

fn boxed(error: DieselError) -> Box<dyn Error + Send + Sync> {
    Box::new(error)
}
