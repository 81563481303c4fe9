//! The field form of a cron schedule: an object with any of `minute`, `hour`, `day`, `month`, `day_of_week`.
//!
//! It means what `APScheduler` means by it: of the fields left out, those to the left of the least significant one
//! given are `*` and those to its right are at their minimum, where the order is month, day, day of week, hour,
//! minute and a weekday left out is always `*`; weekdays count from Monday = 0. Two things are ours: a wrapping range
//! is read as in an expression, and where both day fields are restricted either matches.
//! Pure; an error names the field.

use serde_json::{Map, Value};

use super::{
    super::error::ScheduleError,
    CronSpec, Fields,
    field::{Field, Special},
    values::{Kind, ValueSet, Weekdays},
};

/// The names of the fields.
pub(in super::super) const FIELD_NAMES: [&str; 5] = ["minute", "hour", "day", "month", "day_of_week"];

/// From the most to the least significant, the order that decides what a field left out means.
const SIGNIFICANCE: [Kind; 5] = [Kind::Month, Kind::Day, Kind::DayOfWeek, Kind::Hour, Kind::Minute];

impl CronSpec {
    /// Reads the field form. Keys other than the five are the caller's to refuse. Values are text or whole numbers.
    pub fn from_fields(object: &Map<String, Value>) -> Result<Self, ScheduleError> {
        let given = |kind: Kind| object.get(kind.name());
        let least = SIGNIFICANCE.iter().rposition(|kind| given(*kind).is_some()).ok_or_else(|| {
            ScheduleError::invalid("expression", "is missing; give it, or at least one of the cron fields")
        })?;
        let read = |kind: Kind| {
            let right_of_least = SIGNIFICANCE.iter().position(|other| *other == kind) > Some(least);
            match given(kind) {
                Some(value) => read_field(kind, value),
                None if right_of_least && kind != Kind::DayOfWeek => {
                    Field::parse(kind, Weekdays::FromMonday, &kind.min().to_string())
                }
                None => Ok(Field::any(kind)),
            }
        };
        let mut fields = Fields {
            minute: read(Kind::Minute)?,
            hour: read(Kind::Hour)?,
            day: read(Kind::Day)?,
            month: read(Kind::Month)?,
            day_of_week: read(Kind::DayOfWeek)?,
        };
        fields.move_positions();
        Self::build(fields)
    }
}

impl Fields {
    /// Moves `2nd fri` from the day field, where `APScheduler` has it, to the weekday field, where crontab has it.
    fn move_positions(&mut self) {
        let (moved, kept): (Vec<Special>, Vec<Special>) =
            self.day.specials.iter().copied().partition(|special| special.is_weekday());
        self.day.specials = kept;
        if moved.is_empty() {
            return;
        }
        if self.day_of_week.star {
            self.day_of_week =
                Field { star: false, values: ValueSet::default(), ..Field::any(Kind::DayOfWeek) };
        }
        self.day_of_week.specials.extend(moved);
        self.day_of_week.specials.sort_unstable();
        self.day_of_week.specials.dedup();
        if self.day.values.is_empty() && self.day.specials.is_empty() {
            self.day = Field::any(Kind::Day);
        }
    }
}

fn read_field(kind: Kind, value: &Value) -> Result<Field, ScheduleError> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) if number.is_u64() => number.to_string(),
        _ => return Err(ScheduleError::invalid(kind.name(), "is neither text nor a whole number")),
    };
    if text.len() > super::MAX_EXPRESSION_LENGTH {
        return Err(ScheduleError::invalid(
            kind.name(),
            format!("is {} bytes long; at most {} are allowed", text.len(), super::MAX_EXPRESSION_LENGTH),
        ));
    }
    let items: Vec<&str> = text.split(',').map(str::trim).collect();
    Field::parse(kind, Weekdays::FromMonday, &items.join(","))
}
