//! Cron: wall-clock times of a crontab expression, or of its field form.
//!
//! Defines the dialect and finds the next matching wall-clock time; `wall_clock` maps these to
//! instants. Our own parser (`split`, `field`, `reader`) passes only explicit values to the saffron
//! engine (`engine`), so none of that engine's parsing faults can occur.
//!
//! The dialect: five fields `minute hour day month day_of_week`, or six with `second` before them
//! if the caller sets seconds ([`CronOptions`]), which for a nickname is second 0; 0 and 7 are
//! Sunday, 1 is Monday; names in any case; lists, ranges, steps; a range whose start is greater
//! than its end wraps (`22-2` is 22, 23, 0, 1, 2); `?` is `*`; `L`, `L-n`, `LW`, `nW`, `n#k`, `nL`,
//! each also in a list; `H`, `H/n`, `H(a-b)`, `H(a-b)/n` (`hash`); nicknames. Only blanks and tabs
//! separate fields. `nW` is a day of months that have a day n: `31W` skips April; `LW` is the last
//! workday. A list that starts with `*` or `*/1` is `*`, as in Vixie cron; further on, `*` is the
//! whole range.
//!
//! A day field restricts unless it is `*`. If both restrict, the day match ([`DayMatch`]) decides.
//! Unless the caller sets it, an expression follows Vixie cron: `both` if a day field starts with
//! `*`, as `*/2` does, else `either`. `L`, `W`, `#` and `H` do not start with `*`. The field form
//! is `both`.
//!
//! Parsing fails with the field, the offending text and the accepted values. `next_naive` does not
//! panic and is bounded; a misbehaving engine becomes an error.

mod day_filter;
mod engine;
#[cfg(test)]
mod engine_faults;
mod field;
mod field_form;
mod hash;
mod pitfalls;
mod reader;
mod seconds;
mod sentence;
mod special_day;
mod split;
mod values;

use std::{fmt, str::FromStr};

use chrono::NaiveDateTime;
use sched_vocabulary::schedule::DayMatch;

use self::{
    engine::Engine,
    field::{Field, Reading},
    values::{Kind, ValueSet, Weekdays},
};
use super::error::ScheduleError;

pub use field_form::field_names;

pub(super) use crate::cron::sentence::enumeration;
pub(super) use pitfalls::pitfalls;

/// In bytes.
pub const MAX_EXPRESSION_LENGTH: usize = 256;

const EXPRESSION: &str = "expression";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CronOptions<'a> {
    /// For `H`, see the module `hash`: stable for one job, different for another. The empty key
    /// gives an example.
    pub hash_key: &'a str,
    /// Six fields, the second first.
    pub seconds: bool,
    /// `None` means the default of an expression or of the field form, see the module.
    pub day_match: Option<DayMatch>,
}

/// Equal if the normal text and the values of `H` are.
#[derive(Clone)]
pub struct CronSpec {
    canonical: String,
    wildcard_time: bool,
    /// Boxed: only the sentence needs it, and it would triple the size of every schedule.
    fields: Box<Fields>,
    /// The seconds of a minute at which it fires; `None` fires on whole minutes.
    seconds: Option<ValueSet>,
    engine: Engine,
}

#[derive(Clone, PartialEq, Eq)]
struct Fields {
    second: Option<Field>,
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    day_of_week: Field,
    /// `Both` if a day field is `*`.
    day_match: DayMatch,
}

impl Fields {
    fn set_day_match(&mut self, day_match: DayMatch) {
        let is_any = self.day.star || self.day_of_week.star;
        self.day_match = if is_any { DayMatch::Both } else { day_match };
    }

    /// Whether a day must match two fields that restrict it.
    fn restricts_both_days(&self) -> bool {
        self.day_match == DayMatch::Both && !self.day.star && !self.day_of_week.star
    }

    fn iter(&self) -> impl Iterator<Item = (Kind, &Field)> {
        let second = self.second.iter().map(|second| (Kind::Second, second));
        second.chain([
            (Kind::Minute, &self.minute),
            (Kind::Hour, &self.hour),
            (Kind::Day, &self.day),
            (Kind::Month, &self.month),
            (Kind::DayOfWeek, &self.day_of_week),
        ])
    }
}

impl CronSpec {
    /// Five fields or a nickname such as `@daily`, with the empty key for `H`.
    pub fn parse(text: &str) -> Result<Self, ScheduleError> {
        Self::parse_with(text, &CronOptions::default())
    }

