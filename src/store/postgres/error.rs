//! What PostgreSQL says, as what it means.
//!
//! diesel hands over the kind of a few errors (40001 and 25006 among them) and the message of all, not the
//! SQLSTATE, so the others are told by their message. Those are PostgreSQL's own words in English: sessions
//! ask for them (`lc_messages`), and where a server refuses that, an error that is not understood counts as
//! [`Fault::Refused`] and goes out as unavailable, which is safe: whoever tries again is served.

use diesel::result::{DatabaseErrorKind, Error as DieselError};
use tokio_postgres::error::SqlState;

use super::tls;
use crate::store::StoreError;

/// Kinds of failure that are treated differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is there already.
    Conflict,
    /// Somebody else was in the way; the same again will most likely succeed.
    Retry,
    /// A lock or a free connection did not come in time. Nothing was done.
    Busy,
    /// The disk is full.
    Full,
    /// A file of the database contradicts itself.
    Corrupt,
    /// The statement took too long.
    TimedOut,
    /// The connection is gone, or goes.
    Broken,
    /// This statement was refused; another one might not be.
    Refused,
}

/// Message parts and what they mean, each with its SQLSTATE.
const MESSAGES: [(&str, Fault); 19] = [
    ("deadlock detected", Fault::Retry),               // 40P01
    ("could not serialize access", Fault::Retry),      // 40001
    ("due to lock timeout", Fault::Busy),              // 55P03
    ("could not obtain lock", Fault::Busy),            // 55P03
    ("too many clients", Fault::Busy),                 // 53300
    ("connection slots are reserved", Fault::Busy),    // 53300
    ("No space left on device", Fault::Full),          // 53100
    ("Disk quota exceeded", Fault::Full),              // 53100
    ("due to statement timeout", Fault::TimedOut),     // 57014
    ("due to user request", Fault::TimedOut),          // 57014
    ("terminating connection", Fault::Broken),         // 57P01, 57P02, 25P03
    ("the database system is", Fault::Broken),         // 57P03
    ("server conn crashed", Fault::Broken),            // pgbouncer
    ("cannot connect to server", Fault::Broken),       // pgbouncer
    ("query_wait_timeout", Fault::Busy),               // pgbouncer: no session became free
    ("invalid page in block", Fault::Corrupt),         // XX001
    ("could not read block", Fault::Corrupt),          // XX001
    ("contains unexpected zero page", Fault::Corrupt), // XX002
    ("missing chunk number", Fault::Corrupt),          // XX001
];

/// What kind of failure this is.
pub fn fault_of(error: &DieselError) -> Fault {
    let DieselError::DatabaseError(kind, information) = error else {
        return Fault::Refused;
    };
    match kind {
        DatabaseErrorKind::UniqueViolation => Fault::Conflict,
        DatabaseErrorKind::SerializationFailure => Fault::Retry,
        DatabaseErrorKind::UnableToSendCommand | DatabaseErrorKind::ClosedConnection => Fault::Broken,
        // The primary has become a standby: another connection may lead to the one that writes now.
        DatabaseErrorKind::ReadOnlyTransaction => Fault::Broken,
        _ => {
            let known = MESSAGES.iter().find(|(part, _)| information.message().contains(part));
            known.map_or(Fault::Refused, |(_, fault)| *fault)
        }
    }
}

/// Turns a diesel error into a [`StoreError`] of this operation; for `map_err`.
pub fn while_(operation: &'static str) -> impl Fn(DieselError) -> StoreError {
    move |error| match (fault_of(&error), &error) {
        (_, DieselError::NotFound) => StoreError::NotFound { operation },
        (Fault::Conflict, _) => StoreError::Conflict { operation },
        (Fault::Busy | Fault::Retry, _) => StoreError::Busy { operation, source: Some(Box::new(error)) },
        (Fault::Full, _) => StoreError::Full { operation, source: Some(Box::new(error)) },
        (Fault::Corrupt, _) => StoreError::Corrupt { operation, detail: error.to_string() },
        (Fault::TimedOut | Fault::Broken | Fault::Refused, _) => {
            StoreError::Unavailable { operation, source: Box::new(error) }
        }
    }
}

/// True when it was the connection that failed, so that another one may do better.
pub fn is_broken(error: &StoreError) -> bool {
    match error {
        StoreError::Unavailable { source, .. } => {
            source.downcast_ref::<DieselError>().is_some_and(|error| fault_of(error) == Fault::Broken)
        }
        _ => false,
    }
}

/// Inside a transaction, what the database said and what we found ourselves travel side by side.
pub enum Trouble {
    /// The database said no.
    Sql(DieselError),
    /// What it said makes no sense, or the answer is no.
    Found(StoreError),
}

impl From<DieselError> for Trouble {
    fn from(error: DieselError) -> Trouble {
        Trouble::Sql(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Trouble {
        Trouble::Found(error)
    }
}

/// A connection that could not be opened.
pub fn unreachable(operation: &'static str) -> impl Fn(tokio_postgres::Error) -> StoreError {
    move |error| match error.code() {
        None if tls::refusal(&error).is_some() => {
            let source = tls::refusal(&error).unwrap_or_default().into();
            StoreError::Unavailable { operation, source }
        }
        Some(&SqlState::TOO_MANY_CONNECTIONS) => StoreError::Busy { operation, source: Some(Box::new(error)) },
        Some(&SqlState::DISK_FULL) => StoreError::Full { operation, source: Some(Box::new(error)) },
        _ => StoreError::Unavailable { operation, source: Box::new(error) },
    }
}

/// A task of the store ended without an answer: it panicked, or the runtime ends.
pub fn gone(operation: &'static str) -> StoreError {
    StoreError::Unavailable { operation, source: "the database task has ended".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(kind: DatabaseErrorKind, message: &str) -> DieselError {
        DieselError::DatabaseError(kind, Box::new(message.to_owned()))
    }

    #[test]
    fn what_is_not_understood_is_unavailable() {
        for (message, fault) in [
            ("deadlock detected", Fault::Retry),
            ("canceling statement due to lock timeout", Fault::Busy),
            ("canceling statement due to statement timeout", Fault::TimedOut),
            ("could not extend file \"base/1/2\": No space left on device", Fault::Full),
            ("terminating connection due to administrator command", Fault::Broken),
            ("etwas ging schief", Fault::Refused),
        ] {
            assert_eq!(fault_of(&said(DatabaseErrorKind::Unknown, message)), fault, "{message}");
        }
        let unknown = while_("x")(said(DatabaseErrorKind::Unknown, "etwas ging schief"));
        assert!(matches!(unknown, StoreError::Unavailable { .. }));
        // These two are told by their kind, whatever the language.
        let conflict = said(DatabaseErrorKind::SerializationFailure, "Deadlock, oder was auch immer");
        assert_eq!(fault_of(&conflict), Fault::Retry);
        let demoted = while_("x")(said(DatabaseErrorKind::ReadOnlyTransaction, "nur zum Lesen"));
        assert!(is_broken(&demoted), "a primary that became a standby is left");
        let taken = while_("x")(said(DatabaseErrorKind::UniqueViolation, "duplicate key"));
        assert!(matches!(taken, StoreError::Conflict { .. }));
    }
}
