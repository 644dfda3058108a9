//! Why a command did not do what it was asked: one clear sentence for people, the causes in the log.

use std::error::Error;

use super::terminal;
use crate::config::SettingFaults;
use crate::server::ServerError;
use crate::store::{OpenError, StoreError};

/// Something was found or refused.
const REFUSED: u8 = 1;
/// Wrong usage, or it could not be done.
const COULD_NOT: u8 = 2;

/// Why a command ended without success.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// Settings are wrong; nothing was begun.
    #[error("{0}")]
    Settings(SettingFaults),
    /// The command ran and the answer is no.
    #[error("{0}")]
    Refused(String),
    /// The command ran and found something; it has said what.
    #[error("something was found")]
    Found,
    /// The command could not find out or finish.
    #[error("{0}")]
    CouldNot(String),
    /// The database does not open.
    #[error("{0}")]
    Open(#[source] OpenError),
    /// The store failed.
    #[error("{source}{}", advice(.source))]
    Store {
        /// What it said.
        #[from]
        source: StoreError,
    },
    /// The server does not start.
    #[error("{source}{}; choose another address with --listen or --metrics-listen", cause(.source))]
    Server {
        /// What it said.
        source: ServerError,
    },
    /// The metrics registry does not start.
    #[error("the metrics cannot be set up: {0}")]
    Metrics(#[source] prometheus::Error),
    /// Files and streams.
    #[error("{what}: {source}")]
    Io {
        /// What could not be done.
        what: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl CliError {
    /// The exit code that a script sees.
    pub fn exit_code(&self) -> u8 {
        match self {
            CliError::Refused(_) | CliError::Found => REFUSED,
            CliError::Store { source: StoreError::Conflict { .. } | StoreError::NotFound { .. } } => REFUSED,
            _ => COULD_NOT,
        }
    }

    /// Says it on stderr, and the chain of causes in the log.
    pub fn tell(&self) {
        match self {
            CliError::Found => return,
            CliError::Settings(faults) => {
                let count = faults.each().len();
                let words = if count == 1 { "1 setting is".to_owned() } else { format!("{count} settings are") };
                terminal::remark(&format!("scroll: {words} wrong; nothing was started."));
                faults.each().iter().for_each(|fault| terminal::remark(&format!("  {fault}")));
            }
            other => terminal::remark(&format!("scroll: {other}")),
        }
        let mut cause = self.source();
        while let Some(error) = cause {
            tracing::debug!(%error, "caused by");
            cause = error.source();
        }
    }
}

/// The reason under an error, after a colon.
fn cause(error: &dyn Error) -> String {
    error.source().map(|source| format!(": {source}")).unwrap_or_default()
}

/// What to do about it, where that is known.
fn advice(error: &StoreError) -> &'static str {
    match error {
        StoreError::Busy { .. } => "; another process holds the database: try again in a moment",
        StoreError::Unavailable { .. } => {
            "; look whether the file and its folder can be written (--log-level debug tells the cause)"
        }
        StoreError::Full { .. } => "; make room on the disk and try again",
        StoreError::Corrupt { .. } => "; `scroll check` tells what else is wrong",
        StoreError::Conflict { .. } | StoreError::NotFound { .. } | StoreError::Draining { .. } => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_tell_no_from_could_not() {
        let conflict = StoreError::Conflict { operation: "create log" };
        let draining = StoreError::Draining { operation: "write" };
        for (error, code) in [
            (CliError::Found, 1),
            (CliError::Refused("no".into()), 1),
            (CliError::from(conflict), 1),
            (CliError::from(draining), 2),
            (CliError::Settings(SettingFaults::default()), 2),
            (CliError::CouldNot("x".into()), 2),
        ] {
            assert_eq!(error.exit_code(), code, "{error}");
        }
    }

    #[test]
    fn a_store_error_says_what_to_do() {
        let busy = CliError::from(StoreError::Busy { operation: "create key", source: None });
        assert_eq!(busy.to_string(), "create key: busy; another process holds the database: try again in a moment");
    }
}
