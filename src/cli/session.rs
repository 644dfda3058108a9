//! The connection of the commands that only PostgreSQL has: `capture`, `release`, `outbox`.

use super::CliError;
use crate::config::Database;
use crate::store::postgres::outbox::{Session, SessionError};
use crate::store::{Pooler, is_postgres};

/// Connects, beside a server that may be running.
pub async fn session(database: &Database) -> Result<Session, CliError> {
    if !is_postgres(database.url.as_str()) {
        let only = "only a database of PostgreSQL has tables of applications beside the log: \
                    give --database-url postgres://USER@HOST/DATABASE";
        return Err(CliError::CouldNot(only.into()));
    }
    if database.postgres.pooler != Pooler::None {
        let past = "capture, release and outbox keep a session: give them a --database-url past the pooler";
        return Err(CliError::CouldNot(past.into()));
    }
    Session::open(database.url.as_str()).await.map_err(failed)
}

/// Why it was not done, as a command says it.
pub fn failed(error: SessionError) -> CliError {
    match error {
        SessionError::Refused(said) => CliError::Refused(said),
        SessionError::Open(error) => CliError::Open(error),
        SessionError::Store(source) => CliError::Store { source },
    }
}
