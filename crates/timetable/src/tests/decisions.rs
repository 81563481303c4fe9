//! All policies on due fires; every fire time has exactly one fate.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use proptest::{option, prelude::*, sample::select};
use serde_json::{Value, json};

use super::{
    super::{
        Calendar, CalendarRoll, Decision, JobType, MisfirePolicy, MisfireRules, ScheduleSource, Situation,
        SkipReason, SkippedRange, Timetable, TimetableSource, decide,
        overlap::{LONGEST_LINE, Load},
        settle_quiet,
    },
    utc,
};
use crate::OverlapPolicy;

fn table(config: &Value, definition: Option<&str>, end_at: Option<&str>) -> Timetable {
    let definition: Option<Value> = definition.map(|text| serde_json::from_str(text).expect("JSON"));
    let calendars: Vec<Calendar> =
        definition.iter().map(|definition| Calendar::parse(definition).expect("a calendar")).collect();
    let job_type = if config.get("expression").is_some() { JobType::Cron } else { JobType::Interval };
    let source = TimetableSource {
        schedule: ScheduleSource {
            job_type,
            config,
            timezone: "UTC",
            dst_gap: None,
            dst_overlap: None,
            created_at: utc("2026-01-01T00:00:00Z"),
            hash_key: "",
        },
        start_at: None,
        end_at: end_at.map(utc),
        calendars: &calendars,
        roll: CalendarRoll::Skip,
    };
    Timetable::parse(&source).expect("a timetable")
}

fn hourly() -> Timetable {
    table(&json!({"hours": 1}), None, None)
}

/// Hourly, on time at 12:00 on Monday, the second of March.
fn situation(timetable: &Timetable) -> Situation<'_> {
    Situation {
        timetable,
        settled_until: utc("2026-03-02T11:00:00Z"),
        cursor: utc("2026-03-02T12:00:00Z"),
        now: utc("2026-03-02T12:00:01Z"),
        misfire: MisfirePolicy::FireOnce,
        grace: None,
        overlap: OverlapPolicy::Skip,
        load: Load { open: 0, max_instances: 1 },
        runs_left: None,
        held_by: None,
        limit: 1000,
    }
}

fn decided(situation: &Situation<'_>) -> Decision {
    decide(situation).expect("the engine works")
}

fn shown(ranges: &[SkippedRange]) -> Vec<(DateTime<Utc>, DateTime<Utc>, u64, SkipReason)> {
    ranges.iter().map(|range| (range.first, range.last, range.count.value(), range.reason)).collect()
}

#[test]
fn fire_on_time_settles_up_to_now() {
    let hourly = hourly();
    let expected = Decision {
        fires: vec![utc("2026-03-02T12:00:00Z")],
        waiting: 0,
        cancelled: 0,
        skipped: vec![],
        next: Some(utc("2026-03-02T13:00:00Z")),
        settled_until: utc("2026-03-02T12:00:01Z"),
        is_over: false,
    };
    assert_eq!(decided(&situation(&hourly)), expected);
}

#[test]
fn overlap_policies_differ_with_open_runs() {
    let hourly = hourly();
    let busy = |overlap| {
        decided(&Situation { overlap, load: Load { open: 1, max_instances: 1 }, ..situation(&hourly) })
    };
    let fire = utc("2026-03-02T12:00:00Z");
    let skip = busy(OverlapPolicy::Skip);
    assert_eq!((skip.fires, shown(&skip.skipped)), (vec![], vec![(fire, fire, 1, SkipReason::Overlap)]));
    let queue = busy(OverlapPolicy::Queue);
    assert_eq!((queue.fires, queue.waiting, queue.cancelled), (vec![fire], 1, 0));
    let cancel = busy(OverlapPolicy::CancelOldest);
    assert_eq!((cancel.fires, cancel.waiting, cancel.cancelled), (vec![fire], 0, 1));
    let allow = busy(OverlapPolicy::Allow);
    assert_eq!((allow.fires, allow.waiting, allow.cancelled), (vec![fire], 0, 0));
}

#[test]
fn full_overlap_queue_admits_no_more() {
    let hourly = hourly();
    let full = Load { open: LONGEST_LINE + 1, max_instances: 1 };
    let decision = decided(&Situation { overlap: OverlapPolicy::Queue, load: full, ..situation(&hourly) });
    let fire = utc("2026-03-02T12:00:00Z");
    assert_eq!(
        (decision.fires, shown(&decision.skipped)),
        (vec![], vec![(fire, fire, 1, SkipReason::Overlap)])
    );
}

