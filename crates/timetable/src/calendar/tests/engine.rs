//! The known faults of the rrule crate, against which `frequency` or `recurrence` protects users. A
//! failure means that the crate has changed; the check may then be unnecessary.

use chrono::{DateTime, TimeZone as _};
use rrule::{RRule, RRuleSet, Tz, Unvalidated};
use serde_json::json;

use super::super::Calendar;

fn start() -> DateTime<Tz> {
    Tz::UTC.with_ymd_and_hms(2026, 1, 5, 0, 0, 0).single().expect("an instant")
}

fn days(rule: &str, count: u16) -> Vec<String> {
    let rule: RRule<Unvalidated> = rule.parse().expect("the crate takes it");
    let rule = rule.validate(start()).expect("the crate finds nothing wrong");
    let found = RRuleSet::new(start()).rrule(rule).all(count);
    found.dates.iter().map(|date| date.date_naive().to_string()).collect()
}

fn refusal(rule: &str) -> String {
    let definition = json!({"rules": [format!("DTSTART:20260105\nRRULE:{rule}")]});
    Calendar::parse(&definition).expect_err("a refusal").to_string()
}

#[test]
fn plain_and_numbered_weekdays_in_one_list_never_match() {
    let rule = "FREQ=MONTHLY;BYDAY=MO,1TU";
    assert!(days(rule, 5).is_empty());
    assert!(refusal(rule).contains("with and without a number"), "{}", refusal(rule));
}

#[test]
fn day_zero_means_the_day_of_the_start() {
    let rule = "FREQ=MONTHLY;BYMONTHDAY=0";
    assert_eq!(days(rule, 2), ["2026-01-05", "2026-02-05"]);
    assert!(refusal(rule).contains("BYMONTHDAY has `0`"), "{}", refusal(rule));
}

#[test]
fn days_of_the_month_counted_from_its_end_are_taken_in_weeks() {
    let rule = "FREQ=WEEKLY;BYMONTHDAY=-1";
    assert!(!days(rule, 1).is_empty());
    assert!(refusal(rule).contains("BYMONTHDAY has no meaning with FREQ=WEEKLY"), "{}", refusal(rule));
}

#[test]
fn exhausted_search_does_not_report_it() {
    let rule: RRule<Unvalidated> = "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30".parse().expect("the crate takes it");
    let found = RRuleSet::new(start()).rrule(rule.validate(start()).expect("valid")).all(1);
    assert!(found.dates.is_empty() && !found.limited);
    assert!(refusal("FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30").contains("matches no day up to 2100"));
}

#[test]
fn feasts_before_new_year_are_lost() {
    let found = days("FREQ=YEARLY;BYEASTER=-100", 5);
    assert!(found.last().is_some_and(|day| day.as_str() > "2031"), "{found:?}");
    assert!(refusal("FREQ=YEARLY;BYEASTER=-100").contains("from -80 to 250"));
}
