//! Opening a database: what it is, its schema, its history, and the tasks that go with it.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::connection::{self, Connector, Purpose};
use super::lanes::Lanes;
use super::lineage::Lineage;
use super::load::Loader;
use super::notices::{self, Channel, Notices};
use super::outbox::Drains;
use super::pool::Pool;
use super::readers::Readers;
use super::reading::Reading;
use super::scan::LineLength;
use super::standby::{Identity, Standby};
use super::writer::Writer;
use super::{PostgresStore, migrator};
use crate::change::time::Clock;
use crate::entity::types::Catalog;
use crate::metrics::Metrics;
use crate::store::flights::ForgetTimer;
use crate::store::heads::Heads;
use crate::store::{OpenError, OpenMode, OpenSettings, Pooler};

/// Connections that write: four in a transaction at a time is the most that pays.
const WRITERS: usize = 4;

/// Opens the database, with its schema brought up to date. Its tasks run on the runtime of the caller.
pub async fn open(
    settings: &OpenSettings,
    catalog: Arc<Catalog>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
) -> Result<PostgresStore, OpenError> {
    let connector = Connector::new(&settings.url, settings.postgres.pooler)?;
    let identity = prepare(&connector, settings, &catalog).await?;
    let runtime = Handle::current();
    let pool = Pool::new("read", connector.clone(), settings.postgres.read_connections, &metrics);
    let writing = Pool::new("write", connector.clone(), WRITERS, &metrics);
    let heads = Arc::new(Heads::new(metrics.clone()));
    let lineage = Arc::new(Lineage::new(connector.clone(), heads.clone(), metrics.clone()));
    if settings.mode == OpenMode::Exclusive {
        lineage.compare().await?;
    }
    let standby = open_standby(settings, identity, &heads, &metrics).await?;
    let notices = Arc::new(Notices::new(heads.clone(), lineage.clone(), standby.clone()));
    let channel = Channel::new(connector.clone(), &settings.postgres)?;
    let mut tasks = vec![runtime.spawn(notices::run(notices.clone(), channel, metrics.clone())).abort_handle()];
    tasks.extend(standby.clone().map(|standby| runtime.spawn(standby.follow()).abort_handle()));
    let readers = Readers::new(pool.clone(), runtime.clone());
    let reading = Reading { primary: readers.clone(), standby, metrics: metrics.clone() };
    let chores = Readers::new(writing.clone(), runtime.clone());
    let writer = Arc::new(Writer {
        runtime,
        pool: writing,
        lanes: Lanes::new(),
        lineage: lineage.clone(),
        loader: Loader::new(),
        notices,
        catalog,
        forget: Mutex::new(ForgetTimer::new(clock.now())),
        clock,
        metrics,
        max_batch: settings.max_batch,
    });
    let drains = (settings.mode == OpenMode::Exclusive).then(|| Drains::start(writer.clone(), connector));
    let length = Arc::new(LineLength::new());
    Ok(PostgresStore { writer, pool, reading, readers, chores, heads, lineage, length, tasks, drains })
}

/// The standbys, where a URL leads to some.
async fn open_standby(
    settings: &OpenSettings,
    identity: Identity,
    heads: &Arc<Heads>,
    metrics: &Arc<Metrics>,
) -> Result<Option<Arc<Standby>>, OpenError> {
    let Some(url) = &settings.postgres.read_url else {
        return Ok(None);
    };
    let connector = Connector::to_any(url, Pooler::None)?;
    let size = settings.postgres.read_connections;
    Standby::open(connector, identity, size, heads.clone(), metrics.clone()).await.map(Some)
}

/// The schema and the links, on a connection that may take its time; which database it is.
async fn prepare(
    connector: &Connector,
    settings: &OpenSettings,
    catalog: &Arc<Catalog>,
) -> Result<Identity, OpenError> {
    let connected = connector.connect(Purpose::Migration).await;
    let mut connection =
        connected.map_err(|error| OpenError::Unusable { path: connector.place(), source: Box::new(error) })?;
    let frame = connector.frame(Purpose::Migration);
    frame.enter(&mut connection).await?;
    let identity = Identity::of(&mut connection).await?;
    connection::check(&mut connection, connector, settings.postgres.accepts_data_loss).await?;
    frame.leave(&mut connection, Ok(())).await?;
    migrator::migrate(&mut connection, frame, settings.mode).await?;
    if settings.mode == OpenMode::Exclusive {
        migrator::refresh_links(&mut connection, frame, catalog).await?;
    }
    Ok(identity)
}
