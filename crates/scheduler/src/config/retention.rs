//! Settings of retention: names, units, defaults, and their dependencies.

use std::time::Duration;

use sched_model::domain::retention::{HistoryExpiry, Retention};
use sched_runtime::config::{Setting, Values};

use crate::tasks::retain::Ages;

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "cleanup-retention-days",
        "CLEANUP_RETENTION_DAYS",
        "DAYS",
        "How long finished dispatches, skips, history and events are kept; history and events go by whole months. Also expired and revoked API keys",
    )
    .default("30"),
    Setting::new(
        "dead-letter-retention-days",
        "DEAD_LETTER_RETENTION_DAYS",
        "DAYS",
        "How long dead letters are kept; at least as long as other dispatches",
    )
    .default("90"),
    Setting::new(
        "audit-retention-days",
        "AUDIT_RETENTION_DAYS",
        "DAYS",
        "How long the audit log and the terms of leadership are kept; at least as long as dispatches, which name their terms",
    )
    .default("365"),
    Setting::new(
        "history-expiry",
        "HISTORY_EXPIRY",
        "HOW",
        "Handling of old months of history and events: drop, or detach, which keeps them in the schema history_archive until \
         an operator archives and drops them",
    )
    .default("drop"),
    Setting::new(
        "idempotency-key-retention",
        "IDEMPOTENCY_KEY_RETENTION",
        "DURATION",
        "How long the key of a trigger is remembered, at least; the key of a dispatch that is still open always is",
    )
    .default("24h"),
    Setting::new(
        "stale-scheduler-threshold",
        "STALE_SCHEDULER_THRESHOLD",
        "DURATION",
        "Silence after which a scheduler that does not lead is removed from the list; at least the lease",
    )
    .default("2min"),
    Setting::new(
        "stale-worker-threshold",
        "STALE_WORKER_THRESHOLD",
        "DURATION",
        "How long a worker that was given up stays in the list, so that an operator sees it",
    )
    .default("24h"),
];

#[derive(Debug, Clone, Copy)]
pub struct RetentionConfig {
    pub ages: Ages,
    /// What happens to old months of history.
    pub expiry: HistoryExpiry,
    /// Silence after which a standby is removed from the list.
    pub stale_scheduler: Duration,
    /// How long a lost worker stays in the list.
    pub stale_worker: Duration,
}

impl RetentionConfig {
    /// Records every error; `lease` is that of the leader.
    pub(super) fn read(values: &mut Values, lease: Duration) -> Self {
        let hour = Duration::from_secs(3600);
        let year = 365 * 24 * hour;
        let retention = read_days(values);
        let idempotency_keys = values.duration_within("idempotency-key-retention", hour / 60..=year);
        if values.are_sound(&["idempotency-key-retention", "cleanup-retention-days"])
            && idempotency_keys > 24 * hour * retention.finished_days
        {
            values.mistake(
                "idempotency-key-retention",
                "must not be longer than cleanup-retention-days, because a key goes with its dispatch",
            );
        }
        let stale_scheduler =
            values.duration_within("stale-scheduler-threshold", Duration::from_secs(1)..=year);
        if values.are_sound(&["stale-scheduler-threshold", "leader-lease"]) && stale_scheduler < lease {
            values.mistake("stale-scheduler-threshold", "must not be shorter than leader-lease");
        }
        Self {
            ages: Ages { retention, idempotency_keys },
            expiry: values.choice("history-expiry", HistoryExpiry::WORDS),
            stale_scheduler,
            stale_worker: values.duration_within("stale-worker-threshold", Duration::from_secs(1)..=year),
        }
    }
}

fn read_days(values: &mut Values) -> Retention {
    let finished_days = values.integer("cleanup-retention-days", 1..=3650);
    let mut at_least = |name| {
        let days = values.integer(name, 1..=36_500);
        if values.are_sound(&[name, "cleanup-retention-days"]) && days < finished_days {
            values.mistake(name, "must not be below cleanup-retention-days");
        }
        days
    };
    Retention {
        finished_days,
        dead_letter_days: at_least("dead-letter-retention-days"),
        audit_days: at_least("audit-retention-days"),
    }
}
