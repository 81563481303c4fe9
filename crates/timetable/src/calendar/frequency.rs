//! The `RRULE` line: its parts and their accepted values.
//!
//! Stricter than the engine. Values that the engine interprets differently from the RFC are
//! rejected: plain and numbered weekdays in one list (the engine requires both), day 0 (the engine
//! takes the day of `DTSTART`), numbered weekdays in weeks, and offsets from Easter that leave the
//! year. Frequencies below a day and long lists of times are rejected because their cost has no
//! bound. Pure.

use super::{
    super::error::{QuotedText, ScheduleError},
    notation::{Moment, moment, no_zone},
};

/// Of one part: every minute of an hour, and some to spare.
const MAX_VALUES: usize = 62;

/// Times of day that BYHOUR, BYMINUTE and BYSECOND may name together.
const MAX_TIMES: usize = 24;

const WEEKDAYS: [&str; 7] = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"];

/// Whole numbers with their range. In a range with negative values, 0 is not allowed.
const NUMBERS: [(&str, i32, i32); 7] = [
    ("BYMONTH", 1, 12),
    ("BYMONTHDAY", -31, 31),
    ("BYYEARDAY", -366, 366),
    ("BYWEEKNO", -53, 53),
    ("BYHOUR", 0, 23),
    ("BYMINUTE", 0, 59),
    ("BYSECOND", 0, 59),
];

/// Offsets from Easter Sunday that stay in the year, every year.
const EASTER: (i32, i32) = (-80, 250);

#[derive(Debug)]
pub(super) struct Frequency {
    text: String,
    until: Option<Moment>,
}

impl Frequency {
    /// `whole_days` is whether DTSTART is a date.
    pub(super) fn parse(field: &str, text: &str, whole_days: bool) -> Result<Self, ScheduleError> {
        let parts = Parts::parse(text).map_err(|message| ScheduleError::invalid(field, message))?;
        parts.check(whole_days).map_err(|message| ScheduleError::invalid(field, message))?;
        let until = parts.until().map_err(|message| ScheduleError::invalid(field, message))?;
        let kept = parts.0.iter().filter(|(key, _)| key != "UNTIL");
        let text = kept.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(";");
        Ok(Self { text, until })
    }

    /// In normal form, without UNTIL.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// As it was written.
    pub(super) fn until(&self) -> Option<Moment> {
        self.until
    }
}

struct Parts(Vec<(String, String)>);

