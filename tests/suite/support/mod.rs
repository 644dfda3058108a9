//! What the tests share: a database of their own, a clock they set, commands in one line, and an
//! independent reading of the log to hold the store against.

pub mod audit;
pub mod bed;
pub mod clock;
pub mod commands;
#[path = "../../support/database.rs"]
pub mod database;
pub mod desk;
pub mod model;
#[path = "../../support/postgres.rs"]
pub mod postgres;

use std::future::Future;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use bed::{Bed, Engine};

/// No test may take longer; whoever waits for something that does not come fails here.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Runs one rule on one engine, on a fresh database.
pub fn run<T, F: Future<Output = T>>(engine: Engine, rule: impl FnOnce(Bed) -> F) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, rule(Bed::new(engine))).await.expect("the rule waited in vain")
    })
}

/// The tests of some rules, each `async fn(Bed)`, on every engine. A further engine is one more line.
macro_rules! on_every_engine {
    ($($rule:ident),* $(,)?) => {
        $crate::support::on_engine!(on_sqlite, Sqlite, $($rule),*);
        $crate::support::on_engine!(on_postgres, Postgres, $($rule),*);
    };
}

/// The tests of some rules on one engine.
macro_rules! on_engine {
    ($name:ident, $engine:ident, $($rule:ident),*) => {
        mod $name {
            $(
                #[test]
                fn $rule() {
                    let engine = $crate::support::bed::Engine::$engine;
                    if engine.is_there() {
                        $crate::support::run(engine, super::$rule);
                    }
                }
            )*
        }
    };
}

pub(crate) use {on_engine, on_every_engine};

/// The folder with real inputs, or `None`, loudly: tests use it where it is, and need it nowhere.
pub fn real_data() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let folder = std::env::var_os("SCROLL_TEST_DATA").map_or(beside, PathBuf::from);
    if folder.join("json/index.tsv").is_file() {
        return Some(folder);
    }
    // Not `eprintln!`: its text is kept from the terminal while a test passes.
    let words = format!("!!! THE REAL INPUTS ARE ABSENT ({}): SCROLL_TEST_DATA names them\n", folder.display());
    std::io::stderr().write_all(words.as_bytes()).unwrap();
    None
}
