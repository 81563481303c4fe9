//! Surprises in a valid schedule: shown beside a preview, never a reason to reject it.
//!
//! These depend on the zone and the present; `cron::pitfalls` covers an expression alone. Each
//! warning is a fragment that begins with the field.

use chrono::{DateTime, NaiveDateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::Value;

use sched_vocabulary::schedule::{DstGap, DstOverlap};

use super::{
    Schedule, ScheduleError, Timetable, TimetableSource,
    config::ANY_OF,
    cron::pitfalls,
    wall_clock::{WallClock, just_before},
    zone::local,
};

/// Longer than a year, so that a yearly fire is no silence.
const LONG_SILENCE: TimeDelta = TimeDelta::days(367);

const HORIZON: TimeDelta = TimeDelta::days(366);

/// Fails if the schedule cannot be parsed.
pub fn warnings(source: &TimetableSource<'_>, now: DateTime<Utc>) -> Result<Vec<String>, ScheduleError> {
    let timetable = Timetable::parse(source)?;
    let schedule = timetable.schedule();
    let mut warnings = Vec::new();
    let is_example = source.schedule.hash_key.is_empty();
    if is_example
        && schedule
            .members()
            .iter()
            .any(|member| matches!(member, Schedule::Cron(cron) if cron.spec().uses_hash()))
    {
        let said =
            "schedule_config: `H` stands for an example here; each job has its own, by its name".to_owned();
        warnings.push(said);
    }
    for (member, config) in schedule.members().iter().zip(configs(source.schedule.config)) {
        let mut found = Vec::new();
        if let (Schedule::Cron(cron), Value::Object(config)) = (member, config) {
            found.extend(pitfalls(cron.spec(), config));
        }
        if let Some(clock) = member.wall_clock() {
            found.extend(clock_changes(member, clock, now)?);
        }
        // Members of one job share a zone, and often a warning.
        found.retain(|warning| !warnings.contains(warning));
        warnings.append(&mut found);
    }
    warnings.extend(silence(&timetable, now)?);
    Ok(warnings)
}

fn configs(config: &Value) -> &[Value] {
    match config.get(ANY_OF) {
        Some(Value::Array(members)) => members,
        _ => std::slice::from_ref(config),
    }
}

/// Before the first fire or after it.
fn silence(schedule: &Timetable, now: DateTime<Utc>) -> Result<Option<String>, ScheduleError> {
    if *schedule.schedule() == Schedule::Manual {
        return Ok(None);
    }
    let Some(first) = schedule.next_after(now)? else {
        return Ok(Some(format!("schedule_config: nothing fires after {}", shown(now))));
    };
    if first - now > LONG_SILENCE {
        return Ok(Some(format!(
            "schedule_config: nothing fires for more than a year, until {}",
            shown(first)
        )));
    }
    Ok(schedule.next_after(first)?.filter(|second| *second - first > LONG_SILENCE).map(|second| {
        format!(
            "schedule_config: after {} nothing fires for more than a year, until {}",
            shown(first),
            shown(second)
        )
    }))
}

fn shown(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::AutoSi, true)
}

/// With a time that the schedule names and the change removes or repeats.
struct Change {
    from: NaiveDateTime,
    to: NaiveDateTime,
    named: NaiveDateTime,
}

/// The first gap and overlap of the next year with a time that the schedule names. A schedule that
/// follows elapsed time loses and repeats nothing.
fn clock_changes(
    schedule: &Schedule,
    clock: &WallClock,
    now: DateTime<Utc>,
) -> Result<Vec<String>, ScheduleError> {
    let elapsed = matches!(schedule, Schedule::Cron(cron) if cron.spec().wildcard_time());
    let (mut gap, mut overlap) = (None, None);
    let mut span = clock.zone.span_at(now);
    while let Some((at, after)) = span.end.filter(|(at, _)| *at - now <= HORIZON) {
        let (from, to) = (span.local(at), local(at, after));
        let named = schedule.next_named(just_before(from.min(to)))?;
        if let Some(named) = named.filter(|named| *named < from.max(to)) {
            let slot = if from < to { &mut gap } else { &mut overlap };
            slot.get_or_insert(Change { from, to, named });
        }
        span = clock.zone.span_at(at);
    }
    let gap = gap.filter(|_| !(elapsed && clock.gap == DstGap::Skip));
    let overlap = overlap.filter(|_| !(elapsed && clock.overlap == DstOverlap::Both));
    Ok([gap.map(|gap| gap_warning(clock, &gap)), overlap.map(|overlap| overlap_warning(clock, &overlap))]
        .into_iter()
        .flatten()
        .collect())
}

fn gap_warning(clock: &WallClock, Change { from, to, named }: &Change) -> String {
    let effect = match clock.gap {
        DstGap::Shift => format!("its fire is moved to {}", beside(named, to)),
        DstGap::Skip => "it does not fire".to_owned(),
    };
    format!(
        "timezone: {} does not exist in {}, where clocks go forward from {} to {}: {effect} (dst_gap {})",
        named.format("%Y-%m-%d %H:%M"),
        clock.zone,
        beside(named, from),
        beside(named, to),
        clock.gap
    )
}

fn overlap_warning(clock: &WallClock, Change { from, to, named }: &Change) -> String {
    let effect = match clock.overlap {
        DstOverlap::First => "only the first fires",
        DstOverlap::Second => "only the second fires",
        DstOverlap::Both => "both fire",
    };
    format!(
        "timezone: {} occurs twice in {}, where clocks go back from {} to {}: {effect} (dst_overlap {})",
        named.format("%Y-%m-%d %H:%M"),
        clock.zone,
        beside(named, from),
        beside(named, to),
        clock.overlap
    )
}

fn beside(named: &NaiveDateTime, other: &NaiveDateTime) -> String {
    let format = if named.date() == other.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    other.format(format).to_string()
}
