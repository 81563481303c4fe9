//! What the election publishes about itself: for the tasks of the leader, for `/status`, and as metrics.
//!
//! Written by [`super::Leadership`] alone and only in memory; readers never wait for it.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::ids::Term;
use sched_runtime::monotonic_clock::monotonic;

/// What this scheduler is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Waits to take over.
    Standby,
    /// Leads with this term.
    Leader(Term),
}

impl Role {
    /// The term, if it leads.
    #[must_use]
    pub const fn term(self) -> Option<Term> {
        match self {
            Self::Standby => None,
            Self::Leader(term) => Some(term),
        }
    }
}

/// Why a scheduler leads no longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It stops in order.
    Stopped,
    /// An operator asked it to step down.
    SteppedDown,
    /// Its work did not succeed for long.
    Stalled,
    /// The database's clock jumped against ours, so that what is left of the lease cannot be told.
    ClockJumped,
    /// Its lease could not be renewed in time.
    NotRenewed,
    /// Another scheduler has taken over.
    Replaced,
    /// Its registration is gone: it was taken for dead.
    TakenForDead,
}

impl Loss {
    /// Every one.
    const ALL: [Self; 7] = [
        Self::Stopped,
        Self::SteppedDown,
        Self::Stalled,
        Self::ClockJumped,
        Self::NotRenewed,
        Self::Replaced,
        Self::TakenForDead,
    ];

    /// The reason as a label of metrics.
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

/// What is known of the election and of the way to the database, as of the last heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Vitals {
    /// Since when it leads, by the database's clock.
    pub leader_since: Option<DateTime<Utc>>,
    /// Until when it trusts itself unless a renewal succeeds before; `None` unless it leads.
    pub trusted_until: Option<Instant>,
    /// How far the database's clock was ahead of the host's.
    pub clock_offset: Option<TimeDelta>,
    /// How long the last heartbeat took, there and back.
    pub round_trip: Option<Duration>,
    /// When the last heartbeat that succeeded was answered.
    pub last_heartbeat: Option<Instant>,
}

impl Vitals {
    /// How much trust is left; `None` unless it leads.
    #[must_use]
    pub fn trust_left(&self) -> Option<Duration> {
        self.trusted_until.map(|until| until.saturating_duration_since(monotonic()))
    }

    /// How long ago a heartbeat last succeeded.
    #[must_use]
    pub fn since_heartbeat(&self) -> Option<Duration> {
        self.last_heartbeat.map(|answered| monotonic().saturating_duration_since(answered))
    }

    /// Shows the figures as gauges.
    pub(super) fn measure(&self, role: Role) {
        metrics::gauge!("sched_leader").set(if role.term().is_some() { 1.0 } else { 0.0 });
        // Terms are counted by changes of leader: a float holds every one there will be.
        let term = role.term().and_then(|term| u32::try_from(term.0).ok()).unwrap_or_default();
        metrics::gauge!("sched_leader_term").set(f64::from(term));
        metrics::gauge!("sched_leader_trust_seconds")
            .set(self.trust_left().unwrap_or_default().as_secs_f64());
        if let Some(offset) = self.clock_offset {
            metrics::gauge!("sched_clock_offset_seconds").set(seconds(offset));
        }
    }
}

/// Describes every metric of the election, and shows the counters of what hardly ever happens before it first does: an alert on their growth would miss the
/// first time otherwise.
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

/// Seconds with their fraction.
pub(super) fn seconds(delta: TimeDelta) -> f64 {
    delta.as_seconds_f64()
}
