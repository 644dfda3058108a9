//! What applications write in transactions of their own: how it reaches the log, in which order, exactly once.
//! PostgreSQL only.

mod append;
mod backfill;
mod capture;
mod clients;
mod refused;

use std::sync::Arc;
use std::time::Duration;

use scroll::change::Seq;
use scroll::entity::types::Catalog;
use scroll::feed::audit::Audit;

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

/// Every line, once nothing waits and `scroll check` would find nothing wrong: for logs that are too long for
/// [`settled`].
async fn audited(desk: &Desk, shell: &Shell) -> Vec<Entry> {
    drained(shell).await;
    let position = desk.store.position(desk.log).await.unwrap();
    let mut audit = Audit::new(Arc::new(Catalog::builtin()), position);
    desk.store.audit_changes(desk.log, Seq::ZERO, usize::MAX).await.unwrap().iter().for_each(|it| audit.change(it));
    let mut comparison = audit.compare();
    desk.store.audit_entities(desk.log, None, usize::MAX).await.unwrap().iter().for_each(|it| comparison.entity(it));
    desk.store.audit_links(desk.log, None, usize::MAX).await.unwrap().iter().for_each(|it| comparison.link(it));
    let report = comparison.finish();
    assert_eq!(
        report.findings.total(),
        0,
        "{:?}",
        report.findings.first().iter().map(ToString::to_string).collect::<Vec<_>>()
    );
    let lines = desk.lines().await;
    assert_eq!(lines.len() as u64, report.changes);
    lines
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
