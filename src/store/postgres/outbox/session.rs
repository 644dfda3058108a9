//! A connection for those who look after the outbox: capture tables, and decide about refused rows.

use diesel::result::Error as DieselError;
use diesel_async::{AsyncPgConnection, SimpleAsyncConnection as _};

use super::super::connection::{Connector, Purpose};
use super::super::error::{Fault, fault_of, while_};
use super::super::migrator;
use crate::store::{OpenError, OpenMode, StoreError};

/// A connection to a database with a log in it.
pub struct Session {
    pub(super) connection: AsyncPgConnection,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The database opens, and says no: in its words, for people.
    #[error("{0}")]
    Refused(String),
    /// The database does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Session {
    /// Connects beside a server that may be running; its schema must be as new as this program.
    pub async fn open(url: &str) -> Result<Session, SessionError> {
        let connector = Connector::new(url)?;
        let connected = connector.connect(Purpose::Work).await;
        let mut connection =
            connected.map_err(|error| OpenError::Unusable { path: connector.place(), source: Box::new(error) })?;
        migrator::migrate(&mut connection, OpenMode::Beside).await?;
        Ok(Session { connection })
    }

    /// Carries out a setting of the session.
    pub(super) async fn set(&mut self, sql: &str) -> Result<(), SessionError> {
        Ok(self.connection.batch_execute(sql).await.map_err(while_("set up a session"))?)
    }
}

/// Tells a no of the database from a failure.
pub(super) fn sorted(operation: &'static str) -> impl Fn(DieselError) -> SessionError {
    move |error| match (&error, fault_of(&error)) {
        (DieselError::DatabaseError(_, said), Fault::Refused) => SessionError::Refused(match said.hint() {
            Some(hint) => format!("{}; {hint}", said.message()),
            None => said.message().to_owned(),
        }),
        _ => SessionError::Store(while_(operation)(error)),
    }
}
