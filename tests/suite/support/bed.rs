//! A database in a folder of its own, for one test, and the ways round the store into it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;
use scroll::store::{OpenError, OpenMode, OpenSettings, Store, open};
use tempfile::TempDir;

use super::clock::TestClock;

/// The engines that the contract is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
}

/// How to open a store; the defaults are those of a server with the built-in types.
#[derive(Clone)]
pub struct Options {
    pub mode: OpenMode,
    pub max_batch: usize,
    pub catalog: Arc<Catalog>,
    pub metrics: Arc<Metrics>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: OpenMode::Exclusive,
            max_batch: 256,
            catalog: Arc::new(Catalog::builtin()),
            metrics: Arc::new(Metrics::new().unwrap()),
        }
    }
}

impl Options {
    /// With these declared types.
    pub fn types(toml: &str) -> Options {
        Options { catalog: Arc::new(Catalog::from_toml(toml).unwrap()), ..Options::default() }
    }
}

pub struct Bed {
    pub engine: Engine,
    pub clock: Arc<TestClock>,
    dir: TempDir,
}

#[derive(QueryableByName)]
struct NumberRow {
    #[diesel(sql_type = BigInt)]
    number: i64,
}

#[derive(QueryableByName)]
struct TextRow {
    #[diesel(sql_type = Text)]
    text: String,
}

impl Bed {
    pub fn new(engine: Engine) -> Bed {
        Bed { engine, clock: Arc::default(), dir: tempfile::tempdir().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("scroll.db")
    }

    pub fn url(&self) -> String {
        match self.engine {
            Engine::Sqlite => format!("sqlite:{}", self.path().display()),
        }
    }

    /// Opens the store, or says why not.
    pub async fn try_open(&self, options: Options) -> Result<Arc<dyn Store>, OpenError> {
        let settings = OpenSettings { url: self.url(), max_batch: options.max_batch, mode: options.mode };
        open(settings, options.catalog, self.clock.clone(), options.metrics).await
    }

    /// Opens the store with these options.
    pub async fn open_with(&self, options: Options) -> Arc<dyn Store> {
        self.try_open(options).await.unwrap()
    }

    /// Opens the store as a server does.
    pub async fn open(&self) -> Arc<dyn Store> {
        self.open_with(Options::default()).await
    }

    /// Closes one store as a server does when it ends.
    pub async fn close(store: Arc<dyn Store>) {
        store.close(Duration::from_secs(10)).await;
        assert_eq!(Arc::strong_count(&store), 1, "somebody still holds the store, and so its lock");
    }

    /// A connection past the store.
    pub fn connect(&self) -> SqliteConnection {
        match self.engine {
            Engine::Sqlite => {
                let mut connection = SqliteConnection::establish(self.path().to_str().unwrap()).unwrap();
                connection.batch_execute("PRAGMA busy_timeout=10000").unwrap();
                connection
            }
        }
    }

    /// Carries out SQL past the store.
    pub fn execute(&self, sql: &str) {
        self.connect().batch_execute(sql).unwrap();
    }

    /// What `SELECT … AS number` says past the store.
    pub fn number(&self, sql: &str) -> i64 {
        diesel::sql_query(sql).get_result::<NumberRow>(&mut self.connect()).unwrap().number
    }

    /// What `SELECT … AS text` says past the store.
    pub fn text(&self, sql: &str) -> String {
        diesel::sql_query(sql).get_result::<TextRow>(&mut self.connect()).unwrap().text
    }

    /// Holds the write lock of the database, as a shell beside the server can, until it is dropped.
    pub fn hold_write_lock(&self) -> WriteLock {
        let mut connection = self.connect();
        connection.batch_execute("BEGIN IMMEDIATE").unwrap();
        WriteLock(connection)
    }
}

/// The write lock of the database.
pub struct WriteLock(SqliteConnection);

impl Drop for WriteLock {
    fn drop(&mut self) {
        self.0.batch_execute("ROLLBACK").unwrap();
    }
}
