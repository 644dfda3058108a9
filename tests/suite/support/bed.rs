//! A database in a folder of its own, for one test, and the ways round the store into it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;
use scroll::store::{OpenError, OpenMode, OpenSettings, PostgresSettings, Store, open};
use tempfile::TempDir;

use super::clock::TestClock;
use super::postgres;

/// The engines that the contract is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    /// False where the engine cannot be tested, which was said loudly.
    pub fn is_there(self) -> bool {
        match self {
            Engine::Sqlite => true,
            Engine::Postgres => postgres::cluster().is_some(),
        }
    }
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
    /// Where the database is, when it is not in `dir`.
    postgres: Option<String>,
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
        let cluster = || postgres::cluster().expect("tests of an engine run where it is");
        let postgres = (engine == Engine::Postgres).then(|| cluster().database());
        Bed { engine, clock: Arc::default(), dir: tempfile::tempdir().unwrap(), postgres }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("scroll.db")
    }

    pub fn url(&self) -> String {
        self.postgres.clone().unwrap_or_else(|| format!("sqlite:{}", self.path().display()))
    }

    /// Opens the store, or says why not.
    pub async fn try_open(&self, options: Options) -> Result<Arc<dyn Store>, OpenError> {
        let settings = OpenSettings {
            url: self.url(),
            max_batch: options.max_batch,
            mode: options.mode,
            postgres: PostgresSettings { accepts_data_loss: true, ..PostgresSettings::default() },
        };
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

    /// A shell past the store.
    fn shell(&self) -> Shell {
        match &self.postgres {
            Some(url) => Shell::Postgres(postgres::Shell::connect(url)),
            None => {
                let mut connection = SqliteConnection::establish(self.path().to_str().unwrap()).unwrap();
                connection.batch_execute("PRAGMA busy_timeout=10000").unwrap();
                Shell::Sqlite(connection)
            }
        }
    }

    /// Carries out SQL past the store.
    pub fn execute(&self, sql: &str) {
        self.shell().execute(sql);
    }

    /// What `SELECT … AS number` says past the store.
    pub fn number(&self, sql: &str) -> i64 {
        match self.shell() {
            Shell::Sqlite(mut shell) => diesel::sql_query(sql).get_result::<NumberRow>(&mut shell).unwrap().number,
            Shell::Postgres(shell) => shell.get(sql),
        }
    }

    /// What `SELECT … AS text` says past the store.
    pub fn text(&self, sql: &str) -> String {
        match self.shell() {
            Shell::Sqlite(mut shell) => diesel::sql_query(sql).get_result::<TextRow>(&mut shell).unwrap().text,
            Shell::Postgres(shell) => shell.get(sql),
        }
    }

    /// Everything that is stored about keys, for those who look for what must not be there.
    pub fn stored_keys(&self) -> Vec<u8> {
        match self.engine {
            Engine::Sqlite => std::fs::read(self.path()).unwrap(),
            Engine::Postgres => self.text("SELECT string_agg(k::text, ' ') FROM scroll.keys AS k").into_bytes(),
        }
    }

    /// Holds the write lock of the database, as a shell beside the server can, until it is dropped.
    pub fn hold_write_lock(&self) -> WriteLock {
        let mut shell = self.shell();
        shell.execute(match self.engine {
            Engine::Sqlite => "BEGIN IMMEDIATE",
            Engine::Postgres => "BEGIN; LOCK TABLE scroll.logs IN EXCLUSIVE MODE",
        });
        WriteLock(shell)
    }
}

/// A connection past the store.
enum Shell {
    Sqlite(SqliteConnection),
    Postgres(postgres::Shell),
}

impl Shell {
    fn execute(&mut self, sql: &str) {
        match self {
            Shell::Sqlite(shell) => shell.batch_execute(sql).unwrap(),
            Shell::Postgres(shell) => shell.execute(sql),
        }
    }
}

/// The write lock of the database.
pub struct WriteLock(Shell);

impl Drop for WriteLock {
    fn drop(&mut self) {
        self.0.execute("ROLLBACK");
    }
}
