#![doc = include_str!("../README.md")]

mod api;
mod cli;
mod commands;
mod consent;
mod dev;
mod endpoint;
mod failure;
mod globals;
mod invocation;
mod local_install;
mod manifest;
mod output;
mod read_only;
mod secret_keys;
mod suggest;
mod values;
mod watch;

use std::ffi::OsString;
use std::time::Duration;

use clap::FromArgMatches as _;
use clap::error::ErrorKind;
use sched_runtime::exit::{self, ExitError};

/// For the generated reference page.
#[doc(hidden)]
pub fn command() -> clap::Command {
    cli::command()
}

/// Runs a command line and returns its exit code. `args` begins with the name of the program.
///
/// # Errors
/// If the command fails; the error has its exit code.
pub async fn run(args: impl IntoIterator<Item = OsString>) -> Result<u8, ExitError> {
    let args: Vec<OsString> = args.into_iter().collect();
    let parsed = cli::command().try_get_matches_from(&args);
    match parsed.and_then(|matches| cli::Cli::from_arg_matches(&matches)) {
        Ok(cli) => match cli.globals.watch {
            Some(seconds) => watch::run(&args, Duration::from_secs(seconds), cli.globals.output).await,
            None => invocation::run(cli).await,
        },
        Err(mut error) => {
            cli::correct_usage(&mut error, &args);
            // If the terminal is gone, the exit code still reports it.
            let _ = error.print();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(exit::OK),
                _ => Ok(exit::USAGE),
            }
        }
    }
}
