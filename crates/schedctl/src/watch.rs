//! `--watch`: a command that only reads, again and again until Ctrl-C.
//!
//! What a round says is shown when it is something else than what was shown last: on a terminal in its place, elsewhere behind it, so that a file
//! or a pipe gets one piece for each change: as JSON a line, as YAML a document, as a table after an empty line. The command line is read
//! anew for each round, since a command uses up what it is given, and so are addresses and keys.
//!
//! The first round has to succeed. Later ones that an API does not answer, or puts off, are told of and tried again; one that it refuses ends
//! the watch, and so does whoever closes the pipe.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::anyhow;
use clap::{ArgMatches, CommandFactory as _, Parser as _};
use sched_runtime::exit::{self, ExitError};

use crate::api::ApiError;
use crate::cli::Cli;
use crate::commands;
use crate::failure::{CommandResult, failure, usage};
use crate::output::{Captured, Format, captured, tell};

/// What a terminal is told before it is drawn anew: to be empty, and to begin at its top.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Commands without a noun that only read.
const READS: [&str; 4] = ["status", "health", "metrics", "whoami"];
/// What may be done with a noun that only reads.
const READING_VERBS: [&str; 6] = ["list", "get", "status", "explain", "versions", "usage"];

/// Runs the command line `args` every so often, until Ctrl-C.
///
/// # Errors
/// When the command does more than read, when the first round fails, or a later one otherwise than in passing.
pub(crate) async fn run(args: &[OsString], every: Duration, format: Format) -> CommandResult {
    let matches = Cli::command().try_get_matches_from(args).map_err(usage)?;
    let words = words(&matches);
    if !only_reads(&words) {
        return Err(usage(anyhow!(
            "--watch repeats a command that only reads, such as `jobs list`, `jobs get` or `status`; `{}` is none",
            words.join(" ")
        )));
    }
    tokio::select! {
        ended = rounds(args, every, format) => ended,
        _interrupted = tokio::signal::ctrl_c() => Ok(exit::OK),
    }
}

async fn rounds(args: &[OsString], every: Duration, format: Format) -> CommandResult {
    let screen = Screen { is_terminal: io::stdout().is_terminal(), format };
    let mut shown: Option<Captured> = None;
    let mut trouble: Option<String> = None;
    loop {
        let cli = Cli::try_parse_from(args).map_err(usage)?;
        let (done, said) = captured(Box::pin(commands::run(cli))).await;
        match done {
            // What the code says stands in what is shown.
            Ok(_code) => {
                let was_away = trouble.take().is_some();
                let wipes = was_away && screen.is_terminal;
                if wipes || shown.as_ref() != Some(&said) {
                    if !show(&screen, shown.as_ref(), &said)? {
                        return Ok(exit::OK);
                    }
                    shown = Some(said);
                }
                if was_away {
                    tell("the API answers again");
                }
            }
            Err(error) if shown.is_some() && is_passing(&error) => {
                let text = error.describe();
                if trouble.as_ref() != Some(&text) {
                    tell(&format!("{text}; it is asked again every {}s", every.as_secs()));
                    trouble = Some(text);
                }
            }
            Err(error) => {
                said.told.iter().for_each(|line| tell(line));
                return Err(error);
            }
        }
        tokio::time::sleep(every).await;
    }
}

/// Whether asking again later may help.
fn is_passing(error: &ExitError) -> bool {
    error.source().downcast_ref::<ApiError>().is_some_and(ApiError::is_passing)
}

/// Shows what a round said; false when nobody reads it any more.
fn show(screen: &Screen, before: Option<&Captured>, said: &Captured) -> Result<bool, ExitError> {
    let mut output = io::stdout().lock();
    let text = screen.text(before, said);
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
        Err(error) => return Err(failure(error)),
    }
    if screen.is_terminal || before.is_none_or(|before| before.told != said.told) {
        said.told.iter().for_each(|line| tell(line));
    }
    Ok(true)
}

/// Where it is shown.
struct Screen {
    is_terminal: bool,
    format: Format,
}

impl Screen {
    /// What is to be written of a round that comes after another.
    fn text(&self, before: Option<&Captured>, said: &Captured) -> String {
        let printed = &said.printed;
        if self.is_terminal {
            return format!("{CLEAR}{printed}");
        }
        if before.is_some_and(|before| before.printed == *printed) {
            return String::new();
        }
        match self.format {
            Format::Json => one_line(printed),
            Format::Yaml => format!("---\n{printed}"),
            Format::Table | Format::Wide if before.is_some() => format!("\n{printed}"),
            Format::Table | Format::Wide => printed.clone(),
        }
    }
}

/// A JSON text on one line, its fields in the order they had. Line breaks are layout there, since strings hold them escaped.
fn one_line(json: &str) -> String {
    format!("{}\n", json.lines().map(str::trim_start).collect::<String>())
}

/// The names of a command: `jobs`, `list`.
fn words(matches: &ArgMatches) -> Vec<&str> {
    let mut words = Vec::new();
    let mut matches = matches;
    while let Some((name, inner)) = matches.subcommand() {
        words.push(name);
        matches = inner;
    }
    words
}

/// Whether a command of the API only reads. Migrations are the database's.
pub(crate) fn only_reads(words: &[&str]) -> bool {
    match words {
        [] | ["migrate", ..] => false,
        [alone] => READS.contains(alone),
        [.., verb] => READING_VERBS.contains(verb),
    }
}

#[cfg(test)]
mod tests;
