//! Judges the health of each part of the installation by its measurements. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sched_model::cluster::health::{Health as Found, Total, Totals};
use sched_model::cluster::overview::Counts;
use sched_model::connection::pool::PoolStatus;
use sched_model::domain::lease::Leadership;
use sched_wire::{Health, HealthComponent, HealthState, Metrics};
use serde_json::{Map, Value, json};

use crate::convert::enums::state_word;

/// The cause is in the log.
pub(crate) const NO_ANSWER: &str = "the database cannot be reached, or does not answer in time";

/// Longest delay of a due job before health degrades. Dispatching takes about a second.
const LATE_AFTER: Duration = Duration::from_secs(60);

/// The error contains no names of hosts and roles.
pub(crate) type ProbeResult = Result<DatabaseFacts, String>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DatabaseFacts {
    pub(crate) round_trip: Duration,
    /// Newest applied migration.
    pub(crate) version: Option<String>,
    pub(crate) misfit: Option<String>,
    pub(crate) health: Found,
}

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) found: ProbeResult,
    pub(crate) pool: PoolStatus,
    pub(crate) listeners: usize,
    /// How long the event stream has been held up.
    pub(crate) held_for: Option<Duration>,
    /// A leader whose last heartbeat is older counts as gone.
    pub(crate) leader_lease: Duration,
    pub(crate) is_stopping: bool,
}

pub(crate) fn health(parts: &Parts) -> Health {
    let mut components = match &parts.found {
        Ok(seen) => vec![
            database(seen),
            schema(seen),
            leader(&seen.health, parts.leader_lease),
            workers(&seen.health),
            jobs(&seen.health),
        ],
        Err(reason) => vec![unavailable("database", reason.clone(), json!({}))],
    };
    components.push(events(parts));
    components.push(pool(parts.pool));
    if parts.is_stopping {
        components.push(unavailable("api", "the API is stopping".to_owned(), json!({})));
    }
    let status = components.iter().map(|component| component.status).max().unwrap_or(HealthState::Ok);
    Health { status, components }
}

fn component(name: &str, trouble: Option<(HealthState, String)>, details: Value) -> HealthComponent {
    let (status, reason) = match trouble {
        Some((status, reason)) => (status, Some(reason)),
        None => (HealthState::Ok, None),
    };
    let details = match details {
        Value::Object(details) => details,
        _ => Map::new(),
    };
    HealthComponent { name: name.to_owned(), status, reason, details }
}

fn unavailable(name: &str, reason: String, details: Value) -> HealthComponent {
    component(name, Some((HealthState::Unavailable, reason)), details)
}

fn database(seen: &DatabaseFacts) -> HealthComponent {
    let round_trip_ms = seen.round_trip.as_secs_f64() * 1000.0;
    component("database", None, json!({"round_trip_ms": round_trip_ms, "now": seen.health.now}))
}

fn schema(seen: &DatabaseFacts) -> HealthComponent {
    // The schema is of another release, so working requests may soon fail.
    let trouble = seen.misfit.clone().map(|reason| (HealthState::Unavailable, reason));
    component("schema", trouble, json!({"version": seen.version}))
}

fn leader(found: &Found, lease: Duration) -> HealthComponent {
    let trouble = match Leadership::of(found.leader_silence, lease) {
        Leadership::Live => None,
        Leadership::Expired { .. } => {
            Some("the lease of the leader has expired, and no other scheduler has taken over yet")
        }
        Leadership::None => Some("no scheduler leads; start one, or wait until one takes over"),
    };
    let trouble = trouble.map(|reason| (HealthState::Unavailable, reason.to_owned()));
    let failing = || {
        let reason = format!(
            "tasks of the leader keep failing: {}; its log and its /status have the errors",
            found.failing_tasks.join(", ")
        );
        (!found.failing_tasks.is_empty()).then_some((HealthState::Degraded, reason))
    };
    let trouble = trouble.or_else(failing);
    let details = json!({
        "term": found.term, "lease_age_seconds": found.leader_silence, "lease_seconds": lease.as_secs_f64(),
        "schedulers": found.schedulers_online, "failing_tasks": found.failing_tasks,
    });
    component("leader", trouble, details)
}

fn workers(found: &Found) -> HealthComponent {
    let (able, draining) = (found.idle + found.busy, found.draining);
    let trouble = match (able, draining) {
        (0, 0) => Some("no worker is online, so no attempt can start".to_owned()),
        (0, _) => Some("all workers drain, so no attempt can start".to_owned()),
        _ => None,
    };
    // The counts are those of the last heartbeats.
    let details = json!({
        "idle": found.idle, "busy": found.busy, "draining": draining, "offline": found.offline,
        "oldest_heartbeat_seconds": found.oldest_worker_heartbeat,
    });
    component("workers", trouble.map(|reason| (HealthState::Unavailable, reason)), details)
}

