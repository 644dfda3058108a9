//! `scroll serve`: checks every setting, opens the database, serves until a signal, drains.
//!
//! The first start of an empty database makes the log `default` and a key. That happens once the server
//! listens: a start that fails for any other reason does not lose a key that nobody has seen.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::database::{self, DatabaseArgs, Opened, TypesArgs, log_name};
use super::machines::MachineArgs;
use super::welcome::{self, Welcome};
use super::{CliError, terminal};
use crate::access::{NewKey, Scope, Secret};
use crate::api;
use crate::change::LogName;
use crate::config::{Database, SettingFaults, Types, parse_address, parse_number, parse_origin};
use crate::server::{Server, ServerSettings};
use crate::store::postgres::redacted;
use crate::store::{OpenMode, Store, StoreError};

/// The log that the first start makes.
const FIRST_LOG: &str = "default";
/// Most submissions that one commit may carry; more only makes everybody wait for each other.
const MAX_MAX_BATCH: usize = 4096;
/// Largest body that may be allowed: a body is held in memory while it is checked.
const MAX_BODY_BYTES: usize = 1024 * 1024 * 1024;
/// Most operations that a batch may be allowed to hold; they share one transaction.
const MAX_BATCH_OPERATIONS: usize = 1_000_000;
/// Most streams that may be allowed: more than one machine has ports for a proxy in front of it.
const MAX_STREAMS: usize = 1_000_000;
/// How long running answers may take once a signal came; closing the database comes after.
const DRAIN_DEADLINE: Duration = Duration::from_secs(8);
/// How long the database may take to close when the server did not start.
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);
/// When the process ends in any case; supervisors wait 10 seconds.
const STOP_DEADLINE: Duration = Duration::from_millis(9_500);

/// Settings of the server, as they are written.
#[derive(Debug, Args)]
pub struct ServeArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    machines: MachineArgs,
    #[command(flatten)]
    types: TypesArgs,
    /// Where to serve: IP address and port (port 0: any free one)
    #[arg(long, env = "SCROLL_LISTEN", default_value = "127.0.0.1:8080", value_name = "ADDRESS")]
    listen: String,
    /// Where to serve /metrics without a key, too [default: only with an admin key, beside everything else]
    #[arg(long, env = "SCROLL_METRICS_LISTEN", value_name = "ADDRESS")]
    metrics_listen: Option<String>,
    /// A web page's origin that may call from a browser, like `https://app.example.com`; repeat it, or separate by commas [default: none]
    #[arg(long = "cors-origin", env = "SCROLL_CORS_ORIGIN", value_delimiter = ',', value_name = "ORIGIN")]
    cors_origins: Vec<String>,
    /// Most write requests that share one commit, 1 to 4096
    #[arg(long, env = "SCROLL_MAX_BATCH", default_value = "256", value_name = "COUNT")]
    max_batch: String,
    /// Largest body of a single write, in bytes (1 MiB by default)
    #[arg(long, env = "SCROLL_MAX_BODY", default_value = "1048576", value_name = "BYTES")]
    max_body: String,
    /// Largest body of POST /v1/batch, in bytes (16 MiB by default)
    #[arg(long, env = "SCROLL_MAX_BATCH_BODY", default_value = "16777216", value_name = "BYTES")]
    max_batch_body: String,
    /// Most operations in one POST /v1/batch
    #[arg(long, env = "SCROLL_MAX_BATCH_OPERATIONS", default_value = "10000", value_name = "COUNT")]
    max_batch_operations: String,
    /// Most open live streams and waiting long-polls of the server; each needs a file descriptor
    #[arg(long, env = "SCROLL_MAX_STREAMS", default_value = "10000", value_name = "COUNT")]
    max_streams: String,
    /// Most of them that one key may have
    #[arg(long, env = "SCROLL_MAX_STREAMS_PER_KEY", default_value = "2000", value_name = "COUNT")]
    max_streams_per_key: String,
}

/// Settings of the server, checked.
pub struct Serve {
    database: Database,
    types: Types,
    listen: SocketAddr,
    metrics_listen: Option<SocketAddr>,
    cors_origins: Vec<String>,
    max_batch: usize,
    max_body_bytes: usize,
    max_batch_body_bytes: usize,
    max_batch_operations: usize,
    max_streams: usize,
    max_streams_per_key: usize,
    first_log: LogName,
}

