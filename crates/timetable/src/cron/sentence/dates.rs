//! The days and months of an expression in words; `times` writes the times.

use sched_vocabulary::schedule::DayMatch;

use super::{
    super::{
        Fields,
        field::Field,
        special_day::Special,
        values::{Kind, ValueSet},
    },
    enumeration, values,
};

pub(in super::super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ORDINALS: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];

pub(super) fn dates(fields: &Fields, all_hours: bool) -> String {
    let months: Vec<u8> = fields.month.values.iter().collect();
    let all_months = fields.month.values == ValueSet::all(Kind::Month);
    let (by_day, by_weekday) = restrictions(fields);
    if !by_day && !by_weekday {
        let daily = if all_hours { "" } else { " every day" };
        return if all_months { daily.to_owned() } else { format!("{daily} {}", in_months(&months)) };
    }
    let weekdays: Vec<u8> = if by_weekday { fields.day_of_week.values.iter().collect() } else { Vec::new() };
    let both = fields.restricts_both_days() && by_day && by_weekday;
    // A weekday is not a day "of January", so the month gets its own phrase.
    let named_month = match months.as_slice() {
        [only] if weekdays.is_empty() || both => Some(name(&MONTHS, only - 1)),
        _ => None,
    };
    let month = named_month.unwrap_or("the month");
    let mut days = if by_day { day_phrases(&fields.day, month) } else { Vec::new() };
    if by_weekday && !both {
        let specials = &fields.day_of_week.specials;
        days.extend(specials.iter().map(|special| special_day(*special, month)));
    }
    let days = match (days.as_slice(), weekday_run(&weekdays)) {
        (phrases, _) if both => {
            let comma = if phrases.len() > 1 { "," } else { "" };
            format!(" {}{comma} if the day is {}", enumeration(&days, "or"), weekday_condition(fields, month))
        }
        ([], Some((first, last))) => format!(", {first} to {last}"),
        (_, Some((first, last))) => {
            let run = format!("on any day from {first} to {last}");
            format!(" {}", enumeration(&[days, vec![run]].concat(), "or"))
        }
        (_, None) if weekdays.is_empty() => format!(" {}", enumeration(&days, "or")),
        (_, None) => {
            let names: Vec<String> = weekdays_from_monday(&weekdays).map(str::to_owned).collect();
            let list = format!("on {}", enumeration(&names, "and"));
            format!(" {}", enumeration(&[days, vec![list]].concat(), "or"))
        }
    };
    if all_months || named_month.is_some() { days } else { format!("{days}, {}", in_months(&months)) }
}

/// Whether the day of the month and the weekday restrict the days. All values do not, except that
/// of two fields that match alternatively, one with all values frees the other.
fn restrictions(fields: &Fields) -> (bool, bool) {
    let frees = |field: &Field, kind| field.star || field.values == ValueSet::all(kind);
    let (day, weekday) = (frees(&fields.day, Kind::Day), frees(&fields.day_of_week, Kind::DayOfWeek));
    match fields.day_match {
        DayMatch::Both => (!day, !weekday),
        DayMatch::Either => (!day && !weekday, !day && !weekday),
    }
}

fn day_phrases(field: &Field, month: &str) -> Vec<String> {
    let mut phrases = Vec::new();
    let days: Vec<u8> = field.values.iter().collect();
    if !days.is_empty() {
        phrases.push(format!("on {} of {month}", values("day", &days)));
    }
    phrases.extend(field.specials.iter().map(|special| special_day(*special, month)));
    phrases
}

/// `a Friday or the first Monday of the month`.
fn weekday_condition(fields: &Fields, month: &str) -> String {
    let weekdays: Vec<u8> = fields.day_of_week.values.iter().collect();
    let mut items = match weekday_run(&weekdays) {
        Some((first, last)) => vec![format!("a day from {first} to {last}")],
        None => weekdays_from_monday(&weekdays).map(|name| format!("a {name}")).collect(),
    };
    let specials = fields.day_of_week.specials.iter().map(|special| special_day(*special, month));
    items.extend(specials.map(|special| special.trim_start_matches("on ").to_owned()));
    enumeration(&items, "or")
}

fn special_day(special: Special, month: &str) -> String {
    match special {
        Special::LastDay(0) => format!("on the last day of {month}"),
        Special::LastDay(1) => format!("on the day before the last day of {month}"),
        Special::LastDay(before) => format!("{before} days before the last day of {month}"),
        Special::LastWorkday => format!("on the last working day (Monday to Friday) of {month}"),
        Special::NearestWorkday(day) => {
            format!("on the working day (Monday to Friday) nearest to day {day} of {month}")
        }
        Special::NthWeekday(day, nth) => {
            format!("on the {} {} of {month}", name(&ORDINALS, nth - 1), name(&WEEKDAYS, day))
        }
        Special::LastWeekday(day) => format!("on the last {} of {month}", name(&WEEKDAYS, day)),
    }
}

fn name(names: &[&'static str], index: u8) -> &'static str {
    names.get(usize::from(index)).copied().unwrap_or_default()
}

fn weekdays_from_monday(days: &[u8]) -> impl Iterator<Item = &'static str> {
    (1..=7_u8).map(|day| day % 7).filter(|day| days.contains(day)).map(|day| name(&WEEKDAYS, day))
}

/// At least three days in a row, also over the end of the week.
fn weekday_run(days: &[u8]) -> Option<(&'static str, &'static str)> {
    let (first, last) = ring_run(days, 0, 7)?;
    Some((name(&WEEKDAYS, first), name(&WEEKDAYS, last)))
}

fn in_months(months: &[u8]) -> String {
    if let Some((first, last)) = ring_run(months, 1, 12) {
        return format!("from {} to {}", name(&MONTHS, first - 1), name(&MONTHS, last - 1));
    }
    let names: Vec<String> = months.iter().map(|month| name(&MONTHS, month - 1).to_owned()).collect();
    format!("in {}", enumeration(&names, "and"))
}

/// At least three successive values on the ring of `size` values from `low`.
fn ring_run(values: &[u8], low: u8, size: u8) -> Option<(u8, u8)> {
    let next = |value: u8| (value - low + 1) % size + low;
    let before = |value: u8| (value - low + size - 1) % size + low;
    let mut starts = values.iter().filter(|value| !values.contains(&before(**value)));
    let ends = values.iter().find(|value| !values.contains(&next(**value)));
    match (starts.next(), starts.next(), ends) {
        (Some(first), None, Some(last)) if values.len() > 2 => Some((*first, *last)),
        _ => None,
    }
}
