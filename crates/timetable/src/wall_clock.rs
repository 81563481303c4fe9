//! Wall-clock times to instants, across daylight saving and every other change of a zone's offset.
//!
//! Takes a source of local times (cron, or a calendar interval) and a zone, and finds the first
//! instant after another. A zone is walked as stretches of constant offset. Within a stretch, local
//! time and UTC advance alike, so one query to the source covers it; the rules apply where two
//! stretches meet:
//!
//! - forward (a gap): local times that do not exist either fire together at the change (`shift`) or
//!   not at all;
//! - back (an overlap): local times that occur twice fire at the first pass, the second, or both.
//!
//! A stretch is entered at its own start, so nothing depends on how far clocks jump. The result is
//! the least element after `after` of a fixed set of instants, hence later than `after` and
//! monotone. Cost: one query per stretch, and no more stretches than five hundred years have.

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};

use sched_vocabulary::schedule::{DstGap, DstOverlap};

use super::zone::{Span, Zone, local};

/// From here on every zone follows the last rule of its table.
const RULES_REPEAT_FROM: DateTime<Utc> = match DateTime::from_timestamp(4_102_444_800, 0) {
    Some(at) => at,
    None => panic!("chrono has the year 2100"),
};

/// Dates, weekdays and rules repeat after 400 years. Without a fire by then (plus a hundred years
/// for sources that begin late), all times of a source fall into gaps.
const REPETITION: TimeDelta = TimeDelta::days(500 * 366);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WallClock {
    pub(super) zone: Zone,
    pub(super) gap: DstGap,
    pub(super) overlap: DstOverlap,
}

impl WallClock {
    /// The first instant after `after` at which the clock shows one of the source's local times.
    /// `next_local` gives the source's first local time strictly after its argument.
    pub(super) fn next_after<E>(
        &self,
        after: DateTime<Utc>,
        next_local: impl Fn(NaiveDateTime) -> Result<Option<NaiveDateTime>, E>,
    ) -> Result<Option<DateTime<Utc>>, E> {
        let mut span = self.zone.span_at(after);
        let mut from = span.local(after);
        let horizon =
            after.max(RULES_REPEAT_FROM).checked_add_signed(REPETITION).unwrap_or(DateTime::<Utc>::MAX_UTC);
        while span.start.is_none_or(|(start, _)| start <= horizon) {
            from = from.max(self.opening(&span));
            let Some(candidate) = next_local(from)? else { return Ok(None) };
            let Some((change, offset)) = span.end else { return Ok(span.instant(candidate)) };
            if candidate < self.closing(&span, change, offset) {
                return Ok(span.instant(candidate));
            }
            let in_gap = span.local(change) <= candidate && candidate < local(change, offset);
            if in_gap && self.gap == DstGap::Shift {
                return Ok(Some(change));
            }
            span = self.zone.span_at(change);
            from = just_before(span.local(change));
        }
        Ok(None)
    }

    /// The instant of one local time, by the rules of this clock. A time that is skipped or lies
    /// beyond the calendar is taken as UTC.
    pub(super) fn instant_of(&self, wanted: NaiveDateTime) -> DateTime<Utc> {
        // No zone is further than a day from UTC.
        let before = wanted.checked_sub_signed(TimeDelta::days(2)).unwrap_or(wanted).and_utc();
        let source = |after| Ok::<_, std::convert::Infallible>(Some(wanted).filter(|wanted| *wanted > after));
        match self.next_after(before, source) {
            Ok(found) => found.unwrap_or(wanted.and_utc()),
            Err(never) => match never {},
        }
    }

    /// Omits the second pass of an overlap if only the first counts.
    fn opening(&self, span: &Span) -> NaiveDateTime {
        match span.start {
            Some((start, before)) if self.overlap == DstOverlap::First && before > span.offset => {
                just_before(local(start, before))
            }
            _ => NaiveDateTime::MIN,
        }
    }

    /// Omits the first pass of an overlap if only the second counts.
    fn closing(&self, span: &Span, change: DateTime<Utc>, offset: TimeDelta) -> NaiveDateTime {
        let end = span.local(change);
        if self.overlap == DstOverlap::Second { end.min(local(change, offset)) } else { end }
    }
}

/// The latest local time before `local`, so that a search "after" includes `local`.
pub(super) fn just_before(local: NaiveDateTime) -> NaiveDateTime {
    local.checked_sub_signed(TimeDelta::microseconds(1)).unwrap_or(local)
}
