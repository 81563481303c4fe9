//! The laws of every schedule: its rejection, words, fires, preview and plans.
//!
//! Each function panics at a violation. Plans are compared with a list of every fire, if that is
//! short.

use chrono::{DateTime, Datelike, TimeDelta, Timelike, Utc};
use sched_timetable::{Count, CronOptions, CronSchedule, CronSpec, DstGap, JobType, MisfirePolicy, MisfireRules, Plan, Schedule, ScheduleError, ScheduleSource, SkipReason, Timetable, TimetableSource, Zone, describe, misfire::{COUNT_LIMIT, DEFAULT_GRACE, MAX_FIRES}};

use crate::{case::Case, model};

/// Number of consecutive fires.
const CHAIN: usize = 16;

/// Limit of due fires that are listed to check a plan.
const LISTED: usize = 400;

/// From this year on, a schedule may have no fire left: a hundred years, the longest interval,
/// before the end of the year 9999.
const LAST_CERTAIN_YEAR: i32 = 9890;

/// An error names the wrong field, and is never one of the engine.
pub(crate) fn refusal(error: &ScheduleError) {
    assert!(!matches!(error, ScheduleError::Engine { .. }), "the engine is at fault: {error}");
    let field = error.field();
    assert!(field == "timezone" || field.starts_with("schedule_config"), "{field:?} is no field");
    assert!(!error.message().is_empty() && !error.message().contains(char::is_control), "{error:?}");
    assert!(error.message().len() < 1000, "{} bytes of message", error.message().len());
}

/// A schedule has a sentence, and a cron expression is read back from its normal form.
pub(crate) fn words(schedule: &Schedule, source: &ScheduleSource<'_>) {
    let sentence = describe(schedule);
    assert!(sentence.ends_with('.') && !sentence.contains(char::is_control), "{sentence:?}");
    let warnings =
        sched_timetable::warnings(&TimetableSource::from(*source), source.created_at);
    for warning in warnings.unwrap_or_else(|error| panic!("{schedule:?} cannot be warned about: {error}")) {
        assert!(!warning.is_empty() && !warning.contains(char::is_control), "{warning:?}");
    }
    if let Schedule::Cron(cron) = schedule {
        let options = CronOptions {
            hash_key: source.hash_key,
            seconds: model::has_seconds(cron.spec()),
            day_match: Some(cron.spec().day_match()),
        };
        let spec = CronSpec::parse_with(cron.spec().canonical(), &options)
            .unwrap_or_else(|error| panic!("the normal form of {schedule:?} is refused: {error}"));
        let again = CronSchedule::new(spec, cron.zone().clone(), source.dst_gap, source.dst_overlap);
        assert_eq!(&again, cron);
    }
}

/// Fires follow each other; from any instant between two of them, the next one is the later.
pub(crate) fn fires(schedule: &Schedule, case: &Case) {
    let mut after = case.start;
    for _ in 0..CHAIN {
        let Some(next) = next(schedule, after) else {
            // A time that exists only in gaps, such as 02:30 on the last Sunday of March, is never
            // reached if gaps are skipped.
            let in_gaps = case.gap != Some(DstGap::Shift) && schedule.job_type() == JobType::Cron;
            let ends = in_gaps || matches!(schedule.job_type(), JobType::OneOff | JobType::Manual);
            assert!(ends || after.year() > LAST_CERTAIN_YEAR, "{schedule:?} ends after {after}");
            break;
        };
        for between in
            [next - TimeDelta::microseconds(1), after + (next - after) / 2, after + (next - after) / 7]
        {
            assert_eq!(
                self::next(schedule, between),
                Some(next),
                "{schedule:?} after {between}, on the way from {after}"
            );
        }
        after = next;
    }
}

fn next(schedule: &Schedule, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let next =
        schedule.next_after(after).unwrap_or_else(|error| panic!("{schedule:?} after {after}: {error}"));
    if let Some(next) = next {
        assert!(next > after, "{schedule:?} goes back from {after} to {next}");
        assert!(
            next.year() <= 9999 && next.nanosecond() % 1000 == 0,
            "{schedule:?} after {after} names {next}"
        );
    }
    next
}

/// The fires are those that a check of every minute finds.
pub(crate) fn daylight_saving(schedule: &Schedule, case: &Case) {
    let Schedule::Cron(cron) = schedule else { return };
    let Some(from) = case.start.with_second(0).and_then(|start| start.with_nanosecond(0)) else { return };
    if !(2..LAST_CERTAIN_YEAR).contains(&from.year()) {
        return;
    }
    let Some(expected) = model::fires(cron, from, case.gap, case.overlap) else { return };
    let fires = std::iter::successors(next(schedule, from), |fire| next(schedule, *fire));
    let fires = fires.take_while(|fire| *fire <= from + TimeDelta::days(1)).take(LISTED);
    assert!(
        fires.eq(expected.iter().copied().take(LISTED)),
        "{schedule:?} in the day after {from}: {expected:?}"
    );
}

