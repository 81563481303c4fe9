//! An accepted cron expression for the slow reading of the unit tests, by which both targets judge.
//!
//! That reading knows numbers only. Here names become numbers and `H` the values it stands for.

use crate::reference::{Reference, without_hashes};

/// In the order of their numbers, from Sunday.
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// In the order of their numbers, from January.
const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

/// Ranges of `H` over weekdays, so that each rises: a Sunday that begins one is 0 and a Sunday that ends one 7, but a
/// week has seven days.
const SUNDAYS: [(&str, &str); 5] =
    [("(7-7)", "(0-0)"), ("(7-", "(0-"), ("(0-7)", "(0-6)"), ("-0)", "-7)"), ("(0-7)", "(0-0)")];

/// An accepted expression of five or six fields, read slowly.
pub(crate) fn slowly(expression: &str, hash_key: &str) -> Reference {
    let text = with_numbers(expression);
    let fields: Vec<&str> = text.split(' ').map(|field| if field == "H/1" { "*" } else { field }).collect();
    let (weekday, others) = fields.split_last().expect("five fields or six");
    let weekday =
        SUNDAYS.iter().fold((*weekday).to_owned(), |field, (range, plain)| field.replace(range, plain));
    let second = if fields.len() == 6 { "" } else { "0 " };
    Reference::new(&without_hashes(&format!("{second}{} {weekday}", others.join(" ")), hash_key))
}

/// One blank between fields, `*` for `?`, and numbers for names, without leading zeros.
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
