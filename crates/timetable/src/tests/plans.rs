//! Plans for due fires.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::{prelude::*, sample::select};
use serde_json::json;

use super::{
    super::{
        Count, JobType, MisfirePolicy, MisfireRules, Plan, Schedule, SkipReason, SkippedRange,
        misfire::{COUNT_LIMIT, DEFAULT_GRACE, MAX_FIRES},
        plan,
    },
    cron, parse, utc,
};

fn every(seconds: u32) -> Schedule {
    let config = json!({"seconds": seconds, "anchor": "2026-01-01T00:00:00Z"});
    parse(JobType::Interval, &config, "UTC").expect("an interval")
}

fn skipped(first: &str, last: &str, count: Count) -> Vec<SkippedRange> {
    vec![SkippedRange { first: utc(first), last: utc(last), count, reason: SkipReason::Misfire }]
}

fn planned(schedule: &Schedule, cursor: &str, now: &str, policy: MisfirePolicy) -> Plan {
    plan(schedule, utc(cursor), utc(now), MisfireRules::new(policy)).expect("the engine works")
}

const POLICIES: [MisfirePolicy; 4] = [
    MisfirePolicy::Skip,
    MisfirePolicy::FireOnce,
    MisfirePolicy::FireAll { cap: 1 },
    MisfirePolicy::FireAll { cap: 3 },
];

#[test]
fn nothing_is_due_before_the_cursor() {
    for policy in POLICIES {
        let plan = planned(&every(60), "2026-01-01T00:05:00Z", "2026-01-01T00:04:59.999999Z", policy);
        let cursor = Some(utc("2026-01-01T00:05:00Z"));
        assert_eq!(plan, Plan { fires: vec![], skipped: vec![], next: cursor });
    }
}

#[test]
fn a_fire_within_the_grace_is_on_time_under_every_policy() {
    for policy in POLICIES {
        for now in ["2026-01-01T01:00:00Z", "2026-01-01T01:01:00Z"] {
            let plan = planned(&every(3600), "2026-01-01T01:00:00Z", now, policy);
            let next = Some(utc("2026-01-01T02:00:00Z"));
            assert_eq!(
                plan,
                Plan { fires: vec![utc("2026-01-01T01:00:00Z")], skipped: vec![], next },
                "{now}"
            );
        }
    }
}

#[test]
fn a_fire_older_than_the_grace_is_a_misfire() {
    let now = "2026-01-01T01:01:00.000001Z";
    let plan = planned(&every(3600), "2026-01-01T01:00:00Z", now, MisfirePolicy::Skip);
    let range = skipped("2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", Count::Exact(1));
    assert_eq!(plan, Plan { fires: vec![], skipped: range, next: Some(utc("2026-01-01T02:00:00Z")) });
    let plan = planned(&every(3600), "2026-01-01T01:00:00Z", now, MisfirePolicy::FireOnce);
    assert_eq!((plan.fires, plan.skipped), (vec![utc("2026-01-01T01:00:00Z")], vec![]));
}

#[test]
fn each_policy_treats_an_outage_its_way() {
    let outage =
        |policy| planned(&cron("0 * * * *", "UTC"), "2026-01-01T01:00:00Z", "2026-01-01T06:00:30Z", policy);
    let hours = |range: std::ops::RangeInclusive<u32>| -> Vec<DateTime<Utc>> {
        range.map(|hour| utc(&format!("2026-01-01T{hour:02}:00:00Z"))).collect()
    };
    let next = Some(utc("2026-01-01T07:00:00Z"));
    let range = |last, count| skipped("2026-01-01T01:00:00Z", last, Count::Exact(count));
    let all = Plan { fires: hours(6..=6), skipped: range("2026-01-01T05:00:00Z", 5), next };
    assert_eq!(outage(MisfirePolicy::Skip), all);
    let once = Plan { fires: hours(5..=6), skipped: range("2026-01-01T04:00:00Z", 4), next };
    assert_eq!(outage(MisfirePolicy::FireOnce), once);
    assert_eq!(outage(MisfirePolicy::FireAll { cap: 1 }), once);
    let three = Plan { fires: hours(3..=6), skipped: range("2026-01-01T02:00:00Z", 2), next };
    assert_eq!(outage(MisfirePolicy::FireAll { cap: 3 }), three);
    let five = Plan { fires: hours(1..=6), skipped: vec![], next };
    assert_eq!(outage(MisfirePolicy::FireAll { cap: 5 }), five);
    assert_eq!(outage(MisfirePolicy::FireAll { cap: u32::MAX }), five);
}

