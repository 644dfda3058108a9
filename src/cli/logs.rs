//! `scroll logs create` and `scroll logs list`: an account each. They work beside a running server.

use clap::Subcommand;
use serde_json::json;

use super::database::{DatabaseArgs, log_name, open_beside, open_existing};
use super::{CliError, terminal};
use crate::access::Log;
use crate::change::LogName;
use crate::config::{Database, SettingFaults};
use crate::store::{Store, StoreError};

/// What can be done with logs.
#[derive(Debug, Subcommand)]
pub enum LogsCommand {
    /// Make a log; works beside a running server
    Create {
        /// Its name: a letter or digit, then up to 63 of A-Z, a-z, 0-9, _, . and -
        #[arg(value_parser = log_name)]
        name: LogName,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// List all logs; works beside a running server
    List {
        /// Print JSON, as GET /v1/admin/logs answers
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// A checked command.
pub struct Logs {
    database: Database,
    task: Task,
}

enum Task {
    Create(LogName),
    List { as_json: bool },
}

impl LogsCommand {
    /// Checks the settings.
    pub fn configure(self) -> Result<Logs, SettingFaults> {
        let (database, task) = match self {
            LogsCommand::Create { name, database } => (database, Task::Create(name)),
            LogsCommand::List { json, database } => (database, Task::List { as_json: json }),
        };
        Ok(Logs { database: database.configure()?, task })
    }
}

impl Logs {
    /// Runs the command.
    pub async fn run(self) -> Result<(), CliError> {
        match self.task {
            Task::Create(name) => create(open_beside(&self.database).await?.store.as_ref(), &name).await,
            Task::List { as_json } => {
                let logs = open_existing(&self.database).await?.store.logs().await?;
                terminal::say(&if as_json { as_json_text(&logs) } else { as_table(&logs) })
            }
        }
    }
}

async fn create(store: &dyn Store, name: &LogName) -> Result<(), CliError> {
    match store.create_log(name).await {
        Ok(log) => {
            terminal::say(log.name.as_str())?;
            terminal::remark(&format!(
                "Made the log {name}. Make a key for it: scroll keys create --log {name} --scope read --scope write"
            ));
            Ok(())
        }
        Err(StoreError::Conflict { .. }) => Err(CliError::Refused(format!("the log {name} exists already"))),
        Err(other) => Err(other.into()),
    }
}

fn as_table(logs: &[Log]) -> String {
    let row =
        |log: &Log| [log.name.to_string(), log.head.to_string(), log.epoch.to_string(), log.created_at.to_string()];
    terminal::table(["NAME", "HEAD", "EPOCH", "CREATED"], &logs.iter().map(row).collect::<Vec<_>>())
}

fn as_json_text(logs: &[Log]) -> String {
    let each = logs.iter().map(|log| {
        json!({
            "name": log.name.as_str(),
            "epoch": log.epoch.to_string(),
            "head": log.head.get(),
            "created_at": log.created_at.to_string(),
        })
    });
    json!({ "logs": each.collect::<Vec<_>>() }).to_string()
}
