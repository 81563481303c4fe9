//! Tests of calendars through their public interface, and slow models.

mod engine;
mod entries;
mod icalendar;
mod properties;
mod refusals;
mod rules;

use chrono::NaiveDateTime;
use serde_json::Value;

use super::Calendar;

fn at(text: &str) -> NaiveDateTime {
    let text = if text.len() == 10 { format!("{text}T00:00") } else { text.to_owned() };
    let minutes = NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M");
    minutes
        .or_else(|_| NaiveDateTime::parse_from_str(&text, "%Y-%m-%dT%H:%M:%S%.f"))
        .unwrap_or_else(|error| panic!("`{text}` is not a local time: {error}"))
}

fn calendar(definition: &Value) -> Calendar {
    Calendar::parse(definition).unwrap_or_else(|error| panic!("{definition} is refused: {error}"))
}

fn assert_exclusions(definition: &Value, expected: &[(&str, Option<&str>)]) {
    let calendar = calendar(definition);
    for (time, end) in expected {
        assert_eq!(calendar.exclusion_at(at(time)), end.map(at), "{definition} at {time}");
    }
}

fn beginnings(calendar: &Calendar, after: &str, count: usize) -> Vec<NaiveDateTime> {
    let mut from = at(after);
    let mut found = Vec::new();
    while let Some(beginning) = calendar.next_exclusion(from).filter(|_| found.len() < count) {
        found.push(beginning);
        from = beginning;
        while let Some(end) = calendar.exclusion_at(from) {
            from = end;
        }
    }
    found
}

fn assert_beginnings(definition: &Value, after: &str, expected: &[&str]) {
    let expected: Vec<NaiveDateTime> = expected.iter().map(|text| at(text)).collect();
    assert_eq!(beginnings(&calendar(definition), after, expected.len()), expected, "{definition}");
}
