//! One reader of a long page: `curl` from scroll, against `psql -c "COPY … TO STDOUT"` of the same table.

use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;

use crate::feed::Shape;
use crate::folder::Common;
use crate::server::{Server, run};
use crate::stats::{Rounds, Thousands};
use crate::table::Table;
use crate::{Outcome, machine};

use super::cluster::Cluster;

/// Options of this figure.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    common: Common,
}

/// Measures and prints.
pub async fn measure(options: &Options) -> Outcome<()> {
    let folder = options.common.folder()?;
    let cluster = Cluster::start(folder.scratch())?;
    let place = cluster.database("feed")?;
    Server::start(place.clone(), &[]).await?.stop().await?;
    options.shape.import(place.clone())?;
    cluster.psql("feed", "VACUUM (ANALYZE) scroll.changes, scroll.entities")?;
    let server = Server::start(place, &[]).await?;
    let (key, changes) = (server.key("default")?, options.shape.changes);
    let feed = format!("http://{}/v1/changes?limit={changes}", server.address);
    // A partitioned table cannot be copied as such; one log stands in one partition.
    let partition = cluster.psql("feed", "SELECT tableoid::regclass FROM scroll.changes LIMIT 1")?;
    let columns = &format!("COPY {partition} TO STDOUT");
    let lines = "COPY (SELECT line FROM scroll.changes ORDER BY log_id, seq) TO STDOUT";
    let (mut by_http, mut by_copy, mut by_lines) = (Rounds::default(), Rounds::default(), Rounds::default());
    let mut disk = Rounds::default();
    for round in 1..=options.common.rounds {
        disk.push(machine::flush_rate(folder.scratch())?);
        by_http.push(curl(&feed, &key)?);
        by_copy.push(copy(&cluster, columns)?);
        by_lines.push(copy(&cluster, lines)?);
        eprintln!("round {round}: {} s by HTTP, {} s by COPY", by_http.shown(2), by_copy.shown(2));
    }
    let mut table = Table::new(&["reader", "seconds", "lines/s", "speed of scroll against it"]);
    let copies = [("psql, COPY of the table", &by_copy), ("psql, COPY of the lines in order", &by_lines)];
    for (name, cell) in [("curl, scroll", &by_http)].into_iter().chain(copies) {
        let rate = Thousands(changes as f64 / cell.median()).to_string();
        table.row(&[name.to_owned(), cell.shown(2), rate, cell.by(&by_http).shown(2)]);
    }
    let what =
        format!("{} lines, medians of {} rounds, interleaved.", Thousands(changes as f64), options.common.rounds);
    table.print("One reader of the whole log, PostgreSQL", &[machine::sentence(folder.scratch(), &disk), what]);
    server.stop().await
}

/// Seconds of a whole page; its lines are counted.
fn curl(url: &str, key: &str) -> Outcome<f64> {
    let mut curl = Command::new("curl");
    curl.args(["-q", "-s", "-S", "--noproxy", "*", "-o", "/dev/null", "-H", &format!("Authorization: Bearer {key}")]);
    curl.args(["-w", "%{http_code} %header{scroll-up-to-date} %{errormsg}", url]);
    let begin = Instant::now();
    let told = run(&mut curl)?;
    let took = begin.elapsed().as_secs_f64();
    if told.trim_end() != "200 true" {
        return Err(format!("{url} gave {told}").into());
    }
    Ok(took)
}

fn copy(cluster: &Cluster, sql: &str) -> Outcome<f64> {
    let mut psql = cluster.client("psql", "feed");
    psql.args(["-X", "-q", "-c", sql]).stdout(Stdio::null());
    let begin = Instant::now();
    let status = psql.status()?;
    let took = begin.elapsed().as_secs_f64();
    if status.success() { Ok(took) } else { Err(format!("COPY ended with {status}").into()) }
}
