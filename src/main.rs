//! The program `scroll`: reads the command line, runs one command, and ends with its exit code:
//! 0 done, 1 something was found or refused, 2 wrong usage or it could not be done.

use std::process::ExitCode;

use clap::Parser as _;
use scroll::cli::{Cli, CliError};
use scroll::telemetry;

/// Small objects are made and freed on different threads all the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let ended = match Cli::parse().configure() {
        Ok((logging, job)) => {
            telemetry::start(&logging);
            job.run()
        }
        Err(faults) => Err(CliError::Settings(faults)),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error.tell();
            ExitCode::from(error.exit_code())
        }
    }
}
