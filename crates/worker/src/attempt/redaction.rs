//! The secrets of an attempt, and their removal from its live output and its report.
//!
//! The threads of the runtime also send the heartbeat. So large inputs are scrubbed on a thread
//! that may block. If scrubbing fails, no unscrubbed text leaves this module.

use std::sync::{Arc, LazyLock};

use sched_model::domain::secret::SecretKeys;
use sched_runtime::exit::describe;

use crate::attempt::live::{AttemptKey, LiveBuffer};
use crate::attempt::secrets;
use crate::backend::{Backend, Claimed};
use crate::handlers::scrub::Scrubber;
use crate::handlers::{CapturedOutput, ErrorClass, Live, Report, Secrets};

/// Secrets up to this many bytes are prepared on the thread of the runtime (below 0.1 ms).
const FEW_SECRETS: usize = 256;
/// Reports up to this many bytes are scrubbed on the thread of the runtime (below 1 ms).
const SHORT_REPORT: usize = 64 * 1024;

pub(crate) struct Redaction {
    secrets: Secrets,
    scrubber: Arc<Scrubber>,
}

impl Redaction {
    /// The error is the report of an attempt that cannot run.
    pub(crate) async fn load(
        backend: &Backend,
        keys: Option<&SecretKeys>,
        claimed: &Claimed,
    ) -> Result<Self, Box<Report>> {
        Self::new(secrets::load(backend, keys, claimed).await?).await
    }

    /// For a function that certainly names no secret.
    pub(crate) fn without_secrets() -> Self {
        static NOTHING: LazyLock<Arc<Scrubber>> =
            LazyLock::new(|| Arc::new(Scrubber::new(&Secrets::default())));
        Self { secrets: Secrets::default(), scrubber: NOTHING.clone() }
    }

    async fn new(secrets: Secrets) -> Result<Self, Box<Report>> {
        let scrubber = if secrets.bytes() <= FEW_SECRETS {
            Scrubber::new(&secrets)
        } else {
            let secrets = secrets.clone();
            let built = tokio::task::spawn_blocking(move || Scrubber::new(&secrets)).await;
            built.map_err(|error| Box::new(failed(&error)))?
        };
        Ok(Self { secrets, scrubber: Arc::new(scrubber) })
    }

    pub(crate) fn secrets(&self) -> Secrets {
        self.secrets.clone()
    }

    pub(crate) fn live(&self, buffer: Arc<LiveBuffer>, claimed: &Claimed) -> Live {
        let attempt = AttemptKey { dispatch: claimed.dispatch_id, token: claimed.token };
        Live::on(buffer, attempt, self.scrubber.clone())
    }

    pub(crate) async fn redact(self, report: Report) -> Report {
        let scrubber = self.scrubber;
        if scrubber.is_idle() || bytes(&report) <= SHORT_REPORT {
            return scrubber.report(report);
        }
        let scrubbed = tokio::task::spawn_blocking(move || scrubber.report(report)).await;
        scrubbed.unwrap_or_else(|error| failed(&error))
    }
}

fn failed(error: &tokio::task::JoinError) -> Report {
    let message = format!("failed to remove the secrets from the output: {}", describe(error));
    Report::failed(ErrorClass::Worker, &message)
}

/// Roughly the bytes of text in the report. A result is small, or it would not be stored.
fn bytes(report: &Report) -> usize {
    let captured = |captured: &CapturedOutput| captured.head.len() + captured.tail.len();
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
    async fn redaction_covers_small_and_large_reports() {
        for count in [1, 50] {
            for filling in [0, SHORT_REPORT] {
                let head = format!("hunter2-hunter2-0 {}", ".".repeat(filling));
                let stdout = CapturedOutput { head, tail: String::new(), total_bytes: 1, dropped_bytes: 0 };
                let whole =
                    Report { stdout, ..Report::failed(ErrorClass::ExitCode, "with hunter2-hunter2-0") };
                let redaction = Redaction::new(secrets(count, "hunter2-hunter2")).await.unwrap();
                let clean = redaction.redact(whole).await;
                assert!(clean.stdout.head.starts_with("[secret s0] "), "{count} {filling}");
                assert_eq!(clean.error_message.as_deref(), Some("with [secret s0]"));
            }
        }
    }

    #[tokio::test]
    async fn redaction_of_a_large_report_does_not_block() {
        let redaction = Redaction::new(secrets(50, "hunter2-hunter2")).await.unwrap();
        let text = || CapturedOutput {
            head: "hunter2-hunter2-".repeat(400_000),
            tail: String::new(),
            total_bytes: 1,
            dropped_bytes: 0,
        };
        let large = Report { stdout: text(), stderr: text(), ..Report::failed(ErrorClass::ExitCode, "") };
        let scrubbed = redaction.redact(large);
        tokio::pin!(scrubbed);
        let begun = monotonic();
        let mut beats = 0;
        // The only thread of this runtime beats meanwhile.
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
