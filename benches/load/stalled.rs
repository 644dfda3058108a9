//! Many readers of a long page at once, half of them standing still after their first 64 KiB: what the server
//! needs in memory, whether the write-ahead log grows beside them, and whether it lets go of them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use crate::data::Invoice;
use crate::feed::Shape;
use crate::folder::Common;
use crate::http::{self, Connection};
use crate::memory::{Peak, Watch, mib};
use crate::server::{Server, run, scroll};
use crate::stats::Rounds;
use crate::table::Table;
use crate::{Outcome, machine};

/// A reader that stands still has taken at least so much.
const TAKEN_BYTES: usize = 64 << 10;
/// The log that is written to beside the readers, so that theirs stays as it is.
const SCRATCH_LOG: &str = "scratch";
/// Batches that are written beside the readers, and what is in each: about 20 MB in all.
const BATCHES: u64 = 20;
const BATCH_OPERATIONS: u64 = 1_000;
const DATA_BYTES: usize = 1_000;
/// How long one round's readers may take, and how long the server may take to let go of them.
const PATIENCE: Duration = Duration::from_secs(300);
/// A started server has settled after this.
const SETTLE: Duration = Duration::from_secs(1);

/// Options of this figure.
#[derive(Args)]
pub struct Options {
    /// Readers at once; half of them stand still.
    #[arg(long, default_value_t = 50)]
    readers: u64,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    common: Common,
}

/// What was measured.
#[derive(Default)]
struct Figures {
    idle_mib: Rounds,
    peak_mib: Rounds,
    above_mib: Rounds,
    high_water_mib: Rounds,
    readers_seconds: Rounds,
    wal_before_mib: Rounds,
    wal_peak_mib: Rounds,
    let_go_ms: Rounds,
}

/// Measures and prints.
pub async fn measure(options: &Options) -> Outcome<()> {
    let folder = options.common.folder()?;
    let database = options.shape.database(folder.kept()).await?;
    let (mut figures, mut flushes) = (Figures::default(), Rounds::default());
    for round in 1..=options.common.rounds {
        flushes.push(machine::flush_rate(folder.scratch())?);
        let server = Server::start(&database, &[]).await?;
        run_round(options, &server, &mut figures).await?;
        server.stop().await?;
        eprintln!("round {round}: {} MiB above idle", figures.above_mib.shown(1));
    }
    let mut table = Table::new(&["figure", "median (range)"]);
    for (name, rounds, decimals) in [
        ("server idle, MiB", &figures.idle_mib, 1),
        ("peak while they read, MiB", &figures.peak_mib, 1),
        ("**peak above idle, MiB**", &figures.above_mib, 1),
        ("high-water mark of the process, writes included, MiB", &figures.high_water_mib, 1),
        ("time of the readers that read, s", &figures.readers_seconds, 1),
        ("write-ahead log before the writes, MiB", &figures.wal_before_mib, 1),
        ("write-ahead log, largest during 20 MB of writes, MiB", &figures.wal_peak_mib, 1),
        ("from closing the stalled to no open response, ms", &figures.let_go_ms, 0),
    ] {
        table.row(&[name.to_owned(), rounds.shown(decimals)]);
    }
    let what = format!(
        "{} readers of limit={}, {} of them stalled; medians of {} rounds, a fresh server each.",
        options.readers,
        options.shape.changes,
        options.readers / 2,
        options.common.rounds
    );
    table.print("Many readers, half of them stalled", &[machine::sentence(folder.kept(), &flushes), what]);
    Ok(())
}

async fn run_round(options: &Options, server: &Server, figures: &mut Figures) -> Outcome<()> {
    let key: Arc<str> = server.key("default")?.into();
    http::fetch(server.address, "GET /v1/changes?limit=1", &key).await?;
    tokio::time::sleep(SETTLE).await;
    let idle = Peak::now(server.pid());

    let watch = Watch::start(server.pid(), server.wal());
    let begin = Instant::now();
    let stalled = read_all(options, server.address, &key).await?;
    figures.readers_seconds.push(begin.elapsed().as_secs_f64());
    let reading = watch.stop();

    let watch = Watch::start(server.pid(), server.wal());
    write_beside(server).await?;
    let writing = watch.stop();

    let operator = server.key("*")?;
    let begin = Instant::now();
    drop(stalled);
    wait_until_let_go(server.address, &operator).await?;
    figures.let_go_ms.push(begin.elapsed().as_secs_f64() * 1e3);

    figures.idle_mib.push(mib(idle.resident_kib));
    figures.peak_mib.push(mib(reading.resident_kib));
    figures.above_mib.push(mib(reading.resident_kib.saturating_sub(idle.resident_kib)));
    figures.high_water_mib.push(mib(writing.high_water_kib));
    figures.wal_before_mib.push(mib(reading.file_bytes >> 10));
    figures.wal_peak_mib.push(mib(writing.file_bytes >> 10));
    Ok(())
}

