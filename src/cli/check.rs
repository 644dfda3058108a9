//! `scroll check`: lets the database audit its own file, reads logs through the audit
//! ([`crate::feed::audit`]), and tells what it found.
//!
//! Ends with 0 when everything is in order, 1 when something is wrong, 2 when it could not tell: a check
//! that stops half-way never looks like a clean one. Works beside a running server, at the head it met.

use std::sync::Arc;

use clap::Args;

use super::database::{DEFAULT_MAX_BATCH, DatabaseArgs, TypesArgs, log_name, must_exist, no_such_log, open};
use super::{CliError, terminal};
use crate::access::Log;
use crate::change::{LogName, Seq};
use crate::config::{Database, SettingFaults, Types};
use crate::entity::types::Catalog;
use crate::feed::audit::{Audit, Comparison, Report};
use crate::store::{OpenMode, Position, Store, StoreError};

/// Changes in one read; each holds a whole line.
const CHANGES_AT_ONCE: usize = 500;
/// Rows of the entity and link tables in one read.
const ROWS_AT_ONCE: usize = 5_000;

/// What to check.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 everything is in order; 1 something is wrong, each finding on one line; \
                        2 it could not tell.\nGive the --types file that the server runs with: references are \
                        computed from it.")]
pub struct CheckArgs {
    /// The log to check [default: every log]
    #[arg(long, value_name = "NAME", value_parser = log_name)]
    log: Option<LogName>,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    types: TypesArgs,
}

/// A checked command.
pub struct Check {
    log: Option<LogName>,
    database: Database,
    types: Types,
}

impl CheckArgs {
    /// Checks the settings.
    pub fn configure(self) -> Result<Check, SettingFaults> {
        let mut faults = SettingFaults::default();
        let database = faults.keep(self.database.configure());
        let types = faults.keep(self.types.configure());
        match (database, types) {
            (Some(database), Some(types)) => Ok(Check { log: self.log, database, types }),
            _ => Err(faults),
        }
    }
}

impl Check {
    /// Runs the command.
    pub async fn run(self) -> Result<(), CliError> {
        must_exist(&self.database.url)?;
        let opened = open(&self.database, self.types.catalog, DEFAULT_MAX_BATCH, OpenMode::Beside).await?;
        let mut untold = Vec::new();
        let mut has_findings = match storage(opened.store.as_ref()).await {
            Ok(found) => {
                found.iter().try_for_each(|what| terminal::say(&format!("storage: {what}")))?;
                !found.is_empty()
            }
            Err(why) => {
                untold.push(format!("storage: {why}"));
                false
            }
        };
        let logs = match &self.log {
            None => opened.store.logs().await?,
            Some(name) => vec![opened.store.log(name).await?.ok_or_else(|| no_such_log(name))?],
        };
        if logs.is_empty() {
            terminal::say("There is no log yet: nothing more to check.")?;
        }
        for log in &logs {
            match audit(opened.store.as_ref(), opened.catalog.clone(), log).await {
                Ok(report) => has_findings |= tell(log, &report)?,
                Err(Stopped::Damaged(detail)) => {
                    has_findings = true;
                    terminal::say(&format!(
                        "{}: unreadable: {detail}; the rest of this log was not checked",
                        log.name
                    ))?;
                }
                Err(Stopped::CouldNotTell(why)) => untold.push(format!("{}: {why}", log.name)),
            }
        }
        untold.iter().for_each(|why| terminal::remark(&format!("could not tell: {why}")));
        match (has_findings, untold.is_empty()) {
            (true, _) => Err(CliError::Found),
            (false, false) => Err(CliError::CouldNot("the check is not complete; see above".into())),
            (false, true) => Ok(()),
        }
    }
}

/// What the database finds in its own file; that it cannot be read is a finding, too.
async fn storage(store: &dyn Store) -> Result<Vec<String>, StoreError> {
    match store.audit_storage().await {
        Err(StoreError::Corrupt { detail, .. }) => Ok(vec![format!("unreadable: {detail}")]),
        audited => audited,
    }
}

/// Why the audit of a log stopped.
enum Stopped {
    Damaged(String),
    CouldNotTell(String),
}

impl From<StoreError> for Stopped {
    fn from(error: StoreError) -> Stopped {
        match error {
            StoreError::Corrupt { detail, .. } => Stopped::Damaged(detail),
            other => Stopped::CouldNotTell(other.to_string()),
        }
    }
}