    /// A crontab expression or a nickname such as `@daily`. Errors have the name of the wrong cron
    /// field (`second`, `minute`, `hour`, `day`, `month`, `day_of_week`), or `expression`.
    pub fn parse_with(text: &str, options: &CronOptions<'_>) -> Result<Self, ScheduleError> {
        let reading = Reading { weekdays: Weekdays::FromSunday, hash_key: options.hash_key };
        let field = |kind, text| Field::parse(kind, reading, text);
        let (second, [minute, hour, day, month, day_of_week]) = split::fields(text, options.seconds)?;
        let mut fields = Fields {
            second: second.map(|second| field(Kind::Second, second)).transpose()?,
            minute: field(Kind::Minute, minute)?,
            hour: field(Kind::Hour, hour)?,
            day: field(Kind::Day, day)?,
            month: field(Kind::Month, month)?,
            day_of_week: field(Kind::DayOfWeek, day_of_week)?,
            day_match: DayMatch::Both,
        };
        let vixie = if fields.day.starts_with_star() || fields.day_of_week.starts_with_star() {
            DayMatch::Both
        } else {
            DayMatch::Either
        };
        fields.set_day_match(options.day_match.unwrap_or(vixie));
        Self::build(fields)
    }

    fn build(fields: Fields) -> Result<Self, ScheduleError> {
        let words: Vec<String> = fields.iter().map(|(kind, field)| field.print(kind)).collect();
        let canonical = words.join(" ");
        if canonical.len() > MAX_EXPRESSION_LENGTH {
            return Err(ScheduleError::invalid(
                EXPRESSION,
                format!(
                    "is {} bytes long in its normal form; at most {MAX_EXPRESSION_LENGTH} are allowed",
                    canonical.len()
                ),
            ));
        }
        let Some(engine) = Engine::compile(&fields)? else {
            return Err(ScheduleError::NeverFires {
                field: EXPRESSION.to_owned(),
                message: never_fires(&fields, &canonical),
            });
        };
        Ok(Self {
            canonical,
            wildcard_time: fields.minute.is_wildcard() || fields.hour.is_wildcard(),
            seconds: fields.second.as_ref().map(|second| second.values),
            fields: Box::new(fields),
            engine,
        })
    }

    /// The first match after `after`: a whole second if the expression has seconds, else a whole
    /// minute. `None` past the year 9999.
    pub fn next_naive(&self, after: NaiveDateTime) -> Result<Option<NaiveDateTime>, ScheduleError> {
        let next = match self.seconds {
            Some(seconds) => seconds::next_after(&self.engine, seconds, after),
            None => self.engine.next_after(after),
        };
        next.map_err(|fault| ScheduleError::Engine {
            field: EXPRESSION.to_owned(),
            message: format!("`{}` cannot be computed after {after}: {fault}", self.canonical),
        })
    }

    /// The normal form of the expression: parsing it with the same options and this
    /// [`day_match`](Self::day_match) yields an equal value.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Which days match if both day fields restrict; `Both` if one of them is `*`.
    pub fn day_match(&self) -> DayMatch {
        self.fields.day_match
    }

    pub fn sentence(&self) -> String {
        crate::cron::sentence::sentence(&self.fields)
    }

    pub(super) fn most_per_day(&self) -> u64 {
        let values = |values: ValueSet| u64::try_from(values.iter().count()).unwrap_or(u64::MAX);
        values(self.fields.minute.values) * values(self.fields.hour.values) * self.seconds.map_or(1, values)
    }

    /// Whether minute or hour starts with `*` or with `H/n` (`*/n` spread over the jobs). Such a
    /// schedule follows elapsed time over a daylight-saving change. `H` alone and `H` with a range
    /// are times on the clock. The second field is ignored.
    pub fn wildcard_time(&self) -> bool {
        self.wildcard_time
    }

    pub fn uses_hash(&self) -> bool {
        self.fields.iter().any(|(_, field)| field.uses_hash())
    }
}

fn never_fires(fields: &Fields, canonical: &str) -> String {
    let hashed = fields.iter().any(|(_, field)| field.uses_hash());
    let of_job = if hashed { " with the values that this job has for H" } else { "" };
    let such = if fields.restricts_both_days() { "a day that matches both day fields" } else { "such a day" };
    format!("`{canonical}` never fires{of_job}; none of its months has {such}")
}

impl PartialEq for CronSpec {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical && self.fields == other.fields
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
