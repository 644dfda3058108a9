//! Writes over HTTP to PostgreSQL: with group commit, with one submission per commit, with one in a hundred
//! refused, by two servers on one database, and beside them pgbench with the naive transaction. All on one
//! cluster, in turn, round by round.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::folder::Common;
use crate::stats::{Rounds, Thousands};
use crate::table::Table;
use crate::writers::{DATA_BYTES, ENTITIES, Load};
use crate::{Outcome, machine};

use super::cluster::Cluster;
use super::naive;
use super::side::Side;

/// Options of this figure.
#[derive(Args)]
pub struct Options {
    /// Connections that write at once; one run for each.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,128")]
    connections: Vec<usize>,
    /// Logs that the writes are spread over.
    #[arg(long, default_value_t = 1)]
    logs: usize,
    /// Seconds of one run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// What is compared; everything is shown against the first.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "grouped,single,naive")]
    ways: Vec<Way>,
    #[command(flatten)]
    common: Common,
}

/// A way of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// One server as it comes.
    Grouped,
    /// One server with `--max-batch 1`.
    Single,
    /// One server, one write in a hundred refused by its precondition.
    Refused,
    /// Two servers on one database.
    TwoServers,
    /// pgbench with the naive transaction.
    Naive,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Grouped => "grouped",
            Way::Single => "one by one",
            Way::Refused => "grouped refused",
            Way::TwoServers => "two servers",
            Way::Naive => "naive",
        }
    }

    /// `None`: no server of ours.
    async fn start(self, cluster: &Cluster, logs: usize) -> Outcome<Option<Side>> {
        let (servers, arguments): (usize, &[&str]) = match self {
            Way::Grouped | Way::Refused => (1, &[]),
            Way::Single => (1, &["--max-batch", "1"]),
            Way::TwoServers => (2, &[]),
            Way::Naive => return naive::prepare(cluster).map(|()| None),
        };
        Side::start(cluster, self.name(), logs, servers, arguments).await.map(Some)
    }
}

/// What was measured of one way with one number of connections.
#[derive(Default)]
struct Cell {
    rate: Rounds,
    p50: Rounds,
    p99: Rounds,
    flushes: Rounds,
}

/// Measures and prints.
pub async fn measure(options: &Options) -> Outcome<()> {
    let folder = options.common.folder()?;
    let cluster = Cluster::start(folder.scratch())?;
    let mut sides = Vec::new();
    for way in &options.ways {
        sides.push((*way, way.start(&cluster, options.logs).await?));
    }
    let version = Arc::new(AtomicU64::new(1));
    let new_row = || options.ways.iter().map(|_| Cell::default()).collect::<Vec<_>>();
    let mut cells: Vec<Vec<Cell>> = options.connections.iter().map(|_| new_row()).collect();
    let mut disk = Rounds::default();
    for round in 1..=options.common.rounds {
        for (connections, cells) in options.connections.iter().zip(&mut cells) {
            for ((way, side), cell) in sides.iter_mut().zip(cells) {
                cluster.settle()?;
                disk.push(machine::flush_rate(folder.scratch())?);
                match side {
                    Some(side) => by_scroll(options, &cluster, *way, side, *connections, &version, cell).await?,
                    None => by_pgbench(options, &cluster, folder.scratch(), *connections, cell)?,
                }
                eprintln!("round {round}, {connections} connections, {}: {}", way.name(), cell.rate.shown(0));
            }
        }
    }
    print(options, &cells, &machine::sentence(folder.scratch(), &disk));
    for (_, side) in sides {
        if let Some(side) = side {
            side.stop().await?;
        }
    }
    Ok(())
}

async fn by_scroll(
    options: &Options,
    cluster: &Cluster,
    way: Way,
    side: &mut Side,
    connections: usize,
    version: &Arc<AtomicU64>,
    cell: &mut Cell,
) -> Outcome<()> {
    let servers: Vec<SocketAddr> = side.servers.iter().map(|server| server.address).collect();
    let refused_percent = if way == Way::Refused { 1 } else { 0 };
    let load = Load { connections, length: Duration::from_secs_f64(options.seconds), refused_percent };
    let before = cluster.flushes()?;
    let measured = side.logs.write(&servers, load, version).await?;
    cell.flushes.push((cluster.flushes()? - before) / measured.acknowledged as f64);
    cell.rate.push(measured.rate);
    cell.p50.push(measured.latencies.percentile(0.5));
    cell.p99.push(measured.latencies.percentile(0.99));
    Ok(())
}

fn by_pgbench(
    options: &Options,
    cluster: &Cluster,
    folder: &std::path::Path,
    connections: usize,
    cell: &mut Cell,
) -> Outcome<()> {
    let (logs, entities) = (options.logs as u64, ENTITIES / options.logs as u64);
    let before = cluster.flushes()?;
    let speed = naive::run_for(cluster, folder, connections, options.seconds, logs, entities, DATA_BYTES)?;
    cell.flushes.push((cluster.flushes()? - before) / speed.latencies.count() as f64);
    cell.rate.push(speed.rate);
    cell.p50.push(speed.latencies.percentile(0.5));
    cell.p99.push(speed.latencies.percentile(0.99));
    Ok(())
}

fn print(options: &Options, cells: &[Vec<Cell>], machine: &str) {
    let mut table = Table::new(&["connections", "way", "writes/s", "p50 ms", "p99 ms", "flushes per write"]);
    let mut ratios = Table::new(&["connections", "way", "first ÷ this, writes/s", "first ÷ this, p99"]);
    for (connections, cells) in options.connections.iter().zip(cells) {
        let first = &cells[0];
        for (way, cell) in options.ways.iter().zip(cells) {
            table.row(&[
                connections.to_string(),
                way.name().to_owned(),
                Thousands(cell.rate.median()).to_string(),
                format!("{:.2}", cell.p50.median()),
                format!("{:.2}", cell.p99.median()),
                format!("{:.3}", cell.flushes.median()),
            ]);
        }
        for (way, cell) in options.ways.iter().zip(cells).skip(1) {
            let (rate, p99) = (first.rate.by(&cell.rate).shown(2), first.p99.by(&cell.p99).shown(2));
            ratios.row(&[connections.to_string(), way.name().to_owned(), rate, p99]);
        }
    }
    let runs = format!(
        "PUT of {DATA_BYTES} bytes over {ENTITIES} entities in {} logs, {} s a run, medians of {} rounds, interleaved.",
        options.logs, options.seconds, options.common.rounds
    );
    table.print("Writes over HTTP, PostgreSQL", &[machine.to_owned(), runs]);
    ratios.print("Against the first, round by round", &[]);
}