pub(crate) fn preview(schedule: &Schedule, case: &Case) {
    let Ok(zone) = Zone::parse(&case.zone) else { panic!("{schedule:?} is in the zone {:?}", case.zone) };
    let shown =
        sched_timetable::preview(&Timetable::from(schedule.clone()), &zone, case.start, CHAIN)
            .unwrap_or_else(|error| panic!("{schedule:?} has no preview after {}: {error}", case.start));
    let mut after = case.start;
    for fire in &shown {
        assert_eq!(next(schedule, after), Some(fire.utc));
        assert_eq!(fire.local.to_utc(), fire.utc);
        let offset = i64::from(fire.local.offset().local_minus_utc());
        assert_eq!(TimeDelta::seconds(offset), zone.offset_at(fire.utc), "{schedule:?} at {}", fire.utc);
        after = fire.utc;
    }
    assert!(shown.len() == CHAIN || next(schedule, after).is_none());
}

/// Every due fire is dispatched or in one range, in order, by the rule of the policy; `next` is the
/// first of the rest.
pub(crate) fn plan(schedule: &Schedule, case: &Case) {
    let first = if case.odd_cursor { None } else { next(schedule, case.start) };
    let cursor = first.unwrap_or(case.start);
    // RFC 3339 has no later years.
    let now = cursor.checked_add_signed(case.outage).filter(|now| now.year() <= 9999).unwrap_or(cursor);
    let rules = MisfireRules { grace: case.grace, ..MisfireRules::new(case.policy) };
    let plan = sched_timetable::plan(schedule, cursor, now, rules)
        .unwrap_or_else(|error| panic!("{schedule:?} from {cursor} to {now} has no plan: {error}"));

    assert!(plan.fires.len() <= MAX_FIRES && plan.skipped.len() <= 1, "{plan:?}");
    let ranges = plan.skipped.iter().flat_map(|range| {
        assert!(range.first <= range.last && range.reason == SkipReason::Misfire, "{range:?}");
        assert_eq!(range.first == range.last, range.count == Count::Exact(1), "{range:?}");
        [range.first, range.last + TimeDelta::nanoseconds(1)]
    });
    let handled: Vec<_> = ranges.chain(plan.fires.iter().copied()).collect();
    assert!(handled.is_sorted_by(|earlier, later| earlier < later), "{plan:?} is out of order");
    assert!(plan.fires.iter().all(|fire| *fire <= now), "{plan:?} fires after {now}");
    if let (Some(last), Some(next)) = (handled.last(), plan.next) {
        assert!(next > *last, "{plan:?} goes back");
    }
    assert!(handled.first().is_none_or(|first| *first == cursor), "{plan:?} does not begin at {cursor}");
    let full = plan.fires.len() == MAX_FIRES;
    assert!(full || plan.next.is_none_or(|next| next > now), "{plan:?} leaves some until {now}");

    if let Some(due) = due(schedule, cursor, now) {
        compare(&plan, &due, now, case);
    }
}

/// All fires from the cursor, included, to the present; `None` if there are too many.
fn due(schedule: &Schedule, cursor: DateTime<Utc>, now: DateTime<Utc>) -> Option<Vec<DateTime<Utc>>> {
    let until_now = |fire: &DateTime<Utc>| *fire <= now;
    let listed =
        std::iter::successors(Some(cursor).filter(until_now), |fire| next(schedule, *fire).filter(until_now));
    let due: Vec<_> = listed.take(LISTED + 1).collect();
    (due.len() <= LISTED).then_some(due)
}

fn compare(plan: &Plan, due: &[DateTime<Utc>], now: DateTime<Utc>, case: &Case) {
    let grace = TimeDelta::from_std(case.grace.unwrap_or(DEFAULT_GRACE)).unwrap_or(TimeDelta::MAX);
    let on_time_from = now.checked_sub_signed(grace).unwrap_or(DateTime::<Utc>::MIN_UTC);
    let misfires = due.partition_point(|fire| *fire < on_time_from);
    let caught_up = match case.policy {
        MisfirePolicy::Skip => 0,
        MisfirePolicy::FireOnce => 1,
        MisfirePolicy::FireAll { cap } => cap as usize,
    };
    let (skipped, fires) = due.split_at(misfires.saturating_sub(caught_up));
    assert_eq!(plan.fires, fires, "{case:?} at {now}");
    let range = plan.skipped.first().map(|range| (range.first, range.last));
    assert_eq!(range, skipped.first().copied().zip(skipped.last().copied()), "{case:?} at {now}");
    if let Some(range) = plan.skipped.first() {
        let number = skipped.len() as u64;
        let right = range.count == Count::Exact(number)
            || (range.count == Count::AtLeast(COUNT_LIMIT) && number > COUNT_LIMIT);
        assert!(right, "{:?} for {number} in {case:?} at {now}", range.count);
    }
}
