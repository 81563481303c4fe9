//! Explains why a job did or did not run: every fire time of a window with its one fate (DSP-7).
//!
//! [`explain()`] gets the stored history of a job (its settings over time, its records, its
//! triggers). It computes the fire times again from the schedule and looks up the record of each.
//! So a record that is lost or was never written is visible: its fire time is *unaccounted for*.
//!
//! Unknown facts are reported as unknown and never guessed: calendars and zone tables are the
//! current ones, and rows removed by retention are gone. Nothing is read or written here;
//! `sched_model::explain::history` reads the rows. Pure; [`MAX_FIRE_TIMES`] bounds the cost. A
//! disabled job has no fire times; those it would have had are shown and counted apart.

mod fates;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
pub mod waits;
mod words;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::attempt::AttemptOutcome;
use super::ids::{DispatchId, TenantId, Term};
use super::instance::TermEnd;
use super::job::JobSettings;
use super::run_state::{DispatchStatus, Trigger};
use super::trace::TraceContext;
use sched_timetable::SkipReason;

pub use self::fates::explain;
pub use self::summary::Summary;
pub use self::waits::Wait;

/// Most fire times, and most records, of one explanation.
pub const MAX_FIRE_TIMES: usize = 10_000;

/// The stored history of a job, as far as a window needs it.
#[derive(Debug, Clone)]
pub struct Evidence {
    pub tenant: TenantId,
    /// When the job was created; nothing fired before.
    pub created_at: DateTime<Utc>,
    /// Every fire time up to and including this instant has been decided.
    pub settled_until: DateTime<Utc>,
    pub cursor: Option<DateTime<Utc>>,
    /// Whether the job is enabled now.
    pub is_enabled: bool,
    /// Whether the job is paused now.
    pub is_paused: bool,
    /// When that pause ends automatically.
    pub paused_until: Option<DateTime<Utc>>,
    /// The scheduler holds the job until this instant.
    pub held_until: Option<DateTime<Utc>>,
    /// Records of fire times up to this instant may have been removed by retention.
    pub ledger_starts_at: Option<DateTime<Utc>>,
    /// The database's clock, read after the fields above and before the fields below.
    pub now: DateTime<Utc>,
    /// The versions in effect during the window, oldest first, and the latest pause before it.
    pub versions: Vec<Version>,
    /// The calendars that they name, as they are now.
    pub calendars: Vec<KnownCalendar>,
    /// The last fire time of each record that the scheduler wrote when it disabled the job
    /// automatically.
    pub disabled_at: Vec<DateTime<Utc>>,
    /// Ranges of skipped fires that touch the window, by their first fire time.
    pub skips: Vec<Skip>,
    /// Dispatches by the scheduler in the window, by fire time.
    pub dispatches: Vec<Dispatched>,
    /// Runs in the window that the schedule did not create, by time.
    pub triggers: Vec<Dispatched>,
}

/// The settings of a job from an instant on.
#[derive(Debug, Clone)]
pub struct Version {
    pub number: i64,
    /// What kind of change made it.
    pub change: String,
    /// The settings, or why they cannot be read.
    pub settings: Result<JobSettings, String>,
    /// Fires after this instant follow these settings.
    pub changed_at: DateTime<Utc>,
    /// The component, or the e-mail address of the user.
    pub changed_by: String,
    /// Why the job was paused, where the change is a pause.
    pub pause_reason: Option<String>,
    /// When that pause was to end automatically.
    pub paused_until: Option<DateTime<Utc>>,
    /// The last fire that `max_runs` of these settings allowed, if the job reached it.
    pub ended_at: Option<DateTime<Utc>>,
}

/// A calendar as it is now.
#[derive(Debug, Clone)]
pub struct KnownCalendar {
    pub name: String,
    pub definition: Value,
    pub updated_at: DateTime<Utc>,
}

/// A range of skipped fires, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    pub first: DateTime<Utc>,
    /// The last one, included.
    pub last: DateTime<Utc>,
    /// Number of fire times; a lower bound unless exact.
    pub count: u64,
    /// Whether that number is exact.
    pub is_count_exact: bool,
    pub reason: SkipReason,
    pub detail: Option<String>,
    /// When the record of the range began.
    pub recorded_at: DateTime<Utc>,
    /// Term of the leader that recorded it; `None` when the API did.
    pub term: Option<Term>,
    /// For a misfire before that term: the leader of that time.
    pub lead: Option<Lead>,
    /// For an overlap: dispatches that were open when the record of the range began; only some if
    /// they are many.
    pub in_the_way: Vec<InTheWay>,
}

/// The leader at an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lead {
    /// When the next term began.
    pub next_at: DateTime<Utc>,
    /// When and why the term of that time, or the last one before, ended; `None` if unknown.
    pub former_end: Option<(DateTime<Utc>, TermEnd)>,
}

/// A dispatch that blocked a fire of its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InTheWay {
    pub id: DispatchId,
    /// Its fire time, or when it was triggered.
    pub scheduled_for: DateTime<Utc>,
    /// When it ended; `None` while it is open.
    pub completed_at: Option<DateTime<Utc>>,
}

