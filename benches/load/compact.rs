//! A new consumer: the compact bootstrap against a read of all history, each in one answer and in pages.

use std::net::SocketAddr;
use std::time::Instant;

use clap::Args;

use crate::Outcome;
use crate::feed::Shape;
use crate::folder::Common;
use crate::http::{self, Connection};
use crate::machine;
use crate::server::Server;
use crate::stats::{Rounds, Thousands};
use crate::table::Table;

/// Lines of a page for a consumer that follows `Link`.
const PAGE_LINES: u64 = 1_000;

/// Options of this figure.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    common: Common,
}

/// One way to begin a copy.
struct Way {
    name: &'static str,
    target: String,
    /// Lines that must come.
    lines: u64,
    seconds: Rounds,
    answers: u64,
    bytes: u64,
}

/// Measures and prints.
pub async fn measure(options: &Options) -> Outcome<()> {
    let folder = options.common.folder()?;
    let database = options.shape.database(folder.kept()).await?;
    let server = Server::start(&database, &[]).await?;
    let key = server.key("default")?;
    let mut ways = ways(options.shape);
    let mut flushes = Rounds::default();
    for round in 1..=options.common.rounds {
        flushes.push(machine::flush_rate(folder.scratch())?);
        for way in &mut ways {
            way.run(server.address, &key, options.shape.entities).await?;
            eprintln!("round {round}, {}: {} s", way.name, way.seconds.shown(3));
        }
    }
    print(options, &ways, machine::sentence(folder.kept(), &flushes));
    server.stop().await
}

fn ways(shape: Shape) -> [Way; 4] {
    let way = |name, query: &str, limit, lines| Way {
        name,
        target: format!("/v1/changes?{query}limit={limit}"),
        lines,
        seconds: Rounds::default(),
        answers: 0,
        bytes: 0,
    };
    [
        way("full, one answer", "", shape.changes, shape.changes),
        way("compact, one answer", "compact=true&", shape.changes, shape.entities),
        way("full, pages of 1,000", "", PAGE_LINES, shape.changes),
        way("compact, pages of 1,000", "compact=true&", PAGE_LINES, shape.entities),
    ]
}

fn print(options: &Options, ways: &[Way; 4], machine: String) {
    let mut table =
        Table::new(&["bootstrap", "seconds", "answers", "lines", "MB", "lines/s", "time ÷ full in one answer"]);
    for way in ways {
        table.row(&[
            way.name.to_owned(),
            way.seconds.shown(3),
            Thousands(way.answers as f64).to_string(),
            Thousands(way.lines as f64).to_string(),
            format!("{:.0}", way.bytes as f64 / 1e6),
            Thousands(way.lines as f64 / way.seconds.median()).to_string(),
            way.seconds.by(&ways[0].seconds).shown(3),
        ]);
    }
    let what = format!(
        "{} live entities after {} changes, medians of {} rounds, interleaved. Live entities ÷ changes = {:.3}.",
        Thousands(options.shape.entities as f64),
        Thousands(options.shape.changes as f64),
        options.common.rounds,
        options.shape.entities as f64 / options.shape.changes as f64,
    );
    table.print("Bootstrap of a new consumer", &[machine, what]);
}

impl Way {
    /// Reads until up to date, following `Link` where the first answer was not all.
    async fn run(&mut self, address: SocketAddr, key: &str, entities: u64) -> Outcome<()> {
        let mut connection = Connection::open(address).await?;
        let (mut lines, mut target) = (0, self.target.clone());
        (self.answers, self.bytes) = (0, 0);
        let begin = Instant::now();
        loop {
            let mut request = Vec::new();
            http::write_request(&mut request, &format!("GET {target}"), key, "", b"");
            let head = connection.send(&request).await?;
            while let Some(piece) = connection.piece().await? {
                lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
                self.bytes += piece.len() as u64;
            }
            self.answers += 1;
            if head.status != 200 {
                return Err(format!("{target} was answered {}", head.status).into());
            }
            if head.header("scroll-up-to-date") == Some("true") {
                check_checkpoint(&head, entities)?;
                break;
            }
            target = next(&head)?;
        }
        self.seconds.push(begin.elapsed().as_secs_f64());
        if lines != self.lines {
            return Err(format!("{} gave {lines} lines instead of {}", self.name, self.lines).into());
        }
        Ok(())
    }
}

/// The last answer carries the checkpoint of all live entities.
fn check_checkpoint(head: &http::Head, entities: u64) -> Outcome<()> {
    let checkpoint = head.header("scroll-checkpoint").ok_or("the last answer has no Scroll-Checkpoint")?;
    if !checkpoint.contains(&format!("count={entities},")) {
        return Err(format!("the checkpoint should count {entities} entities and is {checkpoint}").into());
    }
    Ok(())
}

/// The target of `Link: <…>; rel="next"`, without scheme and host.
fn next(head: &http::Head) -> Outcome<String> {
    let link = head.header("link").ok_or("an answer that is not the last has no Link")?;
    let target = link.strip_prefix('<').and_then(|link| link.split_once('>')).map(|(target, _)| target);
    let path = target.and_then(|target| target.find("/v1/").map(|at| target[at..].to_owned()));
    path.ok_or_else(|| format!("a Link that names no page: {link}").into())
}