#[test]
fn long_outage_is_exact_for_intervals_bounded_for_cron() {
    let (cursor, now) = ("2026-01-01T00:00:01Z", "2056-01-01T00:00:00Z");
    let plan = planned(&every(1), cursor, now, MisfirePolicy::FireOnce);
    let seconds = u64::try_from((utc(now) - utc(cursor)).num_seconds()).expect("positive");
    assert_eq!(plan.skipped, skipped(cursor, "2055-12-31T23:58:58Z", Count::Exact(seconds - 61)));
    assert_eq!(plan.fires.len(), 62);
    let cursor = "2026-01-01T00:01:00Z";
    let plan = planned(&cron("* * * * *", "Europe/Berlin"), cursor, now, MisfirePolicy::FireOnce);
    assert_eq!(plan.skipped, skipped(cursor, "2055-12-31T23:57:00Z", Count::AtLeast(COUNT_LIMIT)));
    let fires = ["2055-12-31T23:58:00Z", "2055-12-31T23:59:00Z", "2056-01-01T00:00:00Z"].map(utc);
    assert_eq!(plan.fires, fires);
}

#[test]
fn a_burst_long_ago_is_caught_up_from_its_end() {
    // Doubling windows jump over the whole burst.
    let schedule = cron("* * * 1-6 *", "UTC");
    let policy = MisfirePolicy::FireAll { cap: 100 };
    let plan = planned(&schedule, "2020-01-01T00:00:00Z", "2025-12-31T00:00:00Z", policy);
    assert_eq!(plan.fires.len(), 100);
    assert_eq!(plan.fires.first().copied(), Some(utc("2025-06-30T22:20:00Z")));
    assert_eq!(plan.fires.last().copied(), Some(utc("2025-06-30T23:59:00Z")));
    let range = skipped("2020-01-01T00:00:00Z", "2025-06-30T22:19:00Z", Count::AtLeast(COUNT_LIMIT));
    assert_eq!(plan.skipped, range);
    assert_eq!(plan.next, Some(utc("2026-01-01T00:00:00Z")));
}

#[test]
fn remaining_fires_wait_for_the_next_plan() {
    let grace = Some(Duration::from_secs(86_400));
    let rules = MisfireRules { grace, ..MisfireRules::new(MisfirePolicy::Skip) };
    let now = utc("2026-01-02T00:00:00Z");
    let mut cursor = utc("2026-01-01T01:00:00Z");
    let mut fired = Vec::new();
    let mut rounds = 0;
    while cursor <= now {
        let plan = plan(&every(1), cursor, now, rules).expect("arithmetic");
        assert!(plan.fires.len() <= MAX_FIRES && plan.skipped.is_empty());
        fired.extend(plan.fires);
        cursor = plan.next.expect("an interval goes on");
        rounds += 1;
    }
    assert_eq!(rounds, 9);
    assert_eq!(fired.len(), 23 * 3600 + 1);
    assert!(fired.windows(2).all(|pair| pair[1] - pair[0] == TimeDelta::seconds(1)));
}

#[test]
fn a_one_off_is_fired_late_or_recorded_and_then_over() {
    let config = json!({"run_at": "2026-01-01T00:00:00Z"});
    let schedule = parse(JobType::OneOff, &config, "UTC").expect("a one-off");
    let late = |policy| planned(&schedule, "2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z", policy);
    let fired = Plan { fires: vec![utc("2026-01-01T00:00:00Z")], skipped: vec![], next: None };
    assert_eq!(late(MisfirePolicy::FireOnce), fired);
    let range = skipped("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", Count::Exact(1));
    assert_eq!(late(MisfirePolicy::Skip), Plan { fires: vec![], skipped: range, next: None });
}

