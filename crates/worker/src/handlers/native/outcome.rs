//! Converts the end of a native handler to a report.

use std::time::Duration;

use sched_model::domain::FieldError;
use sched_runtime::tasks::TaskError;

use super::super::report::{ErrorClass, Outcome, Report};
use super::super::storable;
use super::context::Ctx;
use super::registry::Ending;

/// Longer error messages are cut.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// Longer backtraces of panics are cut.
const MAX_TRACEBACK_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, Copy)]
pub(super) enum StopReason {
    Cancelled,
    TimedOut,
}

impl StopReason {
    fn report(self, how: &str, ctx: &Ctx) -> Report {
        let (outcome, class, why) = match self {
            Self::Cancelled => (Outcome::Cancelled, ErrorClass::Cancelled, "cancelled".to_owned()),
            Self::TimedOut => {
                (Outcome::TimedOut, ErrorClass::Timeout, format!("timed out after {:?}", ctx.timeout()))
            }
        };
        Report::ended(outcome, Some((class, &format!("{why}; {how}"))))
    }

    /// A stopped attempt never succeeds, but keeps the returned value.
    pub(super) fn after_return(self, returned: Report, ctx: &Ctx) -> Report {
        let how = match &returned.error_message {
            None => "returned within the grace period".to_owned(),
            Some(error) => format!("ended within the grace period: {error}"),
        };
        let stopped = self.report(&how, ctx);
        Report { result: returned.result, traceback: returned.traceback, notes: returned.notes, ..stopped }
    }

    pub(super) fn after_drop(self, is_gone: bool, grace: Duration, ctx: &Ctx) -> Report {
        let how = match (ctx.began(), is_gone) {
            (None, _) => "never began, because other handlers block the threads of this worker".to_owned(),
            (Some(_), true) => format!("dropped after the grace period of {grace:?}"),
            (Some(_), false) => format!(
                "still running after the grace period of {grace:?}: the handler blocks its thread and does not check for cancellation"
            ),
        };
        let mut report = self.report(&how, ctx);
        // A task that never began was removed from its queue and will not begin.
        report.still_runs = !is_gone && ctx.began().is_some();
        if report.still_runs {
            report.notes.push("a native handler does not stop and keeps its thread".to_owned());
        }
        report
    }
}

/// The handler was not stopped, or its task was aborted.
pub(super) fn report_of(ended: Result<Ending, TaskError>) -> Report {
    match ended {
        Ok(Ending::Returned { result, note }) => {
            let mut report = Report::ended(Outcome::Succeeded, None);
            report.result = result;
            report.notes.extend(note);
            report
        }
        Ok(Ending::Failed(error)) => {
            let (class, again, message) = error.into_parts();
            Report { again, ..Report::failed(class, bounded(&message)) }
        }
        Ok(Ending::Panicked(panic)) => {
            let traceback = match &panic.backtrace {
                Some(backtrace) => format!("{}\n{backtrace}", panic.message),
                None => panic.message.clone(),
            };
            Report {
                traceback: Some(storable::text(beginning(&traceback, MAX_TRACEBACK_BYTES).as_bytes())),
                ..Report::failed(ErrorClass::Panic, bounded(&panic.message))
            }
        }
        Err(error) => Report::failed(ErrorClass::Worker, &format!("the handler was aborted: {error}")),
    }
}

/// The API would reject it.
pub(super) fn invalid_config(mistakes: &[FieldError]) -> Report {
    let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    Report::failed(
        ErrorClass::InvalidConfig,
        &format!("handler_config is not valid: {}", mistakes.join("; ")),
    )
}

fn bounded(message: &str) -> &str {
    beginning(message, MAX_MESSAGE_BYTES)
}

fn beginning(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or(text)
}
