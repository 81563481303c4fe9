//! A job's schedule as stored and sent: `schedule_config`, the time zone and the daylight-saving
//! choices.
//!
//! One schedule, or several of the same kind in `any_of`. An unknown field is rejected. Pure; every
//! error has the path of the field.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use sched_vocabulary::schedule::{DayMatch, DstGap, DstOverlap, JobType};

use super::{
    CronSchedule, Schedule,
    cron::{self, CronOptions, CronSpec},
    error::{QuotedText, ScheduleError},
    interval::{Interval, Period},
    zone::Zone,
};

const CONFIG: &str = "schedule_config";
const DAY_MATCH: &str = "day_match";
const PERIOD_FIELDS: [&str; 5] = ["weeks", "days", "hours", "minutes", "seconds"];

pub(super) const ANY_OF: &str = "any_of";

/// A schedule without a fire after this instant has no future fires.
const PROBE: DateTime<Utc> = match DateTime::from_timestamp(4_102_444_800, 0) {
    Some(at) => at,
    None => panic!("chrono has the year 2100"),
};

const MOST_MEMBERS: usize = 20;

#[derive(Debug, Clone, Copy)]
pub struct ScheduleSource<'a> {
    /// Decides the content of `config`.
    pub job_type: JobType,
    pub config: &'a Value,
    pub timezone: &'a str,
    /// `None` means the default of the schedule.
    pub dst_gap: Option<DstGap>,
    /// `None` means the default of the schedule.
    pub dst_overlap: Option<DstOverlap>,
    /// The anchor of an interval that names none.
    pub created_at: DateTime<Utc>,
    /// For `H` in a cron expression: [`hash_key()`] of a job, or any text for an example.
    pub hash_key: &'a str,
}

/// The hash key for the `H` of a job's cron expression.
///
/// It has the name, so that a job that is deleted and created again keeps its times. It has the
/// tenant, so that jobs of many tenants with a common name do not all run in one minute.
pub fn hash_key(tenant: uuid::Uuid, job_name: &str) -> String {
    format!("{tenant}/{job_name}")
}

pub(super) fn parse(source: &ScheduleSource<'_>) -> Result<Schedule, ScheduleError> {
    let zone = Zone::parse(source.timezone)?;
    let Value::Object(config) = source.config else {
        return Err(ScheduleError::invalid(CONFIG, "is not an object"));
    };
    let reader = Reader { source, zone: &zone };
    let Some(members) = config.get(ANY_OF) else {
        return reader.read(config, &FieldPath(CONFIG.to_owned()));
    };
    let place = FieldPath(CONFIG.to_owned());
    place.refuse_unknown(config, &[ANY_OF])?;
    let members = members.as_array().map(Vec::as_slice).unwrap_or_default();
    if members.is_empty() || members.len() > MOST_MEMBERS || source.job_type == JobType::Manual {
        return Err(ScheduleError::invalid(
            place.field(ANY_OF),
            format!("must be a list of 1 to {MOST_MEMBERS} schedules, each of the kind that job_type names"),
        ));
    }
    let members = members.iter().enumerate().map(|(index, member)| {
        let place = FieldPath(place.field(&format!("{ANY_OF}.{index}")));
        match member {
            Value::Object(member) => reader.read(member, &place),
            _ => Err(ScheduleError::invalid(place.0, "is not an object")),
        }
    });
    members.collect::<Result<_, _>>().map(Schedule::Union)
}

struct FieldPath(String);

impl FieldPath {
    fn field(&self, name: &str) -> String {
        format!("{}.{name}", self.0)
    }

    fn refuse_unknown(&self, config: &Map<String, Value>, known: &[&str]) -> Result<(), ScheduleError> {
        let Some(unknown) = config.keys().find(|key| !known.contains(&key.as_str())) else { return Ok(()) };
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(ScheduleError::invalid(
            self.0.clone(),
            format!("{} is not a field of this kind of schedule; allowed are {known}", QuotedText(unknown)),
        ))
    }

    fn day_match(&self, config: &Map<String, Value>) -> Result<Option<DayMatch>, ScheduleError> {
        let Some(value) = config.get(DAY_MATCH) else { return Ok(None) };
        let known = value.as_str().and_then(|text| text.parse().ok());
        known.map(Some).ok_or_else(|| {
            ScheduleError::invalid(
                self.field(DAY_MATCH),
                "is neither `either` nor `both`; it selects the days that match if `day` and `day_of_week` are both restricted",
            )
        })
    }

    /// Truncated to the microsecond.
    fn instant(
        &self,
        config: &Map<String, Value>,
        field: &str,
    ) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        let Some(value) = config.get(field) else { return Ok(None) };
        let text = value.as_str().unwrap_or_default();
        match DateTime::parse_from_rfc3339(text) {
            Ok(at) => Ok(Some(super::whole_microseconds(at.to_utc()))),
            Err(error) => Err(ScheduleError::invalid(
                self.field(field),
                format!(
                    "is not a valid time ({error}); write RFC 3339 with an offset, such as `2030-01-31T09:00:00Z`, not {}",
                    QuotedText(&value.to_string())
                ),
            )),
        }
    }
}