#[test]
fn fires_after_max_runs_are_recorded_as_ended() {
    let hourly = hourly();
    let now = utc("2026-03-02T15:00:01Z");
    let late = Situation {
        now,
        misfire: MisfirePolicy::FireAll { cap: 10 },
        overlap: OverlapPolicy::Allow,
        ..situation(&hourly)
    };
    let decision = decided(&Situation { runs_left: Some(3), ..late });
    let hours = [12, 13, 14].map(|hour| utc(&format!("2026-03-02T{hour}:00:00Z")));
    assert_eq!((decision.fires, decision.next), (hours.to_vec(), None));
    let beyond = utc("2026-03-02T15:00:00Z");
    assert_eq!(shown(&decision.skipped), [(beyond, beyond, 1, SkipReason::Ended)]);
    let last = decided(&Situation { runs_left: Some(1), ..situation(&hourly) });
    assert_eq!((last.fires.len(), last.next, last.skipped), (1, None, vec![]));
    let over = decided(&Situation { runs_left: Some(0), ..situation(&hourly) });
    assert_eq!((over.fires.len(), over.next), (0, None));
    assert_eq!(shown(&over.skipped)[0].3, SkipReason::Ended);
    // A skipped overlap does not count as a run.
    let busy = Load { open: 1, max_instances: 1 };
    let held = decided(&Situation { runs_left: Some(1), load: busy, ..situation(&hourly) });
    assert_eq!((held.fires.len(), held.next), (0, Some(utc("2026-03-02T13:00:00Z"))));
}

#[test]
fn kill_switch_skips_every_due_fire() {
    let hourly = hourly();
    for (now, count) in
        [("2026-03-02T12:00:00Z", 1), ("2026-03-02T12:59:59.999999Z", 1), ("2026-03-03T12:00:00Z", 25)]
    {
        let held_by = Some(SkipReason::PausedQueue);
        let decision = decided(&Situation { now: utc(now), held_by, ..situation(&hourly) });
        assert!(decision.fires.is_empty());
        assert_eq!(shown(&decision.skipped).iter().map(|range| range.2).sum::<u64>(), count, "{now}");
        assert!(decision.skipped.iter().all(|range| range.reason == SkipReason::PausedQueue));
        assert!(decision.next.is_some_and(|next| next > utc(now)));
    }
}

