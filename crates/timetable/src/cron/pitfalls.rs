//! Parts of a cron expression that its author may have meant differently.
//!
//! Checks the written text too, because number and name of a weekday differ only for a reader.
//! Nothing here depends on zone or present; the schedule's `warnings` do. Each warning is a
//! fragment that begins with the field.

use sched_vocabulary::schedule::DayMatch;
use serde_json::{Map, Value};

use super::{
    super::error::QuotedText,
    CronSpec, Fields,
    field::Leading,
    special_day::Special,
    split::words,
    values::{Kind, Weekdays, number},
};
use crate::cron::sentence::{MONTHS, enumeration};

struct Written {
    weekdays: Weekdays,
    texts: Vec<(Kind, String)>,
}

pub(in super::super) fn pitfalls(spec: &CronSpec, config: &Map<String, Value>) -> Vec<String> {
    let fields = &spec.fields;
    let written = Written::of(fields, config);
    let mut warnings = Vec::new();
    warnings.extend(written.numeric_weekday(fields));
    if !config.contains_key("day_match") {
        warnings.extend(written.day_fields(fields));
    }
    for (kind, text) in &written.texts {
        warnings.extend(text.split(',').filter_map(|item| uneven_step(*kind, written.weekdays, item.trim())));
    }
    warnings.extend(missing_days(fields));
    warnings.extend(missing_workdays(fields));
    warnings
}

impl Written {
    fn of(fields: &Fields, config: &Map<String, Value>) -> Self {
        let kinds = fields.iter().map(|(kind, _)| kind);
        let Some(expression) = config.get("expression") else {
            let text = |name: &str| match config.get(name)? {
                Value::String(text) => Some(text.clone()),
                number => Some(number.to_string()),
            };
            let texts = kinds.filter_map(|kind| Some((kind, text(kind.name())?)));
            return Self { weekdays: Weekdays::FromMonday, texts: texts.collect() };
        };
        let text = expression.as_str().unwrap_or_default();
        // A nickname is one word.
        let words: Vec<&str> = words(text).collect();
        let words = if words.len() == 1 { Vec::new() } else { words };
        let texts = kinds.zip(words.into_iter().map(str::to_owned)).collect();
        Self { weekdays: Weekdays::FromSunday, texts }
    }

    fn text(&self, kind: Kind) -> Option<&str> {
        self.texts.iter().find(|(other, _)| *other == kind).map(|(_, text)| text.as_str())
    }

    fn numeric_weekday(&self, fields: &Fields) -> Option<String> {
        let text = self.text(Kind::DayOfWeek)?;
        let day_of = |item: &'_ str| item.split(['/', '#']).next().unwrap_or_default().to_owned();
        // Authors of `H` count weekdays from Sunday, as we do.
        let ours = |item: &str| self.weekdays == Weekdays::FromSunday && is_hash(item);
        let numeric =
            text.split(',').any(|item| !ours(item) && day_of(item).bytes().any(|byte| byte.is_ascii_digit()));
        let here = match self.weekdays {
            Weekdays::FromSunday => "here 1 is Monday, and 0 and 7 are Sunday",
            Weekdays::FromMonday => "here, in the field form, 0 is Monday and 6 is Sunday",
        };
        numeric.then(|| {
            format!(
                "day_of_week: the numbers in {} mean other weekdays elsewhere; {here}; `{}` is read alike everywhere",
                QuotedText(text),
                fields.day_of_week.print(Kind::DayOfWeek)
            )
        })
    }

    /// Programs differ in the days of an expression that restricts both day fields.
    fn day_fields(&self, fields: &Fields) -> Option<String> {
        let (day, weekday) = (self.text(Kind::Day)?, self.text(Kind::DayOfWeek)?);
        if self.weekdays == Weekdays::FromMonday || fields.day.star || fields.day_of_week.star {
            return None;
        }
        let hashed = [day, weekday].iter().any(|text| text.split(',').any(is_hash));
        let (day, weekday) = (QuotedText(day), QuotedText(weekday));
        let days = match (fields.day_match, hashed) {
            (DayMatch::Both, false) => {
                format!(
                    "a day must match both {day} and {weekday}, since one starts with `*`; Kubernetes fires if either matches"
                )
            }
            (DayMatch::Either, true) => {
                format!(
                    "a day that matches either {day} or {weekday} fires here; Jenkins would need both to match"
                )
            }
            (DayMatch::Both, true) | (DayMatch::Either, false) => return None,
        };
        Some(format!("day, day_of_week: {days}; set day_match to choose"))
    }
}

