//! Writes while somebody holds a snapshot open for a minute, as a dump or an analyst does: nothing that the
//! writers touch may pile up dead versions.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clap::Args;

use crate::folder::Common;
use crate::stats::{Rounds, Thousands};
use crate::table::Table;
use crate::writers::Load;
use crate::{Outcome, machine};

use super::cluster::Cluster;
use super::side::Side;

/// Options of this figure.
#[derive(Args)]
pub struct Options {
    /// Connections that write.
    #[arg(long, default_value_t = 32)]
    connections: usize,
    /// Seconds that the snapshot is held.
    #[arg(long, default_value_t = 60)]
    held: u64,
    /// Seconds of one window.
    #[arg(long, default_value_t = 5)]
    window: u64,
    #[command(flatten)]
    common: Common,
}

/// Measures and prints. Every window with a held snapshot stands beside the same window of a log of the
/// same age without one, since a growing log alone may cost something.
pub async fn measure(options: &Options) -> Outcome<()> {
    let folder = options.common.folder()?;
    let windows = (options.held / options.window) as usize;
    let mut disk = Rounds::default();
    let mut held = vec![Rounds::default(); windows];
    let mut free = vec![Rounds::default(); windows];
    for round in 1..=options.common.rounds {
        for (is_held, cells) in [(false, &mut free), (true, &mut held)] {
            let inner = folder.scratch().join(format!("{round}-{is_held}"));
            std::fs::create_dir_all(&inner)?;
            let cluster = Cluster::start(&inner)?;
            let mut side = Side::start(&cluster, "grouped", 1, 1, &[]).await?;
            cluster.settle()?;
            disk.push(machine::flush_rate(folder.scratch())?);
            let holder = is_held.then(|| hold(&cluster, &side, options.held + 30)).transpose()?;
            run(options, &mut side, cells).await?;
            if let Some(mut holder) = holder {
                holder.kill()?;
                holder.wait()?;
            }
            side.stop().await?;
            eprintln!("round {round}, held: {is_held}");
        }
    }
    let mut table = Table::new(&["seconds", "writes/s, no snapshot", "writes/s, snapshot held", "held ÷ free"]);
    for (index, (free, held)) in free.iter().zip(&held).enumerate() {
        let seconds = (index as u64 + 1) * options.window;
        let (no, yes) = (Thousands(free.median()).to_string(), Thousands(held.median()).to_string());
        table.row(&[seconds.to_string(), no, yes, held.by(free).shown(2)]);
    }
    let first = held.first().cloned().unwrap_or_default();
    let last = held.last().cloned().unwrap_or_default();
    let what = format!("{} connections; last window ÷ first, held: {}.", options.connections, last.by(&first).shown(2));
    table.print("A snapshot held open", &[machine::sentence(folder.scratch(), &disk), what]);
    Ok(())
}

async fn run(options: &Options, side: &mut Side, cells: &mut [Rounds]) -> Outcome<()> {
    let version = Arc::new(AtomicU64::new(1));
    let servers = [side.servers[0].address];
    for cell in cells {
        let load =
            Load { connections: options.connections, length: Duration::from_secs(options.window), refused_percent: 0 };
        cell.push(side.logs.write(&servers, load, &version).await?.rate);
    }
    Ok(())
}

/// A transaction that has seen the log and stays open.
fn hold(cluster: &Cluster, side: &Side, seconds: u64) -> Outcome<std::process::Child> {
    let sql = format!("SELECT count(*) FROM scroll.changes; SELECT pg_sleep({seconds})");
    let mut psql = cluster.client("psql", &side.database);
    psql.args(["-X", "-q", "-c", "BEGIN ISOLATION LEVEL REPEATABLE READ", "-c", &sql]);
    let child = psql.stdout(Stdio::null()).spawn()?;
    let open = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND backend_xmin IS NOT NULL \
                AND pid <> pg_backend_pid()";
    while cluster.psql(&side.database, open)? == "0" {
        std::thread::park_timeout(Duration::from_millis(20));
    }
    Ok(child)
}
