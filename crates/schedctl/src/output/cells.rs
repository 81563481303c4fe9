//! Formats of cells, the same in all tables. Pure.

use std::fmt::Display;

use chrono::{DateTime, SecondsFormat, Utc};
use sched_wire::EffectiveNumber;

/// Formats an instant to the second, in UTC.
pub(crate) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// Formats a duration with its significant digits.
pub(crate) fn duration(milliseconds: i64) -> String {
    let seconds = milliseconds / 1000;
    match milliseconds {
        ..1000 => format!("{milliseconds}ms"),
        1000..60_000 => format!("{seconds}.{}s", milliseconds % 1000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// `1 run`, `2 runs`.
pub(crate) fn count<N: Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    let noun = if number == N::from(1) { one } else { many };
    format!("{number} {noun}")
}

/// Formats the age of a value.
pub(crate) fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s ago"),
        60..3600 => format!("{}m{:02}s ago", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m ago", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats the offset of one clock to another, in seconds, to the millisecond.
pub(crate) fn offset(seconds: f64) -> String {
    // Turns a rounded -0 into 0.
    let milliseconds = (seconds * 1000.0).round() + 0.0;
    format!("{:+.3}s", milliseconds / 1000.0)
}

/// With its origin, as in `300s (function)`.
pub(crate) fn effective(number: EffectiveNumber, unit: &str) -> String {
    format!("{}{unit} ({})", number.value, number.origin)
}

pub(crate) fn yes_or_no(is_so: bool) -> String {
    if is_so { "yes" } else { "no" }.to_owned()
}

pub(crate) fn or_dash<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

pub(crate) fn join_list(words: &[String]) -> String {
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_show_the_digits_that_matter() {
        for (milliseconds, shown) in [
            (0, "0ms"),
            (999, "999ms"),
            (1000, "1.0s"),
            (59_999, "59.9s"),
            (60_000, "1m00s"),
            (3_599_999, "59m59s"),
            (3_600_000, "1h00m"),
            (90_061_000, "25h01m"),
        ] {
            assert_eq!(duration(milliseconds), shown);
        }
    }

    #[test]
    fn noun_agrees_with_its_number() {
        let runs = |number: i64| count(number, "run", "runs");
        assert_eq!([runs(0), runs(1), runs(2)], ["0 runs", "1 run", "2 runs"]);
    }

    #[test]
    fn age_is_in_whole_seconds() {
        assert_eq!([age(0), age(12), age(90)], ["0s ago", "12s ago", "1m30s ago"]);
    }

    #[test]
    fn offsets_have_a_sign_and_milliseconds() {
        for (seconds, shown) in
            [(0.0, "+0.000s"), (-0.0004, "+0.000s"), (1.2345, "+1.235s"), (-3600.0, "-3600.000s")]
        {
            assert_eq!(offset(seconds), shown);
        }
    }

    #[test]
    fn what_is_not_there_is_a_dash() {
        assert_eq!(or_dash::<i32>(None), "-");
        assert_eq!(or_dash(Some(7)), "7");
    }
}
