//! Accepted cron expressions for the slow reading of the unit tests, used by both targets. That
//! reading needs numbers: names become numbers, and `H` its values.

use sched_timetable::{CronOptions, DayMatch};

use crate::reference::{Reference, without_hashes};

const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/// Ranges of `H` over weekdays, so that each rises: Sunday is 0 at the begin of a range and 7 at
/// its end, but a week has seven days.
const SUNDAYS: [(&str, &str); 5] =
    [("(7-7)", "(0-0)"), ("(7-", "(0-"), ("(0-7)", "(0-6)"), ("-0)", "-7)"), ("(0-7)", "(0-0)")];

pub(crate) fn slowly(expression: &str, options: &CronOptions<'_>) -> Reference {
    let text = with_numbers(expression);
    let fields: Vec<&str> = text.split(' ').map(|field| if field == "H/1" { "*" } else { field }).collect();
    let (weekday, others) = fields.split_last().expect("five fields or six");
    let weekday =
        SUNDAYS.iter().fold((*weekday).to_owned(), |field, (range, plain)| field.replace(range, plain));
    let second = if fields.len() == 6 { "" } else { "0 " };
    let plain = without_hashes(&format!("{second}{} {weekday}", others.join(" ")), options.hash_key);
    Reference::new(&plain).with_day_match(options.day_match.map(|day_match| day_match == DayMatch::Both))
}

/// One blank between fields, `*` for `?`, and numbers without leading zeros for names.
fn with_numbers(expression: &str) -> String {
    let fields: Vec<&str> = expression.trim().split_ascii_whitespace().collect();
    let mut text = fields.join(" ").to_ascii_uppercase().replace('?', "*");
    for (number, name) in (0..).zip(WEEKDAYS).chain((1..).zip(MONTHS)) {
        text = text.replace(name, &format!("{number}"));
    }
    let digit_before = |text: &str| text.ends_with(|last: char| last.is_ascii_digit());
    let mut plain = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        let leads = character == '0' && rest.peek().is_some_and(char::is_ascii_digit);
        if !leads || digit_before(&plain) {
            plain.push(character);
        }
    }
    plain
}
