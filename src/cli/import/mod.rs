//! `scroll import`: entities from JSON lines into a log, in atomic batches.
//!
//! An entity that is there already with the same data costs no change, so a run that broke off is simply
//! started again. One thread reads and parses a batch ahead while the one before is committed; memory is
//! bounded by the size of a line and of a batch.

mod line;
mod progress;
mod reader;

use std::path::PathBuf;

use clap::Args;
use tokio::sync::mpsc;

use super::database::{DatabaseArgs, TypesArgs, log_name, no_such_log, open};
use super::{CliError, terminal};
use crate::access::{Log, LogId};
use crate::change::LogName;
use crate::config::{Database, SettingFaults, Types, parse_number};
use crate::entity::{Bounds, Outcome, Refused, Submission, Work};
use crate::store::{OpenMode, Store, StoreError};
use progress::Progress;
use reader::{Batch, Input};

/// Most lines in one transaction that may be asked for.
const MAX_BATCH_LINES: usize = 10_000;
/// Parsed batches that wait while one is committed: more would only cost memory.
const BATCHES_AHEAD: usize = 1;
/// Commits share nothing here: there is one writer, and it waits for each.
const SUBMISSIONS_PER_COMMIT: usize = 1;
/// How often a busy database is asked again before giving up.
const MAX_ATTEMPTS: u32 = 20;
/// The wait before asking again.
const BUSY_PAUSE: std::time::Duration = std::time::Duration::from_millis(250);
/// How long the store may take to let go at the end.
const CLOSE_DEADLINE: std::time::Duration = std::time::Duration::from_secs(10);

/// What to import, and where to.
#[derive(Debug, Args)]
#[command(
    after_help = "Each line is one entity: {\"resource\":\"customer\",\"id\":\"cus_1\",\"data\":{\"name\":\"Ada\"}}\n\n\
                  A batch is written whole or not at all. Entities that are there already with the same data stay as \
                  they are, so an import that stopped is simply run again. A running server holds the database: stop \
                  it first, or write through POST /v1/batch."
)]
pub struct ImportArgs {
    /// A file of JSON lines, or - for stdin
    #[arg(value_name = "FILE.ndjson")]
    file: PathBuf,
    /// The log to write into
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = log_name)]
    log: LogName,
    /// Lines in one transaction, 1 to 10000; a batch also ends at 4 MiB
    #[arg(long, value_name = "LINES", default_value = "1000")]
    batch: String,
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    types: TypesArgs,
}

/// A checked command.
pub struct Import {
    input: Input,
    log: LogName,
    batch_lines: usize,
    database: Database,
    types: Types,
}

impl ImportArgs {
    /// Checks the settings.
    pub fn configure(self) -> Result<Import, SettingFaults> {
        let mut faults = SettingFaults::default();
        let database = faults.keep(self.database.configure());
        let types = faults.keep(self.types.configure());
        let batch = faults.keep_as("--batch", parse_number(&self.batch, 1..=MAX_BATCH_LINES, "lines"));
        let input = Input::named(self.file);
        match (database, types, batch) {
            (Some(database), Some(types), Some(batch_lines)) => {
                Ok(Import { input, log: self.log, batch_lines, database, types })
            }
            _ => Err(faults),
        }
    }
}

impl Import {
    /// Runs the command.
    pub async fn run(self) -> Result<(), CliError> {
        let (text, size_bytes) = self.input.open()?;
        let opened = open(&self.database, self.types.catalog, SUBMISSIONS_PER_COMMIT, OpenMode::Exclusive).await?;
        let store = opened.store;
        let imported = match log_named(store.as_ref(), &self.log).await? {
            None => Err(no_such_log(&self.log)),
            Some(log) => {
                let batches = reader::read_ahead(text, self.batch_lines, BATCHES_AHEAD)?;
                import(store.as_ref(), log.id, batches, Progress::start(size_bytes)).await
            }
        };
        store.close(CLOSE_DEADLINE).await;
        imported
    }
}