impl Parts {
    fn parse(text: &str) -> Result<Self, String> {
        let mut parts: Vec<(String, String)> = Vec::new();
        for part in text.trim().trim_end_matches(';').split(';') {
            let Some((key, value)) = part.split_once('=') else {
                return Err(format!(
                    "RRULE has {}; write its parts such as `FREQ=YEARLY;BYMONTH=5`",
                    QuotedText(part)
                ));
            };
            let (key, value) = (key.trim().to_ascii_uppercase(), value.trim().to_ascii_uppercase());
            if parts.iter().any(|(known, _)| *known == key) {
                return Err(format!("RRULE has {key} twice; write all its values in one list"));
            }
            parts.push((key, value));
        }
        Ok(Self(parts))
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    fn values(&self, key: &str) -> usize {
        self.get(key).map_or(0, |value| value.split(',').count())
    }

    fn check(&self, whole_days: bool) -> Result<(), String> {
        let frequency = self.frequency()?;
        for (key, value) in &self.0 {
            if value.split(',').count() > MAX_VALUES {
                return Err(format!("{key} has more than {MAX_VALUES} values; use several rules"));
            }
            self.check_part(frequency, key, value)?;
        }
        if self.get("COUNT").is_some() && self.get("UNTIL").is_some() {
            return Err("RRULE has COUNT and UNTIL; keep one of them".to_owned());
        }
        let by = |key: &&(String, String)| key.0.starts_with("BY") && key.0 != "BYSETPOS";
        if self.get("BYSETPOS").is_some() && self.0.iter().find(by).is_none() {
            return Err("BYSETPOS selects among the values of other BY… parts; add such a part".to_owned());
        }
        let clock = ["BYHOUR", "BYMINUTE", "BYSECOND"];
        if let Some(key) = clock.iter().find(|key| whole_days && self.get(key).is_some()) {
            return Err(format!(
                "{key} cannot be combined with a DTSTART that is a date; give DTSTART a time, or drop {key}"
            ));
        }
        if clock.iter().map(|key| self.values(key).max(1)).product::<usize>() > MAX_TIMES {
            return Err(format!(
                "BYHOUR, BYMINUTE and BYSECOND make more than {MAX_TIMES} times a day; use `weekly` with `from` and \
                 `until`, or a longer `duration`"
            ));
        }
        Ok(())
    }

    fn frequency(&self) -> Result<&str, String> {
        match self.get("FREQ") {
            Some(known @ ("YEARLY" | "MONTHLY" | "WEEKLY" | "DAILY")) => Ok(known),
            Some(fine @ ("HOURLY" | "MINUTELY" | "SECONDLY")) => Err(format!(
                "FREQ={fine} is too fine for a calendar; use `weekly` with `from` and `until`, or DAILY with BYHOUR"
            )),
            other => Err(format!(
                "RRULE has FREQ={}; use YEARLY, MONTHLY, WEEKLY or DAILY",
                QuotedText(other.unwrap_or_default())
            )),
        }
    }

    fn check_part(&self, frequency: &str, key: &str, value: &str) -> Result<(), String> {
        let only_in = |allowed: &[&str]| {
            let fits = allowed.contains(&frequency);
            let message =
                || format!("{key} has no meaning with FREQ={frequency}; use FREQ={}", allowed.join(" or "));
            if fits { Ok(()) } else { Err(message()) }
        };
        match key {
            "FREQ" | "UNTIL" => Ok(()),
            "INTERVAL" => number(key, value, 1, 1000),
            "COUNT" => number(key, value, 1, 1_000_000),
            "WKST" if WEEKDAYS.contains(&value) => Ok(()),
            "WKST" => Err(format!("WKST has {}; use {}", QuotedText(value), WEEKDAYS.join(", "))),
            "BYDAY" => self.check_weekdays(frequency, value),
            "BYEASTER" => {
                only_in(&["YEARLY"])?;
                number(key, value, EASTER.0, EASTER.1)
            }
            "BYSETPOS" => {
                let most = match frequency {
                    "MONTHLY" => 31,
                    "WEEKLY" => 53,
                    _ => 366,
                };
                value.split(',').try_for_each(|text| nonzero(key, text, -most, most))
            }
            _ => {
                let Some((_, low, high)) = NUMBERS.iter().find(|(known, ..)| *known == key) else {
                    return Err(format!("RRULE has a part {}, which is unknown", QuotedText(key)));
                };
                match key {
                    "BYMONTHDAY" => only_in(&["YEARLY", "MONTHLY", "DAILY"])?,
                    "BYYEARDAY" | "BYWEEKNO" => only_in(&["YEARLY"])?,
                    _ => {}
                }
                let check = if *low < 0 { nonzero } else { number };
                value.split(',').try_for_each(|text| check(key, text, *low, *high))
            }
        }
    }

    fn check_weekdays(&self, frequency: &str, value: &str) -> Result<(), String> {
        let mut numbered = 0;
        for text in value.split(',') {
            let day = WEEKDAYS.iter().find_map(|day| text.strip_suffix(day));
            let Some(nth) = day else {
                return Err(format!("BYDAY has {}; use such as `MO`, `4TH` or `-1FR`", QuotedText(text)));
            };
            if nth.is_empty() {
                continue;
            }
            numbered += 1;
            // The engine counts back only as far as every month and every year has that weekday.
            let nth = nth.strip_prefix('+').unwrap_or(nth);
            match frequency {
                "MONTHLY" => nonzero("BYDAY", nth, -4, 5)?,
                "YEARLY" if self.get("BYWEEKNO").is_none() => nonzero("BYDAY", nth, -52, 53)?,
                _ => {
                    return Err(format!(
                        "BYDAY has {}, but weekdays are numbered in months and years only; use FREQ=MONTHLY, or \
                         FREQ=YEARLY without BYWEEKNO",
                        QuotedText(text)
                    ));
                }
            }
        }
        if numbered != 0 && numbered != value.split(',').count() {
            return Err(format!(
                "BYDAY has weekdays with and without a number in {}; write a separate rule for each kind",
                QuotedText(value)
            ));
        }
        Ok(())
    }

    fn until(&self) -> Result<Option<Moment>, String> {
        let Some(text) = self.get("UNTIL") else { return Ok(None) };
        match moment(text) {
            Some(Moment::Utc(_)) => Err(no_zone("UNTIL", text)),
            Some(moment) => Ok(Some(moment)),
            None => Err(format!("UNTIL has {}; write it such as `20301231`", QuotedText(text))),
        }
    }
}

fn number(key: &str, text: &str, low: i32, high: i32) -> Result<(), String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<i32>() {
        Ok(number) if plain && (low..=high).contains(&number) => Ok(()),
        _ => Err(format!("{key} has {}; allowed are whole numbers from {low} to {high}", QuotedText(text))),
    }
}

/// Without 0: values count from the beginning or from the end.
fn nonzero(key: &str, text: &str, low: i32, high: i32) -> Result<(), String> {
    match text.parse::<i32>() {
        Ok(0) => Err(format!("{key} has `0`; count from 1, or back from -1")),
        _ => number(key, text, low, high),
    }
}
