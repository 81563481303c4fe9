//! `--watch`: repeats a read-only command until Ctrl-C.
//!
//! A round is printed only after a change: on a terminal in place, otherwise appended. The command
//! line is parsed again for each round, since a command consumes it.
//!
//! The first round must succeed. Later rounds with an unreachable or overloaded API are reported
//! and repeated. A rejection by the API ends the watch, and so does a closed pipe.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::anyhow;
use clap::{ArgMatches, CommandFactory as _, Parser as _};
use sched_runtime::exit::{self, ExitError};

use crate::api::ApiError;
use crate::cli::Cli;
use crate::failure::{CommandResult, failure, usage};
use crate::invocation;
use crate::output::{CommandOutput, Format, captured, print_notice};
use crate::read_only::only_reads;

/// Also moves the cursor to the top.
const CLEAR: &str = "\u{1b}[2J\u{1b}[H";

/// Fails if the command is not read-only, the first round fails, or a later one fails permanently.
pub(crate) async fn run(args: &[OsString], every: Duration, format: Format) -> CommandResult {
    let matches = Cli::command().try_get_matches_from(args).map_err(usage)?;
    let words = arguments(&matches);
    if !only_reads(&words) {
        return Err(usage(anyhow!(
            "--watch works only with read-only commands, such as `jobs list`, `jobs get` or `status`, not with `{}`",
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
    let mut shown: Option<CommandOutput> = None;
    let mut trouble: Option<String> = None;
    loop {
        let cli = Cli::try_parse_from(args).map_err(usage)?;
        let (done, output) = captured(Box::pin(invocation::run(cli))).await;
        match done {
            // The printed output shows the meaning of the code.
            Ok(_code) => {
                let was_away = trouble.take().is_some();
                let wipes = was_away && screen.is_terminal;
                if wipes || shown.as_ref() != Some(&output) {
                    if !show(&screen, shown.as_ref(), &output)? {
                        return Ok(exit::OK);
                    }
                    shown = Some(output);
                }
                if was_away {
                    print_notice("the API answers again");
                }
            }
            Err(error) if shown.is_some() && is_passing(&error) => {
                let text = error.describe();
                if trouble.as_ref() != Some(&text) {
                    print_notice(&format!("{text}; retrying every {}s", every.as_secs()));
                    trouble = Some(text);
                }
            }
            Err(error) => {
                output.notices.iter().for_each(|line| print_notice(line));
                return Err(error);
            }
        }
        tokio::time::sleep(every).await;
    }
}

fn is_passing(error: &ExitError) -> bool {
    error.source().downcast_ref::<ApiError>().is_some_and(ApiError::is_passing)
}

/// Returns false if the pipe is closed.
fn show(screen: &Screen, before: Option<&CommandOutput>, output: &CommandOutput) -> Result<bool, ExitError> {
    let mut stdout = io::stdout().lock();
    let text = screen.text(before, output);
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(false),
        Err(error) => return Err(failure(error)),
    }
    if screen.is_terminal || before.is_none_or(|before| before.notices != output.notices) {
        output.notices.iter().for_each(|line| print_notice(line));
    }
    Ok(true)
}

struct Screen {
    is_terminal: bool,
    format: Format,
}

impl Screen {
    fn text(&self, before: Option<&CommandOutput>, output: &CommandOutput) -> String {
        let printed = &output.printed;
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

/// Line breaks are only layout: strings have them escaped.
fn one_line(json: &str) -> String {
    format!("{}\n", json.lines().map(str::trim_start).collect::<String>())
}

fn arguments(matches: &ArgMatches) -> Vec<&str> {
    let mut words = Vec::new();
    let mut matches = matches;
    while let Some((name, inner)) = matches.subcommand() {
        words.push(name);
        matches = inner;
    }
    words
}

#[cfg(test)]
mod tests;
