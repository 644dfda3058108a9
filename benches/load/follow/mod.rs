//! Followers: how soon they have a change, how many lines a server hands out, what an idle one takes of its
//! memory, what a thousand idle ones cost a writer, and history against the page read.

mod client;
mod writing;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use self::client::Follower;
use self::writing::Versions;
use crate::feed::Shape;
use crate::folder::{Common, Folder};
use crate::http::{self, Connection};
use crate::memory::{Peak, mib};
use crate::server::{Server, run, scroll};
use crate::stats::{Latencies, Rounds, Thousands, milliseconds};
use crate::table::Table;
use crate::{Outcome, machine};

/// Writes a second while the delay is measured.
const RATE: f64 = 100.0;
/// Connections of a full-speed writer.
const WRITERS: usize = 32;
/// What followers ask for: the log from now on, and no sign of life in between.
const LIVE: &str = "feed=continuous&since=now&heartbeat=60";
/// The log of those who follow and are never told anything.
const QUIET_LOG: &str = "quiet";
/// A server has settled after this.
const SETTLE: Duration = Duration::from_secs(2);
/// How long the last line of a run may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which of the figures.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Delay,
    Fanout,
    Memory,
    Writer,
    History,
}

/// Options of this figure.
#[derive(Args)]
pub struct Options {
    /// What to measure.
    #[arg(long, value_delimiter = ',', default_value = "delay,fanout,memory,writer,history")]
    parts: Vec<Part>,
    /// Followers while the delay is measured; one run for each.
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000")]
    followers: Vec<usize>,
    /// Followers of a full-speed writer, and idle ones beside a writer.
    #[arg(long, default_value_t = 1_000)]
    many: usize,
    /// Idle followers whose memory is measured; one run for each.
    #[arg(long, value_delimiter = ',', default_value = "1000,10000")]
    idle: Vec<usize>,
    /// Seconds of one run.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    common: Common,
}

/// A server of its own for a part.
struct Stage {
    server: Server,
    key: Arc<str>,
    versions: Versions,
}

impl Stage {
    async fn start(folder: &Folder, name: &str) -> Outcome<Stage> {
        let database = folder.scratch().join(format!("{name}.db"));
        let server = Server::start(&database, &["--max-streams", "20000", "--max-streams-per-key", "20000"]).await?;
        let key = server.key("default")?.into();
        Ok(Stage { server, key, versions: Versions::default() })
    }

    async fn followers(&self, key: &str, count: usize) -> Outcome<Vec<Follower>> {
        let mut followers = Vec::with_capacity(count);
        for _ in 0..count {
            followers.push(Follower::open(self.server.address, key, LIVE).await?);
        }
        Ok(followers)
    }
}

/// Measures and prints.
pub async fn measure(options: &Options) -> Outcome<()> {
    let folder = options.common.folder()?;
    let mut flushes = Rounds::default();
    flushes.push(machine::flush_rate(folder.scratch())?);
    let sentence = machine::sentence(folder.scratch(), &flushes);
    for part in &options.parts {
        match part {
            Part::Delay => delay(options, &folder, &sentence).await?,
            Part::Fanout => fanout(options, &folder, &sentence).await?,
            Part::Memory => memory(options, &folder, &sentence).await?,
            Part::Writer => writer(options, &folder, &sentence).await?,
            Part::History => history(options, &folder, &sentence).await?,
        }
    }
    Ok(())
}

async fn delay(options: &Options, folder: &Folder, sentence: &str) -> Outcome<()> {
    let stage = Stage::start(folder, "delay").await?;
    let mut table = Table::new(&["followers", "p50 ms", "p99 ms", "slowest ms", "answer to the writer, p50 ms"]);
    let count = (options.seconds * RATE) as usize;
    for followers in &options.followers {
        let all = stage.followers(&stage.key, *followers).await?;
        let reading: Vec<_> = all
            .into_iter()
            .map(|follower| tokio::spawn(tokio::time::timeout(PATIENCE, follower.times(count))))
            .collect();
        let written = writing::steadily(stage.server.address, &stage.key, &stage.versions, count, RATE).await?;
        let mut delays = Vec::with_capacity(count * followers);
        for times in reading {
            let times = times.await???;
            delays.extend(written.iter().zip(times).map(|((sent, _), came)| came.saturating_duration_since(*sent)));
        }
        let answers = Latencies::new(written.iter().map(|(sent, answered)| *answered - *sent).collect());
        let slowest = delays.iter().max().copied().map_or(0.0, milliseconds);
        let delays = Latencies::new(delays);
        let figures = [delays.percentile(0.5), delays.percentile(0.99), slowest, answers.percentile(0.5)];
        let cells = figures.map(|figure| format!("{figure:.2}"));
        table.row(&[[followers.to_string()].as_slice(), &cells].concat());
    }
    let what =
        format!("{RATE} writes/s for {} s; from sending a write to its whole line in a follower.", options.seconds);
    table.print("Delay of a change", &[sentence.to_owned(), what]);
    stage.server.stop().await
}

/// Seconds of processor time that a process has used.
fn processor_seconds(pid: u32) -> Outcome<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<f64> = after_name.split_whitespace().skip(11).take(2).filter_map(|tick| tick.parse().ok()).collect();
    // Linux counts in hundredths of a second, whatever its clock.
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