#[test]
fn a_grace_beyond_the_calendar_makes_everything_on_time() {
    let rules = MisfireRules { grace: Some(Duration::MAX), ..MisfireRules::new(MisfirePolicy::Skip) };
    let plan = plan(&every(86_400), utc("2026-01-01T00:00:00Z"), utc("2026-01-10T00:00:00Z"), rules);
    assert_eq!(plan.expect("arithmetic").fires.len(), 10);
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let zones =
        select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago"]);
    let expressions = select(vec![
        "* * * * *",
        "*/7 * * * *",
        "0 * * * *",
        "30 2 * * *",
        "*/5 9-17 * * MON-FRI",
        "0 0 1 * *",
        "0 0 29 2 *",
        "* * 1 1 *",
        "*/20 0 * * SUN",
        "15,45 1-3 * 3,10 *",
    ]);
    let periods = select(vec![
        json!({"seconds": 1}),
        json!({"seconds": 37}),
        json!({"minutes": 5, "anchor": "2026-03-01T00:00:00.25Z"}),
        json!({"days": 1, "hours": 1}),
        json!({"days": 1}),
        json!({"weeks": 1, "anchor": "2020-03-29T02:30:00+01:00"}),
    ]);
    prop_oneof![
        2 => (expressions, zones.clone()).prop_map(|(expression, zone)| cron(expression, zone)),
        1 => (periods, zones).prop_map(|(config, zone)| parse(JobType::Interval, &config, zone).expect("an interval")),
    ]
}

/// A time without a scheduler.
#[derive(Debug)]
struct Outage {
    /// When the schedule was last settled, in seconds since 1970.
    start: i64,
    /// Whether the cursor is the first fire after `start`, or `start` itself.
    cursor_is_a_fire: bool,
    /// The time from the cursor to the present.
    seconds: i64,
}

fn outage() -> impl Strategy<Value = Outage> {
    let starts = 1_700_000_000_i64..1_900_000_000;
    let lengths = prop_oneof![0..300_i64, 0..100_000_i64, 0..20_000_000_i64];
    (starts, any::<bool>(), lengths).prop_map(|(start, cursor_is_a_fire, seconds)| Outage {
        start,
        cursor_is_a_fire,
        seconds,
    })
}

fn rules() -> impl Strategy<Value = MisfireRules> {
    let policies = prop_oneof![
        Just(MisfirePolicy::Skip),
        Just(MisfirePolicy::FireOnce),
        (1..200_u32).prop_map(|cap| MisfirePolicy::FireAll { cap }),
    ];
    let graces = prop_oneof![Just(None), (0..600_u64).prop_map(|seconds| Some(Duration::from_secs(seconds)))];
    (policies, graces).prop_map(|(policy, grace)| MisfireRules { grace, ..MisfireRules::new(policy) })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_plan_is_what_listing_every_fire_gives(schedule in schedule(), outage in outage(), rules in rules()) {
        const LISTED: usize = 20_000;
        let Outage { start, cursor_is_a_fire, seconds } = outage;
        let MisfireRules { policy, grace, .. } = rules;
        let start = DateTime::from_timestamp(start, 0).expect("in range");
        // An edited job leaves a cursor that the schedule does not name.
        let cursor = if cursor_is_a_fire { schedule.next_after(start).expect("works").expect("a fire") } else { start };
        let now = cursor + TimeDelta::seconds(seconds);
        let next = |at: &DateTime<Utc>| schedule.next_after(*at).expect("the engine works");
        let due: Vec<DateTime<Utc>> =
            std::iter::successors(Some(cursor), next).take_while(|at| *at <= now).take(LISTED).collect();
        if due.len() == LISTED {
            return Ok(());
        }

        let on_time_from = now - TimeDelta::from_std(grace.unwrap_or(DEFAULT_GRACE)).expect("short");
        let missed = due.partition_point(|at| *at < on_time_from);
        let caught_up = match policy {
            MisfirePolicy::Skip => 0,
            MisfirePolicy::FireOnce => 1,
            MisfirePolicy::FireAll { cap } => cap as usize,
        };
        let (dropped, fired) = due.split_at(missed.saturating_sub(caught_up));

        let plan = plan(&schedule, cursor, now, rules).expect("the engine works");
        prop_assert_eq!(plan.fires.as_slice(), fired);
        prop_assert_eq!(plan.next, next(due.last().expect("the cursor")));
        prop_assert!(plan.next.is_none_or(|next| next > now));
        match (plan.skipped.as_slice(), dropped) {
            ([], []) => {}
            ([range], [first, ..]) => {
                prop_assert_eq!((range.first, Some(range.last)), (*first, dropped.last().copied()));
                let exact = dropped.len() as u64;
                match range.count {
                    Count::Exact(count) => prop_assert_eq!(count, exact),
                    Count::AtLeast(count) => prop_assert!(count == COUNT_LIMIT && exact > count),
                }
            }
            (ranges, dropped) => prop_assert!(false, "{ranges:?} for {} dropped fires", dropped.len()),
        }
    }
}
