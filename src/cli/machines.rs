//! The settings of a server that is one of several: where reads go, and how heads are heard of.

use clap::Args;

use crate::config::{Database, SettingFaults};
use crate::store::is_postgres;

/// Other places than the database itself.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// PostgreSQL: where reads of logs go, a hot standby of the database or several: postgres://USER@HOST,HOST/DATABASE [default: the database itself]
    #[arg(long, env = "SCROLL_READ_URL", hide_env_values = true, value_name = "URL")]
    read_url: Option<String>,
    /// PostgreSQL: the way past a pooler, to hear at once what other servers wrote [default: ask ten times a second]
    #[arg(long, env = "SCROLL_LISTEN_URL", hide_env_values = true, value_name = "URL")]
    listen_url: Option<String>,
}

impl MachineArgs {
    /// Checks the settings and adds them to the database.
    pub fn configure(&self, database: Database) -> Result<Database, SettingFaults> {
        let mut faults = SettingFaults::default();
        let read_url = faults.keep_as("--read-url", beside(&database, self.read_url.as_deref()));
        let listen_url = faults.keep_as("--listen-url", beside(&database, self.listen_url.as_deref()));
        match (read_url, listen_url) {
            (Some(read_url), Some(listen_url)) => {
                let mut database = database;
                (database.postgres.read_url, database.postgres.listen_url) = (read_url, listen_url);
                Ok(database)
            }
            _ => Err(faults),
        }
    }
}

/// A URL of PostgreSQL beside one of PostgreSQL; an empty one counts as none, as environments often have it.
/// Messages do not repeat it: it may hold a password.
fn beside(database: &Database, url: Option<&str>) -> Result<Option<String>, String> {
    match url.filter(|url| !url.is_empty()) {
        None => Ok(None),
        Some(_) if !is_postgres(database.url.as_str()) => {
            Err("only a database of PostgreSQL has standbys and poolers; SQLite is one file".into())
        }
        Some(url) if is_postgres(url) => Ok(Some(url.to_owned())),
        Some(_) => Err("expected postgres://USER@HOST/DATABASE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DatabaseUrl;
    use crate::store::PostgresSettings;

    fn configure(url: &str, read_url: &str) -> Result<Database, SettingFaults> {
        let database = Database { url: DatabaseUrl::parse(url).unwrap(), postgres: PostgresSettings::default() };
        MachineArgs { read_url: Some(read_url.into()), listen_url: None }.configure(database)
    }

    #[test]
    fn a_url_for_reads_belongs_to_postgresql() {
        let set = configure("postgres://db/s", "postgres://standby/s").unwrap();
        assert_eq!(set.postgres.read_url.as_deref(), Some("postgres://standby/s"));
        assert_eq!(configure("postgres://db/s", "").unwrap().postgres.read_url, None);
        let refused = configure("sqlite:s.db", "postgres://u:hunter2@standby/s").unwrap_err().to_string();
        assert!(refused.starts_with("--read-url: ") && !refused.contains("hunter2"), "{refused}");
        let refused = configure("postgres://db/s", "mysql://u:hunter2@standby/s").unwrap_err().to_string();
        assert!(refused.contains("postgres://") && !refused.contains("hunter2"), "{refused}");
    }
}