async fn fanout(options: &Options, folder: &Folder, sentence: &str) -> Outcome<()> {
    let stage = Stage::start(folder, "fanout").await?;
    let (delivered, time) = (Arc::new(AtomicU64::new(0)), Duration::from_secs_f64(options.seconds));
    let followers = stage.followers(&stage.key, options.many).await?;
    let reading: Vec<_> =
        followers.into_iter().map(|follower| tokio::spawn(follower.count(delivered.clone()))).collect();
    let used = processor_seconds(stage.server.pid())?;
    let begin = Instant::now();
    let rate = writing::at_full_speed(stage.server.address, &stage.key, &stage.versions, WRITERS, time).await?;
    let (lines, seconds) = (delivered.load(Ordering::Relaxed) as f64, begin.elapsed().as_secs_f64());
    let used = processor_seconds(stage.server.pid())? - used;
    let resident = mib(Peak::now(stage.server.pid()).resident_kib);
    reading.iter().for_each(tokio::task::JoinHandle::abort);
    let mut table = Table::new(&["figure", "value"]);
    for (name, value) in [
        ("writes/s beside them", Thousands(rate).to_string()),
        ("lines/s delivered in total", Thousands(lines / seconds).to_string()),
        ("processor time per delivered line, µs, writes included", format!("{:.2}", used * 1e6 / lines.max(1.0))),
        ("server, MiB", format!("{resident:.0}")),
    ] {
        table.row(&[name.to_owned(), value]);
    }
    let what =
        format!("{} followers of one log, {WRITERS} connections that write for {} s.", options.many, options.seconds);
    table.print("Followers of a full-speed writer", &[sentence.to_owned(), what]);
    stage.server.stop().await
}

async fn memory(options: &Options, folder: &Folder, sentence: &str) -> Outcome<()> {
    let mut table = Table::new(&["idle followers", "server before, MiB", "with them, MiB", "KiB each"]);
    for idle in &options.idle {
        let stage = Stage::start(folder, &format!("idle-{idle}")).await?;
        drop(stage.followers(&stage.key, 10).await?);
        tokio::time::sleep(SETTLE).await;
        let before = Peak::now(stage.server.pid()).resident_kib;
        let followers = stage.followers(&stage.key, *idle).await?;
        tokio::time::sleep(SETTLE).await;
        let with = Peak::now(stage.server.pid()).resident_kib;
        let each = with.saturating_sub(before) as f64 / *idle as f64;
        table.row(&[
            idle.to_string(),
            format!("{:.1}", mib(before)),
            format!("{:.1}", mib(with)),
            format!("{each:.1}"),
        ]);
        drop(followers);
        stage.server.stop().await?;
    }
    table.print("Memory of idle followers", &[sentence.to_owned()]);
    Ok(())
}

async fn writer(options: &Options, folder: &Folder, sentence: &str) -> Outcome<()> {
    let stage = Stage::start(folder, "writer").await?;
    run(scroll(stage.server.place.clone()).args(["logs", "create", QUIET_LOG]))?;
    let quiet = stage.server.key(QUIET_LOG)?;
    let time = Duration::from_secs_f64(options.seconds);
    let (mut alone, mut beside) = (Rounds::default(), Rounds::default());
    for _ in 0..options.common.rounds {
        let speed = || writing::at_full_speed(stage.server.address, &stage.key, &stage.versions, WRITERS, time);
        alone.push(speed().await?);
        let idle = stage.followers(&quiet, options.many).await?;
        beside.push(speed().await?);
        drop(idle);
        tokio::time::sleep(SETTLE).await;
    }
    let mut table = Table::new(&["writer", "writes/s"]);
    table.row(&["alone".to_owned(), alone.shown(0)]);
    table.row(&[format!("beside {} idle followers", options.many), beside.shown(0)]);
    table.row(&["**share**".to_owned(), beside.by(&alone).shown(3)]);
    table.print("What idle followers cost a writer", &[sentence.to_owned()]);
    stage.server.stop().await
}

async fn history(options: &Options, folder: &Folder, sentence: &str) -> Outcome<()> {
    let database = options.shape.database(folder.kept()).await?;
    let server = Server::start(&database, &[]).await?;
    let (key, changes) = (server.key("default")?, options.shape.changes);
    let (mut pages, mut streams) = (Rounds::default(), Rounds::default());
    for _ in 0..options.common.rounds {
        for (query, rounds) in [
            (format!("since=0&limit={changes}"), &mut pages),
            (format!("since=0&limit={changes}&feed=continuous"), &mut streams),
        ] {
            let begin = Instant::now();
            let lines = read_whole(&server, &key, &query).await?;
            rounds.push(begin.elapsed().as_secs_f64());
            if lines != changes {
                return Err(format!("{query} gave {lines} lines").into());
            }
        }
    }
    let mut table = Table::new(&["read", "seconds"]);
    table.row(&["page".to_owned(), pages.shown(2)]);
    table.row(&["continuous".to_owned(), streams.shown(2)]);
    table.row(&["**continuous ÷ page**".to_owned(), streams.by(&pages).shown(2)]);
    let what = format!("{} changes, medians of {} rounds.", Thousands(changes as f64), options.common.rounds);
    table.print("History, then live", &[sentence.to_owned(), what]);
    server.stop().await
}

/// The lines of an answer that ends.
async fn read_whole(server: &Server, key: &str, query: &str) -> Outcome<u64> {
    let mut request = Vec::new();
    http::write_request(&mut request, &format!("GET /v1/changes?{query}"), key, "", b"");
    let mut connection = Connection::open(server.address).await?;
    let (head, mut lines) = (connection.send(&request).await?, 0);
    while let Some(piece) = connection.piece().await? {
        lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
    }
    match head.status {
        200 => Ok(lines),
        status => Err(format!("{query} was answered {status}").into()),
    }
}
