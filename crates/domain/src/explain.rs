//! Explains why a job did or did not run: every fire time of a window with its one fate (DSP-7).
//!
//! [`explain()`] gets the stored history of a job: settings over time, records, triggers. It
//! computes the fire times again from the schedule and looks up the record of each. A fire time
//! whose record is missing is *unaccounted for*.
//!
//! Unknown facts are reported as unknown: calendars and zone tables are the current ones, and
//! retention removes rows. The fire times that a disabled job would have had are counted apart.
//! `sched_model::explain::history` reads the rows. Pure; [`MAX_FIRE_TIMES`] bounds the cost.

mod fates;
mod phrases;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
pub mod waits;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::attempt::AttemptOutcome;
use super::ids::{DispatchId, TenantId, Term};
use super::instance::TermEnd;
use super::job::{JobSettings, MisfireKind};
use super::run_state::{DispatchStatus, Trigger};
use super::trace::TraceContext;
use sched_timetable::SkipReason;

pub use self::fates::explain;
pub use self::summary::Summary;
pub use self::waits::Wait;

pub const MAX_FIRE_TIMES: usize = 10_000;

#[derive(Debug, Clone)]
pub struct Evidence {
    pub tenant: TenantId,
    pub created_at: DateTime<Utc>,
    /// Every fire time up to and including this instant has been decided.
    pub settled_until: DateTime<Utc>,
    pub cursor: Option<DateTime<Utc>>,
    pub is_enabled: bool,
    pub is_paused: bool,
    pub paused_until: Option<DateTime<Utc>>,
    pub held_until: Option<DateTime<Utc>>,
    /// Records of fire times up to this instant may have been removed by retention.
    pub ledger_starts_at: Option<DateTime<Utc>>,
    /// The database's clock, read after the fields above and before the fields below.
    pub now: DateTime<Utc>,
    /// The versions in effect during the window, oldest first, and the latest pause before it.
    pub versions: Vec<Version>,
    /// As they are now.
    pub calendars: Vec<CalendarFacts>,
    /// Last fire time of each record that the scheduler wrote when it disabled the job.
    pub disabled_at: Vec<DateTime<Utc>>,
    pub skips: Vec<Skip>,
    pub dispatches: Vec<DispatchRecord>,
    /// Not created by the schedule, by time.
    pub triggers: Vec<DispatchRecord>,
}

#[derive(Debug, Clone)]
pub struct Version {
    pub number: i64,
    pub change: String,
    pub settings: Result<JobSettings, String>,
    /// Applies to fires after this instant.
    pub changed_at: DateTime<Utc>,
    /// A component, or the e-mail address of a user.
    pub changed_by: String,
    pub pause_reason: Option<String>,
    pub paused_until: Option<DateTime<Utc>>,
    /// The last fire within `max_runs`, if the job reached it.
    pub ended_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone)]