/// The log to write into. In a database without any log it is made; the first start of a server then shows
/// its first key.
async fn log_named(store: &dyn Store, name: &LogName) -> Result<Option<Log>, CliError> {
    if store.logs().await?.is_empty() {
        terminal::remark(&format!("This database is new; made the log {:?}.", name.as_str()));
        return Ok(Some(store.create_log(name).await?));
    }
    Ok(store.log(name).await?)
}

async fn import(
    store: &dyn Store,
    log: LogId,
    mut batches: mpsc::Receiver<Result<Batch, String>>,
    mut progress: Progress,
) -> Result<(), CliError> {
    let stopped = loop {
        let Some(batch) = batches.recv().await else {
            break None;
        };
        let (numbers, bytes) = match &batch {
            Ok(batch) => (batch.line_numbers.clone(), batch.size_bytes),
            Err(why) => break Some(CliError::Refused(why.clone())),
        };
        let lines = u64::try_from(numbers.len()).unwrap_or(u64::MAX);
        match write(store, log, batch.unwrap_or_default()).await {
            Ok(Ok(written)) => progress.advance(written, lines.saturating_sub(written), bytes),
            Ok(Err(refused)) => break Some(CliError::Refused(in_words(&refused, &numbers))),
            Err(error) => break Some(error.into()),
        }
    };
    progress.finish();
    match stopped {
        None => terminal::say(&progress.summary()),
        Some(error) => {
            terminal::remark(&progress.summary());
            terminal::remark("The import stopped. Run it again when the cause is gone: what is in stays as it is.");
            Err(error)
        }
    }
}

/// Writes a batch, and says how many of its lines changed something. A busy database did nothing, so it
/// is asked again.
async fn write(store: &dyn Store, log: LogId, batch: Batch) -> Result<Result<u64, Refused>, StoreError> {
    let submission = Submission {
        request_id: uuid::Uuid::now_v7().to_string(),
        idempotency: None,
        size_bytes: batch.size_bytes,
        bounds: Bounds::default(),
        work: Work::Batch(batch.commands),
    };
    let mut attempt = 1;
    loop {
        match store.write(log, submission.clone()).await {
            Ok(answer) => return Ok(answer.result.map(|outcome| changes_of(&outcome))),
            Err(StoreError::Busy { .. }) if attempt < MAX_ATTEMPTS => {
                attempt += 1;
                tokio::time::sleep(BUSY_PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A put makes one change or none, so the numbers that a batch took are the lines that changed something.
fn changes_of(outcome: &Outcome) -> u64 {
    match outcome {
        Outcome::Batch { tx: Some(first), last: Some(last), .. } => last.distance_from(*first) + 1,
        Outcome::Batch { .. } | Outcome::Entity { .. } => 0,
    }
}

fn in_words(refused: &Refused, line_numbers: &[u64]) -> String {
    let line = refused.index.and_then(|index| line_numbers.get(index));
    let place = line.map_or_else(|| "a batch".to_owned(), |number| format!("line {number}"));
    format!("{place}: {}; nothing of its batch was written", line::refusal(&refused.refusal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Seq;
    use crate::entity::Refusal;

    #[test]
    fn written_lines_are_counted_by_the_numbers_they_took() {
        let batch = |tx: Option<i64>, last: Option<i64>| Outcome::Batch {
            tx: tx.and_then(Seq::new),
            last: last.and_then(Seq::new),
            lines: Vec::new(),
        };
        assert_eq!(changes_of(&batch(Some(5), Some(7))), 3);
        assert_eq!(changes_of(&batch(None, None)), 0);
    }

    #[test]
    fn a_refusal_names_the_line_of_the_file() {
        let refusal = Refusal::UnknownResource { resource: "order".into() };
        let said = in_words(&refusal.at(1), &[10, 12]);
        assert!(said.starts_with("line 12: ") && said.contains("order"), "{said}");
    }
}
