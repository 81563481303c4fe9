//! RFC 5545 rules: holidays, the lines of a rule, and a slow model.

use chrono::{Datelike as _, Days, NaiveDate, NaiveDateTime, TimeDelta, Weekday};
use proptest::prelude::*;
use serde_json::json;

use super::{super::rule::Rule, assert_beginnings, assert_exclusions, at, beginnings, calendar};

#[test]
fn thanksgiving_is_the_fourth_thursday_of_november() {
    assert_beginnings(
        &json!({"rules": ["DTSTART;VALUE=DATE:20261126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH"]}),
        "2026-01-01",
        &["2026-11-26", "2027-11-25", "2028-11-23", "2029-11-22", "2030-11-28"],
    );
}

#[test]
fn memorial_day_is_the_last_monday_of_may() {
    assert_beginnings(
        &json!({"rules": ["DTSTART;VALUE=DATE:20260525\nRRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO"]}),
        "2026-01-01",
        &["2026-05-25", "2027-05-31", "2028-05-29", "2029-05-28"],
    );
}

#[test]
fn exdate_removes_an_occurrence() {
    assert_beginnings(
        &json!({"rules": ["DTSTART;VALUE=DATE:20261126\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=4TH\nEXDATE;VALUE=DATE:20271125"]}),
        "2026-01-01",
        &["2026-11-26", "2028-11-23"],
    );
}

/// By the table of golden numbers and the letter of the year.
fn easter(year: i32) -> NaiveDate {
    let golden = year % 19 + 1;
    let century = year / 100 + 1;
    let (solar, lunar) = (3 * century / 4 - 12, (8 * century + 5) / 25 - 5);
    let mut epact = (11 * golden + 20 + lunar - solar).rem_euclid(30);
    if epact == 24 || (epact == 25 && golden > 11) {
        epact += 1;
    }
    let full_moon = if epact > 23 { 74 - epact } else { 44 - epact };
    let march = NaiveDate::from_ymd_opt(year, 3, 1).expect("a date");
    let moon = march + TimeDelta::days(i64::from(full_moon) - 1);
    moon + TimeDelta::days(7 - i64::from(moon.weekday().num_days_from_sunday()))
}

#[test]
fn easter_and_its_feasts_fall_on_their_days_in_every_year() {
    assert_eq!(easter(2027).to_string(), "2027-03-28");
    for offset in [-80, -48, -2, 0, 1, 39, 50, 60, 250] {
        let definition =
            json!({"rules": [format!("DTSTART;VALUE=DATE:19000101\nRRULE:FREQ=YEARLY;BYEASTER={offset}")]});
        let expected: Vec<NaiveDateTime> =
            (1900..=2100).map(|year| (easter(year) + TimeDelta::days(offset)).into()).collect();
        assert_eq!(
            beginnings(&calendar(&definition), "1900-01-01", 300),
            expected,
            "{offset} days from Easter"
        );
    }
}

#[test]
fn count_and_until_end_a_rule() {
    for end in ["COUNT=3", "UNTIL=20260119", "UNTIL=20260119T220000", "UNTIL=20260125T000000"] {
        let definition = json!({"rules": [{"rule": format!("DTSTART:20260105T220000\nRRULE:FREQ=WEEKLY;BYDAY=MO;{end}"), "duration": "PT2H"}]});
        assert_beginnings(
            &definition,
            "2026-01-01",
            &["2026-01-05T22:00", "2026-01-12T22:00", "2026-01-19T22:00"],
        );
        assert_eq!(calendar(&definition).next_exclusion(at("2026-01-20")), None, "{end}");
    }
    let before_exdate = json!({"rules": ["DTSTART:20260105\nRRULE:FREQ=WEEKLY;COUNT=3\nEXDATE:20260112"]});
    assert_eq!(beginnings(&calendar(&before_exdate), "2026-01-01", 9), [at("2026-01-05"), at("2026-01-19")]);
}

#[test]
fn a_duration_is_counted_from_the_beginning_of_each_occurrence() {
    assert_exclusions(
        &json!({"rules": [{"rule": "DTSTART:20260105T220000\nRRULE:FREQ=WEEKLY;BYDAY=MO", "duration": "PT3H"}]}),
        &[
            ("2026-01-05T21:59", None),
            ("2026-01-05T22:00", Some("2026-01-06T01:00")),
            ("2026-01-06T00:59", Some("2026-01-06T01:00")),
            ("2026-01-06T01:00", None),
            ("2099-12-28T23:00", Some("2099-12-29T01:00")),
        ],
    );
}

#[test]
fn without_a_duration_the_whole_day_is_excluded() {
    for rule in [
        "DTSTART:20260105T220000\nRRULE:FREQ=WEEKLY;BYDAY=MO",
        "DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=WEEKLY",
    ] {
        assert_exclusions(
            &json!({ "rules": [rule] }),
            &[
                ("2026-01-05T08:00", Some("2026-01-06")),
                ("2026-01-12T00:00", Some("2026-01-13")),
                ("2026-01-13", None),
            ],
        );
    }
}

