#![doc = include_str!("../README.md")]

mod api;
mod cli;
mod commands;
mod consent;
mod dev;
mod failure;
mod manifest;
mod output;
mod place;
mod values;

use std::ffi::OsString;

use clap::Parser as _;
use clap::error::ErrorKind;
use sched_runtime::exit::{self, ExitError};

/// Runs one command line, `args` starting with the program's name; gives the exit code.
///
/// # Errors
/// When the command fails, with the exit code that its failure means.
pub async fn run(args: impl IntoIterator<Item = OsString>) -> Result<u8, ExitError> {
    match cli::Cli::try_parse_from(args) {
        Ok(cli) => commands::run(cli).await,
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
