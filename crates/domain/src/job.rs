//! Jobs: their settings, the validation, and the policies for their fires.
//!
//! [`JobSettings::check`] returns all mistakes at once. The write checks the facts that only the
//! database knows (does the function exist?).

pub mod dependency;
mod run_details;
mod schedule_text;
pub mod template;

pub use super::name::check_name;
pub use run_details::RunDetails;
pub use sched_vocabulary::job::{MisfireKind, Scope};
pub use sched_vocabulary::schedule::OverlapPolicy;
pub use schedule_text::schedule_text;
use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::dependency::{After, AfterMode};
use super::FieldError;
use super::attempt::retry::RetryPolicy;
use super::ids::TenantId;
use sched_timetable::{
    Calendar, CalendarRoll, DstGap, DstOverlap, JobType, ScheduleError, ScheduleSource, Timetable,
    TimetableSource, hash_key,
};

/// The first of January of the year 2.
const LONG_AGO: DateTime<Utc> = match DateTime::from_timestamp(-62_104_060_800, 0) {
    Some(at) => at,
    None => panic!("chrono has the year 2"),
};

pub const MAX_JITTER_SECONDS: i32 = 24 * 3600;

pub const MAX_CALENDARS: usize = 10;

pub const MAX_TIMEOUT_SECONDS: i32 = 7 * 24 * 3600;

pub const MAX_START_WITHIN_SECONDS: i32 = 30 * 24 * 3600;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobSettings {
    /// Unique in the tenant.
    pub name: String,
    pub description: String,
    pub scope: Scope,
    /// `Some` exactly when the scope is `project`.
    pub project: Option<String>,
    /// Name of the task function it runs.
    pub function: String,
    /// An object.
    pub task_args: serde_json::Value,
    pub job_type: JobType,
    pub schedule_config: serde_json::Value,
    /// IANA zone of wall-clock times.
    pub timezone: String,
    pub dst_gap: Option<DstGap>,
    pub dst_overlap: Option<DstOverlap>,
    /// No fire before this instant.
    #[serde(default)]
    pub start_at: Option<DateTime<Utc>>,
    /// No fire at or after this instant.
    #[serde(default)]
    pub end_at: Option<DateTime<Utc>>,
    #[serde(default)]
    pub max_runs: Option<i64>,
    /// Longest delay of a dispatch after its fire time.
    #[serde(default)]
    pub jitter_seconds: i32,
    #[serde(default)]
    pub calendars: Vec<String>,
    #[serde(default)]
    pub calendar_roll: CalendarRoll,
    /// Expected duration of a run, in seconds; for simulations.
    #[serde(default)]
    pub expected_duration_seconds: Option<i32>,
    #[serde(default)]
    pub after: Vec<After>,
    #[serde(default)]
    pub after_mode: AfterMode,
    pub misfire_policy: MisfireKind,
    /// How late a fire may be and still be on time, in seconds.
    pub misfire_grace_seconds: Option<i32>,
    pub misfire_cap: i32,
    /// Open dispatches before `overlap_policy` applies.
    pub max_instances: i32,
    pub overlap_policy: OverlapPolicy,
    /// `None` for the function's.
    pub queue: Option<String>,
    /// Priority of its dispatches, 0 first to 100 last; `None` for the queue's.
    pub priority: Option<i16>,
    /// `None` for the function's.
    pub timeout_seconds: Option<i32>,
    /// Longest wait of an available dispatch for its first attempt, in seconds; then it expires.
    /// `None`: for ever.
    #[serde(default)]
    pub start_within_seconds: Option<i32>,
    /// `None` for the function's.
    pub retry_policy: Option<RetryPolicy>,
    /// Whether the schedule fires.
    pub is_enabled: bool,
}

impl JobSettings {
    /// The timetable of a job of `tenant` that was created at `created_at` and names `calendars`.
    ///
    /// # Errors
    /// The settings describe no timetable.
    pub fn timetable(
        &self,
        tenant: TenantId,
        created_at: DateTime<Utc>,
        calendars: &[Calendar],
    ) -> Result<Timetable, ScheduleError> {
        Timetable::parse(&TimetableSource {
            schedule: ScheduleSource {
                job_type: self.job_type,
                config: &self.schedule_config,
                timezone: &self.timezone,
                dst_gap: self.dst_gap,
                dst_overlap: self.dst_overlap,
                created_at,
                hash_key: &hash_key(tenant.0, &self.name),
            },
            start_at: self.start_at,
            end_at: self.end_at,
            calendars,
            roll: self.calendar_roll,
        })
    }

    /// The first fire at or after the end of a pause; fires before it are skipped. `None` also for a
    /// schedule that cannot be computed, which the scheduler reports.
    #[must_use]
    pub fn first_fire_after_pause(
        &self,
        (tenant, created_at): (TenantId, DateTime<Utc>),
        calendars: &[Calendar],
        until: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        let before = until.checked_sub_signed(TimeDelta::microseconds(1))?;
        self.timetable(tenant, created_at, calendars).ok()?.next_after(before).ok()?
    }

    /// Whether two settings fire at the same times, given the same calendars, tenant and time of
    /// creation.
    #[must_use]
    pub fn has_same_timetable(&self, other: &Self) -> bool {
        // `H` in a cron expression is computed from the name.
        self.name == other.name
            && self.job_type == other.job_type
            && self.schedule_config == other.schedule_config
            && self.timezone == other.timezone
            && self.dst_gap == other.dst_gap
            && self.dst_overlap == other.dst_overlap
            && self.start_at == other.start_at
            && self.end_at == other.end_at
            && self.max_runs == other.max_runs
            && self.calendars == other.calendars
            && self.calendar_roll == other.calendar_roll
    }

