//! `runs logs`: the output of a run, live or stored, all its attempts in order. Messages about
//! attempts go to standard error. A broken stream is reopened at the same position.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use sched_runtime::exit;
use sched_wire::{LogEvent, LogsQuery};

use crate::api::{Api, ApiError, Events};
use crate::commands::runs::args::LogsArgs;
use crate::commands::runs::exit_status;
use crate::commands::{Session, runs};
use crate::failure::{CommandResult, failure};
use crate::output::{Output, neutral, print_notice};

const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of consecutive failures.
const TRIES: u32 = 30;

pub(crate) async fn run(args: LogsArgs, session: &Session) -> CommandResult {
    let api = session.api()?;
    let mut query = LogsQuery { follow: args.follow, after: None };
    let stream = match open(&api, &args, &query).await {
        Err(error) if error.is_not_found() => {
            runs::output(args.id, args.raw, session).await?;
            return match args.exit_status {
                true => exit_status::of_attempt(&api, args.id).await,
                false => Ok(exit::OK),
            };
        }
        stream => stream?,
    };
    let mut printer = Printer {
        raw: args.raw,
        output: session.output,
        is_terminal: io::stdout().is_terminal(),
        out_is_open: false,
        err_is_open: false,
    };
    let mut stream = Some(stream);
    let mut failures = 0;
    loop {
        if let Some(events) = &mut stream {
            while let Ok(Some((id, event))) = events.next().await {
                failures = 0;
                query.after = id.or(query.after);
                match printer.print(&event) {
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(exit::OK),
                    printed => printed.map_err(failure)?,
                }
                if let LogEvent::End { status } = event {
                    return match args.exit_status {
                        true => exit_status::of_run(&api, args.id, status).await,
                        false => Ok(exit::OK),
                    };
                }
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
        stream = match open(&api, &args, &query).await {
            Ok(stream) => Some(stream),
            Err(error) if error.is_passing() && failures < TRIES => {
                failures += 1;
                None
            }
            Err(error) => return Err(error.into()),
        };
    }
}

async fn open(api: &Api, args: &LogsArgs, query: &LogsQuery) -> Result<Events, ApiError> {
    api.events(&["runs", &args.id.to_string(), "logs"], query).await
}

struct Printer {
    raw: bool,
    output: Output,
    /// Then notices appear between the lines of standard output.
    is_terminal: bool,
    /// Whether standard output is inside a line of the program.
    out_is_open: bool,
    /// The same for standard error.
    err_is_open: bool,
}

impl Printer {
    fn print(&mut self, event: &LogEvent) -> io::Result<()> {
        if !self.output.is_table() {
            let text = self.output.streamed(event);
            return out(&text.map_err(|error| io::Error::other(error.describe()))?);
        }
        match event {
            LogEvent::Output { stream, text, dropped_bytes, .. } => {
                let text = if self.raw { text.as_str().into() } else { neutral::block(text) };
                let gap = (*dropped_bytes > 0)
                    .then(|| format!("--- {dropped_bytes} bytes of {stream} were not stored ---\n"));
                // The mark of a gap is in the stream that has the gap, so that a pipe shows it too.
                if stream == "stdout" {
                    let text = after_gap(gap.as_deref(), self.out_is_open, &text);
                    self.out_is_open = is_open(&text, self.out_is_open);
                    return out(&text);
                }
                let text = after_gap(gap.as_deref(), self.err_is_open, &text);
                self.err_is_open = is_open(&text, self.err_is_open);
                let _ = write!(io::stderr().lock(), "{text}");
            }
            LogEvent::Attempt { attempt, .. } if *attempt > 1 => {
                self.print_notice(&format!("attempt {attempt}"))
            }
            LogEvent::Attempt { .. } => {}
            LogEvent::Progress { progress, .. } => {
                self.print_notice(&neutral::line(&runs::progress(progress)));
            }
            LogEvent::AttemptEnd { status, error_message, is_output_incomplete, .. } => {
                if *is_output_incomplete {
                    self.print_notice(runs::INCOMPLETE);
                }
                let error = error_message.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
                self.print_notice(&neutral::line(&format!("the attempt ended as {status}{error}")));
            }
            LogEvent::End { status } if status.is_final() => {
                self.print_notice(&format!("the run ended as {status}"))
            }
            LogEvent::End { status } => {
                self.print_notice(&format!("the run is {status}; follow it with --follow"))
            }
        }
        Ok(())
    }

    fn print_notice(&mut self, text: &str) {
        if self.is_terminal && std::mem::take(&mut self.out_is_open) {
            // The notice follows on standard error, which needs no standard output.
            let _ = out("\n");
        }
        let line_break = if std::mem::take(&mut self.err_is_open) { "\n" } else { "" };
        print_notice(&format!("{line_break}--- {text} ---"));
    }
}

fn after_gap(gap: Option<&str>, is_open: bool, text: &str) -> String {
    let line_break = if gap.is_some() && is_open { "\n" } else { "" };
    format!("{line_break}{}{text}", gap.unwrap_or_default())
}

/// An empty text changes nothing.
fn is_open(text: &str, was_open: bool) -> bool {
    if text.is_empty() { was_open } else { !text.ends_with('\n') }
}

/// Writes to standard output without buffering. A closed pipe ends the program, as usual.
fn out(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_of_a_gap_has_its_own_line() {
        let gap = Some("--- 7 bytes of stdout were not stored ---\n");
        for (gap, is_open, text, expected) in [
            (gap, true, "tail\n", "\n--- 7 bytes of stdout were not stored ---\ntail\n"),
            (gap, false, "tail\n", "--- 7 bytes of stdout were not stored ---\ntail\n"),
            (None, true, "more", "more"),
        ] {
            assert_eq!(after_gap(gap, is_open, text), expected);
        }
        assert_eq!([is_open("a", false), is_open("a\n", true), is_open("", true)], [true, false, true]);
    }
}