impl ServeArgs {
    /// Checks every setting and reports all faults.
    pub fn configure(self) -> Result<Serve, SettingFaults> {
        let mut faults = SettingFaults::default();
        let database = faults.keep(self.database.configure());
        let database = database.and_then(|database| faults.keep(self.machines.configure(database)));
        let types = faults.keep(self.types.configure());
        let listen = faults.keep_as("--listen", parse_address(&self.listen));
        let metrics_listen = faults.keep(self.metrics_address());
        let cors_origins = self.origins(&mut faults);
        let mut number = |setting, text: &str, most, unit| faults.keep_as(setting, parse_number(text, 1..=most, unit));
        let max_batch = number("--max-batch", &self.max_batch, MAX_MAX_BATCH, "writes");
        let max_body = number("--max-body", &self.max_body, MAX_BODY_BYTES, "bytes");
        let max_batch_body = number("--max-batch-body", &self.max_batch_body, MAX_BODY_BYTES, "bytes");
        let (text, most) = (&self.max_batch_operations, MAX_BATCH_OPERATIONS);
        let max_operations = number("--max-batch-operations", text, most, "operations");
        let mut streams = |setting, text: &str| faults.keep_as(setting, parse_number(text, 1..=MAX_STREAMS, "streams"));
        let max_streams = streams("--max-streams", &self.max_streams);
        let max_streams_per_key = streams("--max-streams-per-key", &self.max_streams_per_key);
        let first_log = faults.keep_as("first log", log_name(FIRST_LOG));
        let checked = || {
            Some(Serve {
                database: database?,
                types: types?,
                listen: listen?,
                metrics_listen: metrics_listen?,
                cors_origins,
                max_batch: max_batch?,
                max_body_bytes: max_body?,
                max_batch_body_bytes: max_batch_body?,
                max_batch_operations: max_operations?,
                max_streams: max_streams?,
                max_streams_per_key: max_streams_per_key?,
                first_log: first_log?,
            })
        };
        let is_clean = faults.each().is_empty();
        checked().filter(|_| is_clean).ok_or(faults)
    }

    fn metrics_address(&self) -> Result<Option<SocketAddr>, SettingFaults> {
        let Some(text) = self.metrics_listen.as_deref().filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        match parse_address(text) {
            Ok(address) if address.port() != 0 && parse_address(&self.listen) == Ok(address) => {
                Err(SettingFaults::one("--metrics-listen", "must be another address than --listen"))
            }
            Ok(address) => Ok(Some(address)),
            Err(what) => Err(SettingFaults::one("--metrics-listen", what)),
        }
    }

    fn origins(&self, faults: &mut SettingFaults) -> Vec<String> {
        let named = self.cors_origins.iter().filter(|origin| !origin.is_empty());
        named.filter_map(|origin| faults.keep_as("--cors-origin", parse_origin(origin))).collect()
    }
}

impl Serve {
    /// Serves until a signal and drains.
    pub async fn run(self) -> Result<(), CliError> {
        let mut signals = Signals::listen()?;
        self.log_settings();
        let catalog = self.types.catalog.clone();
        let opened = tokio::select! {
            opened = database::open(&self.database, catalog, self.max_batch, OpenMode::Exclusive) => opened?,
            name = signals.next() => return Err(CliError::CouldNot(format!("stopped by {name} before it served"))),
        };
        let ended = self.serve(&opened, &mut signals).await;
        if ended.is_err() {
            opened.store.close(CLOSE_DEADLINE).await;
        }
        ended
    }

    async fn serve(&self, opened: &Opened, signals: &mut Signals) -> Result<(), CliError> {
        let Opened { store, catalog, clock, metrics } = opened;
        let settings = self.server_settings();
        let started = Server::start(settings, store.clone(), catalog.clone(), clock.clone(), metrics.clone()).await;
        let server = started.map_err(|source| CliError::Server { source })?;
        let (address, metrics_address) = (server.address(), server.metrics_address());
        tracing::info!(%address, metrics_address = metrics_address.map(tracing::field::display), "serving");
        self.greet(store.as_ref(), address).await?;
        let name = signals.next().await;
        tracing::info!(signal = name, "draining: running answers finish, no new ones begin");
        drain(server, signals).await
    }