/// Starts all readers at once and waits for those that read to the end; the stalled connections.
async fn read_all(options: &Options, address: SocketAddr, key: &Arc<str>) -> Outcome<Vec<Connection>> {
    let target: Arc<str> = format!("GET /v1/changes?limit={}", options.shape.changes).into();
    let begin =
        |reads_on| tokio::spawn(tokio::time::timeout(PATIENCE, read(address, key.clone(), target.clone(), reads_on)));
    let readers: Vec<_> = (0..options.readers).map(|index| begin(index % 2 == 0)).collect();
    let mut stalled = Vec::new();
    for reader in readers {
        match reader.await??? {
            Reader::Stalled(connection) => stalled.push(connection),
            Reader::Finished(lines) if lines == options.shape.changes => {}
            Reader::Finished(lines) => return Err(format!("a reader got {lines} lines").into()),
        }
    }
    Ok(stalled)
}

/// Where a reader stands when its task ends.
enum Reader {
    Stalled(Connection),
    Finished(u64),
}

async fn read(address: SocketAddr, key: Arc<str>, target: Arc<str>, reads_on: bool) -> Outcome<Reader> {
    let mut request = Vec::new();
    http::write_request(&mut request, &target, &key, "", b"");
    let mut connection = Connection::open(address).await?;
    let head = connection.send(&request).await?;
    if head.status != 200 {
        return Err(format!("a reader was answered {}", head.status).into());
    }
    let (mut lines, mut taken) = (0, 0);
    while let Some(piece) = connection.piece().await? {
        lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        taken += piece.len();
        if !reads_on && taken >= TAKEN_BYTES {
            return Ok(Reader::Stalled(connection));
        }
    }
    Ok(Reader::Finished(lines))
}

/// Writes to another log of the same file while the stalled readers hold their answers.
async fn write_beside(server: &Server) -> Outcome<()> {
    let logs = http::fetch(server.address, "GET /v1/admin/logs", &server.key("*")?).await?.1;
    if !String::from_utf8_lossy(&logs).contains(&format!("\"{SCRATCH_LOG}\"")) {
        run(scroll(server.place.clone()).args(["logs", "create", SCRATCH_LOG]))?;
    }
    let key = server.key(SCRATCH_LOG)?;
    let mut connection = Connection::open(server.address).await?;
    let version = u64::from(std::process::id()) << 20 | u64::from(server.pid());
    for batch in 0..BATCHES {
        let mut operations = String::new();
        for number in batch * BATCH_OPERATIONS..(batch + 1) * BATCH_OPERATIONS {
            Invoice { number, version }.write_operation(&mut operations, DATA_BYTES);
        }
        let mut request = Vec::new();
        let kind = "Content-Type: application/x-ndjson\r\n";
        http::write_request(&mut request, "POST /v1/batch", &key, kind, operations.as_bytes());
        let status = connection.send(&request).await?.status;
        let body = connection.whole().await?;
        if status != 200 {
            return Err(format!("a batch was answered {status}: {}", String::from_utf8_lossy(&body)).into());
        }
    }
    Ok(())
}

async fn wait_until_let_go(address: SocketAddr, key: &str) -> Outcome<()> {
    let begin = Instant::now();
    loop {
        let metrics = http::fetch(address, "GET /metrics", key).await?.1;
        let metrics = String::from_utf8(metrics)?;
        let open = metrics.lines().find_map(|line| line.strip_prefix("scroll_open_responses "));
        match open.ok_or("no metric scroll_open_responses")? {
            "0" => return Ok(()),
            open if begin.elapsed() > PATIENCE => return Err(format!("{open} responses stay open").into()),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}
