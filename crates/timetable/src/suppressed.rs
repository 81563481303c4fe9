//! Wall-clock times that a schedule names, that fall into a gap, and that do not fire under
//! `dst_gap: skip`.
//!
//! Such a time is counted at the first instant after the gap; several at one instant count once. If
//! the job has a fire at that instant anyway, nothing was suppressed: `*/15 * * * *` just
//! continues. Cost: one lookup in the zone if no clock changes in between.

use chrono::{DateTime, Utc};

use sched_vocabulary::schedule::{DstGap, SkipReason};

use super::{
    Schedule, ScheduleError, Timetable,
    misfire::{Count, SkippedRange, TICK},
    wall_clock::just_before,
    zone::local,
};

/// A zone has two a year.
const MOST_CHANGES: usize = 1_000;

impl Timetable {
    /// The fire times strictly between two instants that never fire: those excluded by calendars,
    /// in one range, and suppressed ones outside of that range. Ascending and disjoint.
    pub fn unfired_between(
        &self,
        after: DateTime<Utc>,
        before: DateTime<Utc>,
    ) -> Result<Vec<SkippedRange>, ScheduleError> {
        let excluded = self.excluded_between(after, before)?;
        let is_inside =
            |at: DateTime<Utc>| excluded.as_ref().is_some_and(|range| range.first <= at && at <= range.last);
        let suppressed = self.suppressed_between(after, before)?.into_iter();
        let mut all: Vec<SkippedRange> = suppressed
            .filter(|at| !is_inside(*at))
            .map(|at| SkippedRange {
                first: at,
                last: at,
                count: Count::Exact(1),
                reason: SkipReason::DstSuppressed,
            })
            .collect();
        all.extend(excluded);
        all.sort_by_key(|range| range.first);
        Ok(all)
    }

    /// The ends of gaps, strictly between two instants, with a time that the schedule names and
    /// does not shift.
    pub fn suppressed_between(
        &self,
        after: DateTime<Utc>,
        before: DateTime<Utc>,
    ) -> Result<Vec<DateTime<Utc>>, ScheduleError> {
        let mut found = Vec::new();
        for member in self.schedule().members() {
            for at in gaps(member, after, before)? {
                let just_before = at.checked_sub_signed(TICK).unwrap_or(at);
                let has_fire =
                    self.nominal_after(just_before)? == Some(at) || self.next_after(just_before)? == Some(at);
                if self.bounds_hold(at) && !has_fire && !found.contains(&at) {
                    found.push(at);
                }
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}

fn gaps(
    schedule: &Schedule,
    after: DateTime<Utc>,
    before: DateTime<Utc>,
) -> Result<Vec<DateTime<Utc>>, ScheduleError> {
    let Some(clock) = schedule.wall_clock().filter(|clock| clock.gap == DstGap::Skip) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let mut span = clock.zone.span_at(after);
    for _ in 0..MOST_CHANGES {
        let Some((change, offset)) = span.end.filter(|(change, _)| *change < before) else { break };
        if offset > span.offset {
            let named = schedule.next_named(just_before(span.local(change)))?;
            if named.is_some_and(|named| named < local(change, offset)) {
                found.push(change);
            }
        }
        span = clock.zone.span_at(change);
    }
    Ok(found)
}
