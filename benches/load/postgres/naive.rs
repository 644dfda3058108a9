//! What SCROLL is measured against: the log as one would write it without thinking of order. One
//! transaction per write, an identity column for the number, the entity and the change in one statement.
//! It loses rows for every reader that remembers the last number it saw; here only its speed counts.

use std::path::Path;

use crate::Outcome;
use crate::server::run;
use crate::stats::Latencies;

use super::cluster::Cluster;

/// The database of it.
pub const DATABASE: &str = "naive";

const SCHEMA: &str = "
    CREATE TABLE entity (log_id bigint, resource text COLLATE \"C\", id text COLLATE \"C\", seq bigint NOT NULL,
                         data text NOT NULL, PRIMARY KEY (log_id, resource, id));
    CREATE TABLE change (log_id bigint, seq bigint GENERATED ALWAYS AS IDENTITY, resource text COLLATE \"C\" NOT NULL,
                         id text COLLATE \"C\" NOT NULL, deleted boolean NOT NULL, data text NOT NULL,
                         PRIMARY KEY (log_id, seq));
    CREATE INDEX ON change (log_id, resource, id, seq);
    CREATE INDEX ON change (log_id, resource, seq);";

/// One write, in one statement: one round trip, one commit.
fn script(logs: u64, entities: u64, bytes: usize) -> String {
    format!(
        "\\set log random(1, {logs})
\\set entity random(1, {entities})
WITH written AS (
    INSERT INTO change (log_id, resource, id, deleted, data)
    VALUES (:log, 'invoice', 'inv-' || :entity, false, rpad('{{\"n\":' || :entity || ',\"note\":\"', {bytes} - 2, 'x') || '\"}}')
    RETURNING *)
INSERT INTO entity SELECT log_id, resource, id, seq, data FROM written
    ON CONFLICT (log_id, resource, id) DO UPDATE SET seq = excluded.seq, data = excluded.data;
"
    )
}

/// The tables, empty.
pub fn prepare(cluster: &Cluster) -> Outcome<()> {
    cluster.database(DATABASE)?;
    cluster.psql(DATABASE, SCHEMA).map(drop)
}

/// Writes per second and their times, over a number of seconds.
pub struct Speed {
    /// Writes per second.
    pub rate: f64,
    /// How long each took.
    pub latencies: Latencies,
}

/// Runs it with pgbench, prepared statements, one connection for each client.
pub fn run_for(
    cluster: &Cluster,
    folder: &Path,
    clients: usize,
    seconds: f64,
    logs: u64,
    entities: u64,
    bytes: usize,
) -> Outcome<Speed> {
    let file = folder.join("naive.sql");
    std::fs::write(&file, script(logs, entities, bytes))?;
    bench(cluster, DATABASE, folder, &file, clients, seconds)
}

/// Runs a script with pgbench and reads its log of transactions.
pub fn bench(
    cluster: &Cluster,
    database: &str,
    folder: &Path,
    script: &Path,
    clients: usize,
    seconds: f64,
) -> Outcome<Speed> {
    let mut pgbench = cluster.client("pgbench", database);
    let prefix = folder.join("pgbench-log");
    pgbench.args(["-n", "-M", "prepared", "-j", "2", "-c", &clients.to_string()]);
    pgbench.args(["-T", &seconds.ceil().to_string(), "-l", "--log-prefix"]).arg(&prefix).arg("-f").arg(script);
    let said = run(pgbench.arg(database))?;
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    let mut times = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pgbench-log")) {
            for line in std::fs::read_to_string(&path)?.lines() {
                let micros = line.split(' ').nth(2).and_then(|micros| micros.parse().ok());
                times.push(std::time::Duration::from_micros(micros.ok_or("an unreadable log of pgbench")?));
            }
            std::fs::remove_file(path)?;
        }
    }
    Ok(Speed { rate: rate.ok_or("pgbench told no speed")?, latencies: Latencies::new(times) })
}
