//! `logs`: what a run writes, while it runs or afterwards, all its attempts in order.
//!
//! What the program wrote to its standard output goes to ours, and everything else to standard error: what it wrote there, and what is
//! said about attempts. A stream that breaks off is taken up again where it was, for as long as it is followed. Nothing is kept; the
//! id of an attempt prints what was stored of it.

use std::io::{self, Write as _};
use std::time::Duration;

use sched_runtime::exit;
use sched_wire::{LogEvent, LogsQuery};

use crate::api::{Api, ApiError, Events};
use crate::cli::LogsArgs;
use crate::commands::{Session, runs};
use crate::failure::{CommandResult, failure};
use crate::output::{neutral, tell};

/// Time before a stream that broke off is taken up again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often in a row that may fail.
const TRIES: u32 = 30;

pub(crate) async fn run(args: LogsArgs, session: &Session) -> CommandResult {
    let api = session.api()?;
    let mut query = LogsQuery { follow: args.follow, after: None };
    let stream = match open(&api, &args, &query).await {
        Err(error) if error.is_not_found() => {
            // Not a run: then an attempt, which has ended.
            runs::output(args.id, args.raw, session).await?;
            return Ok(exit::OK);
        }
        stream => stream?,
    };
    let mut printer = Printer { raw: args.raw, as_json: !session.output.is_table(), open_line: false };
    let mut stream = Some(stream);
    let mut failures = 0;
    loop {
        if let Some(events) = &mut stream {
            while let Ok(Some((id, event))) = events.next().await {
                failures = 0;
                query.after = id.or(query.after);
                match printer.print(&event) {
                    // Whoever reads has seen enough.
                    Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(exit::OK),
                    printed => printed.map_err(failure)?,
                }
                if matches!(event, LogEvent::End { .. }) {
                    return Ok(exit::OK);
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

/// Prints events as they come.
struct Printer {
    raw: bool,
    as_json: bool,
    /// Whether standard error stands in the middle of a line of the program's.
    open_line: bool,
}

impl Printer {
    fn print(&mut self, event: &LogEvent) -> io::Result<()> {
        if self.as_json {
            let line = serde_json::to_string(event).map_err(io::Error::other)?;
            return out(&format!("{}\n", neutral::json(&line)));
        }
        match event {
            LogEvent::Output { stream, text, dropped_bytes, .. } => {
                if *dropped_bytes > 0 {
                    self.say(&format!("{dropped_bytes} bytes of {stream} were not kept"));
                }
                let text = if self.raw { text.as_str().into() } else { neutral::block(text) };
                if stream == "stdout" {
                    return out(&text);
                }
                self.open_line = !text.ends_with('\n');
                // With standard error gone there is nobody left to tell.
                let _ = write!(io::stderr().lock(), "{text}");
            }
            LogEvent::Attempt { attempt, .. } if *attempt > 1 => self.say(&format!("attempt {attempt}")),
            LogEvent::Attempt { .. } => {}
            LogEvent::Progress { progress, .. } => {
                self.say(&neutral::line(&runs::progress(progress)));
            }
            LogEvent::AttemptEnd { status, error_message, .. } => {
                let error = error_message.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
                self.say(&neutral::line(&format!("the attempt ended as {status}{error}")));
            }
            LogEvent::End { status } if status.is_final() => self.say(&format!("the run ended as {status}")),
            LogEvent::End { status } => self.say(&format!("the run is {status}; follow it with --follow")),
        }
        Ok(())
    }

    /// Says something about the run, on a line of its own.
    fn say(&mut self, text: &str) {
        let line_break = if std::mem::take(&mut self.open_line) { "\n" } else { "" };
        tell(&format!("{line_break}--- {text} ---"));
    }
}

/// Writes to standard output at once. A reader that has gone ends the program, as it does others.
fn out(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush())
}
