//! `scroll release TABLE`: ends what `scroll capture` began. What is in the log stays there.

use clap::Args;

use super::database::DatabaseArgs;
use super::session::{failed, session};
use super::{CliError, terminal};
use crate::config::{Database, SettingFaults};

/// What to let go of.
#[derive(Debug, Args)]
pub struct ReleaseArgs {
    /// The table, as SQL names it
    #[arg(value_name = "TABLE")]
    table: String,
    #[command(flatten)]
    database: DatabaseArgs,
}

/// A checked command.
pub struct Release {
    database: Database,
    table: String,
}

impl ReleaseArgs {
    /// Checks the settings.
    pub fn configure(self) -> Result<Release, SettingFaults> {
        Ok(Release { database: self.database.configure()?, table: self.table })
    }
}

impl Release {
    /// Runs the command.
    pub async fn run(self) -> Result<(), CliError> {
        let mut session = session(&self.database).await?;
        let table = &self.table;
        if !session.release(table).await.map_err(failed)? {
            return Err(CliError::Refused(format!("{table} is not captured")));
        }
        terminal::remark(&format!("{table} is released: its changes are not told any more; its lines stay."));
        Ok(())
    }
}
