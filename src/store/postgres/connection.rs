//! Connections: where they lead, how they are opened, and the look at durability. See `session` for their
//! settings.

use std::time::Duration;

use diesel::connection::CacheSize;
use diesel::sql_types::Text;
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use tokio_postgres::config::{Config, Host, TargetSessionAttrs};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{unreachable, while_};
use super::session::set_up;
pub use super::session::{Frame, Purpose};
use super::statement::Statement;
use super::tls;
use crate::store::{OpenError, Pooler, StoreError};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// How soon a silent peer is asked whether it lives, how often after that, and how many times.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_AGAIN: Duration = Duration::from_secs(5);
const KEEPALIVES: u32 = 3;
/// When data that the other side does not acknowledge breaks the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(20);

/// Opens connections to one database.
#[derive(Clone)]
pub struct Connector {
    config: Config,
    tls: MakeRustlsConnect,
    pooler: Pooler,
}

impl Connector {
    /// Reads the URL. Of several hosts, that one is used which takes writes.
    pub fn new(url: &str, pooler: Pooler) -> Result<Connector, OpenError> {
        let mut connector = Connector::to_any(url, pooler)?;
        if connector.config.get_hosts().len() > 1 {
            connector.config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(connector)
    }

    /// Reads the URL. Any of several hosts will do.
    pub fn to_any(url: &str, pooler: Pooler) -> Result<Connector, OpenError> {
        let bad = |reason| OpenError::BadUrl { url: redacted(url), reason };
        let asked = tls::Asked::take(url).map_err(bad)?;
        let mut config: Config = asked.url.parse().map_err(|error| bad(in_words(&error)))?;
        config.ssl_mode(asked.mode);
        if config.get_application_name().is_none() {
            config.application_name("scroll");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE_AGAIN).keepalives_retries(KEEPALIVES);
        config.tcp_user_timeout(UNACKNOWLEDGED);
        Ok(Connector { config, tls: asked.tls, pooler })
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

    /// How operations are bracketed on its connections.
    pub fn frame(&self, purpose: Purpose) -> Frame {
        Frame::of(self.pooler, purpose)
    }

    /// Opens a connection.
    pub async fn connect(&self, purpose: Purpose) -> Result<AsyncPgConnection, StoreError> {
        let operation = "connect";
        let (client, mut connection) = self.config.connect(self.tls.clone()).await.map_err(unreachable(operation))?;
        let refused = |error| StoreError::Unavailable { operation, source: Box::new(error) };
        if self.pooler == Pooler::None {
            let mut connection =
                AsyncPgConnection::try_from_client_and_connection(client, connection).await.map_err(refused)?;
            set_up(&mut connection, purpose).await?;
            return Ok(connection);
        }
        // What the wrapper sets for itself is prepared, so it needs a transaction around it.
        tokio::select! {
            begun = client.batch_execute("BEGIN") => begun.map_err(unreachable(operation))?,
            ended = &mut connection => {
                let source = ended.err().map_or_else(|| "it was closed".into(), Into::into);
                return Err(StoreError::Unavailable { operation, source });
            }
        }
        let mut connection =
            AsyncPgConnection::try_from_client_and_connection(client, connection).await.map_err(refused)?;
        connection.batch_execute("ROLLBACK").await.map_err(while_(operation))?;
        connection.set_prepared_statement_cache_size(CacheSize::Disabled);
        Ok(connection)
    }
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
            assert!(!Connector::new(url, Pooler::None).unwrap().place().contains("hunter2"));
        }
        let refused = Connector::new("postgres://scroll:hunter2@db:none/s", Pooler::None).err().unwrap().to_string();
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}
