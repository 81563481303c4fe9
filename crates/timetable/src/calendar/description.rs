//! A calendar in English: one fragment for each kind of entry.
//!
//! Describes the entries as written, not their combined effect; long lists are summarised.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime, Weekday};

use super::{
    super::cron::enumeration,
    definition::Definition,
    rule::{LAST_YEAR, Rule},
    weekly::{DAY, WeeklyEntry},
    yearly::MonthDay,
};

/// Up to this many entries are listed one by one.
const LISTED: usize = 6;

const MONTHS: [&str; 12] = [
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

pub(super) fn describe(definition: &Definition) -> Vec<String> {
    let dates = |days: &[(NaiveDate, NaiveDate)]| listed(days, "dates or ranges of dates", date_range);
    let fragments = [
        (!definition.dates.is_empty()).then(|| format!("on {}", dates(&definition.dates))),
        (!definition.yearly.is_empty()).then(|| {
            format!("every year on {}", listed(&definition.yearly, "days or ranges of days", day_range))
        }),
        (!definition.weekly.is_empty())
            .then(|| format!("every week on {}", listed(&definition.weekly, "days or windows", weekly))),
        (!definition.windows.is_empty()).then(|| {
            listed(&definition.windows, "windows", |window| {
                format!("from {} to {}", time(window.from), time(window.until))
            })
        }),
        (!definition.rules.is_empty()).then(|| rules(&definition.rules)),
        (!definition.except.is_empty()).then(|| format!("but not on {}", dates(&definition.except))),
    ];
    fragments.into_iter().flatten().collect()
}

fn listed<T>(entries: &[T], names: &str, text: impl Fn(&T) -> String) -> String {
    if entries.len() > LISTED {
        return format!("{} {names}", entries.len());
    }
    enumeration(&entries.iter().map(text).collect::<Vec<_>>(), "and")
}

fn date_range((first, last): &(NaiveDate, NaiveDate)) -> String {
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

fn day_range((first, last): &(MonthDay, MonthDay)) -> String {
    let day = |day: &MonthDay| {
        let month = usize::try_from(day.month).ok().and_then(|month| MONTHS.get(month.checked_sub(1)?));
        format!("{} {}", day.day, month.copied().unwrap_or_default())
    };
    if first == last { day(first) } else { format!("{} to {}", day(first), day(last)) }
}

fn weekly(entry: &WeeklyEntry) -> String {
    let names: Vec<String> = entry.days.iter().map(|day| weekday(*day).to_owned()).collect();
    let days = enumeration(&names, "and");
    if (entry.from, entry.until) == (0, DAY) {
        return days;
    }
    let next_day = if entry.until <= entry.from { " of the next day" } else { "" };
    format!("{days} from {} to {}{next_day}", clock(entry.from), clock(entry.until))
}

fn weekday(day: Weekday) -> &'static str {
    match day {
        Weekday::Mon => "Monday",
        Weekday::Tue => "Tuesday",
        Weekday::Wed => "Wednesday",
        Weekday::Thu => "Thursday",
        Weekday::Fri => "Friday",
        Weekday::Sat => "Saturday",
        Weekday::Sun => "Sunday",
    }
}

fn clock(second: u32) -> String {
    let (hour, minute, rest) = (second / 3600, second / 60 % 60, second % 60);
    if rest == 0 { format!("{hour:02}:{minute:02}") } else { format!("{hour:02}:{minute:02}:{rest:02}") }
}

fn time(at: NaiveDateTime) -> String {
    let second = (at.time() - NaiveTime::MIN).num_seconds();
    format!("{} {}", at.date(), clock(u32::try_from(second).unwrap_or(0)))
}

fn rules(rules: &[Rule]) -> String {
    let occurrences: usize = rules.iter().map(Rule::count).sum();
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    format!(
        "{} recurrence rule{} with {occurrences} occurrence{} up to {LAST_YEAR}",
        rules.len(),
        plural(rules.len()),
        plural(occurrences)
    )
}
