//! The command line: one file per command.
//!
//! Every command has arguments (raw text, as clap reads it) and a job (checked settings). Between them
//! lies `configure`, which reports all faults at once; nothing is opened or written before it is clean.

mod capture;
mod check;
mod database;
mod error;
mod import;
mod keys;
mod logs;
mod machines;
mod outbox;
mod release;
mod serve;
mod session;
mod tail;
mod terminal;
mod types;
mod welcome;

use clap::{Args, Parser, Subcommand};

pub use error::CliError;

use crate::config::SettingFaults;
use crate::telemetry::{LogFormat, LogLevel, LogSettings};

/// How long background work may go on once a command has ended.
const RUNTIME_DEADLINE: std::time::Duration = std::time::Duration::from_millis(100);

/// An ordered, complete, verifiable change log that consumers pull.
#[derive(Debug, Parser)]
#[command(
    name = "scroll",
    version,
    propagate_version = true,
    disable_help_subcommand = true,
    after_help = "Begin with `scroll serve`: it makes the database and shows the first key and what to do with it.\n\
                  Exit codes: 0 done; 1 something was found or refused; 2 wrong usage, or it could not be done."
)]
pub struct Cli {
    #[command(flatten)]
    logging: LogArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct LogArgs {
    /// How log lines on stderr look: human or json
    #[arg(long, global = true, env = "SCROLL_LOG_FORMAT", default_value = "human", value_name = "FORMAT")]
    log_format: String,
    /// Which log lines are written: off, error, warn, info, debug or trace
    #[arg(long, global = true, env = "SCROLL_LOG", default_value = "info", value_name = "LEVEL")]
    log_level: String,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the server
    Serve(serve::ServeArgs),
    /// Follow a log in the terminal, on any server
    Tail(tail::TailArgs),
    /// Write entities from a file of JSON lines into a log
    Import(import::ImportArgs),
    /// Audit logs: every number, line, count, fingerprint, entity and link
    Check(check::CheckArgs),
    /// Make, list and revoke access keys
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Make and list logs, one for each account
    #[command(subcommand)]
    Logs(logs::LogsCommand),
    /// Capture a table of an application: its changes become lines (PostgreSQL)
    Capture(capture::CaptureArgs),
    /// Let go of a captured table (PostgreSQL)
    Release(release::ReleaseArgs),
    /// Look after what applications wrote in their own transactions (PostgreSQL)
    #[command(subcommand)]
    Outbox(outbox::OutboxCommand),
    /// Look at files of declared resource types
    #[command(subcommand)]
    Types(types::TypesCommand),
}

/// A command that is ready to run.
pub enum Job {
    /// `scroll serve`
    Serve(Box<serve::Serve>),
    /// `scroll tail`
    Tail(tail::Tail),
    /// `scroll import`
    Import(import::Import),
    /// `scroll check`
    Check(check::Check),
    /// `scroll keys …`
    Keys(keys::Keys),
    /// `scroll logs …`
    Logs(logs::Logs),
    /// `scroll capture`
    Capture(capture::CaptureJob),
    /// `scroll release`
    Release(release::Release),
    /// `scroll outbox …`
    Outbox(outbox::Outbox),
    /// `scroll types …`
    Types(types::TypesCommand),
}

impl Cli {
    /// Checks every setting.
    pub fn configure(self) -> Result<(LogSettings, Job), SettingFaults> {
        let mut faults = SettingFaults::default();
        let format = faults.keep_as("--log-format", LogFormat::parse(&self.logging.log_format));
        let level = faults.keep_as("--log-level", LogLevel::parse(&self.logging.log_level));
        let job = faults.keep(self.command.configure());
        match (format, level, job) {
            (Some(format), Some(level), Some(job)) => Ok((LogSettings { format, level }, job)),
            _ => Err(faults),
        }
    }
}

impl Command {
    fn configure(self) -> Result<Job, SettingFaults> {
        match self {
            Command::Serve(args) => args.configure().map(Box::new).map(Job::Serve),
            Command::Tail(args) => args.configure().map(Job::Tail),
            Command::Import(args) => args.configure().map(Job::Import),
            Command::Check(args) => args.configure().map(Job::Check),
            Command::Keys(command) => command.configure().map(Job::Keys),
            Command::Logs(command) => command.configure().map(Job::Logs),
            Command::Capture(args) => args.configure().map(Job::Capture),
            Command::Release(args) => args.configure().map(Job::Release),
            Command::Outbox(command) => command.configure().map(Job::Outbox),
            Command::Types(command) => Ok(Job::Types(command)),
        }
    }
}

impl Job {
    /// Runs the command to its end.
    pub fn run(self) -> Result<(), CliError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|source| CliError::Io { what: "the worker threads cannot be started".into(), source })?;
        let ended = runtime.block_on(async {
            match self {
                Job::Serve(job) => job.run().await,
                Job::Tail(job) => job.run().await,
                Job::Import(job) => job.run().await,
                Job::Check(job) => job.run().await,
                Job::Keys(job) => job.run().await,
                Job::Logs(job) => job.run().await,
                Job::Capture(job) => job.run().await,
                Job::Release(job) => job.run().await,
                Job::Outbox(job) => job.run().await,
                Job::Types(command) => command.run(),
            }
        });
        runtime.shutdown_timeout(RUNTIME_DEADLINE);
        ended
    }
}

#[cfg(test)]
mod tests;
