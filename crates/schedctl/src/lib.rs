#![doc = include_str!("../README.md")]

mod api;
mod cli;
mod commands;
mod consent;
mod dev;
mod endpoint;
mod failure;
mod manifest;
mod output;
mod suggest;
mod values;
mod watch;

use std::ffi::OsString;
use std::time::Duration;

use clap::FromArgMatches as _;
use clap::error::ErrorKind;
use sched_runtime::exit::{self, ExitError};

/// Runs one command line, `args` starting with the program's name; gives the exit code.
///
/// # Errors
/// When the command fails, with the exit code that its failure means.
pub async fn run(args: impl IntoIterator<Item = OsString>) -> Result<u8, ExitError> {
    let args: Vec<OsString> = args.into_iter().collect();
    let parsed = cli::command().try_get_matches_from(&args);
    match parsed.and_then(|matches| cli::Cli::from_arg_matches(&matches)) {
        Ok(cli) => match cli.globals.watch {
            Some(seconds) => watch::run(&args, Duration::from_secs(seconds), cli.globals.output).await,
            None => commands::run(cli).await,
        },
        Err(error) => {
            // With the terminal gone there is nobody left to tell; the code still says it.
            let _ = error.print();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(exit::OK),
                _ => Ok(exit::USAGE),
            }
        }
    }
}