struct Reader<'a> {
    source: &'a ScheduleSource<'a>,
    zone: &'a Zone,
}

impl Reader<'_> {
    fn read(&self, config: &Map<String, Value>, place: &FieldPath) -> Result<Schedule, ScheduleError> {
        match self.source.job_type {
            JobType::Cron => {
                let spec = self.cron_spec(config, place)?;
                let Self { source, zone } = self;
                let cron = CronSchedule::new(spec, (*zone).clone(), source.dst_gap, source.dst_overlap);
                match cron.next_after(PROBE)? {
                    Some(_) => Ok(Schedule::Cron(cron)),
                    None => Err(ScheduleError::NeverFires {
                        field: place.0.clone(),
                        message: format!(
                            "`{}` never fires: in {zone} clocks skip all its times; set dst_gap to `shift` or choose another time",
                            cron.spec()
                        ),
                    }),
                }
            }
            JobType::Interval => self.interval(config, place).map(Schedule::Interval),
            JobType::OneOff => {
                place.refuse_unknown(config, &["run_at"])?;
                let at = place.instant(config, "run_at")?;
                at.map(Schedule::OneOff).ok_or_else(|| {
                    ScheduleError::invalid(
                        place.field("run_at"),
                        "is missing; give an instant such as `2030-01-31T09:00:00Z`",
                    )
                })
            }
            JobType::Manual => {
                place.refuse_unknown(config, &[])?;
                Ok(Schedule::Manual)
            }
        }
    }

    fn cron_spec(&self, config: &Map<String, Value>, place: &FieldPath) -> Result<CronSpec, ScheduleError> {
        let Some(expression) = config.get("expression") else { return self.cron_fields(config, place) };
        if let Some(field) = config.keys().find(|key| cron::field_names(true).contains(&key.as_str())) {
            return Err(ScheduleError::invalid(
                place.field(field),
                "cannot be combined with `expression`; give one or the other",
            ));
        }
        place.refuse_unknown(config, &["expression", "seconds", DAY_MATCH])?;
        let seconds = match config.get("seconds") {
            None => false,
            Some(Value::Bool(seconds)) => *seconds,
            Some(_) => {
                return Err(ScheduleError::invalid(
                    place.field("seconds"),
                    "is neither true nor false; true means that the expression has six fields, the first being the second",
                ));
            }
        };
        let Value::String(text) = expression else {
            return Err(ScheduleError::invalid(place.field("expression"), "is not text"));
        };
        let day_match = place.day_match(config)?;
        let options = CronOptions { hash_key: self.source.hash_key, seconds, day_match };
        CronSpec::parse_with(text, &options).map_err(|error| {
            error.relocated(|field, message| {
                let message = if field == "expression" { message } else { format!("{field} {message}") };
                (place.field("expression"), message)
            })
        })
    }

    /// A given second implies seconds.
    fn cron_fields(&self, config: &Map<String, Value>, place: &FieldPath) -> Result<CronSpec, ScheduleError> {
        place
            .refuse_unknown(config, &[&["expression"][..], cron::field_names(true), &[DAY_MATCH]].concat())?;
        let options = CronOptions {
            hash_key: self.source.hash_key,
            seconds: config.contains_key("second"),
            day_match: place.day_match(config)?,
        };
        CronSpec::from_fields_with(config, &options)
            .map_err(|error| error.relocated(|field, message| (place.field(&field), message)))
    }

    fn interval(&self, config: &Map<String, Value>, place: &FieldPath) -> Result<Interval, ScheduleError> {
        place.refuse_unknown(config, &[&PERIOD_FIELDS[..], &["anchor"]].concat())?;
        let part = |field: &str| match config.get(field) {
            None => Ok(0),
            Some(value) => value.as_u64().and_then(|number| u32::try_from(number).ok()).ok_or_else(|| {
                ScheduleError::invalid(
                    place.field(field),
                    format!("is not a whole number from 0 to {}", u32::MAX),
                )
            }),
        };
        let period = Period {
            weeks: part("weeks")?,
            days: part("days")?,
            hours: part("hours")?,
            minutes: part("minutes")?,
            seconds: part("seconds")?,
        };
        let anchor = place.instant(config, "anchor")?.unwrap_or(self.source.created_at);
        Interval::new(period, anchor, self.zone).ok_or_else(|| {
            ScheduleError::invalid(
                place.0.clone(),
                format!(
                    "adds up to {} seconds; the sum of {} must be from 1 second to {} days",
                    period.total().num_seconds(),
                    PERIOD_FIELDS.join(", "),
                    Period::LONGEST.num_days()
                ),
            )
        })
    }
}
