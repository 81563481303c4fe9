//! `runs logs`: the output of a run, live or stored, all its attempts in order. Messages about
//! attempts go to standard error. A broken stream is reopened at the same position.

use std::io::{self, Write as _};
use std::time::Duration;

use sched_runtime::exit;
use sched_wire::{LogEvent, LogsQuery};

use crate::api::{Api, ApiError, Events};
use crate::commands::runs::args::LogsArgs;
use crate::commands::{Session, runs};
use crate::failure::{CommandResult, failure};
use crate::output::{neutral, print_notice};

const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of consecutive failures.
const TRIES: u32 = 30;

pub(crate) async fn run(args: LogsArgs, session: &Session) -> CommandResult {
    let api = session.api()?;
    let mut query = LogsQuery { follow: args.follow, after: None };
    let stream = match open(&api, &args, &query).await {
        Err(error) if error.is_not_found() => {
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

struct Printer {
    raw: bool,
    as_json: bool,
    /// Whether standard error is inside a line of the program.
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
                    self.print_notice(&format!("{dropped_bytes} bytes of {stream} were not stored"));
                }
                let text = if self.raw { text.as_str().into() } else { neutral::block(text) };
                if stream == "stdout" {
                    return out(&text);
                }
                self.open_line = !text.ends_with('\n');
                let _ = write!(io::stderr().lock(), "{text}");
            }
            LogEvent::Attempt { attempt, .. } if *attempt > 1 => {
                self.print_notice(&format!("attempt {attempt}"))
            }
            LogEvent::Attempt { .. } => {}
            LogEvent::Progress { progress, .. } => {
                self.print_notice(&neutral::line(&runs::progress(progress)));
            }
            LogEvent::AttemptEnd { status, error_message, .. } => {
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
        let line_break = if std::mem::take(&mut self.open_line) { "\n" } else { "" };
        print_notice(&format!("{line_break}--- {text} ---"));
    }
}

/// Writes to standard output without buffering. A closed pipe ends the program, as usual.
fn out(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush())
}
