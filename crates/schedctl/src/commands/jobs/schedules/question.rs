//! A query about a schedule, its answer, and errors in the terms of the caller. Pure.

use chrono::{DateTime, Utc};
use sched_model::domain::ids::DEFAULT_TENANT;
use sched_model::domain::timetable::{
    CronOptions, CronSpec, DayMatch, DstGap, DstOverlap, JobType, Preview, ScheduleError, ScheduleSource,
    hash_key,
};
use serde::Serialize;
use serde_json::{Map, Value};

const SECONDS_IN_CONFIG: &str = "set `\"seconds\": true` beside the expression";

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) timezone: String,
    pub(super) after: DateTime<Utc>,
    pub(super) count: usize,
    pub(super) dst_gap: Option<DstGap>,
    pub(super) dst_overlap: Option<DstOverlap>,
    /// For `H`.
    pub(super) job: Option<String>,
    pub(super) seconds: bool,
    pub(super) day_match: Option<DayMatch>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Names {
    pub(super) schedule: &'static str,
    pub(super) timezone: &'static str,
}

#[derive(Debug)]
pub(super) struct Question {
    pub(super) job_type: JobType,
    pub(super) config: Value,
    pub(super) settings: Settings,
    pub(super) names: Names,
}

#[derive(Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{field}: {message}")]
pub(super) struct Mistake {
    pub(super) field: String,
    /// Includes the accepted values.
    pub(super) message: String,
}

impl Mistake {
    /// `text` begins with the name of its flag.
    pub(super) fn from_text(text: &str) -> Self {
        let (field, message) = text.split_once(": ").unwrap_or(("--at", text));
        Self::new(field, message)
    }

    pub(super) fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

impl Question {
    /// An interval without an anchor counts from the start of the preview.
    pub(super) fn answer(&self) -> Result<Preview, Mistake> {
        let Settings { timezone, after, count, dst_gap, dst_overlap, job, .. } = &self.settings;
        let source = ScheduleSource {
            job_type: self.job_type,
            config: &self.config,
            timezone,
            dst_gap: *dst_gap,
            dst_overlap: *dst_overlap,
            created_at: *after,
            hash_key: &hash_key_of(job.as_deref()),
        };
        Preview::of(&source.into(), *after, *count).map_err(|error| self.mistake(&error))
    }

    fn mistake(&self, error: &ScheduleError) -> Mistake {
        if error.field() == "timezone" {
            return Mistake::new(self.names.timezone, error.message());
        }
        let Some(field) = error.field().strip_prefix("schedule_config.") else {
            return Mistake::new(self.names.schedule, error.message());
        };
        // Parsed separately, the expression reports the wrong field.
        let expression = self.config.get("expression").and_then(Value::as_str);
        let seconds = self.config.get("seconds") == Some(&Value::Bool(true));
        let key = hash_key_of(self.settings.job.as_deref());
        let day_match = self.config.get("day_match").and_then(Value::as_str);
        // Valid, or the mistake would be that of the day match.
        let day_match = day_match.and_then(|text| text.parse().ok());
        let parse = |text| CronSpec::parse_with(text, &CronOptions { hash_key: &key, seconds, day_match });
        match expression.filter(|_| field == "expression").map(parse) {
            Some(Err(inner)) if self.names.schedule == "--cron" => Mistake::new(
                self.names.part(inner.field()),
                inner.message().replace(SECONDS_IN_CONFIG, "give --seconds"),
            ),
            Some(Err(inner)) => Mistake::new(self.names.part(inner.field()), inner.message()),
            _ => Mistake::new(self.names.part(field), error.message()),
        }
    }
}

impl Names {
    /// In parentheses after a flag, as a path after the key of an object.
    fn part(self, field: &str) -> String {
        match self.schedule {
            flag if flag.starts_with("--") => format!("{flag} ({field})"),
            key if field == "expression" => key.to_owned(),
            key => format!("{key}.{field}"),
        }
    }
}

/// The job name in the default tenant; without a name, an example.
fn hash_key_of(job: Option<&str>) -> String {
    job.map(|name| hash_key(DEFAULT_TENANT.0, name)).unwrap_or_default()
}

pub(in crate::commands) fn cron_config(
    expression: &str,
    seconds: bool,
    day_match: Option<DayMatch>,
) -> Value {
    let mut config = Map::new();
    config.insert("expression".to_owned(), expression.into());
    if seconds {
        config.insert("seconds".to_owned(), true.into());
    }
    if let Some(day_match) = day_match {
        config.insert("day_match".to_owned(), day_match.as_str().into());
    }
    Value::Object(config)
}
