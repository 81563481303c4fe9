//! A slow reference implementation of crontab expressions, without the engine.
//!
//! Takes valid text with numbers only and checks every single minute, or second.

use chrono::{Datelike, Days, NaiveDate, NaiveDateTime, TimeDelta, Timelike, Weekday};
use sha2::{Digest as _, Sha256};

pub(super) struct Reference {
    seconds: Vec<bool>,
    minutes: Vec<bool>,
    hours: Vec<bool>,
    months: Vec<bool>,
    day: String,
    weekday: String,
    both: bool,
}

impl Reference {
    pub(super) fn new(expression: &str) -> Self {
        let mut fields: Vec<&str> = expression.split(' ').collect();
        let second = if fields.len() == 6 { fields.remove(0) } else { "0" };
        let table =
            |field: &str, low, high| (0..=high).map(|value| in_list(field, value, low, high)).collect();
        let [day, weekday] = [fields[2], fields[4]];
        Self {
            seconds: table(second, 0, 59),
            minutes: table(fields[0], 0, 59),
            hours: table(fields[1], 0, 23),
            months: table(fields[3], 1, 12),
            day: day.to_owned(),
            weekday: weekday.to_owned(),
            // Vixie cron: DOM_STAR or DOW_STAR.
            both: day.starts_with('*') || weekday.starts_with('*'),
        }
    }

    /// A field that is `*` restricts no day.
    pub(super) fn with_day_match(mut self, both: Option<bool>) -> Self {
        let is_any = |field: &str| matches!(field.split(',').next(), Some("*" | "*/1"));
        if !is_any(&self.day) && !is_any(&self.weekday) {
            self.both = both.unwrap_or(self.both);
        }
        self
    }

    pub(super) fn matches(&self, at: NaiveDateTime) -> bool {
        self.matches_time(at) && self.matches_date(at.date())
    }

    fn matches_time(&self, at: NaiveDateTime) -> bool {
        self.seconds[at.second() as usize] && self.matches_minute(at)
    }

    fn matches_minute(&self, at: NaiveDateTime) -> bool {
        self.minutes[at.minute() as usize] && self.hours[at.hour() as usize]
    }

    fn matches_date(&self, date: NaiveDate) -> bool {
        let by_day = self.day.split(',').any(|item| day_matches(item, date));
        let by_weekday = self.weekday.split(',').any(|item| weekday_matches(item, date));
        self.months[date.month() as usize]
            && if self.both { by_day && by_weekday } else { by_day || by_weekday }
    }

    pub(super) fn next_after(&self, after: NaiveDateTime, days: u64) -> Option<NaiveDateTime> {
        (0..=days)
            .map(|distance| after.date() + Days::new(distance))
            .filter(|date| self.matches_date(*date))
            .find_map(|date| {
                let midnight = date.and_hms_opt(0, 0, 0).expect("midnight");
                (0..1440)
                    .map(|minute| midnight + TimeDelta::minutes(minute))
                    .filter(|at| self.matches_minute(*at))
                    .flat_map(|minute| (0..60).map(move |second| minute + TimeDelta::seconds(second)))
                    .find(|at| *at > after && self.matches_time(*at))
            })
    }
}

pub(super) fn without_hashes(expression: &str, key: &str) -> String {
    let fields = [
        ("second", 0, 59),
        ("minute", 0, 59),
        ("hour", 0, 23),
        ("day", 1, 28),
        ("month", 1, 12),
        ("day_of_week", 0, 6),
    ];
    let words = expression.split(' ').zip(fields).map(|(word, (name, low, high))| {
        let mut input = key.as_bytes().to_vec();
        input.push(0);
        input.extend(name.bytes());
        let digest = Sha256::digest(&input);
        let hash = digest.iter().take(8).fold(0_u64, |number, byte| number * 256 + u64::from(*byte));
        let items: Vec<String> = word.split(',').map(|item| without_hash(item, hash, low, high)).collect();
        items.join(",")
    });
    words.collect::<Vec<_>>().join(" ")
}

