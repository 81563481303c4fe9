//! State that the election publishes: for the leader's tasks, `/status`, and metrics. Only
//! [`super::Leadership`] writes it; readers never wait for it.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use sched_runtime::monotonic_clock::monotonic;

use crate::role::Role;

/// Why a scheduler stopped leading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// Clean shutdown.
    Stopped,
    /// An operator requested it.
    SteppedDown,
    /// The tasks of the leader did not succeed for too long.
    Stalled,
    /// The database's clock jumped against the own clock, so the rest of the lease is unknown.
    ClockJumped,
    /// The lease was not renewed in time.
    NotRenewed,
    /// Another scheduler took over.
    Replaced,
    /// Another process declared this scheduler dead and removed its registration.
    TakenForDead,
}

impl Loss {
    const ALL: [Self; 7] = [
        Self::Stopped,
        Self::SteppedDown,
        Self::Stalled,
        Self::ClockJumped,
        Self::NotRenewed,
        Self::Replaced,
        Self::TakenForDead,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::SteppedDown => "stepped_down",
            Self::Stalled => "stalled",
            Self::ClockJumped => "clock_jumped",
            Self::NotRenewed => "not_renewed",
            Self::Replaced => "replaced",
            Self::TakenForDead => "taken_for_dead",
        }
    }
}

/// State of the election and of the connection, as of the latest heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Vitals {
    /// Start of the term, by the database's clock.
    pub leader_since: Option<DateTime<Utc>>,
    /// End of the trust window without a further renewal; `None` for a standby.
    pub trusted_until: Option<Instant>,
    /// The database's clock minus the host's.
    pub clock_offset: Option<TimeDelta>,
    /// Round-trip time of the latest heartbeat.
    pub round_trip: Option<Duration>,
    /// When the latest successful heartbeat was answered.
    pub last_heartbeat: Option<Instant>,
}

impl Vitals {
    /// Rest of the trust window; `None` for a standby.
    #[must_use]
    pub fn trust_left(&self) -> Option<Duration> {
        self.trusted_until.map(|until| until.saturating_duration_since(monotonic()))
    }

    #[must_use]
    pub fn since_heartbeat(&self) -> Option<Duration> {
        self.last_heartbeat.map(|answered| monotonic().saturating_duration_since(answered))
    }

    pub(super) fn measure(&self, role: Role) {
        metrics::gauge!("sched_leader").set(if role.term().is_some() { 1.0 } else { 0.0 });
        // Terms count changes of the leader, so a float represents them exactly.
        let term = role.term().and_then(|term| u32::try_from(term.0).ok()).unwrap_or_default();
        metrics::gauge!("sched_leader_term").set(f64::from(term));
        metrics::gauge!("sched_leader_trust_seconds")
            .set(self.trust_left().unwrap_or_default().as_secs_f64());
        if let Some(offset) = self.clock_offset {
            metrics::gauge!("sched_clock_offset_seconds").set(seconds(offset));
        }
    }
}

/// Exports counters of rare events at 0: an alert on their growth would miss the first event.
pub(super) fn describe() {
    metrics::counter!("sched_clock_jumps_total").increment(0);
    metrics::counter!("sched_leader_changes_total").increment(0);
    metrics::counter!("sched_leader_heartbeat_failures_total").increment(0);
    for loss in Loss::ALL {
        metrics::counter!("sched_leader_lost_total", "reason" => loss.as_str()).increment(0);
    }
    metrics::describe_gauge!("sched_leader", "1 while this scheduler leads, else 0.");
    metrics::describe_gauge!("sched_leader_term", "The term it leads with; 0 unless it leads.");
    metrics::describe_gauge!(
        "sched_leader_trust_seconds",
        "How long it may go on leading without another renewal, as of the last heartbeat; 0 unless it leads."
    );
    metrics::describe_gauge!(
        "sched_clock_offset_seconds",
        "How far the database's clock is ahead of this host's, give or take half a round trip. Nothing depends on it."
    );
    metrics::describe_histogram!("sched_db_round_trip_seconds", "Time from a heartbeat to its answer.");
    metrics::describe_counter!("sched_leader_changes_total", "How often this scheduler has taken over.");
    metrics::describe_counter!("sched_leader_lost_total", "How often it has stopped leading, by reason.");
    metrics::describe_counter!("sched_leader_heartbeat_failures_total", "Heartbeats that failed.");
    metrics::describe_counter!(
        "sched_clock_jumps_total",
        "Heartbeats that were refused because the database's clock had jumped against this host's monotonic clock."
    );
}

pub(super) fn seconds(delta: TimeDelta) -> f64 {
    delta.as_seconds_f64()
}