/// A dispatch, with its attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatched {
    pub id: DispatchId,
    /// The fire time, or the time of the trigger.
    pub scheduled_for: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
    /// When it could be claimed, or claimed again.
    pub available_at: DateTime<Utc>,
    pub claimed_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
    pub status: DispatchStatus,
    pub queue: String,
    /// Whether it is queued behind other runs of its job.
    pub is_in_line: bool,
    /// Whether it catches up a fire time that had passed.
    pub is_catch_up: bool,
    pub triggered_by: Trigger,
    pub triggered_by_user: Option<String>,
    /// Term of the leader that created it.
    pub term: Option<Term>,
    pub scheduler: Option<String>,
    /// Attempts begun so far.
    pub attempt: i32,
    /// The worker of the latest claim: its host, or its id where retention has removed its name.
    pub worker: Option<String>,
    /// The error of the latest unsuccessful attempt, or the user who cancelled the run.
    pub error: Option<String>,
    pub cancel_requested_at: Option<DateTime<Utc>>,
    /// The fire that replaced it, if the overlap policy cancelled it.
    pub successor: Option<Successor>,
    /// The end of another job that started it.
    pub cause: Option<Cause>,
    /// Its place in a trace.
    pub trace: TraceContext,
    /// The finished attempts, in order.
    pub attempts: Vec<Attempt>,
    /// What blocks it, if it waits and the caller requested that.
    pub waits: Vec<Wait>,
}

/// The fire that replaced a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Successor {
    pub id: DispatchId,
    pub scheduled_for: DateTime<Utc>,
}

/// The end that started a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The dispatch that had ended.
    pub dispatch: DispatchId,
    /// The name of its job; `None` where retention has removed the dispatch.
    pub job: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Which one, from 1.
    pub number: i32,
    pub outcome: AttemptOutcome,
    pub started_at: DateTime<Utc>,
    pub completed_at: DateTime<Utc>,
    /// Where it ran: the host of the worker, or its id where retention has removed its name.
    pub worker: Option<String>,
    /// Exit code of the process.
    pub exit_code: Option<i32>,
    pub error: Option<String>,
}

/// The fates of the fire times of a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The fates in order of time; neighbours of one fate are one line.
    pub lines: Vec<Line>,
    /// Runs that the schedule did not create, by time.
    pub triggers: Vec<Dispatched>,
    pub summary: Summary,
}

/// Fire times next to each other that share a fate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub first: DateTime<Utc>,
    /// The last of them, included.
    pub last: DateTime<Utc>,
    /// Number of fire times. Zero if the line is not about a fire time but about a part of the
    /// window.
    pub count: u64,
    /// Whether that number is exact.
    pub is_count_exact: bool,
    /// The version of the settings that names them; `None` if only a record does.
    pub version: Option<i64>,
    /// The fire time that a calendar moved here.
    pub moved_from: Option<DateTime<Utc>>,
    pub fate: Fate,
}

/// A pause, as an explanation of what it held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseInForce {
    pub since: DateTime<Utc>,
    /// The user who paused the job.
    pub by: String,
    pub reason: Option<String>,
    pub until: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Dispatched(Box<Dispatched>),
    /// It lies in a record of skipped fires.
    Skipped {
        skip: Box<Skip>,
        /// The pause, if the reason is a pause of the job.
        pause: Option<PauseInForce>,
    },
    /// No clock showed it, and the job does not shift it.
    Suppressed,
    /// It has passed and a calendar excludes it, which is recorded together with the next fire.
    Excluded,
    /// A calendar moves it to another instant, whose fate it shares.
    Moved {
        to: DateTime<Utc>,
    },
    Upcoming {
        /// Whether it will be skipped because the job is paused then.
        is_paused: bool,
        /// Whether it will be skipped because a calendar excludes it.
        is_excluded: bool,
    },
    /// It is due and the scheduler has not decided about it yet.
    Undecided {
        /// When it became due, or when the scheduler must decide again.
        since: DateTime<Utc>,
        /// The scheduler holds the job until then.
        held_until: Option<DateTime<Utc>>,
    },
    /// The job did not exist yet.
    NotCreated,
    /// No fire time, because the job was disabled.
    Disabled {
        /// `None` if no record has it.
        since: Option<DateTime<Utc>>,
        /// The user; `None` if the scheduler did it or no record has it.
        by: Option<String>,
    },
    /// No fire time, because the job had ended.
    Ended,
    /// Retention may have removed its record.
    Pruned,
    /// Its fate cannot be determined.
    Unclear {
        why: String,
    },
    /// It has two fates: a defect.
    TwoFates {
        dispatch: Box<Dispatched>,
        skip: Box<Skip>,
    },
    /// Its record is missing: a defect, or a lost record.
    Unaccounted,
}

/// Why there is no explanation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExplainError {
    /// The window has too many fire times.
    #[error("the window has more than {MAX_FIRE_TIMES} fire times; choose a shorter one")]
    TooMany,
    #[error("must be later than the beginning of the window")]
    NoWindow,
}