fn without_hash(item: &str, hash: u64, low: u32, high: u32) -> String {
    let Some(form) = item.strip_prefix('H') else { return item.to_owned() };
    let (range, step) = form.split_once('/').map_or((form, None), |(range, step)| (range, Some(step)));
    let (low, high) = range.strip_prefix('(').map_or((low, high), |range| {
        let (low, high) = range.trim_end_matches(')').split_once('-').expect("a range");
        (number(low), number(high))
    });
    match step.map(number) {
        None => (u64::from(low) + hash % u64::from(high - low + 1)).to_string(),
        Some(step) => {
            let first = low + (hash % u64::from(step)) as u32;
            let values: Vec<String> = (first..=high)
                .filter(|value| (value - first).is_multiple_of(step))
                .map(|value| value.to_string())
                .collect();
            values.join(",")
        }
    }
}

fn in_list(field: &str, value: u32, low: u32, high: u32) -> bool {
    value >= low && field.split(',').any(|item| in_item(item, value, low, high))
}

fn in_item(item: &str, value: u32, low: u32, high: u32) -> bool {
    let (range, step) =
        item.split_once('/').map_or((item, None), |(range, step)| (range, Some(number(step))));
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (number(first), number(last)),
        None if range == "*" => (low, high),
        None => (number(range), if step.is_some() { high } else { number(range) }),
    };
    let (mut here, mut walked) = (first, 0);
    loop {
        if here == value && walked % step.unwrap_or(1) == 0 {
            return true;
        }
        if here == last {
            return false;
        }
        here = if here == high { low } else { here + 1 };
        walked += 1;
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

fn month_length(date: NaiveDate) -> u32 {
    (28..=31)
        .rev()
        .find(|day| NaiveDate::from_ymd_opt(date.year(), date.month(), *day).is_some())
        .expect("a month has at least 28 days")
}

fn is_workday(date: NaiveDate) -> bool {
    !matches!(date.weekday(), Weekday::Sat | Weekday::Sun)
}

fn day_matches(item: &str, date: NaiveDate) -> bool {
    let length = month_length(date);
    if item == "L" {
        return date.day() == length;
    }
    if item == "LW" {
        let later_workday =
            (date.day() + 1..=length).any(|day| is_workday(date.with_day(day).expect("a day")));
        return is_workday(date) && !later_workday;
    }
    if let Some(before) = item.strip_prefix("L-") {
        return date.day() + number(before) == length;
    }
    if let Some(day) = item.strip_suffix('W') {
        // The workday of the month nearest to the day, if that day exists.
        let day = i64::from(number(day));
        let exists = day <= i64::from(length);
        let nearest = (1..=length)
            .filter(|other| is_workday(date.with_day(*other).expect("a day")))
            .min_by_key(|other| (i64::from(*other) - day).abs());
        return exists && nearest == Some(date.day());
    }
    in_item(item, date.day(), 1, 31)
}

fn weekday_matches(item: &str, date: NaiveDate) -> bool {
    let weekday = date.weekday().num_days_from_sunday();
    if let Some((day, nth)) = item.split_once('#') {
        let earlier =
            (1..date.day()).filter(|day| date.with_day(*day).expect("a day").weekday() == date.weekday());
        return number(day) % 7 == weekday && earlier.count() as u32 + 1 == number(nth);
    }
    if let Some(day) = item.strip_suffix('L') {
        return number(day) % 7 == weekday && date.day() + 7 > month_length(date);
    }
    // Seven as the end of a rising range is Sunday.
    match item.split_once('/').map_or(item, |(range, _)| range).split_once('-') {
        Some((first, last)) if number(first) <= number(last) => {
            let step = item.split_once('/').map_or(1, |(_, step)| number(step));
            (number(first)..=number(last)).step_by(step as usize).any(|day| day % 7 == weekday)
        }
        _ => in_item(&item.replace('7', "0"), weekday, 0, 6),
    }
}
