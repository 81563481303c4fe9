//! Splits an expression into the texts of its fields, and expands nicknames.
//!
//! Checks the length first, which bounds the work.

use super::{
    super::error::{QuotedText, ScheduleError},
    EXPRESSION, MAX_EXPRESSION_LENGTH, field_names,
};

const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// As in crontab files.
pub(super) const BLANKS: [char; 2] = [' ', '\t'];

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(BLANKS).filter(|word| !word.is_empty())
}

pub(super) fn fields(text: &str, seconds: bool) -> Result<(Option<&str>, [&str; 5]), ScheduleError> {
    let refuse = |message: String| Err(ScheduleError::invalid(EXPRESSION, message));
    if text.len() > MAX_EXPRESSION_LENGTH {
        return refuse(format!("is {} bytes long; at most {MAX_EXPRESSION_LENGTH} are allowed", text.len()));
    }
    // A text block of YAML ends with a line end.
    let text = text.trim();
    if text.is_empty() {
        let example = if seconds {
            "six fields such as `0 0 9 * * MON-FRI`"
        } else {
            "five fields such as `0 9 * * MON-FRI`"
        };
        return refuse(format!("is empty; write {example}"));
    }
    if text.contains(|character: char| character.is_whitespace() && !BLANKS.contains(&character)) {
        return refuse(format!(
            "{} has a line end or white space that is neither blank nor tab; separate the fields by blanks or tabs",
            QuotedText(text)
        ));
    }
    let nickname = NICKNAMES.iter().find(|(nickname, _)| nickname.eq_ignore_ascii_case(text));
    if nickname.is_none() && text.starts_with('@') {
        let known: Vec<&str> = NICKNAMES.iter().map(|(nickname, _)| *nickname).collect();
        return refuse(format!("{} is not a nickname; use one of {}", QuotedText(text), known.join(", ")));
    }
    let words: Vec<&str> = words(nickname.map_or(text, |(_, fields)| fields)).collect();
    match (seconds, words.as_slice()) {
        (false, &[minute, hour, day, month, day_of_week]) => {
            Ok((None, [minute, hour, day, month, day_of_week]))
        }
        (true, &[second, minute, hour, day, month, day_of_week]) => {
            Ok((Some(second), [minute, hour, day, month, day_of_week]))
        }
        (true, &[minute, hour, day, month, day_of_week]) if nickname.is_some() => {
            Ok((Some("0"), [minute, hour, day, month, day_of_week]))
        }
        (_, words) => {
            let (number, names) = (words.len(), field_names(seconds).join(" "));
            let needed = match (seconds, number) {
                (true, _) => format!("with `\"seconds\": true` exactly six are needed: {names}"),
                (false, 6) => format!(
                    "exactly five are needed: {names}; for six, the first being the second, set `\"seconds\": true` beside the expression"
                ),
                (false, _) => format!("exactly five are needed: {names}"),
            };
            let plural = if number == 1 { "" } else { "s" };
            refuse(format!("{} has {number} field{plural}; {needed}", QuotedText(text)))
        }
    }
}
