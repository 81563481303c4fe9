//! The field form of a cron schedule: an object with any of `minute`, `hour`, `day`, `month`,
//! `day_of_week`, and of `second` if the caller sets seconds.
//!
//! As in `APScheduler`, omitted fields to the left of the least significant given one are `*`, and
//! those to its right are at their minimum. The order is month, day, day of week, hour, minute,
//! second; an omitted weekday is always `*`. Weekdays count from Monday = 0, and a day must match
//! both day fields. Two differences: a range may wrap, and `2nd fri` in `day` cannot be combined
//! with a `day_of_week`, which no crontab expression can state.

use sched_vocabulary::schedule::DayMatch;
use serde_json::{Map, Value};

use super::{
    super::error::ScheduleError,
    CronOptions, CronSpec, Fields,
    field::{Field, Reading},
    special_day::Special,
    split::BLANKS,
    values::{Kind, Weekdays},
};

/// Without seconds.
const FIELD_NAMES: [&str; 5] = ["minute", "hour", "day", "month", "day_of_week"];

/// From the most to the least significant; decides the meaning of an omitted field.
const SIGNIFICANCE: [Kind; 6] =
    [Kind::Month, Kind::Day, Kind::DayOfWeek, Kind::Hour, Kind::Minute, Kind::Second];

/// In the order of an expression.
pub const fn field_names(seconds: bool) -> &'static [&'static str] {
    if seconds { &["second", "minute", "hour", "day", "month", "day_of_week"] } else { &FIELD_NAMES }
}

impl CronSpec {
    /// Parses the field form without seconds, with the empty key for `H`.
    pub fn from_fields(object: &Map<String, Value>) -> Result<Self, ScheduleError> {
        Self::from_fields_with(object, &CronOptions::default())
    }

    /// Parses the field form. The caller must reject keys other than [`field_names`]; without
    /// `options.seconds` that includes `second`. Values are text or whole numbers.
    pub fn from_fields_with(
        object: &Map<String, Value>,
        options: &CronOptions<'_>,
    ) -> Result<Self, ScheduleError> {
        let reading = Reading { weekdays: Weekdays::FromMonday, hash_key: options.hash_key };
        let given = |kind: Kind| object.get(kind.name()).filter(|_| kind != Kind::Second || options.seconds);
        let least = SIGNIFICANCE.iter().rposition(|kind| given(*kind).is_some()).ok_or_else(|| {
            ScheduleError::invalid("expression", "is missing; give it, or at least one of the cron fields")
        })?;
        let read = |kind: Kind| {
            let right_of_least = SIGNIFICANCE.iter().position(|other| *other == kind) > Some(least);
            match given(kind) {
                Some(value) => read_field(kind, reading, value),
                None if right_of_least && kind != Kind::DayOfWeek => {
                    Field::parse(kind, reading, &kind.min().to_string())
                }
                None => Ok(Field::any(kind)),
            }
        };
        let mut fields = Fields {
            second: options.seconds.then(|| read(Kind::Second)).transpose()?,
            minute: read(Kind::Minute)?,
            hour: read(Kind::Hour)?,
            day: read(Kind::Day)?,
            month: read(Kind::Month)?,
            day_of_week: read(Kind::DayOfWeek)?,
            day_match: DayMatch::Both,
        };
        fields.set_day_match(options.day_match.unwrap_or(DayMatch::Both));
        fields.move_positions()?;
        Self::build(fields)
    }
}

impl Fields {
    /// Moves `2nd fri` from the day field (`APScheduler`) to the weekday field (crontab).
    fn move_positions(&mut self) -> Result<(), ScheduleError> {
        let (moved, kept): (Vec<Special>, Vec<Special>) =
            self.day.specials.iter().copied().partition(|special| special.is_weekday());
        self.day.specials = kept;
        if moved.is_empty() {
            return Ok(());
        }
        if self.restricts_both_days() {
            return Err(ScheduleError::invalid(
                Kind::Day.name(),
                "has a weekday and its position, so `day_of_week` would have to match too; leave that out, or set day_match to either",
            ));
        }
        if self.day_of_week.star {
            self.day_of_week = Field::none();
        }
        self.day_of_week.specials.extend(moved);
        self.day_of_week.specials.sort_unstable();
        self.day_of_week.specials.dedup();
        if self.day.is_empty() {
            self.day = Field::any(Kind::Day);
        }
        // Members of one field.
        self.set_day_match(DayMatch::Either);
        Ok(())
    }
}

fn read_field(kind: Kind, reading: Reading<'_>, value: &Value) -> Result<Field, ScheduleError> {
    let text = match value {
        Value::String(text) => text.trim_matches(BLANKS).to_owned(),
        Value::Number(number) if number.is_u64() => number.to_string(),
        _ => return Err(ScheduleError::invalid(kind.name(), "is neither text nor a whole number")),
    };
    if text.len() > super::MAX_EXPRESSION_LENGTH {
        return Err(ScheduleError::invalid(
            kind.name(),
            format!("is {} bytes long; at most {} are allowed", text.len(), super::MAX_EXPRESSION_LENGTH),
        ));
    }
    let items: Vec<&str> = text.split(',').map(|item| item.trim_matches(BLANKS)).collect();
    Field::parse(kind, reading, &items.join(","))
}
