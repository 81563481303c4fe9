//! The search for the next matching wall-clock time, with saffron.
//!
//! The only module that uses saffron. It passes explicit, ascending values and one day rule at a
//! time; the earliest result of several engines counts. This avoids every construct with a wrong
//! result or a panic in the pinned release (wrapping ranges and steps, `*` in a list, `nW` in
//! months without a day n, `L-nW`, searches without an end); a test per fault detects a change. A
//! panic, or a result that is not later than the argument, becomes a `Fault`.
//!
//! If a day must match both day fields, a rule searches the dates of one field and a filter
//! ([`DayFilter`]) drops those that the other field excludes.
//!
//! Cost: one saffron search per day rule, each at most the forty years between two leap days on one
//! weekday across a centenary. A filter repeats the search for each date that it drops. Filters see
//! only what fourteen kinds of years determine, and each kind returns within forty years.

use std::{
    fmt::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
};

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime};
use saffron::Cron;

use super::{
    super::{LAST_YEAR, error::ScheduleError},
    Fields,
    day_filter::DayFilter,
    field::Field,
    special_day::Special,
    values::{Kind, ValueSet},
};

/// Earliest start of a search: saffron never gets the limits of chrono's calendar.
pub(super) const FIRST_DAY: NaiveDate = new_year(1);

/// From here on an expression that fires at all fires within 40 years.
const PROBE_DAY: NaiveDate = new_year(2000);

/// A search ends without a result in the year after these, which have every kind of year.
const MOST_YEARS: i32 = 40;

const LAST_MINUTE: NaiveTime = match NaiveTime::from_hms_opt(23, 59, 0) {
    Some(time) => time,
    None => panic!("a day has a last minute"),
};

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
    filter: Option<DayFilter>,
}

#[derive(Clone)]
struct RuleText {
    day: String,
    day_of_week: String,
    months: ValueSet,
    leap_february: bool,
    filter: Option<DayFilter>,
}

impl RuleText {
    fn plain(day: String, day_of_week: String, months: ValueSet) -> Self {
        Self { day, day_of_week, months, leap_february: false, filter: None }
    }
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
            let rule = Rule {
                cron: compile_rule(&expression)?,
                leap_february: text.leap_february,
                filter: text.filter,
            };
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
        let until = LAST_YEAR.min(from.year() + MOST_YEARS);
        loop {
            if from.year() > until {
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
            from = match self.last_dropped(time) {
                Some(last) => last.max(time),
                None => return Ok(Some(time)),
            };
        }
    }

    /// The last minute of the dropped stretch that `time` is in.
    fn last_dropped(&self, time: NaiveDateTime) -> Option<NaiveDateTime> {
        if self.leap_february && time.month() == 2 && !time.date().leap_year() {
            return Some(end_of_february(time));
        }
        let is_dropped = self.filter.as_ref().is_some_and(|filter| !filter.matches(time.date()));
        is_dropped.then(|| time.date().and_time(LAST_MINUTE))
    }
}

/// Saffron takes only one special day at a time, and some special days narrow the months.
fn rule_texts(fields: &Fields) -> Vec<RuleText> {
    let (day, weekday) = (&fields.day, &fields.day_of_week);
    let months = fields.month.values;
    let texts = |field: &Field, kind| field_texts(field, kind, months);
    match (day.star, weekday.star) {
        (true, true) => vec![RuleText::plain("*".to_owned(), "*".to_owned(), months)],
        (true, false) => texts(weekday, Kind::DayOfWeek),
        (false, true) => texts(day, Kind::Day),
        (false, false) if fields.restricts_both_days() => {
            // Of special weekdays there are fewer dates to drop than of days of the month.
            let by_weekday = special_texts(&weekday.specials, months);
            let by_weekday = filtered(by_weekday, &DayFilter::days(day));
            if weekday.values.is_empty() {
                return by_weekday;
            }
            let by_day = filtered(texts(day, Kind::Day), &DayFilter::Weekdays(weekday.values));
            [by_day, by_weekday].concat()
        }
        (false, false) => [texts(day, Kind::Day), texts(weekday, Kind::DayOfWeek)].concat(),
    }
}

fn filtered(texts: Vec<RuleText>, filter: &DayFilter) -> Vec<RuleText> {
    texts.into_iter().map(|text| RuleText { filter: Some(filter.clone()), ..text }).collect()
}

/// The rules of one day field.
fn field_texts(field: &Field, kind: Kind, months: ValueSet) -> Vec<RuleText> {
    let mut texts = Vec::new();
    if !field.values.is_empty() {
        let (values, any) = (list(kind, field.values), "*".to_owned());
        let (day, day_of_week) = if kind == Kind::Day { (values, any) } else { (any, values) };
        texts.push(RuleText::plain(day, day_of_week, months));
    }
    texts.extend(special_texts(&field.specials, months));
    texts
}

fn special_texts(specials: &[Special], months: ValueSet) -> Vec<RuleText> {
    specials.iter().map(|special| special_text(*special, months)).collect()
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
    RuleText { leap_february, ..RuleText::plain(day, day_of_week, months) }
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

fn compile_rule(expression: &str) -> Result<Cron, ScheduleError> {
    match catch_unwind(|| expression.parse::<Cron>()) {
        Ok(Ok(cron)) => Ok(cron),
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
