//! `scroll outbox list`, `retry` and `drop`: what applications wrote and the log does not have yet, and what it
//! could not take.

use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;

use super::database::DatabaseArgs;
use super::session::{failed, session};
use super::{CliError, terminal};
use crate::config::{Database, SettingFaults};
use crate::store::postgres::outbox::{RefusedRow, Session, WaitingRows};

/// Most refused rows that a list shows; more of them are the same trouble.
const MAX_LISTED: usize = 1_000;

/// What can be done with the outbox.
#[derive(Debug, Subcommand)]
pub enum OutboxCommand {
    /// List what waits, and the rows that could not become a change, with the reason
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Try refused rows again; one that something newer has overtaken is dropped
    Retry(RetryArgs),
    /// Drop a refused row: the log never hears of it
    Drop {
        /// Its number in the list
        #[arg(value_name = "ID")]
        id: i64,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// Which rows to try again.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["id", "all"]))]
pub struct RetryArgs {
    /// Its number in the list
    #[arg(value_name = "ID")]
    id: Option<i64>,
    /// All of them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// A checked command.
pub struct Outbox {
    database: Database,
    task: Task,
}

enum Task {
    List { as_json: bool },
    Retry(Option<i64>),
    Drop(i64),
}

impl OutboxCommand {
    /// Checks the settings.
    pub fn configure(self) -> Result<Outbox, SettingFaults> {
        let (database, task) = match self {
            OutboxCommand::List { json, database } => (database, Task::List { as_json: json }),
            OutboxCommand::Retry(RetryArgs { id, database, .. }) => (database, Task::Retry(id)),
            OutboxCommand::Drop { id, database } => (database, Task::Drop(id)),
        };
        Ok(Outbox { database: database.configure()?, task })
    }
}

impl Outbox {
    /// Runs the command.
    pub async fn run(self) -> Result<(), CliError> {
        let mut session = session(&self.database).await?;
        match self.task {
            Task::List { as_json } => list(&mut session, as_json).await,
            Task::Retry(id) => retry(&mut session, id).await,
            Task::Drop(id) => match session.drop_refused(id).await.map_err(failed)? {
                true => Ok(()),
                false => Err(no_such_row(id)),
            },
        }
    }
}

async fn list(session: &mut Session, as_json: bool) -> Result<(), CliError> {
    let waiting = session.waiting().await.map_err(failed)?;
    let refused = session.refused(i64::MIN, MAX_LISTED).await.map_err(failed)?;
    if as_json {
        return terminal::say(&as_json_text(&waiting, &refused));
    }
    terminal::say(&waiting_table(&waiting))?;
    if refused.is_empty() {
        return terminal::say("\nNothing was refused.");
    }
    terminal::say(&format!("\nRefused:\n{}", refused_table(&refused)))?;
    if refused.len() == MAX_LISTED {
        terminal::remark(&format!("Only the oldest {MAX_LISTED} refused rows are shown."));
    }
    Ok(())
}

async fn retry(session: &mut Session, id: Option<i64>) -> Result<(), CliError> {
    if let Some(id) = id {
        let found = session.refused(id.saturating_sub(1), 1).await.map_err(failed)?;
        if found.first().is_none_or(|row| row.outbox_id != id) {
            return Err(no_such_row(id));
        }
    }
    let tried = session.retry(id).await.map_err(failed)?;
    terminal::remark(&match tried {
        0 => "No row goes back: there is none, or newer ones have overtaken them.".to_owned(),
        1 => "1 row is tried again.".to_owned(),
        more => format!("{more} rows are tried again."),
    });
    Ok(())
}

fn no_such_row(id: i64) -> CliError {
    CliError::Refused(format!("there is no refused row {id}; `scroll outbox list` shows them"))
}

fn waiting_table(waiting: &[WaitingRows]) -> String {
    if waiting.is_empty() {
        return "Nothing waits.".to_owned();
    }
    let row = |rows: &WaitingRows| [rows.log.clone(), rows.count.to_string(), rows.oldest.to_string()];
    terminal::table(["LOG", "WAITING", "OLDEST"], &waiting.iter().map(row).collect::<Vec<_>>())
}

fn refused_table(refused: &[RefusedRow]) -> String {
    let row = |row: &RefusedRow| {
        let entity = format!("{}/{}", row.resource, row.id.as_deref().unwrap_or_default());
        let (id, time) = (row.outbox_id.to_string(), row.refused_at.to_string());
        [id, row.log.clone(), entity, row.op.clone(), time, row.reason.clone()]
    };
    let heads = ["ID", "LOG", "ENTITY", "OP", "REFUSED", "REASON"];
    terminal::table(heads, &refused.iter().map(row).collect::<Vec<_>>())
}

fn as_json_text(waiting: &[WaitingRows], refused: &[RefusedRow]) -> String {
    let waiting =
        waiting.iter().map(|rows| json!({ "log": rows.log, "count": rows.count, "oldest": rows.oldest.to_string() }));
    let refused = refused.iter().map(|row| {
        json!({
            "id": row.outbox_id,
            "log": row.log,
            "resource": row.resource,
            "entity": row.id,
            "op": row.op,
            "refused_at": row.refused_at.to_string(),
            "reason": row.reason,
        })
    });
    json!({ "waiting": waiting.collect::<Vec<_>>(), "refused": refused.collect::<Vec<_>>() }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Timestamp;

    #[test]
    fn the_list_says_what_waits_and_what_was_refused() {
        let oldest = Timestamp::from_micros(0);
        let waiting = [WaitingRows { log: "default".into(), count: 2, oldest }];
        assert_eq!(waiting_table(&waiting), "LOG      WAITING  OLDEST\ndefault  2        1970-01-01T00:00:00.000000Z");
        let refused = [RefusedRow {
            outbox_id: 7,
            log: "default".into(),
            resource: "note".into(),
            id: None,
            op: "put".into(),
            refused_at: oldest,
            reason: "id: there is none".into(),
        }];
        assert!(refused_table(&refused).ends_with("note/   put  1970-01-01T00:00:00.000000Z  id: there is none"));
        let parsed: serde_json::Value = serde_json::from_str(&as_json_text(&waiting, &refused)).unwrap();
        assert_eq!((&parsed["waiting"][0]["count"], &parsed["refused"][0]["id"]), (&json!(2), &json!(7)));
        assert_eq!(waiting_table(&[]), "Nothing waits.");
    }
}
