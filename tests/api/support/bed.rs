//! A database in a folder of its own, and servers on it, each the real one on a free port.

use std::ops::Deref;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use scroll::access::{NewKey, Scope};
use scroll::api::{Limits, StreamTimes};
use scroll::change::time::Clock;
use scroll::change::{LogName, Resource, Timestamp};
use scroll::entity::types::Catalog;
use scroll::metrics::Metrics;
use scroll::server::{Server, ServerSettings};
use scroll::store::{OpenError, OpenMode, OpenSettings, PostgresSettings, Store, open};
use tokio::runtime::Runtime;

use super::Client;
use super::database::Database;
pub use super::database::Engine;

/// One runtime for all servers of the binary.
pub static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap());

/// A clock that goes with the machine, moved by what a test says.
#[derive(Debug, Default)]
pub struct MovedClock(AtomicI64);

impl MovedClock {
    /// Moves it by seconds, in either direction.
    pub fn step(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        let machine = scroll::change::time::SystemClock.now().as_micros();
        Timestamp::from_micros(machine + self.0.load(Ordering::SeqCst))
    }
}

/// How to start a server; the defaults are those of the program.
pub struct Options {
    pub catalog: Catalog,
    pub limits: Limits,
    pub stream_times: StreamTimes,
    pub cors_origins: Vec<String>,
    pub metrics_listener: bool,
    pub max_batch: usize,
    pub postgres: PostgresSettings,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            catalog: Catalog::builtin(),
            limits: Limits::default(),
            stream_times: StreamTimes::default(),
            cors_origins: Vec::new(),
            metrics_listener: false,
            max_batch: 256,
            postgres: PostgresSettings { accepts_data_loss: true, ..PostgresSettings::default() },
        }
    }
}

pub struct Bed {
    pub clock: Arc<MovedClock>,
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

    /// On a database of PostgreSQL that is there, migrated or not.
    pub fn at(url: String) -> Bed {
        Bed { clock: Arc::default(), database: Database::at(url) }
    }

    /// A server with a log `default` and a client whose key may do everything in it.
    pub fn start(&self) -> TestServer {
        self.start_with(Options::default())
    }

    pub fn start_with(&self, options: Options) -> TestServer {
        self.try_start(options).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, or why the database was not opened.
    pub fn try_start(&self, options: Options) -> Result<TestServer, OpenError> {
        let catalog = Arc::new(options.catalog);
        let metrics = Arc::new(Metrics::new().unwrap());
        let settings = OpenSettings {
            url: self.url(),
            max_batch: options.max_batch,
            mode: OpenMode::Exclusive,
            postgres: options.postgres,
        };
        let local = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        RUNTIME.block_on(async {
            let store = open(settings, catalog.clone(), self.clock.clone(), metrics.clone()).await?;
            let settings = ServerSettings {
                listen: local(0),
                metrics_listen: options.metrics_listener.then(|| local(0)),
                cors_origins: options.cors_origins,
                limits: options.limits,
                stream_times: options.stream_times,
                workers: 2,
                drain_deadline: Duration::from_secs(5),
            };
            let server =
                Server::start(settings, store.clone(), catalog, self.clock.clone(), metrics.clone()).await.unwrap();
            let log = LogName::parse("default").unwrap();
            if store.log(&log).await.unwrap().is_none() {
                store.create_log(&log).await.unwrap();
            }
            let client = Client::new(server.address());
            let mut started = TestServer { client, store, metrics, server: Some(server) };
            started.client = started.client_with(&started.key_async(Some("default"), &Scope::ALL, None).await);
            Ok(started)
        })
    }
}

/// A running server.
pub struct TestServer {
    /// A client with a key for everything in the log `default`.
    pub client: Client,
    pub store: Arc<dyn Store>,
    pub metrics: Arc<Metrics>,
    server: Option<Server>,
}

impl TestServer {
    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Makes a log.
    pub fn make_log(&self, name: &str) {
        RUNTIME.block_on(self.store.create_log(&LogName::parse(name).unwrap())).unwrap();
    }

    /// Makes a key for one log, or for all.
    pub fn key(&self, log: Option<&str>, scopes: &[Scope], resources: Option<&[&str]>) -> String {
        RUNTIME.block_on(self.key_async(log, scopes, resources))
    }

    async fn key_async(&self, log: Option<&str>, scopes: &[Scope], resources: Option<&[&str]>) -> String {
        let key = NewKey {
            log: log.map(|log| LogName::parse(log).unwrap()),
            scopes: scopes.iter().copied().collect(),
            resources: resources.map(|names| names.iter().map(|name| Resource::parse(name).unwrap()).collect()),
            name: None,
            expires_at: None,
        };
        self.store.create_key(key).await.unwrap().1.reveal().to_owned()
    }

    /// A client of this server with this key.
    pub fn client_with(&self, key: &str) -> Client {
        Client::new(self.server().address()).with_key(key)
    }

    /// A client with a new key.
    pub fn client_for(&self, log: &str, scopes: &[Scope], resources: Option<&[&str]>) -> Client {
        self.client_with(&self.key(Some(log), scopes, resources))
    }

    /// Goes down as the program does.
    pub fn stop(mut self) {
        self.take_down();
    }

    fn take_down(&mut self) {
        if let Some(server) = self.server.take() {
            // The pool of the client holds idle connections.
            self.client = Client::new(server.address());
            RUNTIME.block_on(server.drain());
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.take_down();
        }
    }
}
