//! Jobs: their settings, the validation, and the policies for their fires.
//!
//! [`JobSettings::check`] returns all mistakes at once. The write checks the facts that only the
//! database knows (does the function exist?).

pub mod dependency;
pub mod template;

pub use super::name::check_name;
pub use sched_vocabulary::job::{MisfireKind, Scope};
pub use sched_vocabulary::schedule::OverlapPolicy;
use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, Utc};
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
        // Tenant and instant only shift fires; they do not affect validity.
        if let Err(error) = self.timetable(TenantId(Uuid::nil()), DateTime::<Utc>::UNIX_EPOCH, &[]) {
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
mod tests {
    use serde_json::json;

    use super::*;
    use sched_timetable::Schedule;

    fn settings() -> JobSettings {
        JobSettings {
            name: "nightly".into(),
            description: String::new(),
            scope: Scope::Project,
            project: Some("default".into()),
            function: "dump".into(),
            task_args: json!({}),
            job_type: JobType::Cron,
            schedule_config: json!({"expression": "0 2 * * *"}),
            timezone: "UTC".into(),
            dst_gap: None,
            dst_overlap: None,
            start_at: None,
            end_at: None,
            max_runs: None,
            jitter_seconds: 0,
            calendars: Vec::new(),
            calendar_roll: CalendarRoll::Skip,
            expected_duration_seconds: None,
            after: Vec::new(),
            after_mode: AfterMode::All,
            misfire_policy: MisfireKind::FireOnce,
            misfire_grace_seconds: None,
            misfire_cap: 100,
            max_instances: 1,
            overlap_policy: OverlapPolicy::Skip,
            queue: None,
            priority: None,
            timeout_seconds: None,
            start_within_seconds: None,
            retry_policy: None,
            is_enabled: true,
        }
    }

    #[test]
    fn valid_settings_have_no_mistakes() {
        assert_eq!(settings().check(), []);
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        let bad = JobSettings {
            name: "Nightly Job".into(),
            project: None,
            task_args: json!([1]),
            schedule_config: json!({"expression": "61 * * * *"}),
            max_instances: 0,
            priority: Some(101),
            timeout_seconds: Some(0),
            start_within_seconds: Some(0),
            retry_policy: Some(RetryPolicy { max_attempts: 0, ..RetryPolicy::standard(1) }),
            after_mode: AfterMode::Any,
            ..settings()
        };
        let fields: Vec<String> = bad.check().into_iter().map(|error| error.field).collect();
        assert_eq!(fields.len(), 10, "{fields:?}");
        for expected in [
            "name",
            "project",
            "task_args",
            "max_instances",
            "priority",
            "timeout_seconds",
            "start_within_seconds",
            "retry_policy.max_attempts",
            "after_mode",
        ] {
            assert!(fields.iter().any(|field| field == expected), "{expected} in {fields:?}");
        }
        assert!(fields.iter().any(|field| field.starts_with("schedule_config")), "{fields:?}");
    }

    #[test]
    fn a_one_off_in_the_past_keeps_its_instant() {
        let at: DateTime<Utc> = "2020-01-01T00:00:00Z".parse().unwrap();
        let now = at + chrono::TimeDelta::days(1000);
        assert_eq!(JobSettings::first_cursor(&Schedule::OneOff(at).into(), now), Ok(Some(at)));
        assert_eq!(JobSettings::first_cursor(&Schedule::Manual.into(), now), Ok(None));
    }

    #[test]
    fn earliest_past_one_off_is_kept() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let several = JobSettings {
            job_type: JobType::OneOff,
            schedule_config: json!({"any_of": [
                {"run_at": "2026-04-01T09:00:00Z"}, {"run_at": "2026-03-01T09:00:00Z"},
            ]}),
            ..settings()
        };
        let now = at("2026-03-01T10:00:00Z");
        let timetable = several.timetable(TenantId(Uuid::nil()), now, &[]).unwrap();
        assert_eq!(JobSettings::first_cursor(&timetable, now), Ok(Some(at("2026-03-01T09:00:00Z"))));
    }
}