#[test]
fn excluded_fires_are_recorded_with_next_decision() {
    let weekdays = table(&json!({"expression": "0 9 * * *"}), Some(r#"{"weekly": ["SAT", "SUN"]}"#), None);
    let monday = Situation {
        settled_until: utc("2026-02-27T09:00:02Z"),
        cursor: utc("2026-03-02T09:00:00Z"),
        now: utc("2026-03-02T09:00:01Z"),
        ..situation(&weekdays)
    };
    let decision = decided(&monday);
    assert_eq!(decision.fires, [utc("2026-03-02T09:00:00Z")]);
    let weekend = (utc("2026-02-28T09:00:00Z"), utc("2026-03-01T09:00:00Z"), 2, SkipReason::Calendar);
    assert_eq!(shown(&decision.skipped), [weekend]);
    assert_eq!(decision.settled_until, monday.now);
}

#[test]
fn last_excluded_fire_is_visited() {
    let calendar = Some(r#"{"weekly": ["SAT", "SUN"]}"#);
    let ending = table(&json!({"expression": "0 9 * * *"}), calendar, Some("2026-03-02T00:00:00Z"));
    let friday = Situation {
        settled_until: utc("2026-02-26T09:00:02Z"),
        cursor: utc("2026-02-27T09:00:00Z"),
        now: utc("2026-02-27T09:00:01Z"),
        ..situation(&ending)
    };
    let decision = decided(&friday);
    let sunday = utc("2026-03-01T09:00:00Z");
    assert_eq!((decision.fires.len(), decision.next, decision.skipped), (1, Some(sunday), vec![]));
    assert_eq!(decision.settled_until, friday.now, "nothing is settled ahead");
    let later = Situation {
        settled_until: decision.settled_until,
        cursor: sunday,
        now: utc("2026-03-01T09:00:01Z"),
        ..situation(&ending)
    };
    let visit = decided(&later);
    assert_eq!((visit.fires.len(), visit.next), (0, None));
    assert_eq!(shown(&visit.skipped), [(utc("2026-02-28T09:00:00Z"), sunday, 2, SkipReason::Calendar)]);
}

#[test]
fn calendars_are_ignored_after_the_last_run() {
    let calendar = Some(r#"{"yearly": ["12-25"]}"#);
    let daily = table(&json!({"expression": "0 9 * * *"}), calendar, Some("9999-01-01T00:00:00Z"));
    let last = Situation {
        settled_until: utc("2026-03-01T09:00:02Z"),
        cursor: utc("2026-03-02T09:00:00Z"),
        now: utc("2026-03-02T09:00:01Z"),
        runs_left: Some(1),
        ..situation(&daily)
    };
    let decision = decided(&last);
    assert_eq!((decision.fires.len(), decision.next, decision.skipped), (1, None, vec![]));
    assert_eq!(decision.settled_until, last.now);
}

#[test]
fn fire_left_by_change_is_decided_separately() {
    let hourly = hourly();
    let left = Situation {
        cursor: utc("2026-03-02T08:00:00Z"),
        settled_until: utc("2026-03-02T11:30:00Z"),
        now: utc("2026-03-02T11:31:00Z"),
        ..situation(&hourly)
    };
    let cursor = left.cursor;
    let alone = decided(&left);
    assert_eq!(
        (alone.fires, alone.skipped),
        (vec![cursor], vec![]),
        "nothing between it and the change is decided again"
    );
    assert_eq!(alone.next, Some(utc("2026-03-02T12:00:00Z")));
    let superseded = decided(&Situation { now: utc("2026-03-02T12:00:01Z"), ..left });
    assert_eq!(superseded.fires, [utc("2026-03-02T12:00:00Z")]);
    assert_eq!(shown(&superseded.skipped), [(cursor, cursor, 1, SkipReason::Misfire)]);
    let skipped = decided(&Situation { misfire: MisfirePolicy::Skip, ..left });
    assert_eq!(shown(&skipped.skipped), [(cursor, cursor, 1, SkipReason::Misfire)]);
    let held = decided(&Situation { held_by: Some(SkipReason::PausedJob), ..left });
    assert_eq!(shown(&held.skipped), [(cursor, cursor, 1, SkipReason::PausedJob)]);
    let all = Situation { misfire: MisfirePolicy::FireAll { cap: 5 }, overlap: OverlapPolicy::Allow, ..left };
    let all = decided(&Situation { now: utc("2026-03-02T12:00:01Z"), ..all });
    assert_eq!(all.fires, [cursor, utc("2026-03-02T12:00:00Z")]);
}

#[test]
fn job_without_due_fires_is_settled() {
    let weekdays = table(&json!({"expression": "0 9 * * *"}), Some(r#"{"weekly": ["SAT", "SUN"]}"#), None);
    let skipped =
        settle_quiet(&weekdays, utc("2026-02-27T09:00:02Z"), utc("2026-02-28T12:00:00Z")).expect("books");
    let saturday = utc("2026-02-28T09:00:00Z");
    assert_eq!(shown(&skipped), [(saturday, saturday, 1, SkipReason::Calendar)]);
}

#[test]
fn long_outage_costs_as_much_as_short() {
    let minutely = table(&json!({"expression": "* * * * *"}), None, None);
    for misfire in [MisfirePolicy::Skip, MisfirePolicy::FireOnce] {
        let late = |years: i64| Situation {
            now: utc("2026-03-02T12:00:01Z") + TimeDelta::days(365 * years),
            misfire,
            ..situation(&minutely)
        };
        let questions = |situation: &Situation<'_>| {
            let calls = std::cell::Cell::new(0_u32);
            let counted = CountingTimetable { timetable: situation.timetable, calls: &calls };
            let rules = MisfireRules { grace: situation.grace, ..MisfireRules::new(situation.misfire) };
            super::super::plan(&counted, situation.cursor, situation.now, rules).expect("the engine works");
            calls.get()
        };
        let (short, long) = (questions(&late(1)), questions(&late(1000)));
        assert!(long < short + 60, "{misfire:?}: {short} questions after a year, {long} after a thousand");
    }
}

struct CountingTimetable<'a> {
    timetable: &'a Timetable,
    calls: &'a std::cell::Cell<u32>,
}

impl super::super::misfire::Occurrences for CountingTimetable<'_> {
    fn next_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, super::super::ScheduleError> {
        self.calls.set(self.calls.get() + 1);
        self.timetable.next_after(after)
    }

    fn as_interval(&self) -> Option<&super::super::interval::Interval> {
        None
    }
}

fn misfires() -> impl Strategy<Value = MisfirePolicy> {
    prop_oneof![
        Just(MisfirePolicy::Skip),
        Just(MisfirePolicy::FireOnce),
        (1_u32..8).prop_map(|cap| MisfirePolicy::FireAll { cap })
    ]
}

/// A cron schedule, perhaps with a calendar and an end.
#[derive(Debug)]
struct BoundedSchedule {
    expression: &'static str,
    /// The definition of its calendar.
    definition: Option<&'static str>,
    end_at: Option<&'static str>,
}

fn schedules() -> impl Strategy<Value = BoundedSchedule> {
    let expressions = select(vec!["*/10 * * * *", "0 * * * *", "7,8,9 */2 * * *", "*/20 8-17 * * *"]);
    let definitions = option::of(select(vec![
        r#"{"windows": [{"from": "2026-03-02T10:30:00", "until": "2026-03-02T14:05:00"}]}"#,
        r#"{"weekly": [{"days": ["MON", "TUE"], "from": "20:00", "until": "04:00"}]}"#,
        r#"{"dates": ["2026-03-03"]}"#,
    ]));
    let ends = option::of(select(vec!["2026-03-03T01:00:00Z", "2026-03-02T16:10:00Z"]));
    (expressions, definitions, ends).prop_map(|(expression, definition, end_at)| BoundedSchedule {
        expression,
        definition,
        end_at,
    })
}

/// The settings of a job that decide about its due fires, as in [`Situation`].
#[derive(Debug)]
struct Policies {
    misfire: MisfirePolicy,
    overlap: OverlapPolicy,
    max_runs: Option<u64>,
    /// In seconds.
    grace: u64,
    limit: usize,
}

fn policies() -> impl Strategy<Value = Policies> {
    let overlaps = select(OverlapPolicy::ALL.to_vec());
    (misfires(), overlaps, option::of(1_u64..40), select(vec![1_u64, 60, 900]), 1_usize..6).prop_map(
        |(misfire, overlap, max_runs, grace, limit)| Policies { misfire, overlap, max_runs, grace, limit },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    /// Compares every nominal fire time with the records after hours of ticks, some of them late.
    #[test]
    fn every_fire_time_has_exactly_one_fate(
        schedule in schedules(),
        policies in policies(),
        ticks in prop::collection::vec((1_i64..40_000, 0_usize..3, prop::bool::weighted(0.1)), 1..12),
    ) {
        let BoundedSchedule { expression, definition, end_at } = schedule;
        let Policies { misfire, overlap, max_runs, grace, limit } = policies;
        let table = table(&json!({"expression": expression}), definition, end_at);
        let begin = utc("2026-03-02T08:00:00Z");
        let mut cursor = table.next_after(begin).expect("the engine works");
        let (mut settled, mut now, mut runs) = (begin, begin, 0_u64);
        let mut fired: Vec<DateTime<Utc>> = Vec::new();
        let mut skipped: Vec<SkippedRange> = Vec::new();
        for (pause, open, paused) in ticks {
            now += TimeDelta::milliseconds(pause * 1000);
            while let Some(due) = cursor.filter(|due| *due <= now) {
                let decision = decided(&Situation {
                    timetable: &table, settled_until: settled, cursor: due, now, misfire,
                    grace: Some(Duration::from_secs(grace)), overlap, load: Load { open, max_instances: 1 },
                    runs_left: max_runs.map(|most| most - runs), held_by: paused.then_some(SkipReason::PausedJob), limit,
                });
                prop_assert!(decision.fires.len() <= limit && decision.settled_until >= settled);
                prop_assert!(decision.next.is_none_or(|next| next > due));
                prop_assert!(decision.waiting <= decision.fires.len() && decision.cancelled <= open);
                runs += u64::try_from(decision.fires.len()).unwrap_or(u64::MAX);
                prop_assert!(max_runs.is_none_or(|most| runs <= most));
                fired.extend(&decision.fires);
                skipped.extend(decision.skipped);
                (cursor, settled) = (decision.next, decision.settled_until);
            }
        }
        let is_over = max_runs.is_some_and(|most| runs >= most);
        let mut nominal = begin;
        while let Some(at) = table.schedule().next_after(nominal).expect("the engine works").filter(|at| *at <= settled) {
            nominal = at;
            if end_at.is_some_and(|end| at >= utc(end)) {
                break;
            }
            let dispatches = fired.iter().filter(|fire| **fire == at).count();
            let ranges = skipped.iter().filter(|range| range.first <= at && at <= range.last).count();
            let after_the_last = is_over && fired.last().is_some_and(|last| at > *last);
            prop_assert!(
                dispatches + ranges == 1 || (after_the_last && dispatches + ranges == 0),
                "{at} has {dispatches} dispatches and lies in {ranges} ranges: {skipped:?}"
            );
        }
        prop_assert!(fired.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
