//! Puts the parts together, and takes them down again in order: no new writes, running answers to their
//! end, sockets, tasks, database.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use actix_http::error::DispatchError;
use actix_http::{HttpService, Protocol};
use actix_server::ServerBuilder;
use actix_service::{IntoServiceFactory as _, ServiceFactoryExt as _, map_config};
use actix_web::dev::{AppConfig, ServerHandle, fn_service};
use actix_web::middleware::from_fn;
use actix_web::{HttpServer, web};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::api::connection::Connection;
use crate::api::middleware::{Cors, frame, gate};
use crate::api::{App, Limits, StreamTimes, routes};
use crate::change::time::Clock;
use crate::entity::types::Catalog;
use crate::metrics::Metrics;
use crate::store::Store;
use crate::tasks::Tasks;

/// How long an idle connection stays open. Longer than the 60 s after which common load balancers let go
/// of one, so that it is they who close it and no request meets a closing socket.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long the head of a request may take to arrive: enough for a bad line, too little to hold sockets
/// open with one byte a minute.
const REQUEST_HEAD: Duration = Duration::from_secs(10);
/// How long a closing connection waits for its client.
const DISCONNECT: Duration = Duration::from_secs(2);
/// Bytes that are gathered before they are handed to the system. A connection keeps its buffer for as long as it
/// lives, and a follower lives long: more than the head of an answer only costs memory.
const WRITE_BUFFER_BYTES: usize = 4 << 10;
/// Sockets that wait to be accepted.
const BACKLOG: u32 = 1024;
/// What is left of the ten seconds of a shutdown for the database to close.
const CLOSE: Duration = Duration::from_secs(1);
/// The metrics listener answers one scraper.
const METRICS_WORKERS: usize = 1;

/// How to serve.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where to show metrics without a key, if anywhere.
    pub metrics_listen: Option<SocketAddr>,
    /// Origins whose browsers may ask.
    pub cors_origins: Vec<String>,
    /// How much one request may ask for.
    pub limits: Limits,
    /// How long live streams may last.
    pub stream_times: StreamTimes,
    /// Threads that speak HTTP.
    pub workers: usize,
    /// How long running answers may take once the server goes down.
    pub drain_deadline: Duration,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            metrics_listen: None,
            cors_origins: Vec::new(),
            limits: Limits::default(),
            stream_times: StreamTimes::default(),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            drain_deadline: Duration::from_secs(8),
        }
    }
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be had.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// A server that runs.
pub struct Server {
    app: web::Data<App>,
    main: Listener,
    metrics: Option<Listener>,
    drain_deadline: Duration,
}

/// One listening address with its threads.
struct Listener {
    address: SocketAddr,
    handle: ServerHandle,
    running: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Listens and answers. Runs on the tokio runtime of the caller, which must have several threads.
    pub async fn start(
        settings: ServerSettings,
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Result<Server, ServerError> {
        let tasks = Tasks::on(Handle::current(), metrics.clone());
        let app =
            web::Data::new(App::new(store, catalog, clock, metrics, tasks, settings.limits, settings.stream_times));
        let metrics = match settings.metrics_listen {
            Some(address) => Some(listen_for_metrics(app.clone(), address)?),
            None => None,
        };
        let cors = web::Data::new(Cors::new(settings.cors_origins));
        let main = listen(app.clone(), cors, settings.listen, settings.workers, settings.drain_deadline)?;
        Ok(Server { app, main, metrics, drain_deadline: settings.drain_deadline })
    }

    /// Where it listens, with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.main.address
    }

    /// Where it shows metrics, with the port that it got.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|listener| listener.address)
    }

    /// Goes down: `/readyz` turns red, new writes are refused, what runs finishes within the deadline, then
    /// the sockets and the database are closed.
    pub async fn drain(self) {
        let began = Instant::now();
        self.app.drain();
        self.main.handle.stop(true).await;
        if let Some(metrics) = self.metrics {
            metrics.handle.stop(false).await;
            metrics.ended().await;
        }
        self.main.ended().await;
        let left = self.drain_deadline.saturating_sub(began.elapsed()).max(Duration::from_millis(100));
        let running = self.app.tasks.stopped(left).await;
        if running > 0 {
            tracing::warn!(tasks = running, "some tasks were left behind by the shutdown");
        }
        self.app.store.close(CLOSE).await;
    }
}

impl Listener {
    async fn ended(self) {
        match self.running.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(%error, address = %self.address, "a listener failed"),
            Err(error) => tracing::error!(%error, address = %self.address, "a listener ended unexpectedly"),
        }
    }
}

fn listen(
    app: web::Data<App>,
    cors: web::Data<Cors>,
    address: SocketAddr,
    workers: usize,
    deadline: Duration,
) -> Result<Listener, ServerError> {
    let failed = |source| ServerError::Listen { address, source };
    let socket = TcpListener::bind(address).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    let service = move || {
        let app = actix_web::App::new()
            .app_data(app.clone())
            .app_data(cors.clone())
            .configure(routes::configure(routes::routes()))
            .wrap(from_fn(gate))
            .wrap(from_fn(frame));
        map_config(app.into_factory().map_err(|error| error.error_response()), |()| AppConfig::default())
    };
    let server = ServerBuilder::new().workers(workers).backlog(BACKLOG).disable_signals();
    let draining = server.graceful_shutdown_signal();
    let http = move || {
        let draining = draining.clone();
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let draining = draining.clone();
                async move { draining.notified().await }
            })
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(REQUEST_HEAD)
            .client_disconnect_timeout(DISCONNECT)
            .h1_write_buffer_size(WRITE_BUFFER_BYTES)
            .local_addr(bound)
            .on_connect_ext(|connection: &Connection, data| drop(data.insert(connection.signs())))
            .finish(service());
        fn_service(accept).and_then(http)
    };
    let server =
        server.shutdown_timeout(deadline.as_secs().max(1)).listen("scroll", socket, http).map_err(failed)?.run();
    Ok(Listener { address: bound, handle: server.handle(), running: tokio::spawn(server) })
}

/// Small pieces are sent as they come, and the next piece of a page while the one before is on its way.
async fn accept(stream: TcpStream) -> Result<(Connection, Protocol, Option<SocketAddr>), DispatchError> {
    // Where the system does not do it, answers only come later.
    let _ = stream.set_nodelay(true);
    let client = stream.peer_addr().ok();
    Ok((Connection::new(stream), Protocol::Http1, client))
}

fn listen_for_metrics(app: web::Data<App>, address: SocketAddr) -> Result<Listener, ServerError> {
    let failed = |source| ServerError::Listen { address, source };
    let socket = TcpListener::bind(address).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    let server = HttpServer::new(move || {
        actix_web::App::new()
            .app_data(app.clone())
            .configure(routes::configure(routes::metrics_routes()))
            .wrap(from_fn(frame))
    });
    let server = server
        .workers(METRICS_WORKERS)
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(REQUEST_HEAD)
        .tcp_nodelay(true)
        .disable_signals()
        .listen(socket)
        .map_err(failed)?
        .run();
    Ok(Listener { address: bound, handle: server.handle(), running: tokio::spawn(server) })
}
