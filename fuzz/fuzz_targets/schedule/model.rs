//! The rules of daylight saving as a model that checks every minute of a day.
//!
//! The model compares clock times: repeated ones, and those omitted just before. It uses only the
//! offset from UTC at an instant and the slow reading.

use std::collections::BTreeSet;

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use sched_timetable::{CronOptions, CronSchedule, CronSpec, DstGap, DstOverlap};

use crate::{case::HASH_KEY, reading::slowly};

/// More than any clock change, whole days included.
const WIDEST_SHIFT: TimeDelta = TimeDelta::hours(25);

const MINUTE: TimeDelta = TimeDelta::minutes(1);

/// The fires in the day after `from`, which is excluded. `None` if they can be on any second, where
/// clocks are not on whole minutes (before railways), or at the end of the calendar.
pub(crate) fn fires(
    cron: &CronSchedule,
    from: DateTime<Utc>,
    gap: Option<DstGap>,
    overlap: Option<DstOverlap>,
) -> Option<BTreeSet<DateTime<Utc>>> {
    let wildcard = cron.spec().wildcard_time();
    let gap = gap.unwrap_or(if wildcard { DstGap::Skip } else { DstGap::Shift });
    let overlap = overlap.unwrap_or(if wildcard { DstOverlap::Both } else { DstOverlap::First });
    let offset = |at: DateTime<Utc>| cron.zone().offset_at(at);
    let clock = |at: DateTime<Utc>| -> NaiveDateTime { at.naive_utc() + offset(at) };
    let day_match = Some(cron.spec().day_match());
    let options = CronOptions { hash_key: HASH_KEY, seconds: false, day_match };
    let reference = slowly(cron.spec().canonical(), &options);
    let day = TimeDelta::days(1);
    if has_seconds(cron.spec()) {
        return None;
    }

    let around = minutes(from - WIDEST_SHIFT, from + day + WIDEST_SHIFT).step_by(60);
    let offsets: BTreeSet<TimeDelta> = around.map(offset).collect();
    if offsets.iter().any(|offset| offset.num_seconds() % 60 != 0) {
        return None;
    }
    let mut fires = BTreeSet::new();
    for at in minutes(from + MINUTE, from + day) {
        let shown = clock(at);
        if reference.matches(shown) {
            let passes =
                offsets.iter().map(|offset| (shown - *offset).and_utc()).filter(|pass| clock(*pass) == shown);
            let passes: BTreeSet<_> = passes.collect();
            let counts = match overlap {
                DstOverlap::First => passes.first() == Some(&at),
                DstOverlap::Second => passes.last() == Some(&at),
                DstOverlap::Both => true,
            };
            if counts {
                fires.insert(at);
            }
        }
        if gap == DstGap::Shift {
            let left_out =
                std::iter::successors(Some(clock(at - MINUTE) + MINUTE), |missing| Some(*missing + MINUTE));
            if left_out.take_while(|missing| *missing < shown).any(|missing| reference.matches(missing)) {
                fires.insert(at);
            }
        }
    }
    Some(fires)
}

pub(crate) fn has_seconds(spec: &CronSpec) -> bool {
    spec.canonical().split(' ').count() == 6
}

fn minutes(from: DateTime<Utc>, until: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
    std::iter::successors(Some(from), |at| Some(*at + MINUTE)).take_while(move |at| *at <= until)
}