fn is_hash(item: &str) -> bool {
    item.starts_with(['H', 'h'])
}

/// It begins again before a whole cycle.
fn uneven_step(kind: Kind, weekdays: Weekdays, item: &str) -> Option<String> {
    let (range, step) = item.split_once('/')?;
    let step = number(step).filter(|step| *step > 1)?;
    let (unit, cycle) = unit_and_cycle(kind);
    let size = kind.max() - kind.min() + 1;
    if range.eq_ignore_ascii_case("H") {
        let rarely = if kind == Kind::Day { "rarely" } else { "not" };
        return (kind == Kind::Day || !size.is_multiple_of(step)).then(|| {
            format!(
                "{}: {} begins again every {cycle}, so the step from one {cycle} to the next is {rarely} {step} {unit}",
                kind.name(),
                QuotedText(item)
            )
        });
    }
    let first = match range.split_once('-') {
        None if range == "*" => kind.min(),
        None => kind.parse_value(range, weekdays)?,
        Some((first, last)) => {
            let whole = (kind.parse_value(first, weekdays)?, kind.parse_value(last, weekdays)?);
            if whole != (kind.min(), kind.max()) {
                return None;
            }
            kind.min()
        }
    };
    if kind == Kind::Day {
        return Some(format!(
            "day: {} begins again at {first} every month, so the last step of a month is rarely {step} days",
            QuotedText(item)
        ));
    }
    let last = kind.max().checked_sub(first)? / step * step + first;
    let distance = size - (last - first);
    let name = |value| match kind {
        Kind::DayOfWeek => kind.print_value(weekdays.counted_from_sunday(value)),
        _ => kind.print_value(value),
    };
    (distance != step).then(|| {
        format!(
            "{}: {} begins again every {cycle}: from {} to the next {} it is {distance}, not {step} {unit}",
            kind.name(),
            QuotedText(item),
            name(last),
            name(first)
        )
    })
}

fn unit_and_cycle(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Second => ("seconds", "minute"),
        Kind::Minute => ("minutes", "hour"),
        Kind::Hour => ("hours", "day"),
        Kind::Day => ("days", "month"),
        Kind::Month => ("months", "year"),
        Kind::DayOfWeek => ("days", "week"),
    }
}

/// Days 29 to 31 that some of the months lack. The end of a run (`25-31`) means the end of the
/// month; `uneven_step` handles steps.
fn missing_days(fields: &Fields) -> Vec<String> {
    if fields.day.star || matches!(fields.day.leading, Some(Leading::Star(_))) {
        return Vec::new();
    }
    let days: Vec<u8> = fields.day.values.iter().collect();
    let lonely = days.iter().filter(|day| **day > 28 && !days.contains(&(*day - 1)));
    let warning = |day: &u8| {
        let months = months_without(fields, *day)?;
        Some(format!(
            "day: {months} no day {day} and nothing fires there instead; `L` is the last day of every month"
        ))
    };
    lonely.filter_map(warning).collect()
}

fn missing_workdays(fields: &Fields) -> Vec<String> {
    let warning = |special: &Special| {
        let Special::NearestWorkday(day @ 29..) = special else { return None };
        let months = months_without(fields, *day)?;
        Some(format!(
            "day: {months} no day {day}, so `{day}W` skips them; `LW` is the last working day of every month"
        ))
    };
    fields.day.specials.iter().filter_map(warning).collect()
}

fn months_without(fields: &Fields, day: u8) -> Option<String> {
    let short = |month: &u8| match month {
        2 => day > 28,
        4 | 6 | 9 | 11 => day > 30,
        _ => false,
    };
    let name = |month: u8| match (month, MONTHS.get(usize::from(month - 1))) {
        (2, _) if day == 29 => "February of most years".to_owned(),
        (_, name) => name.copied().unwrap_or_default().to_owned(),
    };
    let names: Vec<String> = fields.month.values.iter().filter(short).map(name).collect();
    let verb = if names.len() == 1 { "has" } else { "have" };
    (!names.is_empty()).then(|| format!("{} {verb}", enumeration(&names, "and")))
}
