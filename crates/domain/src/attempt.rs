//! The outcomes of attempts, and the effect of each on the run.

pub mod metric;
mod output_tail;
pub mod retry;

pub use output_tail::{LONGEST as LONGEST_TAIL, output_tail};
pub use sched_vocabulary::attempt::AttemptOutcome;
use std::time::Duration;

use self::retry::RetryPolicy;
use super::run_state::DispatchEvent;

/// A run that loses its worker this often becomes a dead letter, independent of its retry policy:
/// it may be the cause.
pub const POISON_AFTER_LOSSES: u32 = 3;

/// Shortest time beyond its limit before an attempt is overdue: for start, kill and report.
pub const OVERDUE_MARGIN: Duration = Duration::from_secs(30);

/// The divisor of the limit for that time, if the result is longer.
pub const OVERDUE_MARGIN_PART: u32 = 10;

/// The time after its claim at which an attempt is overdue. `limit` is its timeout plus its grace.
///
/// The worker kills it at `limit` and reports soon after. A worker that has done neither by then no
/// longer controls the attempt, even if it is alive.
#[must_use]
pub fn overdue_after(limit: Duration) -> Duration {
    limit.saturating_add(OVERDUE_MARGIN.max(limit / OVERDUE_MARGIN_PART))
}

/// Failures of a dispatch before this attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failures {
    /// `retry_count`: attempts that were followed by a retry.
    pub retried: u32,
    /// Attempts lost with their worker (`lost_count`).
    pub lost: u32,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptEnd<'a> {
    /// The outcome of the attempt.
    pub outcome: AttemptOutcome,
    /// The class of its error, which a retry policy can exclude from retries.
    pub error_class: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptDecision {
    pub event: DispatchEvent,
    /// Delay until the dispatch may be claimed again; `None` unless it becomes pending again.
    pub wait: Option<Duration>,
}

impl AttemptDecision {
    /// Allows another attempt only after `wait`, because the other side requested that delay.
    #[must_use]
    pub fn no_retry_before(self, wait: Duration) -> Self {
        match self.event {
            DispatchEvent::Retry | DispatchEvent::Release => {
                Self { wait: self.wait.map(|own| own.max(wait)), ..self }
            }
            _ => self,
        }
    }
}

/// Decides the effect of the end of an attempt on its dispatch. `random` (0 to 1) is the jitter.
#[must_use]
pub fn decide(end: AttemptEnd<'_>, before: Failures, policy: &RetryPolicy, random: f64) -> AttemptDecision {
    let AttemptEnd { outcome, error_class } = end;
    let last_word = |event| AttemptDecision { event, wait: None };
    match outcome {
        AttemptOutcome::Completed => last_word(DispatchEvent::Succeed),
        AttemptOutcome::Cancelled => last_word(DispatchEvent::Cancel),
        AttemptOutcome::Released => {
            AttemptDecision { event: DispatchEvent::Release, wait: Some(Duration::ZERO) }
        }
        AttemptOutcome::Expired => last_word(DispatchEvent::Fail),
        AttemptOutcome::Lost if before.lost + 1 >= POISON_AFTER_LOSSES => last_word(DispatchEvent::GiveUp),
        AttemptOutcome::Failed | AttemptOutcome::Timeout | AttemptOutcome::Lost => {
            let failures = before.retried + 1;
            if policy.allows_another(failures, error_class) {
                return AttemptDecision {
                    event: DispatchEvent::Retry,
                    wait: Some(policy.delay(failures, random)),
                };
            }
            last_word(match outcome {
                _ if policy.max_attempts > 1 => DispatchEvent::GiveUp,
                AttemptOutcome::Failed => DispatchEvent::Fail,
                _ => DispatchEvent::TimeOut,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(outcome: AttemptOutcome) -> AttemptEnd<'static> {
        AttemptEnd { outcome, error_class: None }
    }

    fn verdict(outcome: AttemptOutcome, retried: u32, lost: u32, max_attempts: u32) -> DispatchEvent {
        decide(end(outcome), Failures { retried, lost }, &RetryPolicy::standard(max_attempts), 0.0).event
    }

    #[test]
    fn outcomes_map_to_verdicts() {
        use {AttemptOutcome as O, DispatchEvent as E};
        let table = [
            (O::Completed, 0, 0, 3, E::Succeed),
            (O::Cancelled, 0, 0, 3, E::Cancel),
            (O::Released, 2, 0, 3, E::Release),
            (O::Failed, 0, 0, 3, E::Retry),
            (O::Failed, 1, 0, 3, E::Retry),
            (O::Failed, 2, 0, 3, E::GiveUp),
            (O::Failed, 0, 0, 1, E::Fail),
            (O::Timeout, 0, 0, 1, E::TimeOut),
            (O::Timeout, 2, 0, 3, E::GiveUp),
            (O::Lost, 0, 0, 1, E::TimeOut),
            (O::Lost, 0, 0, 3, E::Retry),
            (O::Lost, 2, 2, 100, E::GiveUp),
        ];
        for (outcome, retried, lost, max, expected) in table {
            assert_eq!(verdict(outcome, retried, lost, max), expected, "{outcome} {retried} {lost} {max}");
        }
    }

    #[test]
    fn every_verdict_is_legal_for_a_running_dispatch() {
        for outcome in AttemptOutcome::ALL {
            for max in 1..4 {
                for retried in 0..max {
                    let event = verdict(*outcome, retried, 0, max);
                    let next = super::super::run_state::DispatchStatus::InProgress.apply(event).unwrap();
                    let wait = decide(
                        end(*outcome),
                        Failures { retried, lost: 0 },
                        &RetryPolicy::standard(max),
                        0.5,
                    )
                    .wait;
                    assert_eq!(wait.is_some(), !next.is_final());
                }
            }
        }
    }

    #[test]
    fn requested_wait_delays_a_retry_and_adds_none() {
        let wait = |outcome, requested: u64| {
            let policy = RetryPolicy { backoff_seconds: 10, ..RetryPolicy::standard(3) };
            let verdict = decide(end(outcome), Failures::default(), &policy, 0.0);
            verdict.no_retry_before(Duration::from_secs(requested)).wait.map(|wait| wait.as_secs())
        };
        assert_eq!((wait(AttemptOutcome::Failed, 60), wait(AttemptOutcome::Failed, 5)), (Some(60), Some(10)));
        assert_eq!(
            (wait(AttemptOutcome::Released, 60), wait(AttemptOutcome::Completed, 60)),
            (Some(60), None)
        );
    }

    #[test]
    fn attempt_is_overdue_after_its_limit_and_margin() {
        let seconds = |limit| overdue_after(Duration::from_secs(limit)).as_secs();
        assert_eq!([seconds(0), seconds(10), seconds(300), seconds(3_600)], [30, 40, 330, 3_960]);
        assert_eq!(overdue_after(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn non_retryable_error_is_final() {
        let policy = RetryPolicy { non_retryable: vec!["bad_input".into()], ..RetryPolicy::standard(5) };
        let bad_input = AttemptEnd { error_class: Some("bad_input"), ..end(AttemptOutcome::Failed) };
        let event = decide(bad_input, Failures::default(), &policy, 0.0).event;
        assert_eq!(event, DispatchEvent::GiveUp);
    }
}
