//! A job's schedule as it is stored and sent: `schedule_config`, the time zone and the daylight-saving choices.
//!
//! Responsible for shapes, types and names of fields; what they mean is each schedule's own module. A field nobody
//! knows is refused, so that a misspelt one cannot be ignored. Pure; every error carries the path of the field.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::{
    CronSchedule, Schedule,
    cron::{self, CronSpec},
    error::{Quoted, ScheduleError},
    interval::{Interval, Period},
    names::{DstGap, DstOverlap, JobType},
    zone::Zone,
};

const CONFIG: &str = "schedule_config";
const PERIOD_FIELDS: [&str; 5] = ["weeks", "days", "hours", "minutes", "seconds"];

/// What a schedule is read from: the columns of a job that say when it fires.
#[derive(Debug, Clone, Copy)]
pub struct ScheduleSource<'a> {
    /// The kind, which decides what `config` may hold.
    pub job_type: JobType,
    /// `schedule_config`: an object.
    pub config: &'a Value,
    /// IANA name of the zone in which wall-clock times are read.
    pub timezone: &'a str,
    /// What becomes of wall-clock times that do not exist; `None` leaves it to the schedule.
    pub dst_gap: Option<DstGap>,
    /// What becomes of wall-clock times that occur twice; `None` leaves it to the schedule.
    pub dst_overlap: Option<DstOverlap>,
    /// When the job was created: the anchor of an interval that names none.
    pub created_at: DateTime<Utc>,
}

pub(super) fn parse(source: &ScheduleSource<'_>) -> Result<Schedule, ScheduleError> {
    let zone = Zone::parse(source.timezone)?;
    let Value::Object(config) = source.config else {
        return Err(ScheduleError::invalid(CONFIG, "is not an object"));
    };
    match source.job_type {
        JobType::Cron => {
            let spec = cron_spec(config)?;
            Ok(Schedule::Cron(CronSchedule::new(spec, zone, source.dst_gap, source.dst_overlap)))
        }
        JobType::Interval => interval(config, source.created_at, &zone).map(Schedule::Interval),
        JobType::OneOff => {
            refuse_unknown(config, &["run_at"])?;
            let at = instant(config, "run_at")?;
            at.map(Schedule::OneOff).ok_or_else(|| {
                ScheduleError::invalid(
                    path("run_at"),
                    "is missing; give an instant such as `2030-01-31T09:00:00Z`",
                )
            })
        }
        JobType::Manual => {
            refuse_unknown(config, &[])?;
            Ok(Schedule::Manual)
        }
    }
}

fn path(field: &str) -> String {
    format!("{CONFIG}.{field}")
}

fn refuse_unknown(config: &Map<String, Value>, known: &[&str]) -> Result<(), ScheduleError> {
    let Some(unknown) = config.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Err(ScheduleError::invalid(
        CONFIG,
        format!("{} is no field of this kind of schedule; allowed are {known}", Quoted(unknown)),
    ))
}

fn cron_spec(config: &Map<String, Value>) -> Result<CronSpec, ScheduleError> {
    let Some(expression) = config.get("expression") else {
        refuse_unknown(config, &[&["expression"][..], &cron::FIELD_NAMES].concat())?;
        return CronSpec::from_fields(config)
            .map_err(|error| error.relocated(|field, message| (path(&field), message)));
    };
    if let Some(field) = config.keys().find(|key| cron::FIELD_NAMES.contains(&key.as_str())) {
        return Err(ScheduleError::invalid(path(field), "stands beside `expression`; give one or the other"));
    }
    refuse_unknown(config, &["expression"])?;
    let Value::String(text) = expression else {
        return Err(ScheduleError::invalid(path("expression"), "is not text"));
    };
    CronSpec::parse(text).map_err(|error| {
        error.relocated(|field, message| {
            let message = if field == "expression" { message } else { format!("{field} {message}") };
            (path("expression"), message)
        })
    })
}

fn interval(
    config: &Map<String, Value>,
    created_at: DateTime<Utc>,
    zone: &Zone,
) -> Result<Interval, ScheduleError> {
    refuse_unknown(config, &[&PERIOD_FIELDS[..], &["anchor"]].concat())?;
    let part = |field: &str| match config.get(field) {
        None => Ok(0),
        Some(value) => value.as_u64().and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
            ScheduleError::invalid(path(field), format!("is not a whole number from 0 to {}", u32::MAX))
        }),
    };
    let period = Period {
        weeks: part("weeks")?,
        days: part("days")?,
        hours: part("hours")?,
        minutes: part("minutes")?,
        seconds: part("seconds")?,
    };
    let anchor = instant(config, "anchor")?.unwrap_or(created_at);
    Interval::new(period, anchor, zone).ok_or_else(|| {
        ScheduleError::invalid(
            CONFIG,
            format!(
                "adds up to {} seconds; the sum of {} must be from 1 second to {} days",
                period.total().num_seconds(),
                PERIOD_FIELDS.join(", "),
                Period::LONGEST.num_days()
            ),
        )
    })
}

/// An RFC 3339 instant, cut to the microsecond.
fn instant(config: &Map<String, Value>, field: &str) -> Result<Option<DateTime<Utc>>, ScheduleError> {
    let Some(value) = config.get(field) else { return Ok(None) };
    let text = value.as_str().unwrap_or_default();
    match DateTime::parse_from_rfc3339(text) {
        Ok(at) => Ok(Some(super::whole_microseconds(at.to_utc()))),
        Err(error) => Err(ScheduleError::invalid(
            path(field),
            format!(
                "is no instant ({error}); write RFC 3339 with an offset, such as `2030-01-31T09:00:00Z`, not {}",
                Quoted(&value.to_string())
            ),
        )),
    }
}
