//! The cost of schedules: the next fire time, parsing, a plan after an outage.
//!
//! Run with `cargo bench -p sched-timetable --bench schedule`. The limits: a typical `next` under 2
//! µs, the worst accepted expression under 50 ms, and a plan that does not grow with the outage.
//! `bare_engine` runs saffron alone: the difference to `typical_in_utc` is the cost of our guards,
//! from there to `typical_in_berlin` that of the zone.
//!
//! Sparse and worst expressions run at the instant before their longest search.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::cell::Cell;

use chrono::{DateTime, TimeDelta, Utc};
use divan::{Bencher, black_box};
use sched_timetable::{CronSchedule, CronSpec, DstGap, MisfirePolicy, MisfireRules, Schedule, Zone, plan};

const TYPICAL: [&str; 4] = ["* * * * *", "*/5 * * * *", "0 9 * * MON-FRI", "30 2 1,15 * *"];

/// A century without a leap day, and leap days on one weekday around it.
const SPARSE: [(&str, &str); 4] = [
    ("0 0 29 2 *", "2096-02-29T12:00:00Z"),
    ("0 0 * 2 FRI#5", "2092-03-01T00:00:00Z"),
    ("0 0 * 2 WED#5", "2072-03-01T00:00:00Z"),
    ("59 23 L-30,29W,30W,31W 2 MON#5,TUE#5,WED#5,THU#5", "2096-03-01T00:00:00Z"),
];

const PLANNED: [&str; 3] = ["* * * * *", "0 9 * * MON-FRI", "* * * 1-6 *"];

fn main() {
    divan::main();
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an instant")
}

fn schedule(expression: &str, zone: &str, gap: Option<DstGap>) -> Schedule {
    let spec = CronSpec::parse(expression).expect("an expression");
    Schedule::Cron(CronSchedule::new(spec, Zone::parse(zone).expect("a zone"), gap, None))
}

/// A thousand instants at equal distances.
struct Instants {
    start: &'static str,
    step: TimeDelta,
}

/// Runs at the instants in turn.
fn in_turn<T>(bencher: Bencher<'_, '_>, instants: &Instants, ask: impl Fn(DateTime<Utc>) -> T) {
    let (start, turn) = (at(instants.start), Cell::new(0));
    bencher.bench_local(|| {
        turn.set((turn.get() + 1) % 1000);
        ask(black_box(start + instants.step * turn.get()))
    });
}

fn next_in_turn(bencher: Bencher<'_, '_>, expression: &str, zone: &str, instants: &Instants) {
    let schedule = schedule(expression, zone, None);
    in_turn(bencher, instants, |after| schedule.next_after(after).expect("the engine works"));
}

fn next_at(bencher: Bencher<'_, '_>, schedule: &Schedule, after: &str) {
    let after = at(after);
    bencher.bench_local(|| schedule.next_after(black_box(after)).expect("the engine works"));
}

mod next {
    use super::{
        Bencher, DstGap, Instants, SPARSE, TYPICAL, TimeDelta, in_turn, next_at, next_in_turn, schedule,
    };

    const YEAR: Instants = Instants { start: "2026-01-15T12:00:00Z", step: TimeDelta::hours(9) };
    const GAP: Instants = Instants { start: "2026-03-28T22:00:00Z", step: TimeDelta::seconds(20) };
    const OVERLAP: Instants = Instants { start: "2026-10-24T21:00:00Z", step: TimeDelta::seconds(20) };

    #[divan::bench(args = TYPICAL)]
    fn bare_engine(bencher: Bencher<'_, '_>, expression: &str) {
        let cron: saffron::Cron = expression.parse().expect("an expression");
        in_turn(bencher, &YEAR, |after| cron.next_after(after));
    }

    #[divan::bench(args = TYPICAL)]
    fn typical_in_utc(bencher: Bencher<'_, '_>, expression: &str) {
        next_in_turn(bencher, expression, "UTC", &YEAR);
    }

    #[divan::bench(args = TYPICAL)]
    fn typical_in_berlin(bencher: Bencher<'_, '_>, expression: &str) {
        next_in_turn(bencher, expression, "Europe/Berlin", &YEAR);
    }

