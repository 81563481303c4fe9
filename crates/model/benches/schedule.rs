//! What one question for the next fire time costs: the typical schedule, the sparse one, and the worst that is accepted.
//!
//! Run with `cargo bench -p sched-model --bench schedule`. Each case is asked at the same instants in turn, so that no
//! lucky one decides.

#![expect(clippy::expect_used, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::cell::Cell;

use chrono::{DateTime, TimeDelta, Utc};
use divan::{Bencher, black_box};
use sched_model::domain::schedule::{CronSchedule, CronSpec, Schedule, Zone};

fn main() {
    divan::main();
}

fn next_after(bencher: Bencher<'_, '_>, expression: &str, zone: &str) {
    let spec = CronSpec::parse(expression).expect("an expression");
    let zone = Zone::parse(zone).expect("a zone");
    let schedule = Schedule::Cron(CronSchedule::new(spec, zone, None, None));
    let start: DateTime<Utc> = "2026-01-15T12:00:00Z".parse().expect("an instant");
    let turn = Cell::new(0);
    bencher.bench_local(|| {
        turn.set((turn.get() + 1) % 1000);
        schedule.next_after(black_box(start + TimeDelta::hours(turn.get() * 9))).expect("the engine works")
    });
}

#[divan::bench(args = ["* * * * *", "*/5 * * * *", "0 9 * * MON-FRI", "30 2 1,15 * *"])]
fn typical_in_utc(bencher: Bencher<'_, '_>, expression: &str) {
    next_after(bencher, expression, "UTC");
}

#[divan::bench(args = ["* * * * *", "*/5 * * * *", "0 9 * * MON-FRI", "30 2 1,15 * *"])]
fn typical_with_daylight_saving(bencher: Bencher<'_, '_>, expression: &str) {
    next_after(bencher, expression, "Europe/Berlin");
}

#[divan::bench(args = ["0 0 29 2 *", "0 0 31 12 *", "0 0 * 11 THU#4"])]
fn sparse_with_daylight_saving(bencher: Bencher<'_, '_>, expression: &str) {
    next_after(bencher, expression, "America/New_York");
}

/// Years without a fire in the zone that changes its clocks most often, and many day rules at once.
#[divan::bench(args = ["0 0 * 2 FRI#5", "0 0 29W 2 *", "0 0 L-30,29W,30W,31W 2,12 MON#5,TUE#5,WED#5,THU#5,FRI#5"])]
fn worst(bencher: Bencher<'_, '_>, expression: &str) {
    next_after(bencher, expression, "Africa/Casablanca");
}
