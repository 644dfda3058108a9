//! What applications write in transactions of their own: how it reaches the log, in which order, exactly once.
//! PostgreSQL only.

mod append;
mod backfill;
mod capture;
mod clients;
mod refused;

use std::time::Duration;

use scroll::entity::types::Catalog;

use crate::support::audit::check_everything;
use crate::support::bed::Bed;
use crate::support::desk::Desk;
use crate::support::model::Entry;
use crate::support::postgres::Shell;

/// A connection of an application.
fn application(bed: &Bed) -> Shell {
    Shell::connect(&bed.url())
}

/// Waits until nothing that is committed waits in the outbox.
async fn drained(shell: &Shell) {
    while shell.get::<i64>("SELECT count(*) FROM scroll.outbox") > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Every line, once nothing waits and everything adds up.
async fn settled(desk: &Desk, shell: &Shell) -> Vec<Entry> {
    drained(shell).await;
    check_everything(desk, &Catalog::builtin()).await
}

/// `id type data` of each line.
fn told(lines: &[Entry]) -> Vec<String> {
    let told = |entry: &Entry| {
        let (_, rest) = entry.raw.split_once(r#","type":""#).unwrap();
        let (verb, rest) = rest.split_once('"').unwrap();
        let (_, data) = rest.split_once(r#","data":"#).unwrap();
        format!("{} {verb} {}", entry.id, data.strip_suffix('}').unwrap())
    };
    lines.iter().map(told).collect()
}