    /// Every mistake; empty for valid settings.
    #[must_use]
    pub fn check(&self) -> Vec<FieldError> {
        let mut found = Vec::new();
        let mut wrong =
            |field: &str, message: String| found.push(FieldError { field: field.to_owned(), message });
        if let Err(message) = check_name(&self.name, 200) {
            wrong("name", message);
        }
        if self.description.chars().count() > 2000 {
            wrong("description", "must be no longer than 2000 characters".into());
        }
        match (self.scope, &self.project) {
            (Scope::Project, None) => wrong("project", "is required for jobs of scope project".into()),
            (Scope::BackupInfrastructure | Scope::System, Some(_)) => {
                wrong("project", format!("must be absent for jobs of scope {}", self.scope));
            }
            _ => {}
        }
        if !self.task_args.is_object() {
            wrong("task_args", "must be an object".into());
        }
        for error in self.timetable_mistakes() {
            wrong(error.field(), error.message().to_owned());
        }
        self.check_calendars(&mut wrong);
        if let Some(runs) = self.max_runs.filter(|runs| *runs < 1) {
            wrong("max_runs", format!("must be at least 1, not {runs}"));
        }
        range(&mut wrong, "jitter_seconds", Some(self.jitter_seconds), 0..=MAX_JITTER_SECONDS);
        range(
            &mut wrong,
            "expected_duration_seconds",
            self.expected_duration_seconds,
            1..=MAX_TIMEOUT_SECONDS,
        );
        range(&mut wrong, "misfire_grace_seconds", self.misfire_grace_seconds, 1..=MAX_TIMEOUT_SECONDS);
        range(&mut wrong, "misfire_cap", Some(self.misfire_cap), 1..=10_000);
        range(&mut wrong, "max_instances", Some(self.max_instances), 1..=10_000);
        range(&mut wrong, "priority", self.priority.map(i32::from), 0..=100);
        range(&mut wrong, "timeout_seconds", self.timeout_seconds, 1..=MAX_TIMEOUT_SECONDS);
        range(&mut wrong, "start_within_seconds", self.start_within_seconds, 1..=MAX_START_WITHIN_SECONDS);
        for (field, message) in self.retry_policy.iter().flat_map(RetryPolicy::mistakes) {
            wrong(&format!("retry_policy.{field}"), message);
        }
        found.extend(dependency::mistakes(&self.name, &self.after, self.after_mode));
        found
    }

    /// The first mistake hides further ones from one reading, so zone, schedule and bounds are also
    /// read beside sound values.
    fn timetable_mistakes(&self) -> Vec<ScheduleError> {
        // Tenant and instant only shift fires; they do not affect validity.
        let read = |settings: &Self| {
            settings.timetable(TenantId(Uuid::nil()), DateTime::<Utc>::UNIX_EPOCH, &[]).err()
        };
        let Some(first) = read(self) else { return Vec::new() };
        let of_schedule = Self { timezone: "UTC".to_owned(), start_at: None, end_at: None, ..self.clone() };
        let sound = Self {
            job_type: JobType::Interval,
            schedule_config: serde_json::json!({"seconds": 60}),
            dst_gap: None,
            dst_overlap: None,
            ..self.clone()
        };
        let of_zone = Self { start_at: None, end_at: None, ..sound.clone() };
        let of_bounds = Self { timezone: "UTC".to_owned(), ..sound };
        let mut found = vec![first];
        for other in [of_schedule, of_zone, of_bounds].iter().filter_map(read) {
            if found.iter().all(|known| known.field() != other.field()) {
                found.push(other);
            }
        }
        found
    }

    fn check_calendars(&self, wrong: &mut impl FnMut(&str, String)) {
        if self.calendars.len() > MAX_CALENDARS {
            wrong(
                "calendars",
                format!("names {}; at most {MAX_CALENDARS} are allowed", self.calendars.len()),
            );
        }
        for (index, name) in self.calendars.iter().enumerate() {
            if let Err(message) = check_name(name, 100) {
                wrong(&format!("calendars.{index}"), message);
            } else if self.calendars.iter().take(index).any(|earlier| earlier == name) {
                wrong(&format!("calendars.{index}"), format!("names {name:?} again"));
            }
        }
        if self.calendars.is_empty() && self.calendar_roll != CalendarRoll::Skip {
            wrong("calendar_roll", "has no meaning without calendars; name one or leave it out".into());
        }
    }

    /// The first cursor of a schedule that takes effect at `now`. A one-off keeps its instant even
    /// if that has passed, so that the misfire policy decides about it.
    ///
    /// # Errors
    /// The next fire time cannot be computed.
    pub fn first_cursor(
        timetable: &Timetable,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        let from = if timetable.is_list() { LONG_AGO } else { now };
        match timetable.next_after(from)? {
            Some(first) => Ok(Some(first)),
            None => timetable.last_visit(now),
        }
    }
}

/// A number of seconds from the database as a duration; zero if it is not positive.
#[must_use]
pub fn seconds(value: i32) -> Duration {
    Duration::from_secs(u64::try_from(value).unwrap_or(0))
}

fn range(
    wrong: &mut impl FnMut(&str, String),
    field: &str,
    value: Option<i32>,
    allowed: RangeInclusive<i32>,
) {
    if let Some(value) = value.filter(|value| !allowed.contains(value)) {
        let (low, high) = allowed.into_inner();
        wrong(field, format!("must be between {low} and {high}, not {value}"));
    }
}

#[cfg(test)]
mod tests;