pub struct CalendarFacts {
    pub name: String,
    pub definition: Value,
    pub updated_at: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    pub first: DateTime<Utc>,
    /// Included.
    pub last: DateTime<Utc>,
    /// A lower bound unless exact.
    pub count: u64,
    pub is_count_exact: bool,
    pub reason: SkipReason,
    pub detail: Option<String>,
    pub recorded_at: DateTime<Utc>,
    /// `None` when the API recorded it.
    pub term: Option<Term>,
    /// For a misfire that no leader decided in time: the leader of that time.
    pub lead: Option<LeadershipGap>,
    /// For an overlap: open dispatches when the record began; only some if they are many.
    pub in_the_way: Vec<BlockingDispatch>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeadershipGap {
    pub next_at: DateTime<Utc>,
    /// End of the term of that time, or of the last one before; `None` if unknown.
    pub former_end: Option<(DateTime<Utc>, TermEnd)>,
    /// When the lease of that term expired, if that was before its end. No scheduler led from then
    /// on.
    pub lease_expired_at: Option<DateTime<Utc>>,
}

/// The settings that decide which missed fires are caught up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MisfireRule {
    pub policy: MisfireKind,
    pub cap: i32,
    /// `None` for the default.
    pub grace_seconds: Option<i32>,
    pub max_instances: i32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockingDispatch {
    pub id: DispatchId,
    /// Fire time, or time of the trigger.
    pub scheduled_for: DateTime<Utc>,
    /// When it ended; `None` while it is open.
    pub completed_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchRecord {
    pub id: DispatchId,
    pub scheduled_for: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
    pub available_at: DateTime<Utc>,
    pub claimed_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
    pub status: DispatchStatus,
    pub queue: String,
    /// Whether it is queued behind other runs of its job.
    pub is_in_line: bool,
    pub is_catch_up: bool,
    pub triggered_by: Trigger,
    pub triggered_by_user: Option<String>,
    pub term: Option<Term>,
    pub scheduler: Option<String>,
    pub attempt: i32,
    /// Host of the worker of the latest claim, or its id if retention removed the name.
    pub worker: Option<String>,
    /// Of the latest unsuccessful attempt, or the cancelling user.
    pub error: Option<String>,
    pub cancel_requested_at: Option<DateTime<Utc>>,
    pub successor: Option<Successor>,
    pub cause: Option<Cause>,
    pub trace: TraceContext,
    pub attempts: Vec<Attempt>,
    /// Its blockers, if it waits and the caller requested them.
    pub waits: Vec<Wait>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    pub id: DispatchId,
    pub scheduled_for: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    pub dispatch: DispatchId,
    /// `None` if retention removed the dispatch.
    pub job: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub number: i32,
    pub outcome: AttemptOutcome,
    pub started_at: DateTime<Utc>,
    pub completed_at: DateTime<Utc>,
    /// The host, or the id if retention removed the name.
    pub worker: Option<String>,
    /// Exit code of the process.
    pub exit_code: Option<i32>,
    pub error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// In order of time; neighbours of one fate are one line.
    pub lines: Vec<TimelineEntry>,
    pub triggers: Vec<DispatchRecord>,
    pub summary: Summary,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEntry {
    pub first: DateTime<Utc>,
    /// Included.
    pub last: DateTime<Utc>,
    /// Zero if the line is about a part of the window.
    pub count: u64,
    pub is_count_exact: bool,
    /// `None` if only a record names them.
    pub version: Option<i64>,
    /// The fire time that a calendar moved here.
    pub moved_from: Option<DateTime<Utc>>,
    pub fate: Fate,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseInForce {
    pub since: DateTime<Utc>,
    pub by: String,
    pub reason: Option<String>,
    pub until: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Dispatched(Box<DispatchRecord>),
    Skipped {
        skip: Box<Skip>,
        /// If the reason is a pause of the job.
        pause: Option<PauseInForce>,
        /// If the reason is a misfire and the settings of that time are known.
        misfire: Option<MisfireRule>,
    },
    /// No clock showed it, and the job does not shift it.
    Suppressed,
    /// In the past, excluded by a calendar; recorded together with the next fire.
    Excluded,
    Moved {
        to: DateTime<Utc>,
    },
    Upcoming {
        /// Whether a pause will skip it.
        is_paused: bool,
        is_excluded: bool,
    },
    /// Due and not yet decided.
    Undecided {
        /// When it became due, or when the scheduler must decide again.
        since: DateTime<Utc>,
        held_until: Option<DateTime<Utc>>,
    },
    NotCreated,
    Disabled {
        /// `None` without a record.
        since: Option<DateTime<Utc>>,
        /// `None` if the scheduler did it or no record has it.
        by: Option<String>,
    },
    Ended,
    /// Retention may have removed its record.
    Pruned,
    Unclear {
        why: String,
    },
    /// A defect.
    TwoFates {
        dispatch: Box<DispatchRecord>,
        skip: Box<Skip>,
    },
    /// A defect, or a lost record.
    Unaccounted,
}

/// Why there is no explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    #[error("the window has more than {MAX_FIRE_TIMES} fire times; choose a shorter one")]
    TooMany,
    #[error("must be later than the beginning of the window")]
    NoWindow,
}
