//! The figures of README, end to end: real servers, real files, real sockets, one program.
//!
//! Every figure starts `scroll` itself (release build), in a folder of its own, on the loopback device, and
//! prints a Markdown table to stdout; what it is doing meanwhile goes to stderr. Things that are compared run
//! interleaved, round by round, and a table shows medians. A figure that finds a wrong answer stops with an
//! error instead of a number: what is not correct has no speed.
//!
//! ```text
//! cargo bench --bench load -- --help
//! cargo bench --bench load -- writes --seconds 3 --rounds 5
//! ```
//!
//! The file system decides much of it, so `--dir` says where; every table names it, with the rate of 8 KiB
//! flushes that it gave right before the runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::as_conversions,
    reason = "a measuring program stops loudly, and its arithmetic is on counts and times"
)]

mod compact;
mod data;
mod feed;
mod folder;
mod follow;
mod http;
mod import;
mod machine;
mod memory;
mod postgres;
mod ram;
mod reads;
mod server;
mod stalled;
mod stats;
mod table;
mod writers;
mod writes;

use clap::{Parser, Subcommand};

/// What can go wrong is told to a person and ends the program.
type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Measures scroll on this machine.
#[derive(Parser)]
#[command(name = "load")]
struct Arguments {
    #[command(subcommand)]
    figure: Option<Figure>,
}

#[derive(Subcommand)]
enum Figure {
    /// Writes over HTTP, with and without group commit.
    Writes(writes::Options),
    /// `scroll import`: speed and peak memory, then a second run that changes nothing.
    Import(import::Options),
    /// One long page against the sqlite3 shell, and against the same bytes from memory.
    Reads(reads::Options),
    /// Memory of the server under many readers, half of them standing still.
    Stalled(stalled::Options),
    /// A compact bootstrap against a full read.
    Compact(compact::Options),
    /// PostgreSQL: writes over HTTP, grouped, one by one, with refusals, by two servers, and the naive way.
    PostgresWrites(postgres::writes::Options),
    /// PostgreSQL: writes while somebody holds a snapshot open, as a dump does.
    PostgresSnapshot(postgres::snapshot::Options),
    /// PostgreSQL: one long page against `COPY … TO STDOUT`.
    PostgresReads(postgres::reads::Options),
    /// Followers: delay, fan-out, memory, their cost to a writer, history.
    Follow(follow::Options),
}

fn main() {
    // cargo adds --bench to whatever the caller wrote.
    let arguments = std::env::args_os().filter(|argument| argument != "--bench");
    let Some(figure) = Arguments::parse_from(arguments).figure else {
        println!("nothing measured: name a figure, for example `cargo bench --bench load -- writes`, or --help");
        return;
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    if let Err(error) = runtime.block_on(measure(figure)) {
        eprintln!("load: {error}");
        std::process::exit(1);
    }
}

async fn measure(figure: Figure) -> Outcome<()> {
    match figure {
        Figure::Writes(options) => writes::measure(&options).await,
        Figure::Import(options) => import::measure(&options).await,
        Figure::Reads(options) => reads::measure(&options).await,
        Figure::Stalled(options) => stalled::measure(&options).await,
        Figure::Compact(options) => compact::measure(&options).await,
        Figure::PostgresWrites(options) => postgres::writes::measure(&options).await,
        Figure::PostgresSnapshot(options) => postgres::snapshot::measure(&options).await,
        Figure::PostgresReads(options) => postgres::reads::measure(&options).await,
        Figure::Follow(options) => follow::measure(&options).await,
    }
}