    #[divan::bench(args = TYPICAL)]
    fn across_a_gap(bencher: Bencher<'_, '_>, expression: &str) {
        next_in_turn(bencher, expression, "Europe/Berlin", &GAP);
    }

    #[divan::bench(args = TYPICAL)]
    fn across_an_overlap(bencher: Bencher<'_, '_>, expression: &str) {
        next_in_turn(bencher, expression, "Europe/Berlin", &OVERLAP);
    }

    #[divan::bench(args = SPARSE)]
    fn sparse_in_utc(bencher: Bencher<'_, '_>, (expression, after): (&str, &str)) {
        next_at(bencher, &schedule(expression, "UTC", None), after);
    }

    #[divan::bench(args = SPARSE)]
    fn sparse_in_berlin(bencher: Bencher<'_, '_>, (expression, after): (&str, &str)) {
        next_at(bencher, &schedule(expression, "Europe/Berlin", None), after);
    }

    /// The longest search: all matches fall into gaps, so the search ends with the calendar.
    #[divan::bench(args = [
        ("30 2 * 3 SUNL", "Europe/Berlin"),
        ("* 2 * 3 SUNL", "Antarctica/Troll"),
        ("30 2 * 3 SUN#2", "America/New_York"),
    ])]
    fn worst(bencher: Bencher<'_, '_>, (expression, zone): (&str, &str)) {
        next_at(bencher, &schedule(expression, zone, Some(DstGap::Skip)), "2026-01-15T12:00:00Z");
    }
}

mod parse {
    use super::{Bencher, CronSpec, black_box};

    #[divan::bench(args = ["0 9 * * MON-FRI", "*/5 22-2 1,15,LW * *"])]
    fn typical(bencher: Bencher<'_, '_>, expression: &str) {
        bencher.bench_local(|| CronSpec::parse(black_box(expression)).expect("an expression"));
    }

    #[divan::bench]
    fn longest(bencher: Bencher<'_, '_>) {
        let rules = "L,L-1,L-2,L-3,L-4,L-5,L-6,L-7,LW,1W,2W,3W,4W,5W,6W,7W,8W,9W,10W,11W,12W,13W,14W,15W,16W,17W,18W,19W,20W";
        let weekdays = "1#1,1#2,1#3,1#4,1#5,2#1,2#2,2#3,2#4,2#5,3#1,3#2,3#3,3#4,3#5,4#1,4#2,4#3,4#4";
        let expression = format!("*/7 0-23/5 {rules} 1-12/5 {weekdays}");
        bencher.bench_local(|| CronSpec::parse(black_box(&expression)).expect("an expression"));
    }

    #[divan::bench]
    fn refused(bencher: Bencher<'_, '_>) {
        bencher.bench_local(|| CronSpec::parse(black_box("0 0 31 2 *")).expect_err("no such day"));
    }
}

mod plan_after_ten_years {
    use super::{Bencher, MisfirePolicy, MisfireRules, PLANNED, at, black_box, plan, schedule};

    fn outage(bencher: Bencher<'_, '_>, expression: &str, policy: MisfirePolicy) {
        let schedule = schedule(expression, "Europe/Berlin", None);
        let (start, now) = (at("2016-07-15T12:00:00Z"), at("2026-07-15T12:00:30Z"));
        let cursor = schedule.next_after(start).expect("the engine works").expect("a fire");
        bencher.bench_local(|| {
            plan(&schedule, black_box(cursor), black_box(now), MisfireRules::new(policy))
                .expect("the engine works")
        });
    }

    #[divan::bench(args = PLANNED)]
    fn skip(bencher: Bencher<'_, '_>, expression: &str) {
        outage(bencher, expression, MisfirePolicy::Skip);
    }

    #[divan::bench(args = PLANNED)]
    fn fire_once(bencher: Bencher<'_, '_>, expression: &str) {
        outage(bencher, expression, MisfirePolicy::FireOnce);
    }

    #[divan::bench(args = PLANNED)]
    fn fire_all_up_to_100(bencher: Bencher<'_, '_>, expression: &str) {
        outage(bencher, expression, MisfirePolicy::FireAll { cap: 100 });
    }

    #[divan::bench(args = PLANNED)]
    fn fire_all(bencher: Bencher<'_, '_>, expression: &str) {
        outage(bencher, expression, MisfirePolicy::FireAll { cap: u32::MAX });
    }
}
