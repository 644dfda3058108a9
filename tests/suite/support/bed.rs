//! A database in a folder of its own, for one test, and the ways round the store into it.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;
use scroll::store::{OpenError, OpenMode, OpenSettings, PostgresSettings, Store, open};

use super::clock::TestClock;
use super::database::Database;
pub use super::database::Engine;

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
    pub clock: Arc<TestClock>,
    database: Database,
}

impl Deref for Bed {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

impl Bed {
    pub fn new(engine: Engine) -> Bed {
        Bed { clock: Arc::default(), database: Database::new(engine) }
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

    /// Everything that is stored about keys, for those who look for what must not be there.
    pub fn stored_keys(&self) -> Vec<u8> {
        match self.engine {
            Engine::Sqlite => std::fs::read(self.path()).unwrap(),
            Engine::Postgres => self.text("SELECT string_agg(k::text, ' ') FROM scroll.keys AS k").into_bytes(),
        }
    }
}