fn jobs(found: &Found) -> HealthComponent {
    let due_for = found.oldest_due.and_then(|due| (found.now - due).to_std().ok());
    let trouble = match (due_for, found.quarantined) {
        (Some(late), _) if late > LATE_AFTER => {
            Some(format!("a job has been due for {} s without a dispatch", late.as_secs()))
        }
        (_, 0) => None,
        (_, count) => Some(format!(
            "the scheduler has disabled {count} {}; fix the settings",
            if count == 1 { "job whose schedule cannot fire" } else { "jobs whose schedules cannot fire" }
        )),
    };
    let details = json!({
        "oldest_due": found.oldest_due, "oldest_due_seconds": due_for.map(|late| late.as_secs_f64()),
        "quarantined": found.quarantined,
    });
    component("jobs", trouble.map(|reason| (HealthState::Degraded, reason)), details)
}

fn events(parts: &Parts) -> HealthComponent {
    let held_seconds = parts.held_for.map(|held| held.as_secs_f64());
    let trouble = held_seconds.map(|held| {
        let reason = format!("a long transaction has held up the event stream for {held:.0} s");
        (HealthState::Degraded, reason)
    });
    component("events", trouble, json!({"listeners": parts.listeners, "held_seconds": held_seconds}))
}

fn pool(pool: PoolStatus) -> HealthComponent {
    let trouble = (pool.waiting > 0).then(|| {
        (HealthState::Degraded, format!("{} requests wait for a connection to the database", pool.waiting))
    });
    let details =
        json!({"most": pool.most, "open": pool.open, "in_use": pool.in_use, "waiting": pool.waiting});
    component("pool", trouble, details)
}

pub(crate) fn metrics(counts: &Counts, since: DateTime<Utc>, totals: Totals) -> Metrics {
    let runs_of = |status: &str| totals.runs.iter().find(|total| total.status == status);
    let count = |status: &str| runs_of(status).map_or(0, |total| total.count);
    let good = count("COMPLETED");
    let all = good + count("FAILED") + count("TIMEOUT") + count("LOST") + count("EXPIRED");
    let success_rate = (all > 0).then(|| good as f64 / all as f64);
    let average_duration_ms = runs_of("COMPLETED").and_then(|total| total.average_ms);
    let by_status = |totals: Vec<Total>| {
        totals
            .into_iter()
            .map(|total| (state_word(&total.status).map_or(total.status.clone(), str::to_owned), total.count))
            .collect()
    };
    Metrics {
        now: counts.now,
        since,
        runs_waiting: counts.dispatches_pending,
        runs_running: counts.dispatches_running,
        success_rate,
        average_duration_ms,
        jobs: by_status(totals.jobs),
        runs: by_status(totals.runs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(5);

    fn found() -> Found {
        Found {
            now: DateTime::from_timestamp(1_790_000_000, 0).unwrap(),
            leader_silence: Some(1.0),
            term: Some(7),
            failing_tasks: Vec::new(),
            schedulers_online: 2,
            idle: 1,
            busy: 0,
            draining: 0,
            offline: 3,
            oldest_due: None,
            quarantined: 0,
            oldest_worker_heartbeat: Some(2.5),
        }
    }

    fn parts(found: Found) -> Parts {
        let seen = DatabaseFacts {
            round_trip: Duration::from_millis(1),
            version: Some("1".into()),
            misfit: None,
            health: found,
        };
        Parts {
            found: Ok(seen),
            pool: PoolStatus { most: 10, open: 2, in_use: 1, waiting: 0 },
            listeners: 0,
            held_for: None,
            leader_lease: LEASE,
            is_stopping: false,
        }
    }

    #[test]
    fn health_equals_its_worst_part() {
        use HealthState::{Degraded, Ok as Fine, Unavailable};
        let late = |seconds| Some(found().now - chrono::TimeDelta::seconds(seconds));
        let mut held = parts(found());
        held.held_for = Some(Duration::from_secs(9));
        let mut crowded = parts(found());
        crowded.pool.waiting = 3;
        let mut stopping = parts(found());
        stopping.is_stopping = true;
        let mut newer = parts(found());
        newer.found.as_mut().unwrap().misfit = Some("the database schema is newer".into());
        let cut_off = Parts { found: Err(NO_ANSWER.to_owned()), ..parts(found()) };
        for (parts, status, name) in [
            (parts(found()), Fine, ""),
            (parts(Found { leader_silence: None, ..found() }), Unavailable, "leader"),
            (parts(Found { leader_silence: Some(6.0), ..found() }), Unavailable, "leader"),
            (parts(Found { failing_tasks: vec!["notify".into()], ..found() }), Degraded, "leader"),
            (parts(Found { idle: 0, ..found() }), Unavailable, "workers"),
            (parts(Found { idle: 0, draining: 2, ..found() }), Unavailable, "workers"),
            (parts(Found { oldest_due: late(5), ..found() }), Fine, ""),
            (parts(Found { oldest_due: late(61), ..found() }), Degraded, "jobs"),
            (parts(Found { quarantined: 2, ..found() }), Degraded, "jobs"),
            (held, Degraded, "events"),
            (crowded, Degraded, "pool"),
            (stopping, Unavailable, "api"),
            (newer, Unavailable, "schema"),
            (cut_off, Unavailable, "database"),
        ] {
            let health = health(&parts);
            assert_eq!(health.status, status, "{parts:?}");
            let troubled: Vec<&str> =
                health.components.iter().filter(|one| one.reason.is_some()).map(|one| &*one.name).collect();
            assert_eq!(troubled.join(" "), name);
        }
    }
}
