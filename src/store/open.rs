//! Opening a store from its URL.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Store, StoreError, postgres, sqlite};
use crate::change::time::Clock;
use crate::entity::types::Catalog;
use crate::metrics::Metrics;

/// What to open, and how.
#[derive(Debug, Clone)]
pub struct OpenSettings {
    /// `sqlite:PATH` or `postgres://…`.
    pub url: String,
    /// Most submissions in one commit.
    pub max_batch: usize,
    /// Alone, or beside a server.
    pub mode: OpenMode,
    /// What only PostgreSQL asks for.
    pub postgres: PostgresSettings,
}

/// How to work with PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// Most connections that read at a time; four more write, up to four drain the outbox, and one tells
    /// heads.
    pub read_connections: usize,
    /// Work also where a crash of the database may take back what was answered.
    pub accepts_data_loss: bool,
    /// Hot standbys that reads go to: one URL, with one host or several.
    pub read_url: Option<String>,
    /// What stands between this server and the database.
    pub pooler: Pooler,
    /// The way past a pooler, for hearing of heads at once.
    pub listen_url: Option<String>,
}

impl Default for PostgresSettings {
    fn default() -> PostgresSettings {
        PostgresSettings {
            read_connections: 8,
            accepts_data_loss: false,
            read_url: None,
            pooler: Pooler::None,
            listen_url: None,
        }
    }
}

/// What stands between a server and the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooler {
    /// Nothing, or something that keeps one session for one connection.
    None,
    /// A pooler that may hand every transaction to another session, as pgbouncer does with
    /// `pool_mode = transaction`.
    Transaction,
}

/// Who else may have the database open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// A server or an import: on SQLite one process at a time, on PostgreSQL any number.
    Exclusive,
    /// A short command that may run beside a server.
    Beside,
}

/// Why a store was not opened, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL names no engine, or no place.
    #[error("the database URL {url:?} cannot be used: {reason}; write sqlite:PATH or postgres://USER@HOST/DATABASE")]
    BadUrl {
        /// The URL.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another process works on the file.
    #[error(
        "{path} is in use by another scroll process{}; stop that one first, or write through its HTTP API",
        holder_in_words(holder)
    )]
    InUse {
        /// The database file.
        path: String,
        /// The other's process number, when it is known.
        holder: String,
    },
    /// The database cannot be opened.
    #[error("{path} cannot be opened: {source}")]
    Unusable {
        /// The database file, or where the database is.
        path: String,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The file belongs to something else.
    #[error("{path} is not a database of scroll ({found}); nothing was written to it")]
    NotOurs {
        /// The database file.
        path: String,
        /// What it is instead.
        found: String,
    },
    /// The file system does not give what durability needs.
    #[error("{path} would not be durable ({found}); a crash must not take back what was answered")]
    NotDurable {
        /// The database.
        path: String,
        /// What is in force.
        found: String,
    },
    /// The URL for reads leads elsewhere.
    #[error("{path} is not a standby of the database ({found}); --read-url must lead to a copy of --database-url")]
    NotAStandby {
        /// Where the URL leads.
        path: String,
        /// What is there instead.
        found: String,
    },
    /// A newer server made the schema.
    #[error("the database was made by a newer version (its schema is at {version}); start that version")]
    NewerSchema {
        /// The first migration that this server does not know.
        version: String,
    },
    /// A server of this version has not opened the database yet.
    #[error("the schema of the database is older than this command; start the server of this version once")]
    OlderSchema,
    /// The schema could not be brought up to date.
    #[error("the schema cannot be brought up to date: {0}")]
    Migration(#[source] Box<dyn Error + Send + Sync>),
    /// A read or write that opening needs failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A thread could not be started.
    #[error("a database thread cannot be started: {0}")]
    Thread(#[source] std::io::Error),
}

fn holder_in_words(holder: &str) -> String {
    if holder.is_empty() { String::new() } else { format!(" (process {holder})") }
}

/// Opens the store that the URL names, with its schema brought up to date.
pub async fn open(
    settings: OpenSettings,
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<Arc<dyn Store>, OpenError> {
    if is_postgres(&settings.url) {
        return Ok(Arc::new(postgres::open(&settings, catalog, clock, metrics).await?));
    }
    let path = sqlite_path(&settings.url)?;
    let opened = tokio::task::spawn_blocking(move || sqlite::open(path, &settings, catalog, clock, metrics)).await;
    match opened {
        Ok(store) => Ok(Arc::new(store?)),
        Err(panic) => Err(OpenError::Store(StoreError::Corrupt { operation: "open", detail: panic.to_string() })),
    }
}

/// True for a URL of PostgreSQL.
pub fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// The path in a `sqlite:` URL.
pub fn sqlite_path(url: &str) -> Result<PathBuf, OpenError> {
    let bad = |reason: &str| OpenError::BadUrl { url: url.to_owned(), reason: reason.into() };
    let path = url.strip_prefix("sqlite:").ok_or_else(|| bad("it does not begin with sqlite:"))?;
    let path = path.strip_prefix("//").unwrap_or(path);
    match path {
        "" => Err(bad("it names no file")),
        ":memory:" => Err(bad("a log in memory would not be durable")),
        path => Ok(PathBuf::from(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_file() {
        assert_eq!(sqlite_path("sqlite:scroll.db").unwrap(), PathBuf::from("scroll.db"));
        assert_eq!(sqlite_path("sqlite:///var/lib/scroll.db").unwrap(), PathBuf::from("/var/lib/scroll.db"));
        for bad in ["", "scroll.db", "sqlite:", "sqlite::memory:", "mysql://x"] {
            assert!(sqlite_path(bad).is_err(), "{bad:?}");
        }
    }
}
