//! `scroll keys create`, `list` and `revoke`. They work beside a running server.
//!
//! A new key goes to stdout alone, so that `KEY=$(scroll keys create …)` works; words go to stderr.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use serde_json::json;

use super::database::{DatabaseArgs, log_name, no_such_log, open_beside, open_existing};
use super::{CliError, terminal};
use crate::access::{KEY_NAME_EXPECTED, Key, NewKey, Scope, is_key_name};
use crate::change::time::{Clock, SystemClock};
use crate::change::{LogName, Resource, Timestamp};
use crate::config::{Database, SettingFaults, parse_duration};
use crate::store::{Store, StoreError};

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key and print it alone on stdout; it is shown only this once
    Create(CreateArgs),
    /// List keys, without their secrets
    List {
        /// Only the keys of this log [default: all keys]
        #[arg(long, value_name = "NAME", value_parser = log_name)]
        log: Option<LogName>,
        /// Print JSON, as GET /v1/admin/keys answers
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Revoke a key; running servers refuse it within 30 seconds
    Revoke {
        /// The id of the key, as `scroll keys list` shows it
        id: String,
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

/// What a new key shall be.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// The log that it covers, or '*' for all (each request then names one in Scroll-Log)
    #[arg(long, value_name = "NAME")]
    log: String,
    /// What it allows: read, write or admin; none implies another; repeat for more
    #[arg(long = "scope", value_name = "SCOPE", required = true)]
    scopes: Vec<String>,
    /// A resource that it is limited to; repeat for more [default: all resources]
    #[arg(long = "resource", value_name = "RESOURCE")]
    resources: Vec<String>,
    /// What people call it [default: no name]
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// When it ends: a number and s, m, h or d, like 30d [default: never]
    #[arg(long, value_name = "DURATION", conflicts_with = "expires_at")]
    expires_in: Option<String>,
    /// When it ends: a moment like 2027-01-31T00:00:00Z [default: never]
    #[arg(long, value_name = "RFC3339")]
    expires_at: Option<String>,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// A checked command.
pub struct Keys {
    database: Database,
    task: Task,
}

enum Task {
    Create(NewKey),
    List { log: Option<LogName>, as_json: bool },
    Revoke(String),
}

impl KeysCommand {
    /// Checks the settings.
    pub fn configure(self) -> Result<Keys, SettingFaults> {
        let (database, task) = match self {
            KeysCommand::Create(args) => {
                let mut faults = SettingFaults::default();
                let database = faults.keep(args.database.configure());
                let key = faults.keep(args.configure(SystemClock.now()));
                return match (database, key) {
                    (Some(database), Some(key)) => Ok(Keys { database, task: Task::Create(key) }),
                    _ => Err(faults),
                };
            }
            KeysCommand::List { log, json, database } => (database, Task::List { log, as_json: json }),
            KeysCommand::Revoke { id, database } => (database, Task::Revoke(id)),
        };
        Ok(Keys { database: database.configure()?, task })
    }
}

impl CreateArgs {
    pub(super) fn configure(&self, now: Timestamp) -> Result<NewKey, SettingFaults> {
        let mut faults = SettingFaults::default();
        let log = match self.log.as_str() {
            "*" => Some(None),
            name => faults.keep_as("--log", log_name(name)).map(Some),
        };
        let mut scopes = BTreeSet::new();
        for word in &self.scopes {
            let expected = || format!("{word:?} is no scope; expected read, write or admin");
            scopes.extend(faults.keep_as("--scope", Scope::parse(word).ok_or_else(expected)));
        }
        let mut resources = Vec::new();
        for name in &self.resources {
            resources.extend(faults.keep_as("--resource", Resource::parse(name)));
        }
        if self.name.as_deref().is_some_and(|name| !is_key_name(name)) {
            faults.keep(Err::<(), _>(SettingFaults::one("--name", format!("expected {KEY_NAME_EXPECTED}"))));
        }
        let expires_at = faults.keep(self.end(now));
        match (log, expires_at) {
            (Some(log), Some(expires_at)) if faults.each().is_empty() => {
                let resources = (!resources.is_empty()).then_some(resources);
                Ok(NewKey { log, scopes, resources, name: self.name.clone(), expires_at })
            }
            _ => Err(faults),
        }
    }

    fn end(&self, now: Timestamp) -> Result<Option<Timestamp>, SettingFaults> {
        if let Some(text) = &self.expires_in {
            let duration = parse_duration(text).map_err(|what| SettingFaults::one("--expires-in", what))?;
            return Ok(Some(now.after(duration)));
        }
        let Some(text) = &self.expires_at else {
            return Ok(None);
        };
        match Timestamp::parse(text) {
            Some(end) if end > now => Ok(Some(end)),
            Some(_) => Err(SettingFaults::one("--expires-at", format!("{text} is over already"))),
            None => {
                let what = format!("{text:?} is no moment; expected RFC 3339, like 2027-01-31T00:00:00Z");
                Err(SettingFaults::one("--expires-at", what))
            }
        }
    }
}

impl Keys {
    /// Runs the command.
    pub async fn run(self) -> Result<(), CliError> {
        let opened = match self.task {
            Task::Create(_) => open_beside(&self.database).await?,
            Task::List { .. } | Task::Revoke(_) => open_existing(&self.database).await?,
        };
        let store = opened.store;
        match self.task {
            Task::Create(key) => create(store.as_ref(), key).await,
            Task::List { log, as_json } => list(store.as_ref(), log, as_json).await,
            Task::Revoke(id) => revoke(store.as_ref(), &id).await,
        }
    }
}

async fn create(store: &dyn Store, wanted: NewKey) -> Result<(), CliError> {
    let log = wanted.log.clone();
    let (key, secret) = match (store.create_key(wanted).await, log) {
        (Err(StoreError::NotFound { .. }), Some(log)) => return Err(no_such_log(&log)),
        (made, _) => made?,
    };
    let end = key.expires_at.map_or_else(|| "never expires".to_owned(), |end| format!("expires at {end}"));
    terminal::remark(&format!(
        "Made the key {} for log {}: {}; {end}. It is shown only this once:",
        key.id,
        key.coverage,
        joined(&key.scopes)
    ));
    terminal::say(secret.reveal())
}

async fn list(store: &dyn Store, log: Option<LogName>, as_json: bool) -> Result<(), CliError> {
    let within = match log {
        None => None,
        Some(name) => Some(store.log(&name).await?.ok_or_else(|| no_such_log(&name))?.id),
    };
    let keys = store.keys(within).await?;
    terminal::say(&if as_json { as_json_text(&keys) } else { as_table(&keys, SystemClock.now()) })
}

async fn revoke(store: &dyn Store, id: &str) -> Result<(), CliError> {
    if !store.revoke_key(id, None).await? {
        return Err(CliError::Refused("there is no key with this id; `scroll keys list` shows the ids".into()));
    }
    terminal::remark(&format!("Revoked the key {id}. Running servers refuse it within 30 seconds."));
    Ok(())
}

fn as_table(keys: &[Key], now: Timestamp) -> String {
    let row = |key: &Key| {
        let state = match (key.revoked_at, key.is_valid_at(now)) {
            (Some(_), _) => "revoked",
            (None, true) => "valid",
            (None, false) => "expired",
        };
        [
            key.id.clone(),
            key.coverage.to_string(),
            joined(&key.scopes),
            key.resources.as_ref().map_or_else(|| "all".to_owned(), joined),
            key.created_at.to_string(),
            key.expires_at.map_or_else(|| "never".to_owned(), |end| end.to_string()),
            state.to_owned(),
            key.name.clone().unwrap_or_default(),
        ]
    };
    let heads = ["ID", "LOG", "SCOPES", "RESOURCES", "CREATED", "EXPIRES", "STATE", "NAME"];
    terminal::table(heads, &keys.iter().map(row).collect::<Vec<_>>())
}

fn as_json_text(keys: &[Key]) -> String {
    let each = keys.iter().map(|key| {
        let resources = key.resources.as_ref().map(|all| all.iter().map(Resource::as_str).collect::<Vec<_>>());
        json!({
            "id": key.id,
            "log": key.coverage.to_string(),
            "scopes": key.scopes,
            "resources": resources,
            "name": key.name,
            "created_at": key.created_at.to_string(),
            "expires_at": key.expires_at.map(|time| time.to_string()),
            "revoked_at": key.revoked_at.map(|time| time.to_string()),
        })
    });
    json!({ "keys": each.collect::<Vec<_>>() }).to_string()
}

fn joined<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    all.into_iter().map(|one| one.to_string()).collect::<Vec<_>>().join(",")
}
