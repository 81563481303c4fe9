//! Converts the end of a process to a report. Pure.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::sys::signal::Signal;

use super::super::report::{ErrorClass, Outcome, Report};
use sched_model::domain::handler_config::ResourceLimits;

use super::supervise::{Ending, StopReason, TimeLimits};

/// The caller adds output, result and times.
pub(super) fn evaluate(ending: &Ending, time_limits: TimeLimits, success: &BTreeSet<u8>) -> Report {
    match ending {
        Ending::Exited(Ok(status)) => classify_exit(*status, success),
        Ending::Exited(Err(error)) => Report::failed(
            ErrorClass::Worker,
            &format!("failed to read the exit status of the process: {error}"),
        ),
        Ending::Stopped { reason, killed, status } => {
            let (outcome, class, why) = match reason {
                StopReason::TimedOut => (
                    Outcome::TimedOut,
                    ErrorClass::Timeout,
                    format!("timed out after {:?}", time_limits.timeout),
                ),
                StopReason::Cancelled => (Outcome::Cancelled, ErrorClass::Cancelled, "cancelled".to_owned()),
            };
            let how = match (killed, status) {
                (false, _) => "ended within the grace period".to_owned(),
                (true, Some(_)) => format!("killed after the grace period of {:?}", time_limits.grace),
                (true, None) => "the process was killed but has not exited yet".to_owned(),
            };
            let mut report = Report::ended(outcome, Some((class, &format!("{why}; {how}"))));
            report.exit_code = status.and_then(|status| status.code());
            report
        }
    }
}

/// Changes a failure to `out_of_memory` after a kill at the memory limit.
pub(super) fn with_memory_kills(
    report: Report,
    kills: u64,
    limits: Option<&ResourceLimits>,
    notes: &mut Vec<String>,
) -> Report {
    if kills == 0 {
        return report;
    }
    let limit = limits.and_then(|limits| limits.memory_bytes).unwrap_or_default();
    let message = format!("the kernel killed a process at the memory limit of {limit} bytes");
    if report.outcome != Outcome::Failed {
        notes.push(message);
        return report;
    }
    let how = report.error_message.as_deref().unwrap_or_default();
    Report {
        exit_code: report.exit_code,
        ..Report::failed(ErrorClass::OutOfMemory, &format!("{message} ({how})"))
    }
}

fn classify_exit(status: ExitStatus, success: &BTreeSet<u8>) -> Report {
    let code = status.code();
    let is_success =
        code.and_then(|code| u8::try_from(code).ok()).is_some_and(|code| success.contains(&code));
    let mut report = match (code, status.signal()) {
        (Some(_), _) if is_success => Report::ended(Outcome::Succeeded, None),
        (Some(code), _) => Report::failed(ErrorClass::ExitCode, &format!("exit code {code}")),
        (None, Some(number)) => {
            let core = if status.core_dumped() { ", core dumped" } else { "" };
            Report::failed(
                ErrorClass::Signal,
                &format!("killed by signal {number} ({}){core}", signal_name(number)),
            )
        }
        (None, None) => Report::failed(ErrorClass::Worker, "the process ended with an unknown status"),
    };
    report.exit_code = code;
    report
}

fn signal_name(number: i32) -> &'static str {
    Signal::try_from(number).map_or("a real-time signal", Signal::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const TIME_LIMITS: TimeLimits =
        TimeLimits { timeout: Duration::from_millis(1500), grace: Duration::from_secs(10) };

    fn classify(ending: &Ending) -> (Outcome, Option<i32>, Option<ErrorClass>, String) {
        let report = evaluate(ending, TIME_LIMITS, &BTreeSet::from([0, 4]));
        (report.outcome, report.exit_code, report.error_class, report.error_message.unwrap_or_default())
    }

    #[test]
    fn exit_status_determines_the_report() {
        use {ErrorClass as C, Outcome as O};
        // Exit code in the second byte, signal in the first, 128 for a core dump.
        let table = [
            (0, (O::Succeeded, Some(0), None, "")),
            (4 << 8, (O::Succeeded, Some(4), None, "")),
            (3 << 8, (O::Failed, Some(3), Some(C::ExitCode), "exit code 3")),
            (11, (O::Failed, None, Some(C::Signal), "killed by signal 11 (SIGSEGV)")),
            (128 | 6, (O::Failed, None, Some(C::Signal), "killed by signal 6 (SIGABRT), core dumped")),
            (40, (O::Failed, None, Some(C::Signal), "killed by signal 40 (a real-time signal)")),
        ];
        for (raw, (outcome, code, class, message)) in table {
            let ending = Ending::Exited(Ok(ExitStatus::from_raw(raw)));
            assert_eq!(classify(&ending), (outcome, code, class, message.to_owned()), "status {raw}");
        }
    }

    #[test]
    fn stopped_process_never_succeeds() {
        let stopped = |reason, killed| {
            classify(&Ending::Stopped { reason, killed, status: Some(ExitStatus::from_raw(0)) })
        };
        let (outcome, code, class, message) = stopped(StopReason::TimedOut, true);
        assert_eq!((outcome, code, class), (Outcome::TimedOut, Some(0), Some(ErrorClass::Timeout)));
        assert_eq!(message, "timed out after 1.5s; killed after the grace period of 10s");
        let (outcome, _, class, message) = stopped(StopReason::Cancelled, false);
        assert_eq!((outcome, class), (Outcome::Cancelled, Some(ErrorClass::Cancelled)));
        assert_eq!(message, "cancelled; ended within the grace period");
    }
}