    async fn greet(&self, store: &dyn Store, address: SocketAddr) -> Result<(), CliError> {
        let secret = first_key(store, &self.first_log).await?;
        let resource = welcome::example_resource(&self.types);
        let welcome = Welcome { address, database: &self.database.url, log: &self.first_log, resource: &resource };
        terminal::say(&match secret {
            Some(secret) => welcome.first(&secret),
            None => welcome.again(),
        })
    }

    fn server_settings(&self) -> ServerSettings {
        ServerSettings {
            listen: self.listen,
            metrics_listen: self.metrics_listen,
            cors_origins: self.cors_origins.clone(),
            limits: api::Limits {
                body_bytes: self.max_body_bytes,
                batch_bytes: self.max_batch_body_bytes,
                batch_operations: self.max_batch_operations,
                streams: self.max_streams,
                streams_per_key: self.max_streams_per_key,
                ..api::Limits::default()
            },
            drain_deadline: DRAIN_DEADLINE,
            ..ServerSettings::default()
        }
    }

    fn log_settings(&self) {
        let types = self.types.file.as_ref().map_or_else(|| "built-in".into(), |file| file.display().to_string());
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            database_url = %self.database.url,
            database_connections = self.database.postgres.read_connections,
            read_url = self.database.postgres.read_url.as_deref().map(redacted),
            database_pooler = ?self.database.postgres.pooler,
            listen = %self.listen,
            metrics_listen = self.metrics_listen.map(tracing::field::display),
            cors_origins = self.cors_origins.join(","),
            types,
            strict = self.types.catalog.is_strict(),
            max_batch = self.max_batch,
            max_body_bytes = self.max_body_bytes,
            max_batch_body_bytes = self.max_batch_body_bytes,
            max_batch_operations = self.max_batch_operations,
            max_streams = self.max_streams,
            max_streams_per_key = self.max_streams_per_key,
            "settings"
        );
    }
}

/// The key of a database that nobody can read yet; `None` when it has logs of other names, or any key.
async fn first_key(store: &dyn Store, log: &LogName) -> Result<Option<Secret>, CliError> {
    let logs = store.logs().await?;
    let is_ours = logs.iter().all(|known| known.name == *log);
    if !is_ours || !store.keys(None).await?.is_empty() {
        return Ok(None);
    }
    if logs.is_empty() {
        match store.create_log(log).await {
            // Another server that starts at the same moment was first, and shows its key.
            Err(StoreError::Conflict { .. }) => return Ok(None),
            made => drop(made?),
        }
    }
    let key = NewKey {
        log: Some(log.clone()),
        scopes: Scope::ALL.into(),
        resources: None,
        name: Some("first key".into()),
        expires_at: None,
    };
    let (_, secret) = store.create_key(key).await?;
    Ok(Some(secret))
}

/// A SIGTERM so soon after the one that began the drain is the same wish told twice: to the process and to
/// its group, as `timeout` and service managers do.
const ECHO: Duration = Duration::from_secs(1);

fn is_echo(signal: &str, since_first: Duration) -> bool {
    signal == SIGTERM && since_first < ECHO
}

/// The server finishes what runs and closes the database.
async fn drain(server: Server, signals: &mut Signals) -> Result<(), CliError> {
    let insisted = async {
        let began = Instant::now();
        loop {
            let name = signals.next().await;
            if !is_echo(name, began.elapsed()) {
                break name;
            }
        }
    };
    tokio::select! {
        ended = tokio::time::timeout(STOP_DEADLINE, server.drain()) => match ended {
            Ok(()) => {
                tracing::info!("stopped");
                Ok(())
            }
            Err(_) => Err(CliError::CouldNot("not everything finished in time; what was answered is on disk".into())),
        },
        name = insisted => {
            Err(CliError::CouldNot(format!("stopped at once by a second {name}; what was answered is on disk")))
        }
    }
}

const SIGTERM: &str = "SIGTERM";

/// The signals that ask the process to end.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Signals, CliError> {
        let of =
            |kind| signal(kind).map_err(|source| CliError::Io { what: "signals cannot be received".into(), source });
        Ok(Signals { terminate: of(SignalKind::terminate())?, interrupt: of(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => SIGTERM,
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_told_twice_is_one_and_an_insisting_one_is_not() {
        assert!(is_echo(SIGTERM, Duration::from_millis(999)));
        assert!(!is_echo(SIGTERM, Duration::from_secs(1)));
        assert!(!is_echo("SIGINT", Duration::from_millis(1)), "a person presses Ctrl-C twice quickly");
    }
}
