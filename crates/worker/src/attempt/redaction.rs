//! Takes the secrets of an attempt out of what it gives back, without holding up what runs beside it.
//!
//! The looking itself is `handlers::scrub`'s. It takes time in proportion to the secrets and the texts, which may be megabytes, and the
//! threads of the runtime carry the heartbeat: what is large is done on a thread that may be blocked. An attempt waits for it with its
//! slot in its hands. Should the looking fail, nothing of what was to be looked at is given out.

use std::sync::Arc;

use sched_runtime::exit::describe;

use crate::handlers::scrub::Scrubber;
use crate::handlers::{Captured, ErrorClass, Report, Secrets};

/// Bytes of secrets whose forms are made where one stands: less than a tenth of a millisecond.
const FEW_SECRETS: usize = 256;
/// Bytes of texts that are looked at where one stands: well under a millisecond.
const SHORT_REPORT: usize = 64 * 1024;

/// What finds these secrets; else the report of why the attempt cannot run.
pub(crate) async fn scrubber(secrets: &Secrets) -> Result<Arc<Scrubber>, Box<Report>> {
    if secrets.bytes() <= FEW_SECRETS {
        return Ok(Arc::new(Scrubber::new(secrets)));
    }
    let secrets = secrets.clone();
    let made = tokio::task::spawn_blocking(move || Scrubber::new(&secrets)).await;
    made.map(Arc::new).map_err(|error| Box::new(failed(&error)))
}

/// The report without secrets.
pub(crate) async fn report(scrubber: Arc<Scrubber>, report: Report) -> Report {
    if scrubber.is_idle() || bytes(&report) <= SHORT_REPORT {
        return scrubber.report(report);
    }
    let scrubbed = tokio::task::spawn_blocking(move || scrubber.report(report)).await;
    scrubbed.unwrap_or_else(|error| failed(&error))
}

fn failed(error: &tokio::task::JoinError) -> Report {
    let message = format!("the secrets could not be taken out of the output: {}", describe(error));
    Report::failed(ErrorClass::Worker, &message)
}

/// About as much text as there is. A result is small, or it would not be stored.
fn bytes(report: &Report) -> usize {
    let captured = |captured: &Captured| captured.head.len() + captured.tail.len();
    let result = if report.result.is_some() { SHORT_REPORT } else { 0 };
    [&report.stdout, &report.stderr, &report.log].map(captured).iter().sum::<usize>() + result
}

#[cfg(test)]
mod tests {
    use sched_runtime::monotonic_clock::monotonic;

    use super::*;

    fn secrets(count: usize, value: &str) -> Secrets {
        (0..count).map(|number| (format!("s{number}"), format!("{value}-{number}").into())).collect()
    }

    #[tokio::test]
    async fn small_and_large_reports_lose_their_secrets_alike() {
        for count in [1, 50] {
            let scrubber = scrubber(&secrets(count, "hunter2-hunter2")).await.unwrap();
            for filling in [0, SHORT_REPORT] {
                let head = format!("hunter2-hunter2-0 {}", ".".repeat(filling));
                let stdout = Captured { head, tail: String::new(), total_bytes: 1, dropped_bytes: 0 };
                let whole =
                    Report { stdout, ..Report::failed(ErrorClass::ExitCode, "with hunter2-hunter2-0") };
                let clean = report(scrubber.clone(), whole).await;
                assert!(clean.stdout.head.starts_with("[secret s0] "), "{count} {filling}");
                assert_eq!(clean.error_message.as_deref(), Some("with [secret s0]"));
            }
        }
    }

    /// The heartbeat runs on the same threads.
    #[tokio::test]
    async fn a_large_report_holds_up_nobody() {
        let scrubber = scrubber(&secrets(50, "hunter2-hunter2")).await.unwrap();
        let text = || Captured {
            head: "hunter2-hunter2-".repeat(400_000),
            tail: String::new(),
            total_bytes: 1,
            dropped_bytes: 0,
        };
        let large = Report { stdout: text(), stderr: text(), ..Report::failed(ErrorClass::ExitCode, "") };
        let scrubbed = report(scrubber, large);
        tokio::pin!(scrubbed);
        let begun = monotonic();
        let mut beats = 0;
        // The one thread of this runtime beats while the report is being looked at.
        let report = loop {
            tokio::select! {
                biased;
                report = &mut scrubbed => break report,
                () = tokio::task::yield_now() => beats += 1,
            }
        };
        assert!(beats > 10, "{beats} beats in {:?}", begun.elapsed());
        assert_eq!(report.error_class, Some(ErrorClass::ExitCode));
    }
}
