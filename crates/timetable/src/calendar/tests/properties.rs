//! Exclusions of generated calendars, against a model that checks single minutes.

use chrono::{Datelike as _, Days, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike as _, Weekday};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::calendar;

#[derive(Debug, Clone)]
enum Entry {
    Dates(NaiveDate, NaiveDate),
    Yearly((u32, u32), (u32, u32)),
    Weekly(Vec<Weekday>, u32, u32),
    Window(NaiveDateTime, NaiveDateTime),
    Rule(NaiveDateTime, i64, i64, NaiveDate),
    Except(NaiveDate, NaiveDate),
}

const MINUTES: u32 = 24 * 60;

fn midnight(day: NaiveDate) -> NaiveDateTime {
    day.and_time(NaiveTime::MIN)
}

impl Entry {
    fn list(&self) -> &'static str {
        match self {
            Self::Dates(..) => "dates",
            Self::Yearly(..) => "yearly",
            Self::Weekly(..) => "weekly",
            Self::Window(..) => "windows",
            Self::Rule(..) => "rules",
            Self::Except(..) => "except",
        }
    }

    fn value(&self) -> Value {
        let clock = |minute: &u32| format!("{:02}:{:02}", minute / 60, minute % 60);
        match self {
            Self::Dates(first, last) | Self::Except(first, last) => json!(format!("{first}/{last}")),
            Self::Yearly(first, last) if first == last => json!(format!("{:02}-{:02}", first.0, first.1)),
            Self::Yearly(first, last) => {
                json!(format!("{:02}-{:02}/{:02}-{:02}", first.0, first.1, last.0, last.1))
            }
            Self::Weekly(days, from, until) => {
                let days: Vec<String> = days.iter().map(|day| day.to_string().to_uppercase()).collect();
                json!({"days": days, "from": clock(from), "until": clock(until)})
            }
            Self::Window(from, until) => json!({
                "from": from.format("%Y-%m-%dT%H:%M").to_string(),
                "until": until.format("%Y-%m-%dT%H:%M").to_string(),
            }),
            Self::Rule(start, interval, minutes, until) => json!({
                "rule": format!(
                    "DTSTART:{}\nRRULE:FREQ=DAILY;INTERVAL={interval};UNTIL={}",
                    start.format("%Y%m%dT%H%M%S"),
                    until.format("%Y%m%d")
                ),
                "duration": format!("PT{minutes}M"),
            }),
        }
    }

    fn covering(&self, at: NaiveDateTime) -> Option<NaiveDateTime> {
        match self {
            Self::Dates(first, last) | Self::Except(first, last) => {
                ((*first..=*last).contains(&at.date())).then(|| midnight(*last + Days::new(1)))
            }
            Self::Yearly(first, last) => {
                let covers = |day: NaiveDate| {
                    let day = (day.month(), day.day());
                    if first <= last { *first <= day && day <= *last } else { day >= *first || day <= *last }
                };
                let ends = |day: NaiveDate| {
                    let next = day + Days::new(1);
                    (day.month(), day.day()) == *last || (next.month(), next.day()) == *first || !covers(next)
                };
                let last = covers(at.date()).then(|| at.date().iter_days().find(|day| ends(*day)))?;
                last.map(|day| midnight(day + Days::new(1)))
            }
            Self::Weekly(days, from, until) => {
                let length = if until > from { until - from } else { MINUTES + until - from };
                [at.date(), at.date() - Days::new(1)].into_iter().find_map(|day| {
                    let from = midnight(day) + TimeDelta::minutes(i64::from(*from));
                    let until = from + TimeDelta::minutes(i64::from(length));
                    (days.contains(&day.weekday()) && (from..until).contains(&at)).then_some(until)
                })
            }
            Self::Window(from, until) => (*from..*until).contains(&at).then_some(*until),
            Self::Rule(start, interval, minutes, until) => {
                let length = TimeDelta::minutes(*minutes);
                let days = (at - *start).num_days();
                (days - 60..=days + 1).filter(|day| *day >= 0 && day % interval == 0).find_map(|day| {
                    let from = *start + TimeDelta::days(day);
                    (from.date() <= *until && (from..from + length).contains(&at)).then_some(from + length)
                })
            }
        }
    }
}

fn model(entries: &[Entry], at: NaiveDateTime) -> Option<NaiveDateTime> {
    let (except, entries): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|entry| entry.list() == "except");
    if except.iter().any(|entry| entry.covering(at).is_some()) {
        return None;
    }
    let end = entries.iter().filter_map(|entry| entry.covering(at)).max()?;
    let next_except = except.iter().filter_map(|entry| match entry {
        Entry::Except(first, _) => Some(midnight(*first)).filter(|first| *first > at),
        _ => None,
    });
    Some(next_except.min().map_or(end, |except| end.min(except)))
}

fn day() -> impl Strategy<Value = NaiveDate> {
    (0..1200_u64).prop_map(|day| NaiveDate::from_ymd_opt(2026, 1, 1).expect("a date") + Days::new(day))
}

