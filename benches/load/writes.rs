//! Writes over HTTP: how many a second and how long each takes, with group commit (the default) and with one
//! submission per commit, side by side.
//!
//! Every answer is checked: 200 or 201, and a `Scroll-Seq` that no other answer had.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::Args;

use crate::Outcome;
use crate::folder::Common;
use crate::machine;
use crate::server::Server;
use crate::stats::{Rounds, Thousands};
use crate::table::Table;
use crate::writers::{DATA_BYTES, ENTITIES, Load, Logs};

/// Options of this figure.
#[derive(Args)]
pub struct Options {
    /// Connections that write at once; one run for each.
    #[arg(long, value_delimiter = ',', default_value = "1,8,32,128")]
    connections: Vec<usize>,
    /// Seconds of one run.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    #[command(flatten)]
    common: Common,
}

/// A server with the way it commits.
struct Side {
    name: &'static str,
    server: Server,
    logs: Logs,
}

/// What was measured of one side with one number of connections.
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
    let mut sides = [
        Side::start(folder.scratch(), "grouped", &[]).await?,
        Side::start(folder.scratch(), "one by one", &["--max-batch", "1"]).await?,
    ];
    let version = Arc::new(AtomicU64::new(1));
    let mut cells: Vec<[Cell; 2]> = options.connections.iter().map(|_| Default::default()).collect();
    let mut flushes = Rounds::default();
    for round in 1..=options.common.rounds {
        for (connections, cells) in options.connections.iter().zip(&mut cells) {
            for (side, cell) in sides.iter_mut().zip(cells) {
                let rate = machine::flush_rate(folder.scratch())?;
                flushes.push(rate);
                cell.flushes.push(rate);
                let length = Duration::from_secs_f64(options.seconds);
                let load = Load { connections: *connections, length, refused_percent: 0 };
                side.run(load, &version, cell).await?;
                eprintln!("round {round}, {connections} connections, {}: {}", side.name, cell.rate.shown(0));
            }
        }
    }
    print(options, &cells, &machine::sentence(folder.scratch(), &flushes));
    for side in sides {
        side.server.stop().await?;
    }
    Ok(())
}

fn print(options: &Options, cells: &[[Cell; 2]], machine: &str) {
    let mut table = Table::new(&["connections", "commits", "requests/s", "p50 ms", "p99 ms", "flushes/s before"]);
    let mut ratios = Table::new(&["connections", "grouped ÷ one by one"]);
    for (connections, [grouped, single]) in options.connections.iter().zip(cells) {
        for (name, cell) in [("grouped", grouped), ("one by one", single)] {
            table.row(&[
                connections.to_string(),
                name.to_owned(),
                Thousands(cell.rate.median()).to_string(),
                format!("{:.2}", cell.p50.median()),
                format!("{:.2}", cell.p99.median()),
                cell.flushes.shown(0),
            ]);
        }
        ratios.row(&[connections.to_string(), grouped.rate.by(&single.rate).shown(2)]);
    }
    let runs = format!(
        "PUT of {DATA_BYTES} bytes over {ENTITIES} entities, {} s a run, medians of {} rounds, interleaved.",
        options.seconds, options.common.rounds
    );
    table.print("Writes over HTTP", &[machine.to_owned(), runs]);
    ratios.print("Grouped against one by one, round by round", &[]);
}

impl Side {
    async fn start(folder: &Path, name: &'static str, arguments: &[&str]) -> Outcome<Side> {
        let database = folder.join(format!("{}.db", name.replace(' ', "-")));
        let server = Server::start(&database, arguments).await?;
        let key = server.key("default")?;
        let logs = Logs::fill(server.address, &key, vec!["default".to_owned()]).await?;
        Ok(Side { name, server, logs })
    }

    async fn run(&mut self, load: Load, version: &Arc<AtomicU64>, cell: &mut Cell) -> Outcome<()> {
        let measured = self.logs.write(&[self.server.address], load, version).await?;
        cell.rate.push(measured.rate);
        cell.p50.push(measured.latencies.percentile(0.5));
        cell.p99.push(measured.latencies.percentile(0.99));
        Ok(())
    }
}
