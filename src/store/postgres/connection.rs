//! Connections, with the limits and the planner settings of their session, and the look at durability.
//!
//! Every statement here goes through an index by design, and a statement may be planned while a table is
//! still empty; so sessions are told never to walk a whole table instead, and to plan once.

use std::time::Duration;

use diesel::result::QueryResult;
use diesel::sql_types::Text;
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use tokio_postgres::config::{Config, Host};

use super::error::{unreachable, while_};
use super::statement::Statement;
use crate::store::{OpenError, StoreError};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a statement may run: far more than any of them needs.
const STATEMENT: Duration = Duration::from_secs(30);
/// How long one waits for a lock, as on SQLite; then the write is refused as busy.
const LOCK: Duration = Duration::from_secs(10);
/// When the server ends a transaction that was left open: a server of ours that hangs must not hold a log.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(15);
/// How long a migration waits for the one that another server runs.
const MIGRATION_LOCK: Duration = Duration::from_secs(120);
/// How soon a silent peer is noticed.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// When data that the other side does not acknowledge breaks the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Reads, writes, heads.
    Work,
    /// The schema: takes as long as it takes.
    Migration,
}

/// Opens connections to one database.
#[derive(Debug, Clone)]
pub struct Connector {
    config: Config,
}

impl Connector {
    /// Reads the URL.
    pub fn new(url: &str) -> Result<Connector, OpenError> {
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| OpenError::BadUrl {
            url: redacted(url),
            reason: in_words(&error),
        })?;
        if config.get_application_name().is_none() {
            config.application_name("scroll");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        config.keepalives_idle(KEEPALIVE).tcp_user_timeout(UNACKNOWLEDGED);
        Ok(Connector { config })
    }

    /// Where it leads, without a secret.
    pub fn place(&self) -> String {
        let host = self.config.get_hosts().first().map_or_else(String::new, |host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        });
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        format!("postgres://{host}:{port}/{}", self.config.get_dbname().unwrap_or_default())
    }

    /// Opens a connection.
    pub async fn connect(&self, purpose: Purpose) -> Result<AsyncPgConnection, StoreError> {
        let operation = "connect";
        let (client, connection) = self.config.connect(tokio_postgres::NoTls).await.map_err(unreachable(operation))?;
        let mut connection = AsyncPgConnection::try_from_client_and_connection(client, connection)
            .await
            .map_err(|error| StoreError::Unavailable { operation, source: Box::new(error) })?;
        connection.batch_execute(&session(purpose)).await.map_err(while_(operation))?;
        // Only a superuser may; the others get the language of the server.
        let english: QueryResult<()> = connection.batch_execute("SET lc_messages = 'C'").await;
        if let Err(error) = english {
            tracing::trace!(%error, "messages stay in the language of the server");
        }
        Ok(connection)
    }
}

fn session(purpose: Purpose) -> String {
    let (statement, lock, idle) = match purpose {
        Purpose::Work => (STATEMENT, LOCK, IDLE_IN_TRANSACTION),
        Purpose::Migration => (Duration::ZERO, MIGRATION_LOCK, Duration::ZERO),
    };
    format!(
        "SET statement_timeout = {}; SET lock_timeout = {}; SET idle_in_transaction_session_timeout = {}; \
         SET default_transaction_isolation = 'read committed'; SET plan_cache_mode = force_generic_plan; \
         SET jit = off; SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; \
         SET enable_material = off; SET enable_hashjoin = off; SET enable_mergejoin = off",
        statement.as_millis(),
        lock.as_millis(),
        idle.as_millis()
    )
}

/// Asks what is in force. A commit that may be taken back would give a seq that readers have seen to
/// another change.
pub async fn check(
    connection: &mut AsyncPgConnection,
    connector: &Connector,
    accepts_data_loss: bool,
) -> Result<(), OpenError> {
    let sql = "SELECT current_setting('fsync'), current_setting('synchronous_commit'), \
               current_setting('full_page_writes'), current_setting('server_encoding')";
    let statement: Statement<'_, (Text, Text, Text, Text)> = Statement::new(sql, Vec::new());
    let (fsync, commit, pages, encoding): (String, String, String, String) =
        statement.get_result(connection).await.map_err(while_("look at the settings of the database"))?;
    if encoding != "UTF8" {
        let source = format!("its encoding is {encoding}; a log needs UTF8").into();
        return Err(OpenError::Unusable { path: connector.place(), source });
    }
    if fsync == "on" && commit != "off" && pages == "on" {
        return Ok(());
    }
    let found = format!("fsync={fsync}, synchronous_commit={commit}, full_page_writes={pages}");
    if accepts_data_loss {
        tracing::warn!(%found, "a crash of the database may take back what was answered; this was accepted");
        return Ok(());
    }
    Err(OpenError::NotDurable { path: connector.place(), found })
}

/// A URL without its password, for people.
pub fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "postgres:…".into();
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}://{user}@{host}{path}")
        }
        None => format!("{scheme}://{authority}{path}"),
    }
}

fn in_words(error: &tokio_postgres::Error) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    format!("{error}{}", cause.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_secret() {
        for (url, shown) in [
            ("postgres://db/scroll", "postgres://db/scroll"),
            ("postgres://scroll:hunter2@db:5433/scroll", "postgres://scroll@db:5433/scroll"),
            ("postgresql://scroll:h@u@db/s?password=hunter2", "postgresql://scroll@db/s"),
            ("postgres://scroll@db?password=hunter2", "postgres://scroll@db"),
        ] {
            assert_eq!(redacted(url), shown);
            assert!(!Connector::new(url).unwrap().place().contains("hunter2"));
        }
        let refused = Connector::new("postgres://scroll:hunter2@db:none/s").unwrap_err().to_string();
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
