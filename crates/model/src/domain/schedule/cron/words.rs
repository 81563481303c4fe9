//! A cron expression as an English sentence.
//!
//! Made from what the fields mean, not from how they are written, so two ways to write one schedule read alike. Exact
//! before elegant: a sentence states every minute, hour, day and month, or a rule that yields exactly them; the time on
//! a 24-hour clock, and the two day fields as the alternatives that they are. Pure and total.

use super::{
    Fields,
    field::Special,
    values::{Kind, ValueSet},
};

/// Up to this many single times or values are listed one by one; more are said as a rule where there is one.
const LISTED: usize = 6;

/// Up to this many windows of a day are listed.
const WINDOWS: usize = 3;

pub(super) const MONTHS: [&str; 12] = [
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

pub(super) fn sentence(fields: &Fields) -> String {
    let minutes: Vec<u8> = fields.minute.values.iter().collect();
    let hours: Vec<u8> = fields.hour.values.iter().collect();
    format!("{}{}.", times(&minutes, &hours), dates(fields, hours.len() == 24))
}

/// `a, b and c`, with another word for the last if wished.
pub(in super::super) fn enumeration(items: &[String], last_word: &str) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} {last_word} {last}", most.join(", ")),
    }
}

fn times(minutes: &[u8], hours: &[u8]) -> String {
    let all_hours = hours.len() == 24;
    let step = step_through_the_hour(minutes);
    match (step, minutes) {
        (Some(1), _) if all_hours => return "Every minute".to_owned(),
        (Some(step), [0, ..]) if all_hours => return format!("Every {step} minutes"),
        (None, [0]) if all_hours => return "Every hour on the hour".to_owned(),
        _ => {}
    }
    if let (Some(step), [first, .., last]) = (step, minutes)
        && minutes.len() > 2
        && let Some(windows) = windows(hours, *first, *last)
    {
        let every = if step == 1 { "minute".to_owned() } else { format!("{step} minutes") };
        return format!("Every {every} {windows}");
    }
    if minutes.len() * hours.len() <= LISTED {
        let clock = hours.iter().flat_map(|hour| minutes.iter().map(|minute| time(*hour, *minute)));
        return format!("At {}", enumeration(&clock.collect::<Vec<_>>(), "and"));
    }
    if let (Some(step), [first, .., last]) = (step, minutes)
        && !all_hours
        && let Some(windows) = windows(hours, *first, *last)
    {
        return format!("Every {step} minutes {windows}");
    }
    if let ([minute], Some((first, last, step)), false) = (minutes, regular(hours), all_hours) {
        let every = if step == 1 { "hour".to_owned() } else { format!("{step} hours") };
        return format!("Every {every} from {} to {}", time(first, *minute), time(last, *minute));
    }
    let hours = if all_hours { "every hour".to_owned() } else { values("hour", hours) };
    if minutes.len() == 60 {
        return format!("Every minute of {hours}");
    }
    format!("At {} of {hours}", values("minute", minutes))
}

fn time(hour: u8, minute: u8) -> String {
    format!("{hour:02}:{minute:02}")
}

/// The step of minutes that are as far apart across the full hour as within it.
fn step_through_the_hour(minutes: &[u8]) -> Option<u8> {
    let (&first, &second) = (minutes.first()?, minutes.get(1)?);
    let step = second - first;
    let mut expected = ValueSet::default();
    expected.insert_steps(first, Kind::Minute.max(), step);
    let through = 60 % step == 0 && first < step && expected.iter().eq(minutes.iter().copied());
    through.then_some(step)
}

/// The hours as windows of the day, from the first minute of their first hour to the last of their last.
fn windows(hours: &[u8], first: u8, last: u8) -> Option<String> {
    let runs: Vec<&[u8]> = hours.chunk_by(|left, right| left + 1 == *right).collect();
    let window = |run: &&[u8]| match run {
        [] => String::new(),
        [only] => format!("from {} to {}", time(*only, first), time(*only, last)),
        [from, .., to] => format!("from {} to {}", time(*from, first), time(*to, last)),
    };
    (runs.len() <= WINDOWS).then(|| enumeration(&runs.iter().map(window).collect::<Vec<_>>(), "and"))
}

/// First, last and step of three or more values at equal distances.
fn regular(values: &[u8]) -> Option<(u8, u8, u8)> {
    let [first, second, .., last] = values else { return None };
    let step = second - first;
    let even = values.windows(2).all(|pair| matches!(pair, [left, right] if right - left == step));
    even.then_some((*first, *last, step))
}

/// Values of a field, its name first: `minutes 5, 10 to 20 and 30`, or `every 7th minute from 0 to 56`.
fn values(name: &str, values: &[u8]) -> String {
    if values.len() > LISTED
        && let Some((first, last, step @ 2..)) = regular(values)
    {
        return format!("every {} {name} from {first} to {last}", ordinal(step));
    }
    let mut items = Vec::new();
    for run in values.chunk_by(|left, right| left + 1 == *right) {
        match run {
            [first, _, .., last] => items.push(format!("{first} to {last}")),
            short => items.extend(short.iter().map(u8::to_string)),
        }
    }
    let plural = if values.len() == 1 { "" } else { "s" };
    format!("{name}{plural} {}", enumeration(&items, "and"))
}

fn ordinal(number: u8) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

/// The days and months, with what joins them to the times.
fn dates(fields: &Fields, all_hours: bool) -> String {
    let months: Vec<u8> = fields.month.values.iter().collect();
    let all_months = fields.month.values == ValueSet::all(Kind::Month);
    if every_day(fields) {
        let daily = if all_hours { "" } else { " every day" };
        return if all_months { daily.to_owned() } else { format!("{daily} {}", in_months(&months)) };
    }
    let weekdays: Vec<u8> =
        if fields.day_of_week.star { Vec::new() } else { fields.day_of_week.values.iter().collect() };
    // A weekday is no day "of January", so beside one the month is said on its own.
    let named_month = match months.as_slice() {
        [only] if weekdays.is_empty() => Some(name(&MONTHS, only - 1)),
        _ => None,
    };
    let days = day_phrases(fields, named_month.unwrap_or("the month"));
    let days = match (days.as_slice(), weekday_run(&weekdays)) {
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

/// Whether no day is left out, be it that no field restricts the day or that one allows them all.
fn every_day(fields: &Fields) -> bool {
    let (day, weekday) = (&fields.day, &fields.day_of_week);
    (day.star && weekday.star)
        || (!day.star && day.values == ValueSet::all(Kind::Day))
        || (!weekday.star && weekday.values == ValueSet::all(Kind::DayOfWeek))
}

/// Every choice of days except plain weekdays.
fn day_phrases(fields: &Fields, month: &str) -> Vec<String> {
    let mut phrases = Vec::new();
    if !fields.day.star {
        let days: Vec<u8> = fields.day.values.iter().collect();
        if !days.is_empty() {
            phrases.push(format!("on {} of {month}", values("day", &days)));
        }
        phrases.extend(fields.day.specials.iter().map(|special| special_day(*special, month)));
    }
    if !fields.day_of_week.star {
        phrases.extend(fields.day_of_week.specials.iter().map(|special| special_day(*special, month)));
    }
    phrases
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

/// First and last of three or more weekdays in a row, also round the end of the week.
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

/// First and last of three or more values that follow one another on the ring of `size` values from `low`.
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
