//! One reader of a long page: `curl` from scroll, against the `sqlite3` shell on the same file, and against
//! the same bytes out of memory by the same server stack.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use bytes::Bytes;
use clap::Args;

use crate::feed::Shape;
use crate::folder::Common;
use crate::ram::Ram;
use crate::server::{Server, run};
use crate::stats::{Rounds, Thousands};
use crate::table::Table;
use crate::{Outcome, machine};

/// Every line of the log by the shell, in the order of the feed, without sorting.
const SELECT: &str = "select line from changes \
    where log_id = (select log_id from logs where name = 'default') order by seq";

/// Options of this figure.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    common: Common,
}

/// What was measured of one of the three.
#[derive(Default)]
struct Cell {
    seconds: Rounds,
    first_byte_ms: Rounds,
}

/// Measures and prints.
pub async fn measure(options: &Options) -> Outcome<()> {
    let folder = options.common.folder()?;
    let database = options.shape.database(folder.kept()).await?;
    let server = Server::start(&database, &[]).await?;
    let key = server.key("default")?;
    let feed = format!("http://{}/v1/changes?limit={}", server.address, options.shape.changes);
    // The shell's output is the feed's body; reading it once also warms the file for everybody.
    let bytes = Bytes::from(shell(&database).output()?.stdout);
    let ram = Ram::start(bytes.clone())?;
    let memory = format!("http://{}/", ram.address);
    let (mut by_http, mut by_shell, mut by_memory) = (Cell::default(), Cell::default(), Cell::default());
    let mut flushes = Rounds::default();
    for round in 1..=options.common.rounds {
        flushes.push(machine::flush_rate(folder.scratch())?);
        curl(&feed, &key, bytes.len(), &mut by_http)?;
        by_shell.seconds.push(timed(shell(&database).stdout(Stdio::null()))?);
        curl(&memory, &key, bytes.len(), &mut by_memory)?;
        eprintln!("round {round}: {} s by HTTP", by_http.seconds.shown(2));
    }
    let machine = machine::sentence(folder.kept(), &flushes);
    print(options, &[by_http, by_shell, by_memory], bytes.len(), machine);
    ram.stop().await?;
    server.stop().await
}

fn print(options: &Options, [by_http, by_shell, by_memory]: &[Cell; 3], bytes: usize, machine: String) {
    let mut table = Table::new(&["reader", "seconds", "lines/s", "MB/s", "first byte ms"]);
    for (name, cell) in [("curl, scroll", by_http), ("sqlite3 shell", by_shell), ("curl, memory", by_memory)] {
        let seconds = cell.seconds.median();
        table.row(&[
            name.to_owned(),
            cell.seconds.shown(2),
            Thousands(options.shape.changes as f64 / seconds).to_string(),
            format!("{:.0}", bytes as f64 / 1e6 / seconds),
            cell.first_byte_ms.shown(1),
        ]);
    }
    let what = format!(
        "{} lines, {:.0} bytes each, medians of {} rounds, interleaved. Speed against the shell: {}; against memory: {}.",
        Thousands(options.shape.changes as f64),
        bytes as f64 / options.shape.changes as f64,
        options.common.rounds,
        by_shell.seconds.by(&by_http.seconds).shown(2),
        by_memory.seconds.by(&by_http.seconds).shown(2),
    );
    table.print("One reader of the whole log", &[machine, what]);
}

fn shell(database: &Path) -> Command {
    let mut shell = Command::new("sqlite3");
    shell.arg("-batch").arg(database).arg(SELECT).stdin(Stdio::null());
    shell
}

/// Seconds that a command took to its good end.
fn timed(command: &mut Command) -> Outcome<f64> {
    let begin = Instant::now();
    run(command)?;
    Ok(begin.elapsed().as_secs_f64())
}

fn curl(url: &str, key: &str, bytes: usize, cell: &mut Cell) -> Outcome<()> {
    let mut curl = Command::new("curl");
    curl.args(["-q", "-s", "-S", "--noproxy", "*", "-o", "/dev/null", "-H", &format!("Authorization: Bearer {key}")]);
    curl.args(["-w", "%{http_code} %{size_download} %{time_starttransfer}", url]);
    let begin = Instant::now();
    let told = run(&mut curl)?;
    cell.seconds.push(begin.elapsed().as_secs_f64());
    let whole = format!("200 {bytes} ");
    let first = told.strip_prefix(&whole).ok_or_else(|| format!("{url} should give {whole}and gave {told}"))?;
    cell.first_byte_ms.push(first.parse::<f64>()? * 1e3);
    Ok(())
}
