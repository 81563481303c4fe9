//! Metrics of stored attempts. Each attempt counts once, when its end is stored.

use std::collections::HashMap;

use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::run_state::DispatchEvent;

use crate::backend::Ended;

/// The leader counts lost attempts.
const OUTCOMES: [AttemptOutcome; 5] = [
    AttemptOutcome::Completed,
    AttemptOutcome::Failed,
    AttemptOutcome::Timeout,
    AttemptOutcome::Cancelled,
    AttemptOutcome::Released,
];

pub(crate) fn show() {
    for outcome in OUTCOMES {
        metrics::counter!("sched_attempts_total", "status" => outcome.public_name()).increment(0);
    }
    metrics::counter!("sched_retries_total").increment(0);
    for part in ["kept", "dropped"] {
        metrics::counter!("sched_output_bytes_total", "part" => part).increment(0);
    }
    metrics::describe_counter!("sched_attempts_total", "Attempts whose end was stored, by outcome.");
    metrics::describe_counter!("sched_retries_total", "Attempts that are followed by a retry.");
    metrics::describe_counter!("sched_output_bytes_total", "Bytes of output of attempts, kept or dropped.");
    metrics::describe_histogram!(
        "sched_completion_seconds",
        "Time from the end of an attempt until it is stored."
    );
}

pub(super) fn count<'a>(stored: impl IntoIterator<Item = &'a Ended>) {
    let mut outcomes: HashMap<&'static str, u64> = HashMap::new();
    let (mut retries, mut kept, mut dropped) = (0, 0, 0);
    for one in stored {
        *outcomes.entry(one.outcome.public_name()).or_default() += 1;
        retries += u64::from(one.verdict.event == DispatchEvent::Retry);
        for chunk in &one.record.output {
            kept += u64::try_from(chunk.content.len()).unwrap_or(0);
            dropped += u64::try_from(chunk.dropped_bytes).unwrap_or(0);
        }
    }
    for (outcome, attempts) in outcomes {
        metrics::counter!("sched_attempts_total", "status" => outcome).increment(attempts);
    }
    metrics::counter!("sched_retries_total").increment(retries);
    metrics::counter!("sched_output_bytes_total", "part" => "kept").increment(kept);
    metrics::counter!("sched_output_bytes_total", "part" => "dropped").increment(dropped);
}
