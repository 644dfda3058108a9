//! Writes over HTTP: how many a second and how long each takes, with group commit (the default) and with one
//! submission per commit, side by side.
//!
//! Every answer is checked: 200 or 201, and a `Scroll-Seq` that no other answer had.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;

use crate::Outcome;
use crate::data::{Invoice, Random};
use crate::folder::Common;
use crate::http::{self, Connection};
use crate::machine;
use crate::server::Server;
use crate::stats::{Latencies, Rounds, Thousands};
use crate::table::Table;

/// How many entities are written to, so that nearly every write is an update.
const ENTITIES: u64 = 10_000;
/// Size of one object.
const DATA_BYTES: usize = 300;
/// Operations of one batch while the entities are made.
const BATCH: u64 = 2_500;
/// How long after its end a run may still wait for answers.
const GRACE: Duration = Duration::from_secs(60);

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
    key: Arc<str>,
    /// The newest seq that was acknowledged before the run.
    head: u64,
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
                side.run(*connections, Duration::from_secs_f64(options.seconds), &version, cell).await?;
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
        let key: Arc<str> = server.key("default")?.into();
        let mut side = Side { name, server, key, head: 0 };
        for first in (0..ENTITIES).step_by(BATCH as usize) {
            side.head = make_entities(side.server.address, &side.key, first).await?;
        }
        Ok(side)
    }

    async fn run(
        &mut self,
        connections: usize,
        length: Duration,
        version: &Arc<AtomicU64>,
        cell: &mut Cell,
    ) -> Outcome<()> {
        let begin = Instant::now();
        let writers = (0..connections).map(|index| {
            let seed = (connections * 1_000 + index) as u64;
            let writer = Writer { key: self.key.clone(), version: version.clone(), random: Random(seed) };
            tokio::spawn(tokio::time::timeout(length + GRACE, writer.run(self.server.address, begin + length)))
        });
        let mut acknowledged = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            acknowledged.extend(writer.await???);
        }
        let took = begin.elapsed().as_secs_f64();
        cell.rate.push(acknowledged.len() as f64 / took);
        self.head = check_distinct(&acknowledged, self.head)?;
        let latencies = Latencies::new(acknowledged.into_iter().map(|write| write.took).collect());
        cell.p50.push(latencies.percentile(0.5));
        cell.p99.push(latencies.percentile(0.99));
        Ok(())
    }
}

/// One acknowledged write.
struct Acknowledged {
    seq: u64,
    took: Duration,
}

/// One connection that writes as fast as it is answered.
struct Writer {
    key: Arc<str>,
    version: Arc<AtomicU64>,
    random: Random,
}

impl Writer {
    async fn run(mut self, address: SocketAddr, end: Instant) -> Outcome<Vec<Acknowledged>> {
        let mut connection = Connection::open(address).await?;
        let mut acknowledged = Vec::new();
        let mut request = Vec::new();
        while Instant::now() < end {
            self.write_put(&mut request);
            let begin = Instant::now();
            let head = connection.send(&request).await?;
            let body = connection.whole().await?;
            let took = begin.elapsed();
            let seq = head.header("scroll-seq").and_then(|seq| seq.parse().ok());
            match (head.status, seq) {
                (200 | 201, Some(seq)) => acknowledged.push(Acknowledged { seq, took }),
                (status, _) => return Err(format!("a write was answered {status}: {body:?}").into()),
            }
        }
        Ok(acknowledged)
    }

    fn write_put(&mut self, request: &mut Vec<u8>) {
        let number = self.random.next() % ENTITIES;
        let mut data = String::with_capacity(DATA_BYTES);
        Invoice { number, version: self.version.fetch_add(1, Ordering::Relaxed) }.write_data(&mut data, DATA_BYTES);
        request.clear();
        let target = format!("PUT /v1/entities/invoice/inv-{number}");
        http::write_request(request, &target, &self.key, "Content-Type: application/json\r\n", data.as_bytes());
    }
}

/// Makes the entities from `first` on in one batch; the last seq.
async fn make_entities(address: SocketAddr, key: &str, first: u64) -> Outcome<u64> {
    let mut operations = String::new();
    (first..first + BATCH)
        .for_each(|number| Invoice { number, version: 0 }.write_operation(&mut operations, DATA_BYTES));
    let mut request = Vec::new();
    let kind = "Content-Type: application/x-ndjson\r\n";
    http::write_request(&mut request, "POST /v1/batch", key, kind, operations.as_bytes());
    let mut connection = Connection::open(address).await?;
    let head = connection.send(&request).await?;
    let body = connection.whole().await?;
    match (head.status, head.header("scroll-seq")) {
        (200, Some(seq)) => Ok(seq.parse()?),
        (status, _) => Err(format!("a batch was answered {status}: {}", String::from_utf8_lossy(&body)).into()),
    }
}

/// Every acknowledged write has a number of its own, all of them new, without a hole: nobody else writes.
fn check_distinct(acknowledged: &[Acknowledged], head: u64) -> Outcome<u64> {
    let mut seqs: Vec<u64> = acknowledged.iter().map(|write| write.seq).collect();
    seqs.sort_unstable();
    let expected = head + 1..=head + seqs.len() as u64;
    if !seqs.iter().copied().eq(expected) {
        return Err(format!("{} writes after {head} were not acknowledged with {0} new numbers", seqs.len()).into());
    }
    Ok(head + seqs.len() as u64)
}