fn time() -> impl Strategy<Value = NaiveDateTime> {
    (day(), 0..MINUTES).prop_map(|(day, minute)| midnight(day) + TimeDelta::minutes(minute.into()))
}

fn month_day() -> impl Strategy<Value = (u32, u32)> {
    let near_the_leap_day =
        prop::sample::select(&[(2, 27), (2, 28), (2, 29), (3, 1), (3, 2), (12, 31), (1, 1)][..]);
    prop_oneof![2 => day().prop_map(|day| (day.month(), day.day())), 1 => near_the_leap_day]
}

fn entry() -> impl Strategy<Value = Entry> {
    let weekday = prop::sample::select(&[Weekday::Mon, Weekday::Wed, Weekday::Sat, Weekday::Sun][..]);
    let length = prop_oneof![1..3000_i64, Just(1440)];
    prop_oneof![
        (day(), 0..20_u64).prop_map(|(first, more)| Entry::Dates(first, first + Days::new(more))),
        (month_day(), month_day()).prop_map(|(first, last)| Entry::Yearly(first, last)),
        month_day().prop_map(|day| Entry::Yearly(day, day)),
        (prop::collection::vec(weekday, 1..3), 0..MINUTES, 0..=MINUTES)
            .prop_map(|(days, from, until)| Entry::Weekly(days, from, until)),
        (time(), 1..40_000_i64)
            .prop_map(|(from, length)| Entry::Window(from, from + TimeDelta::minutes(length))),
        (time(), 1..50_i64, length, day()).prop_map(|(start, interval, minutes, until)| Entry::Rule(
            start,
            interval,
            minutes,
            until.max(start.date())
        )),
        (day(), 0..20_u64).prop_map(|(first, more)| Entry::Except(first, first + Days::new(more))),
    ]
}

fn definition(entries: &[Entry]) -> Value {
    let mut definition = Map::new();
    for entry in entries {
        let list = definition.entry(entry.list()).or_insert_with(|| json!([]));
        list.as_array_mut().expect("a list").push(entry.value());
    }
    Value::Object(definition)
}

fn is_everything(entries: &[Entry]) -> bool {
    super::super::Calendar::parse(&definition(entries))
        .is_err_and(|error| error.message().contains("nothing would ever fire"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_time_is_excluded_when_the_model_says_so(entries in prop::collection::vec(entry(), 0..7), times in prop::collection::vec(time(), 20)) {
        prop_assume!(!is_everything(&entries));
        let calendar = calendar(&definition(&entries));
        for at in times {
            let (found, expected) = (calendar.exclusion_at(at), model(&entries, at));
            prop_assert_eq!(found.is_some(), expected.is_some(), "{} at {}", definition(&entries), at);
            let (Some(end), Some(least)) = (found, expected) else { continue };
            prop_assert!(end > at && end >= least, "{} at {}: {} before {}", definition(&entries), at, end, least);
            let minutes = (end - at).num_minutes();
            let step = usize::try_from(minutes / 50 + 1).expect("positive");
            for minute in (0..minutes).step_by(step).chain([minutes - 1]) {
                let within = at + TimeDelta::minutes(minute);
                prop_assert!(model(&entries, within).is_some(), "{} at {} before {}", definition(&entries), within, end);
            }
        }
    }

    #[test]
    fn the_next_exclusion_is_the_first_minute_that_is_excluded(entries in prop::collection::vec(entry(), 1..5), after in time()) {
        prop_assume!(!is_everything(&entries));
        let next = calendar(&definition(&entries)).next_exclusion(after);
        let horizon = after + TimeDelta::days(4);
        let minutes = (0..).map(|minute| after + TimeDelta::minutes(minute));
        let expected = minutes.take_while(|at| *at < horizon).find(|at| model(&entries, *at).is_some());
        prop_assert_eq!(next.filter(|at| *at < horizon), expected, "{} after {}", definition(&entries), after);
        if let Some(next) = next.filter(|next| *next >= horizon) {
            prop_assert!(model(&entries, next).is_some());
            let days = (next - after).num_days().min(3000);
            for day in 0..=days {
                for before in [next - TimeDelta::days(day) - TimeDelta::minutes(1), next - TimeDelta::minutes(day + 1)] {
                    prop_assert!(before < after || model(&entries, before).is_none(), "{} at {}", definition(&entries), before);
                }
            }
        }
    }

    #[test]
    fn fractions_of_a_second_belong_to_their_minute(entries in prop::collection::vec(entry(), 1..5), at in time(), nanos in 1..1_000_000_000_u32) {
        prop_assume!(!is_everything(&entries));
        let calendar = calendar(&definition(&entries));
        let later = at.with_nanosecond(nanos).expect("a time");
        prop_assert_eq!(calendar.exclusion_at(later), calendar.exclusion_at(at));
        prop_assert!(calendar.next_exclusion(later) >= calendar.next_exclusion(at) || calendar.next_exclusion(later).is_none());
    }
}
