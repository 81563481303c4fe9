//! A cron expression as an English sentence.
//!
//! Derived from the meaning of the fields, so two spellings of one schedule give the same sentence.
//! Exactness comes before style: a sentence states every second, minute, hour, day and month, or a
//! rule that yields exactly them.

mod dates;
mod times;

use self::times::Times;
use super::Fields;

pub(super) use dates::MONTHS;

/// More times or values become a rule where one exists.
const LISTED: usize = 6;

pub(super) fn sentence(fields: &Fields) -> String {
    let times = Times {
        seconds: fields.second.as_ref().map_or_else(|| vec![0], |second| second.values.iter().collect()),
        minutes: fields.minute.values.iter().collect(),
        hours: fields.hour.values.iter().collect(),
    };
    format!("{}{}.", times.phrase(), dates::dates(fields, times.all_hours()))
}

pub(in super::super) fn enumeration(items: &[String], last_word: &str) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} {last_word} {last}", most.join(", ")),
    }
}

fn regular(values: &[u8]) -> Option<(u8, u8, u8)> {
    let [first, second, .., last] = values else { return None };
    let step = second - first;
    let even = values.windows(2).all(|pair| matches!(pair, [left, right] if right - left == step));
    even.then_some((*first, *last, step))
}

/// `minutes 5, 10 to 20 and 30`, or `every 7th minute from 0 to 56`.
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