#[test]
fn days_may_last_several_days() {
    assert_exclusions(
        &json!({"rules": [{"rule": "DTSTART;VALUE=DATE:20261224\nRRULE:FREQ=YEARLY", "duration": "P3D"}]}),
        &[
            ("2027-12-24T10:00", Some("2027-12-27")),
            ("2027-12-26T23:00", Some("2027-12-27")),
            ("2027-12-27", None),
        ],
    );
}

#[test]
fn rdate_adds_to_a_rule_or_replaces_it() {
    assert_beginnings(
        &json!({"rules": ["DTSTART;VALUE=DATE:20260105\nRRULE:FREQ=YEARLY;COUNT=2\nRDATE;VALUE=DATE:20260210,20260108\nRDATE:20260301"]}),
        "2026-01-01",
        &["2026-01-05", "2026-01-08", "2026-02-10", "2026-03-01", "2027-01-05"],
    );
    let alone = json!({"rules": ["DTSTART:20260105\nRDATE:20260108"]});
    assert_eq!(beginnings(&calendar(&alone), "2026-01-01", 9), [at("2026-01-05"), at("2026-01-08")]);
}

#[test]
fn unmatched_dtstart_is_not_an_occurrence() {
    assert_beginnings(
        &json!({"rules": ["DTSTART:20260101\nRRULE:FREQ=WEEKLY;BYDAY=MO"]}),
        "2026-01-01",
        &["2026-01-05"],
    );
}

#[test]
fn date_exdate_removes_occurrences_starting_that_day() {
    for exdate in ["20260112", "20260112T220000", "20260112,20250101"] {
        let rule = format!("DTSTART:20260105T220000\nRRULE:FREQ=WEEKLY;COUNT=2\nEXDATE:{exdate}");
        let definition = json!({"rules": [{"rule": rule, "duration": "PT1H"}]});
        assert_eq!(beginnings(&calendar(&definition), "2026-01-01", 9), [at("2026-01-05T22:00")], "{exdate}");
    }
}

#[test]
fn lines_may_be_folded_and_names_in_any_case() {
    assert_beginnings(
        &json!({"rules": ["dtstart;value=date:20261126\r\nrrule:freq=yearly;bymon\r\n th=11;\n\tbyday=4th\r\n"]}),
        "2026-01-01",
        &["2026-11-26", "2027-11-25"],
    );
}

#[test]
fn rules_end_with_the_year_2100() {
    let yearly = calendar(&json!({"rules": ["DTSTART;VALUE=DATE:20001231\nRRULE:FREQ=YEARLY"]}));
    assert_eq!(yearly.next_exclusion(at("2100-01-01")), Some(at("2100-12-31")));
    assert_eq!(yearly.next_exclusion(at("2101-01-01")), None);
}

#[derive(Debug, Clone)]
struct Model {
    start: NaiveDate,
    interval: i64,
    rule: Recurring,
    months: Vec<u32>,
}

#[derive(Debug, Clone)]
enum Recurring {
    Daily,
    Weekly(Vec<Weekday>, Weekday),
    DayOfMonth(Vec<i32>),
    NthOfMonth(Vec<(i32, Weekday)>),
    NthOfYear(i32, Weekday),
    DayOfYear(Vec<i32>),
}

const DAYS: [Weekday; 7] =
    [Weekday::Mon, Weekday::Tue, Weekday::Wed, Weekday::Thu, Weekday::Fri, Weekday::Sat, Weekday::Sun];

fn short(day: Weekday) -> String {
    day.to_string().chars().take(2).collect::<String>().to_uppercase()
}

fn is_nth(nth: i32, position: u32, total: u32) -> bool {
    let (position, total) = (i32::try_from(position).expect("small"), i32::try_from(total).expect("small"));
    nth == position || nth == position - total - 1
}

impl Model {
    fn text(&self) -> String {
        let list = |values: Vec<String>| values.join(",");
        let months = list(self.months.iter().map(u32::to_string).collect());
        let numbers = |values: &[i32]| list(values.iter().map(i32::to_string).collect());
        let rule = match &self.rule {
            Recurring::Daily => "FREQ=DAILY".to_owned(),
            Recurring::Weekly(days, first) => {
                format!(
                    "FREQ=WEEKLY;WKST={};BYDAY={}",
                    short(*first),
                    list(days.iter().map(|day| short(*day)).collect())
                )
            }
            Recurring::DayOfMonth(days) => format!("FREQ=MONTHLY;BYMONTHDAY={}", numbers(days)),
            Recurring::NthOfMonth(days) => {
                format!(
                    "FREQ=MONTHLY;BYDAY={}",
                    list(days.iter().map(|(nth, day)| format!("{nth}{}", short(*day))).collect())
                )
            }
            Recurring::NthOfYear(nth, day) => format!("FREQ=YEARLY;BYDAY={nth}{}", short(*day)),
            Recurring::DayOfYear(days) => format!("FREQ=YEARLY;BYYEARDAY={}", numbers(days)),
        };
        let months = if months.is_empty() { months } else { format!(";BYMONTH={months}") };
        format!(
            "DTSTART;VALUE=DATE:{}\nRRULE:{rule};INTERVAL={}{months}",
            self.start.format("%Y%m%d"),
            self.interval
        )
    }

