//! Cron: wall-clock times named by a crontab expression, or by its field form.
//!
//! Responsible for the dialect users write and for the next matching wall-clock time. Knows no zone: what a
//! wall-clock time means in a zone is `wall_clock`'s. The text is read by our own parser (`field`) and handed to the
//! saffron engine as explicit values only (`engine`), so none of that engine's parsing faults can be met.
//!
//! The dialect: five fields `minute hour day month day_of_week`; 0 and 7 are Sunday, 1 is Monday; names in any case;
//! lists, ranges, steps; a range whose start is greater than its end goes round (`22-2` is 22, 23, 0, 1, 2);
//! `?` is `*`; `L`, `L-n`, `LW`, `nW`, `n#k`, `nL`, each also in a list; nicknames. Where both day fields are
//! restricted, a day that matches either matches; `*/1` is `*`, every other step restricts. `nW` is a day of months
//! that have a day n: `31W` skips April instead of moving to its end, which is what `LW` is for.
//!
//! A `CronSpec` is immutable and freely shared. Parsing fails with the field, the offending text and what is allowed;
//! `next_naive` does not panic and is bounded, and an engine that misbehaves all the same becomes an error.

mod engine;
#[cfg(test)]
mod engine_faults;
mod field;
mod field_form;
mod pitfalls;
mod values;
mod words;

use std::{fmt, str::FromStr};

use chrono::NaiveDateTime;

use self::{
    engine::Engine,
    field::Field,
    values::{Kind, Weekdays},
};
use super::error::{Quoted, ScheduleError};

pub(super) use field_form::FIELD_NAMES;
pub(super) use pitfalls::pitfalls;
pub(super) use words::enumeration;

/// Longest expression accepted, in bytes.
pub const MAX_EXPRESSION_LENGTH: usize = 256;

/// The field name that errors about an expression as a whole carry.
const EXPRESSION: &str = "expression";

const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// A cron expression, checked and ready to be asked for its next time.
///
/// Two are equal when their normal text is.
#[derive(Clone)]
pub struct CronSpec {
    canonical: String,
    wildcard_time: bool,
    /// Boxed, for it is needed only for words and would make every schedule three times as large.
    fields: Box<Fields>,
    engine: Engine,
}

/// The five fields of an expression.
#[derive(Clone)]
struct Fields {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    day_of_week: Field,
}

impl CronSpec {
    /// Reads a crontab expression or a nickname such as `@daily`. Errors carry the name of the cron field that is
    /// wrong (`minute`, `hour`, `day`, `month`, `day_of_week`), or `expression`.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        let refuse = |message: String| Err(ScheduleError::invalid(EXPRESSION, message));
        if text.len() > MAX_EXPRESSION_LENGTH {
            return refuse(format!(
                "is {} bytes long; at most {MAX_EXPRESSION_LENGTH} are allowed",
                text.len()
            ));
        }
        let text = text.trim();
        if text.is_empty() {
            return refuse("is empty; write five fields such as `0 9 * * MON-FRI`".to_owned());
        }
        let spelled_out = NICKNAMES.iter().find(|(nickname, _)| nickname.eq_ignore_ascii_case(text));
        if spelled_out.is_none() && text.starts_with('@') {
            let known: Vec<&str> = NICKNAMES.iter().map(|(nickname, _)| *nickname).collect();
            return refuse(format!("{} is no nickname; known are {}", Quoted(text), known.join(", ")));
        }
        let words: Vec<&str> =
            spelled_out.map_or(text, |(_, fields)| fields).split_ascii_whitespace().collect();
        let &[minute, hour, day, month, day_of_week] = words.as_slice() else {
            return refuse(format!(
                "{} has {} fields; exactly five are needed: minute hour day month day_of_week",
                Quoted(text),
                words.len()
            ));
        };
        let field = |kind, text| Field::parse(kind, Weekdays::FromSunday, text);
        Self::build(Fields {
            minute: field(Kind::Minute, minute)?,
            hour: field(Kind::Hour, hour)?,
            day: field(Kind::Day, day)?,
            month: field(Kind::Month, month)?,
            day_of_week: field(Kind::DayOfWeek, day_of_week)?,
        })
    }

    fn build(fields: Fields) -> Result<Self, ScheduleError> {
        let canonical = [
            fields.minute.print(Kind::Minute),
            fields.hour.print(Kind::Hour),
            fields.day.print(Kind::Day),
            fields.month.print(Kind::Month),
            fields.day_of_week.print(Kind::DayOfWeek),
        ]
        .join(" ");
        if canonical.len() > MAX_EXPRESSION_LENGTH {
            return Err(ScheduleError::invalid(
                EXPRESSION,
                format!(
                    "is {} bytes long in its normal form; at most {MAX_EXPRESSION_LENGTH} are allowed",
                    canonical.len()
                ),
            ));
        }
        let wildcard_time = fields.minute.starts_with_star() || fields.hour.starts_with_star();
        match Engine::compile(&fields)? {
            Some(engine) => Ok(Self { canonical, wildcard_time, fields: Box::new(fields), engine }),
            None => Err(ScheduleError::NeverFires {
                field: EXPRESSION.to_owned(),
                message: format!("`{canonical}` never fires; none of its months has such a day"),
            }),
        }
    }

    /// The first matching wall-clock time after `after`, always on a whole minute. `None` past the year 9999.
    pub fn next_naive(&self, after: NaiveDateTime) -> Result<Option<NaiveDateTime>, ScheduleError> {
        self.engine.next_after(after).map_err(|fault| ScheduleError::Engine {
            field: EXPRESSION.to_owned(),
            message: format!("`{}` cannot be computed after {after}: {fault}", self.canonical),
        })
    }

    /// The expression in its normal form: parsing it yields an equal value.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// The expression as an English sentence, on a 24-hour clock.
    pub fn sentence(&self) -> String {
        words::sentence(&self.fields)
    }

    /// Whether the minute or the hour field starts with `*`, so that the schedule follows elapsed time over a
    /// daylight-saving change instead of a time on the clock.
    pub fn wildcard_time(&self) -> bool {
        self.wildcard_time
    }
}

impl PartialEq for CronSpec {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical
    }
}

impl Eq for CronSpec {}

impl fmt::Debug for CronSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CronSpec").field(&self.canonical).finish()
    }
}

impl fmt::Display for CronSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.canonical)
    }
}

impl FromStr for CronSpec {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        Self::parse(text)
    }
}
