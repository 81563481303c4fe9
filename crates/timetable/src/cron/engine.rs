//! The search for the next matching wall-clock time, with saffron.
//!
//! The only module that uses saffron. It passes explicit, ascending values and one day rule at a
//! time; the earliest result of several engines counts. This avoids every construct with a wrong
//! result or a panic in the pinned release (wrapping ranges and steps, `*` in a list, `nW` in
//! months without a day n, `L-nW`, searches without an end); a test per fault detects a change. A
//! panic, or a result that is not later than the argument, becomes a `Fault`.
//!
//! Cost: one saffron search per day rule, each at most the forty years between two leap days on one
//! weekday across a centenary.

use std::{
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime};
use saffron::Cron;

use super::{
    super::{LAST_YEAR, error::ScheduleError},
    Fields,
    special_day::Special,
    values::{Kind, ValueSet},
};

/// Earliest start of a search: saffron never gets the limits of chrono's calendar.
pub(super) const FIRST_DAY: NaiveDate = new_year(1);

/// From here on an expression that fires at all fires within 40 years.
const PROBE_DAY: NaiveDate = new_year(2000);

const fn new_year(year: i32) -> NaiveDate {
    match NaiveDate::from_ymd_opt(year, 1, 1) {
        Some(day) => day,
        None => panic!("chrono has the first of January of every year used here"),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("the cron engine panicked")]
    Panicked,
    #[error("the cron engine went back in time")]
    WentBack,
}

#[derive(Clone)]
pub(super) struct Engine(Vec<Rule>);

#[derive(Clone)]
struct Rule {
    cron: Cron,
    /// Days of February count in leap years only: saffron moves `29W` to the 28th of shorter ones.
    leap_february: bool,
}

struct RuleText {
    day: String,
    day_of_week: String,
    months: ValueSet,
    leap_february: bool,
}

impl Engine {
    /// `None` if nothing ever matches.
    pub(super) fn compile(fields: &Fields) -> Result<Option<Self>, ScheduleError> {
        let mut rules = Vec::new();
        for text in rule_texts(fields) {
            if text.months.is_empty() {
                continue;
            }
            let expression = format!(
                "{} {} {} {} {}",
                list(Kind::Minute, fields.minute.values),
                list(Kind::Hour, fields.hour.values),
                text.day,
                list(Kind::Month, text.months),
                text.day_of_week
            );
            let rule = compile_rule(&expression, text.leap_february)?;
            let probe = PROBE_DAY.and_time(NaiveTime::MIN);
            let fires =
                rule.next_after(probe).map_err(|fault| engine_error(&expression, &fault.to_string()))?;
            if fires.is_some() {
                rules.push(rule);
            }
        }
        Ok(if rules.is_empty() { None } else { Some(Self(rules)) })
    }

    pub(super) fn next_after(&self, after: NaiveDateTime) -> Result<Option<NaiveDateTime>, Fault> {
        let mut earliest: Option<NaiveDateTime> = None;
        for rule in &self.0 {
            if let Some(time) = rule.next_after(after)? {
                earliest = Some(earliest.map_or(time, |known| known.min(time)));
            }
        }
        Ok(earliest)
    }
}

impl Rule {
    fn next_after(&self, after: NaiveDateTime) -> Result<Option<NaiveDateTime>, Fault> {
        let mut from = after.max(FIRST_DAY.and_time(NaiveTime::MIN));
        loop {
            if from.year() > LAST_YEAR {
                return Ok(None);
            }
            // The call does not change the engine, so a panic leaves nothing half done.
            let answer = catch_unwind(AssertUnwindSafe(|| self.cron.next_after(from.and_utc())));
            let answer = answer.map_err(|_panic| Fault::Panicked)?;
            let Some(time) = answer.map(|time| time.naive_utc()).filter(|time| time.year() <= LAST_YEAR)
            else {
                return Ok(None);
            };
            if time <= from {
                return Err(Fault::WentBack);
            }
            if !(self.leap_february && time.month() == 2 && !time.date().leap_year()) {
                return Ok(Some(time));
            }
            from = end_of_february(time).max(time);
        }
    }
}

/// Saffron takes only one special day at a time, and some special days narrow the months.
fn rule_texts(fields: &Fields) -> Vec<RuleText> {
    let months = fields.month.values;
    let plain =
        |day: String, day_of_week: String| RuleText { day, day_of_week, months, leap_february: false };
    if fields.day.star && fields.day_of_week.star {
        return vec![plain("*".to_owned(), "*".to_owned())];
    }
    let mut texts = Vec::new();
    if !fields.day.star {
        if !fields.day.values.is_empty() {
            texts.push(plain(list(Kind::Day, fields.day.values), "*".to_owned()));
        }
        texts.extend(fields.day.specials.iter().map(|special| special_text(*special, months)));
    }
    if !fields.day_of_week.star {
        if !fields.day_of_week.values.is_empty() {
            texts.push(plain("*".to_owned(), list(Kind::DayOfWeek, fields.day_of_week.values)));
        }
        texts.extend(fields.day_of_week.specials.iter().map(|special| special_text(*special, months)));
    }
    texts
}

fn special_text(special: Special, months: ValueSet) -> RuleText {
    let any = "*".to_owned();
    let (day, day_of_week) = match special {
        Special::LastDay(0) => ("L".to_owned(), any),
        Special::LastDay(before) => (format!("L-{before}"), any),
        Special::LastWorkday => ("LW".to_owned(), any),
        Special::NearestWorkday(day) => (format!("{day}W"), any),
        Special::NthWeekday(day, nth) => (any, format!("{}#{nth}", day + 1)),
        Special::LastWeekday(day) => (any, format!("{}L", day + 1)),
    };
    let (months, leap_february) = match special {
        Special::NearestWorkday(day) => (months.filtered(|month| longest(month) >= day), day == 29),
        _ => (months, false),
    };
    RuleText { day, day_of_week, months, leap_february }
}

fn longest(month: u8) -> u8 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// In saffron's syntax: all as `*`, else each alone; weekdays count from Sunday = 1.
fn list(kind: Kind, values: ValueSet) -> String {
    if values == ValueSet::all(kind) {
        return "*".to_owned();
    }
    let shift = u8::from(kind == Kind::DayOfWeek);
    let mut text = String::new();
    for value in values.iter() {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}{}", value + shift);
    }
    text
}

fn compile_rule(expression: &str, leap_february: bool) -> Result<Rule, ScheduleError> {
    match catch_unwind(|| expression.parse::<Cron>()) {
        Ok(Ok(cron)) => Ok(Rule { cron, leap_february }),
        Ok(Err(error)) => Err(engine_error(expression, &error.to_string())),
        Err(_panic) => Err(engine_error(expression, &Fault::Panicked.to_string())),
    }
}

fn engine_error(expression: &str, what: &str) -> ScheduleError {
    ScheduleError::Engine {
        field: "expression".to_owned(),
        message: format!("the cron engine does not take `{expression}`: {what}"),
    }
}

fn end_of_february(time: NaiveDateTime) -> NaiveDateTime {
    let march = NaiveDate::from_ymd_opt(time.year(), 3, 1).map(|day| day.and_time(NaiveTime::MIN));
    march.map_or(time, |march| march - chrono::TimeDelta::minutes(1))
}