    fn matches(&self, day: NaiveDate) -> bool {
        let first =
            |date: NaiveDate, start: Weekday| date - TimeDelta::days(date.weekday().days_since(start).into());
        let month = |date: NaiveDate| i64::from(date.year()) * 12 + i64::from(date.month0());
        let length = u32::from(day.num_days_in_month());
        let year_length = if day.leap_year() { 366 } else { 365 };
        let (steps, fits) = match &self.rule {
            Recurring::Daily => ((day - self.start).num_days(), true),
            Recurring::Weekly(days, start) => {
                ((first(day, *start) - first(self.start, *start)).num_weeks(), days.contains(&day.weekday()))
            }
            Recurring::DayOfMonth(days) => {
                (month(day) - month(self.start), days.iter().any(|nth| is_nth(*nth, day.day(), length)))
            }
            Recurring::NthOfMonth(days) => {
                let position = day.day0() / 7 + 1;
                let total = position + (length - day.day()) / 7;
                let fits = |(nth, weekday): &(i32, Weekday)| {
                    *weekday == day.weekday() && is_nth(*nth, position, total)
                };
                (month(day) - month(self.start), days.iter().any(fits))
            }
            Recurring::NthOfYear(nth, weekday) => {
                let position = day.ordinal0() / 7 + 1;
                let total = position + (year_length - day.ordinal()) / 7;
                (
                    i64::from(day.year() - self.start.year()),
                    *weekday == day.weekday() && is_nth(*nth, position, total),
                )
            }
            Recurring::DayOfYear(days) => (
                i64::from(day.year() - self.start.year()),
                days.iter().any(|nth| is_nth(*nth, day.ordinal(), year_length)),
            ),
        };
        let month_fits = self.months.is_empty() || self.months.contains(&day.month());
        day >= self.start && steps % self.interval == 0 && fits && month_fits
    }
}

fn nth(least: i32, most: i32) -> impl Strategy<Value = i32> {
    prop_oneof![1..=most, least..=-1]
}

fn weekday() -> impl Strategy<Value = Weekday> {
    prop::sample::select(&DAYS[..])
}

fn recurring() -> impl Strategy<Value = (Recurring, bool)> {
    prop_oneof![
        Just((Recurring::Daily, true)),
        (prop::collection::vec(weekday(), 1..4), weekday())
            .prop_map(|(days, first)| (Recurring::Weekly(days, first), true)),
        prop::collection::vec(nth(-31, 31), 1..4).prop_map(|days| (Recurring::DayOfMonth(days), true)),
        prop::collection::vec((nth(-4, 5), weekday()), 1..4)
            .prop_map(|days| (Recurring::NthOfMonth(days), true)),
        // With BYMONTH the weekdays are numbered within the months.
        (nth(-52, 53), weekday()).prop_map(|(nth, day)| (Recurring::NthOfYear(nth, day), false)),
        prop::collection::vec(nth(-366, 366), 1..4).prop_map(|days| (Recurring::DayOfYear(days), true)),
    ]
}

fn model() -> impl Strategy<Value = Model> {
    let months = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(1..=12_u32, 1..4)];
    (recurring(), 0..30_000_u64, 1..=7_i64, months).prop_map(
        |((rule, with_months), start, interval, months)| Model {
            start: NaiveDate::from_ymd_opt(1990, 1, 1).expect("a date") + Days::new(start),
            interval,
            rule,
            months: if with_months { months } else { Vec::new() },
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn a_rule_occurs_on_the_days_of_the_model(model in model()) {
        let end = NaiveDate::from_ymd_opt(2101, 1, 1).expect("a date");
        let expected: Vec<NaiveDate> =
            model.start.iter_days().take_while(|day| *day < end).filter(|day| model.matches(*day)).collect();
        match Rule::parse("rule", &model.text(), None) {
            Ok(rule) => {
                let days: Vec<NaiveDate> = rule.stretches().map(|stretch| stretch.from.date()).collect();
                prop_assert_eq!(days, expected, "{}", model.text());
            }
            Err(error) => {
                let (too_many, none) = (expected.len() > 10_000, expected.is_empty());
                prop_assert!(too_many || none, "{} is refused ({}) but has {}", model.text(), error, expected.len());
            }
        }
    }
}
