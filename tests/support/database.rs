//! A database for one test on one of the engines, and the ways past the store into it.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::PathBuf;

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text};
use tempfile::TempDir;

use super::postgres;

/// The engines that every rule is held against.
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

/// An empty database with the schema in it, and a folder beside it.
pub struct Database {
    pub engine: Engine,
    dir: TempDir,
    /// Where it is, when it is not in `dir`.
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

impl Database {
    pub fn new(engine: Engine) -> Database {
        let cluster = || postgres::cluster().expect("tests of an engine run where it is");
        let postgres = (engine == Engine::Postgres).then(|| cluster().database());
        Database { engine, dir: tempfile::tempdir().unwrap(), postgres }
    }

    /// A database of PostgreSQL that is there.
    pub fn at(url: String) -> Database {
        Database { engine: Engine::Postgres, dir: tempfile::tempdir().unwrap(), postgres: Some(url) }
    }

    pub fn folder(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    /// The file of SQLite.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("scroll.db")
    }

    pub fn url(&self) -> String {
        self.postgres.clone().unwrap_or_else(|| format!("sqlite:{}", self.path().display()))
    }

    /// A shell past the store.
    pub fn shell(&self) -> Shell {
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
pub enum Shell {
    Sqlite(SqliteConnection),
    Postgres(postgres::Shell),
}

impl Shell {
    pub fn execute(&mut self, sql: &str) {
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
