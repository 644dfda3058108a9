//! `scroll capture TABLE`: the log of a table that an application writes with its own SQL. With `--backfill`
//! the rows that are there already come first into the outbox, chunk by chunk, while the application goes on.

use std::time::{Duration, Instant};

use clap::Args;

use super::database::{DatabaseArgs, log_name};
use super::session::{failed, session};
use super::{CliError, terminal};
use crate::change::{LogName, Resource};
use crate::config::{Database, SettingFaults, parse_number};
use crate::store::postgres::outbox::{Capture, Session};

/// Rows that one chunk locks, for a few milliseconds.
const CHUNK_ROWS: &str = "500";
/// More would hold up whoever writes one of them for too long.
const MAX_CHUNK_ROWS: usize = 10_000;
/// The time between two words about how far it is.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// What to capture.
#[derive(Debug, Args)]
#[command(after_help = "From then on every insert, update and delete of the table is a line, committed or rolled \
                        back with the\napplication's transaction. Run it again to change what is captured; a \
                        second --backfill changes nothing.\nThe owner of the table must be allowed to append: \
                        SELECT scroll.allow_append('role')")]
pub struct CaptureArgs {
    /// The table, as SQL names it: subscriptions, public.subscriptions, app."Orders"
    #[arg(value_name = "TABLE")]
    table: String,
    /// The resource that its rows are
    #[arg(long, value_name = "NAME")]
    resource: String,
    /// The column with their ids: NOT NULL, with a unique index of its own
    #[arg(long, value_name = "COLUMN")]
    id: String,
    /// The columns that consumers see, commas between [default: all, also those that are added later]
    #[arg(long, value_delimiter = ',', value_name = "COLUMNS")]
    columns: Option<Vec<String>>,
    /// The log
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = log_name)]
    log: LogName,
    /// Bring the rows that are there already into the log, too
    #[arg(long)]
    backfill: bool,
    /// Rows of one chunk of a backfill, 1 to 10000: so many are locked at a time
    #[arg(long, value_name = "COUNT", default_value = CHUNK_ROWS)]
    chunk: String,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// A checked command.
pub struct CaptureJob {
    database: Database,
    capture: Capture,
    /// Rows of one chunk, when the rows that are there are wanted.
    backfill: Option<u32>,
}

impl CaptureArgs {
    /// Checks the settings.
    pub fn configure(self) -> Result<CaptureJob, SettingFaults> {
        let mut faults = SettingFaults::default();
        let database = faults.keep(self.database.configure());
        let resource = faults.keep_as("--resource", Resource::parse(&self.resource));
        let chunk = faults.keep_as("--chunk", parse_number(&self.chunk, 1..=MAX_CHUNK_ROWS, "rows"));
        let (Some(database), Some(resource), Some(chunk)) = (database, resource, chunk) else {
            return Err(faults);
        };
        let Self { table, id, columns, log, .. } = self;
        let capture = Capture { table, resource, id, columns, log };
        let backfill = self.backfill.then(|| u32::try_from(chunk).unwrap_or(u32::MAX));
        Ok(CaptureJob { database, capture, backfill })
    }
}

impl CaptureJob {
    /// Runs the command.
    pub async fn run(self) -> Result<(), CliError> {
        let mut session = session(&self.database).await?;
        session.capture(&self.capture).await.map_err(failed)?;
        let Capture { table, resource, log, .. } = &self.capture;
        terminal::remark(&format!("{table} is captured: its changes are lines of {resource} in the log {log}."));
        match self.backfill {
            Some(rows) => backfill(&mut session, &self.capture, rows).await,
            None => Ok(()),
        }
    }
}

async fn backfill(session: &mut Session, capture: &Capture, rows: u32) -> Result<(), CliError> {
    let total = session.rows_roughly(&capture.table).await.map_err(failed)?;
    let (mut after, mut brought, mut told_at) = (None, 0, Instant::now());
    loop {
        let chunk = session.backfill_chunk(capture, after.as_deref(), rows).await.map_err(failed)?;
        brought += chunk.taken;
        for id in &chunk.busy {
            session.backfill_row(capture, id).await.map_err(failed)?;
            brought += 1;
        }
        let Some(last) = chunk.last else {
            terminal::remark(&format!("{brought} rows that were there already are on their way into the log."));
            return Ok(());
        };
        after = Some(last);
        if told_at.elapsed() >= TELL_EVERY {
            told_at = Instant::now();
            terminal::remark(&format!("{brought} of about {total} rows"));
        }
    }
}
