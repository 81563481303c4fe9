//! Preview of a schedule before it is saved: its next fire times, a sentence, and warnings.
//!
//! Shows fire times in UTC and on the clock of the zone, with a note if a clock change moved or
//! doubled one.

use chrono::{DateTime, Datelike as _, FixedOffset, Offset as _, SecondsFormat, TimeDelta, Utc};

use sched_vocabulary::schedule::{DstGap, FireNote};

use super::{
    Schedule, ScheduleError, SkippedRange, Timetable, TimetableSource,
    wall_clock::just_before,
    zone::{Span, Zone, local},
};

pub const MAX_FIRE_TIMES: usize = 10_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FireTime {
    pub utc: DateTime<Utc>,
    pub local: DateTime<FixedOffset>,
    pub note: Option<FireNote>,
    /// `None` if no calendar moved it.
    pub moved_from: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The next fire times, earliest first.
    pub fire_times: Vec<FireTime>,
    pub description: String,
    pub warnings: Vec<String>,
}

impl Preview {
    pub fn of(
        source: &TimetableSource<'_>,
        after: DateTime<Utc>,
        count: usize,
    ) -> Result<Self, ScheduleError> {
        if !(1..=9999).contains(&after.year()) {
            return Err(ScheduleError::invalid("after", "must lie in the years 0001 to 9999"));
        }
        let timetable = Timetable::parse(source)?;
        let zone = Zone::parse(source.schedule.timezone)?;
        let fire_times = preview(&timetable, &zone, after, count)?;
        let mut warnings = super::warnings(source, after)?;
        let until = match fire_times.last() {
            Some(last) if fire_times.len() >= count.min(MAX_FIRE_TIMES) => last.utc,
            _ => DateTime::<Utc>::MAX_UTC,
        };
        if count > 0 && (until < DateTime::<Utc>::MAX_UTC || timetable.is_finite()) {
            warnings.extend(excluded(&timetable, after, until)?);
        }
        Ok(Self { fire_times, description: super::describe(timetable.schedule()), warnings })
    }
}

/// At most [`MAX_FIRE_TIMES`] fire times, in the zone of the schedule. One-offs and elapsed
/// intervals have no zone and use `zone`. A fire that a gap moved onto a regular one counts as
/// shifted.
pub fn preview(
    timetable: &Timetable,
    zone: &Zone,
    after: DateTime<Utc>,
    count: usize,
) -> Result<Vec<FireTime>, ScheduleError> {
    let schedule = timetable.schedule();
    let zone = schedule.members().iter().find_map(Schedule::wall_clock).map_or(zone, |clock| &clock.zone);
    let count = count.min(MAX_FIRE_TIMES);
    let mut fire_times = Vec::new();
    let mut at = after;
    let mut span = zone.span_at(after);
    while fire_times.len() < count {
        let Some(fire) = timetable.next_fire(at)? else { break };
        let utc = fire.at;
        if span.end.is_some_and(|(end, _)| end <= utc) {
            span = zone.span_at(utc);
        }
        fire_times.push(FireTime {
            utc,
            local: utc.with_timezone(&fixed(span.offset)),
            note: fire_note(schedule, zone, &span, utc)?,
            moved_from: (fire.nominal != utc).then_some(fire.nominal),
        });
        at = utc;
    }
    Ok(fire_times)
}

fn excluded(
    timetable: &Timetable,
    after: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<Option<String>, ScheduleError> {
    let excluded = timetable.excluded_between(after, until)?;
    Ok(excluded.map(|SkippedRange { first, count, .. }| {
        let (more, number) = (if count.is_exact() { "" } else { "at least " }, count.value());
        let what = if number == 1 { "fire time is" } else { "fire times are" };
        let first = first.to_rfc3339_opts(SecondsFormat::AutoSi, true);
        format!("calendars: {more}{number} {what} excluded and skipped, the first at {first}")
    }))
}

pub(super) fn in_zone(at: DateTime<Utc>, zone: &Zone) -> DateTime<FixedOffset> {
    at.with_timezone(&fixed(zone.offset_at(at)))
}

/// Both libraries accept every offset that a zone has had, so the fallback UTC is never used.
fn fixed(offset: TimeDelta) -> FixedOffset {
    let seconds = i32::try_from(offset.num_seconds()).ok();
    seconds.and_then(FixedOffset::east_opt).unwrap_or_else(|| Utc.fix())
}

fn fire_note(
    schedule: &Schedule,
    zone: &Zone,
    span: &Span,
    at: DateTime<Utc>,
) -> Result<Option<FireNote>, ScheduleError> {
    if is_shifted(schedule, span, at)? {
        return Ok(Some(FireNote::Shifted));
    }
    Ok(pass(zone, span, at))
}

fn is_shifted(schedule: &Schedule, span: &Span, at: DateTime<Utc>) -> Result<bool, ScheduleError> {
    for member in schedule.members() {
        if is_member_shifted(member, span, at)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_member_shifted(schedule: &Schedule, span: &Span, at: DateTime<Utc>) -> Result<bool, ScheduleError> {
    let shifts = schedule.wall_clock().is_some_and(|clock| clock.gap == DstGap::Shift);
    match span.start {
        Some((start, before)) if shifts && start == at && before < span.offset => {
            let named = schedule.next_named(just_before(local(start, before)))?;
            Ok(named.is_some_and(|named| named < span.local(at)))
        }
        _ => Ok(false),
    }
}

/// The first or second pass of a time that the adjacent stretch shows too.
fn pass(zone: &Zone, span: &Span, at: DateTime<Utc>) -> Option<FireNote> {
    let shown = span.local(at);
    if let Some((start, before)) = span.start
        && shown < local(start, before)
    {
        let earlier = zone.span_at(start - TimeDelta::seconds(1));
        let shows =
            earlier.instant(shown).is_some_and(|at| earlier.start.is_none_or(|(start, _)| start <= at));
        return shows.then_some(FireNote::SecondOfTwo);
    }
    if let Some((end, after)) = span.end
        && local(end, after) <= shown
    {
        let later = zone.span_at(end);
        let shows = later.instant(shown).is_some_and(|at| later.end.is_none_or(|(end, _)| at < end));
        return shows.then_some(FireNote::FirstOfTwo);
    }
    None
}