async fn audit(store: &dyn Store, catalog: Arc<Catalog>, log: &Log) -> Result<Report, Stopped> {
    let start = store.position(log.id).await?;
    let mut audit = Audit::new(catalog, start.clone());
    loop {
        let changes = store.audit_changes(log.id, audit.head(), CHANGES_AT_ONCE).await?;
        let before = audit.head();
        changes.iter().for_each(|change| audit.change(change));
        if audit.head() <= before {
            break;
        }
    }
    let head = audit.head();
    let mut comparison = audit.compare();
    compare_entities(store, log, &mut comparison).await?;
    compare_links(store, log, &mut comparison).await?;
    note_written_since(store, log, head, &mut comparison).await?;
    check_unmoved(&start, &store.position(log.id).await?)?;
    Ok(comparison.finish())
}

async fn compare_entities(store: &dyn Store, log: &Log, comparison: &mut Comparison) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let rows = store.audit_entities(log.id, after.take(), ROWS_AT_ONCE).await?;
        rows.iter().for_each(|row| comparison.entity(row));
        match rows.into_iter().next_back() {
            Some(last) => after = Some(last.key),
            None => return Ok(()),
        }
    }
}

async fn compare_links(store: &dyn Store, log: &Log, comparison: &mut Comparison) -> Result<(), StoreError> {
    let mut after = None;
    loop {
        let links = store.audit_links(log.id, after.take(), ROWS_AT_ONCE).await?;
        links.iter().for_each(|link| comparison.link(link));
        match links.into_iter().next_back() {
            Some(last) => after = Some(last),
            None => return Ok(()),
        }
    }
}

/// The tables may already show what was written after the head of the audit.
async fn note_written_since(
    store: &dyn Store,
    log: &Log,
    head: Seq,
    comparison: &mut Comparison,
) -> Result<(), StoreError> {
    let mut after = head;
    loop {
        let changes = store.audit_changes(log.id, after, CHANGES_AT_ONCE).await?;
        changes.iter().for_each(|change| comparison.written_since(&change.key));
        match changes.last() {
            Some(last) if last.seq > after => after = last.seq,
            _ => return Ok(()),
        }
    }
}

/// Lines that were taken away during the audit would look like damage.
fn check_unmoved(start: &Position, end: &Position) -> Result<(), Stopped> {
    if start.epoch == end.epoch && start.purged_through == end.purged_through {
        return Ok(());
    }
    Err(Stopped::CouldNotTell("lines were purged or restored while it was checked; run it again".into()))
}

/// Prints the report of one log; true when something is wrong.
fn tell(log: &Log, report: &Report) -> Result<bool, CliError> {
    let (name, findings) = (&log.name, &report.findings);
    findings.first().iter().try_for_each(|finding| terminal::say(&format!("{name}: {finding}")))?;
    terminal::say(&summary(name, report))?;
    Ok(findings.total() > 0)
}

fn summary(name: &LogName, report: &Report) -> String {
    let findings = &report.findings;
    let told = u64::try_from(findings.first().len()).unwrap_or(u64::MAX);
    let verdict = match (findings.total(), findings.total().saturating_sub(told)) {
        (0, _) => "in order".to_owned(),
        (1, _) => "1 finding".to_owned(),
        (total, 0) => format!("{total} findings"),
        (total, more) => format!("{total} findings, {more} of them not shown"),
    };
    let left_out = match report.left_out {
        0 => String::new(),
        count => format!("; {count} entities were written meanwhile and are left out of the table comparison"),
    };
    let Report { head, changes, tally, .. } = report;
    format!(
        "{name}: head {head}, {changes} changes, {} live entities, fingerprint {}: {verdict}{left_out}",
        tally.count, tally.fingerprint
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Tally;
    use crate::feed::audit::{Finding, Findings};

    #[test]
    fn the_summary_says_where_it_looked_and_how_much_is_not_shown() {
        let name = LogName::parse("default").unwrap();
        let seq = Seq::new(7).unwrap();
        let clean =
            Report { head: seq, changes: 7, tally: Tally::default(), left_out: 0, findings: Findings::default() };
        assert_eq!(
            summary(&name, &clean),
            "default: head 7, 7 changes, 0 live entities, fingerprint 0000000000000000: in order"
        );
        let mut findings = Findings::default();
        (0..103).for_each(|_| findings.add(Finding::Tx { seq, stored: seq }));
        let damaged = Report { findings, left_out: 2, ..clean };
        assert!(summary(&name, &damaged).contains("103 findings, 3 of them not shown; 2 entities"));
    }
}
