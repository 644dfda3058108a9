//! The settings that every command with a database shares, and opening it.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use clap::Args;

use super::CliError;
use crate::change::LogName;
use crate::change::time::{Clock, SystemClock};
use crate::config::{DEFAULT_DATABASE_URL, Database, DatabaseUrl, SettingFaults, Types, parse_number, parse_switch};
use crate::entity::types::Catalog;
use crate::metrics::Metrics;
use crate::store::{self, OpenMode, OpenSettings, Pooler, PostgresSettings, Store};

/// Submissions in one commit, when nobody says otherwise.
pub const DEFAULT_MAX_BATCH: usize = 256;

/// Where the database is.
#[derive(Debug, Args)]
pub struct DatabaseArgs {
    /// The database: sqlite:PATH, a file that is made when it is not there, or postgres://USER@HOST/DATABASE
    #[arg(long, env = "SCROLL_DATABASE_URL", default_value = DEFAULT_DATABASE_URL, value_name = "URL")]
    pub database_url: String,
    /// PostgreSQL: most connections that read at a time, 1 to 200; four more write, up to four drain the outbox, and one tells heads
    #[arg(long, env = "SCROLL_DATABASE_CONNECTIONS", default_value = "8", value_name = "COUNT")]
    pub database_connections: String,
    /// PostgreSQL: work also where fsync, full_page_writes or synchronous_commit is off, so that a crash of the database may take back what was answered
    #[arg(
        long,
        env = "SCROLL_ACCEPT_DATA_LOSS",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_name = "BOOL"
    )]
    pub accept_data_loss: String,
    /// PostgreSQL: what stands between: none, or transaction for a pooler in transaction mode
    #[arg(long, env = "SCROLL_DATABASE_POOLER", default_value = "none", value_name = "MODE")]
    pub database_pooler: String,
}

/// Most connections that may be asked for; a database with more is slower, not faster.
const MAX_CONNECTIONS: usize = 200;

impl DatabaseArgs {
    /// Checks the settings.
    pub fn configure(&self) -> Result<Database, SettingFaults> {
        let mut faults = SettingFaults::default();
        let url = faults.keep_as("--database-url", DatabaseUrl::parse(&self.database_url));
        let connections = parse_number(&self.database_connections, 1..=MAX_CONNECTIONS, "connections");
        let connections = faults.keep_as("--database-connections", connections);
        let accepts_data_loss = faults.keep_as("--accept-data-loss", parse_switch(&self.accept_data_loss));
        let pooler = faults.keep_as("--database-pooler", parse_pooler(&self.database_pooler));
        match (url, connections, accepts_data_loss, pooler) {
            (Some(url), Some(read_connections), Some(accepts_data_loss), Some(pooler)) => {
                let defaults = PostgresSettings::default();
                let postgres = PostgresSettings { read_connections, accepts_data_loss, pooler, ..defaults };
                Ok(Database { url, postgres })
            }
            _ => Err(faults),
        }
    }
}

fn parse_pooler(text: &str) -> Result<Pooler, String> {
    match text {
        "none" | "" => Ok(Pooler::None),
        "transaction" => Ok(Pooler::Transaction),
        _ => Err(format!("{text:?} is neither none nor transaction")),
    }
}

/// Which resource types are declared.
#[derive(Debug, Args)]
pub struct TypesArgs {
    /// A TOML file of declared resource types; it replaces the built-in example (customer, subscription, membership)
    #[arg(long, env = "SCROLL_TYPES", value_name = "FILE")]
    pub types: Option<OsString>,
    /// Refuse resources that are not declared: true or false [default: accept them without rules]
    #[arg(
        long,
        env = "SCROLL_STRICT",
        num_args = 0..=1,
        require_equals = true,
        default_value = "false",
        default_missing_value = "true",
        hide_default_value = true,
        value_name = "BOOL"
    )]
    pub strict: String,
}

impl TypesArgs {
    /// Reads the file; an empty path counts as none, as environments often have it.
    pub fn configure(&self) -> Result<Types, SettingFaults> {
        let mut faults = SettingFaults::default();
        let strict = faults.keep_as("--strict", parse_switch(&self.strict));
        let file = self.types.as_deref().filter(|path| !path.is_empty()).map(Path::new);
        let types = faults.keep(Types::load(file, strict.unwrap_or(false)));
        types.filter(|_| strict.is_some()).ok_or(faults)
    }
}

/// What a command works with.
pub struct Opened {
    /// The database.
    pub store: Arc<dyn Store>,
    /// The declared types.
    pub catalog: Arc<Catalog>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// Opens the database.
pub async fn open(database: &Database, catalog: Catalog, max_batch: usize, mode: OpenMode) -> Result<Opened, CliError> {
    let metrics = Arc::new(Metrics::new().map_err(CliError::Metrics)?);
    let (catalog, clock): (_, Arc<dyn Clock>) = (Arc::new(catalog), Arc::new(SystemClock));
    let settings =
        OpenSettings { url: database.url.as_str().to_owned(), max_batch, mode, postgres: database.postgres.clone() };
    let store = store::open(settings, catalog.clone(), clock.clone(), metrics.clone()).await.map_err(CliError::Open)?;
    Ok(Opened { store, catalog, clock, metrics })
}

/// Opens the database beside a server that may be running, for administration.
pub async fn open_beside(database: &Database) -> Result<Opened, CliError> {
    open(database, Catalog::builtin(), DEFAULT_MAX_BATCH, OpenMode::Beside).await
}

/// As [`open_beside`], for commands that only look at what is there.
pub async fn open_existing(database: &Database) -> Result<Opened, CliError> {
    must_exist(&database.url)?;
    open_beside(database).await
}

/// A mistyped path must not look like an empty database, and must not be made.
pub fn must_exist(url: &DatabaseUrl) -> Result<(), CliError> {
    if store::is_postgres(url.as_str()) {
        return Ok(());
    }
    let path = store::sqlite_path(url.as_str()).map_err(CliError::Open)?;
    match std::fs::metadata(&path) {
        Ok(found) if found.len() > 0 => Ok(()),
        Ok(_) => Err(CliError::CouldNot(format!("{} is empty: there is no database in it", path.display()))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(CliError::CouldNot(format!("there is no database at {}", path.display())))
        }
        Err(source) => Err(CliError::Io { what: format!("{} cannot be looked at", path.display()), source }),
    }
}

/// Reads the name of a log, for clap.
pub fn log_name(text: &str) -> Result<LogName, String> {
    LogName::parse(text).map_err(|invalid| invalid.to_string())
}

/// What to say when a log is not there.
pub fn no_such_log(name: &LogName) -> CliError {
    CliError::Refused(format!(
        "there is no log {name}; `scroll logs list` shows them, `scroll logs create {name}` makes it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_not_there_is_not_clean_and_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.db");
        let url = DatabaseUrl::parse(&format!("sqlite:{}", path.display())).unwrap();
        assert_eq!((must_exist(&url).unwrap_err().exit_code(), path.exists()), (2, false));
        std::fs::write(&path, "").unwrap();
        assert_eq!(must_exist(&url).unwrap_err().exit_code(), 2);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        std::fs::write(&path, "x").unwrap();
        assert!(must_exist(&url).is_ok());
    }
}
