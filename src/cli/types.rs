//! `scroll types check`: every fault of a file of declared types, at once.

use std::path::PathBuf;

use clap::Subcommand;

use super::{CliError, terminal};
use crate::entity::types::Catalog;

/// What can be done with files of declared types.
#[derive(Debug, Subcommand)]
pub enum TypesCommand {
    /// Tell every fault of a file of declared resource types, without starting anything
    Check {
        /// The TOML file, as `scroll serve --types` takes it
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

impl TypesCommand {
    /// Runs the command.
    pub fn run(self) -> Result<(), CliError> {
        let TypesCommand::Check { file } = self;
        let what = || format!("{} cannot be read", file.display());
        let text = std::fs::read_to_string(&file).map_err(|source| CliError::Io { what: what(), source })?;
        match Catalog::from_toml(&text) {
            Ok(catalog) => {
                let names: Vec<_> = catalog.resources().map(|resource| resource.as_str()).collect();
                terminal::say(&format!("{}: in order; declares {}", file.display(), names.join(", ")))
            }
            Err(faults) => {
                faults.0.iter().try_for_each(|fault| terminal::say(&format!("{}: {fault}", file.display())))?;
                Err(CliError::Found)
            }
        }
    }
}
