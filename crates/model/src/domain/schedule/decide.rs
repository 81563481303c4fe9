//! What becomes of the fire times of a job that have come due: everything that policies say, put together.
//!
//! [`decide`] takes what is stored of a job (its cursor, how far its books are settled, how many dispatches are open) and the
//! present, and says which fires to dispatch, which skips to record, and what is next. The steps:
//!
//! 1. the misfire policy ([`super::misfire`]) picks among the fires that are due; a kill switch instead holds all of them;
//! 2. the overlap policy ([`super::overlap`]) admits those for which there is room;
//! 3. `max_runs` ends the job: fires beyond it are recorded as `ended`;
//! 4. the books are settled: what calendars excluded between all of these is recorded, in ranges.
//!
//! So every nominal fire time in `(settled_until, new settled_until]` ends as exactly one of: a dispatch, a place inside a
//! skipped range, or a move to another day that is itself one of these. (An excluded fire time inside the range of an outage
//! belongs to that range.) Where nothing will fire any more before the end of the job, what its calendars exclude until then
//! is recorded at once, because nobody will come by again.
//!
//! Pure. The cost does not grow with the length of an outage, but for `fire_all` with the fires it catches up. Fails as
//! the schedule does, and with nothing half decided.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::{
    ScheduleError, Timetable,
    misfire::{self, Count, MisfirePolicy, SkippedRange, TICK},
    names::SkipReason,
    overlap::{self, Admission, Load},
};
use crate::domain::job::OverlapPolicy;

/// A job whose cursor has come due.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    /// When it fires.
    pub timetable: &'a Timetable,
    /// Every fire time up to and including this one has had its fate.
    pub settled_until: DateTime<Utc>,
    /// Its next fire as it is stored; a fire, whatever the timetable says of it by now.
    pub cursor: DateTime<Utc>,
    /// The present, by the database's clock.
    pub now: DateTime<Utc>,
    /// What becomes of fires that are late.
    pub misfire: MisfirePolicy,
    /// How late a fire may be and still be on time; `None` for [`misfire::DEFAULT_GRACE`].
    pub grace: Option<Duration>,
    /// What becomes of fires while others are open.
    pub overlap: OverlapPolicy,
    /// What is open.
    pub load: Load,
    /// How many fires may still be dispatched; `None` for any number.
    pub runs_left: Option<u64>,
    /// The kill switch that holds every fire, if one does.
    pub held_by: Option<SkipReason>,
    /// Most dispatches there is room for, at least one; what is left stays due.
    pub limit: usize,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// To be dispatched, ascending.
    pub fires: Vec<DateTime<Utc>>,
    /// How many of them, the last ones, wait in line until others have ended.
    pub waiting: usize,
    /// How many of the oldest open dispatches are to be cancelled.
    pub cancelled: usize,
    /// To be recorded as not dispatched, ascending and disjoint.
    pub skipped: Vec<SkippedRange>,
    /// The new cursor; `None` if it never fires again.
    pub next: Option<DateTime<Utc>>,
    /// How far the books are settled with this.
    pub settled_until: DateTime<Utc>,
}

/// Decides about the fires of a job that are due.
pub fn decide(situation: &Situation<'_>) -> Result<Decision, ScheduleError> {
    let Situation { timetable, cursor, now, .. } = *situation;
    let mut decision = match situation.held_by {
        Some(reason) => held(situation, reason)?,
        None => {
            let Situation { misfire, grace, limit, .. } = *situation;
            let plan = misfire::plan_some(timetable, cursor, now, misfire, grace, limit.max(1))?;
            admitted(situation, plan)
        }
    };
    settle(timetable, situation.settled_until, now, &mut decision)?;
    Ok(decision)
}

/// How the books of a job are settled at `now` when nothing of it is due.
///
/// The skips to record, which are what calendars have excluded since and, where nothing will fire any more, what they exclude
/// until the end; and how far the books are settled then.
pub fn settle_quiet(
    timetable: &Timetable,
    settled_until: DateTime<Utc>,
    next: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Result<(Vec<SkippedRange>, DateTime<Utc>), ScheduleError> {
    let mut decision =
        Decision { fires: Vec::new(), waiting: 0, cancelled: 0, skipped: Vec::new(), next, settled_until };
    settle(timetable, settled_until, now, &mut decision)?;
    Ok((decision.skipped, decision.settled_until))
}

/// Everything due is skipped, even what is due at this very instant.
fn held(situation: &Situation<'_>, reason: SkipReason) -> Result<Decision, ScheduleError> {
    let Situation { timetable, cursor, now, settled_until, .. } = *situation;
    let just_after = now.checked_add_signed(TICK).unwrap_or(now);
    let grace = Some(Duration::ZERO);
    let plan = misfire::plan(timetable, cursor, just_after, MisfirePolicy::Skip, grace)?;
    let skipped = plan.skipped.into_iter().map(|range| SkippedRange { reason, ..range }).collect();
    // Nothing is younger than the grace but what is due one tick from now, which stays due.
    let next = plan.fires.first().copied().or(plan.next);
    Ok(Decision { fires: Vec::new(), waiting: 0, cancelled: 0, skipped, next, settled_until })
}

fn admitted(situation: &Situation<'_>, plan: misfire::Plan) -> Decision {
    let Situation { load, settled_until, .. } = *situation;
    let Admission { mut dispatched, mut waiting, cancelled } =
        overlap::admit(situation.overlap, load, plan.fires.len());
    let mut next = plan.next;
    let mut ended = dispatched.end..dispatched.end;
    if let Some(left) = situation.runs_left.and_then(|left| usize::try_from(left).ok())
        && left <= dispatched.len()
    {
        ended.start = dispatched.start + left;
        waiting = waiting.saturating_sub(ended.len());
        dispatched.end = ended.start;
        next = None;
    }
    let mut skipped = plan.skipped;
    // Fires that were due together and did not all find room overlap with what is open, or, when nothing is, only with each
    // other, because they were not seen in time.
    let no_room = if load.open > 0 { SkipReason::Overlap } else { SkipReason::Misfire };
    let mut skip = |positions: std::ops::Range<usize>, reason| {
        let fires = plan.fires.get(positions).unwrap_or_default();
        if let (Some(first), Some(last)) = (fires.first(), fires.last()) {
            let count = Count::Exact(u64::try_from(fires.len()).unwrap_or(u64::MAX));
            skipped.push(SkippedRange { first: *first, last: *last, count, reason });
        }
    };
    skip(0..dispatched.start, no_room);
    skip(ended.clone(), SkipReason::Ended);
    skip(ended.end..plan.fires.len(), if next.is_none() { SkipReason::Ended } else { no_room });
    let fires = plan.fires.get(dispatched).unwrap_or_default().to_vec();
    Decision { fires, waiting, cancelled, skipped, next, settled_until }
}

/// Records what calendars excluded between what is decided, up to the present.
fn settle(
    timetable: &Timetable,
    settled_until: DateTime<Utc>,
    now: DateTime<Utc>,
    decision: &mut Decision,
) -> Result<(), ScheduleError> {
    let mut decided: Vec<(DateTime<Utc>, DateTime<Utc>)> =
        decision.fires.iter().map(|at| (*at, *at)).collect();
    decided.extend(decision.skipped.iter().map(|range| (range.first, range.last)));
    decided.sort_unstable();
    let last = decided.last().map_or(settled_until, |(_, last)| *last);
    let until = match decision.next {
        // More is due than there was room for: the books are settled up to there.
        Some(next) if next <= now => last.max(settled_until),
        _ => now.max(last).max(settled_until),
    };
    let mut from = settled_until;
    let mut excluded = Vec::new();
    let end = until.checked_add_signed(TICK).unwrap_or(until);
    for (first, last) in decided.into_iter().chain([(end, end)]) {
        excluded.extend(timetable.excluded_between(from, first)?);
        from = from.max(last);
    }
    decision.settled_until = until;
    if decision.next.is_none() && timetable.is_finite() {
        let rest = timetable.excluded_between(until, DateTime::<Utc>::MAX_UTC)?;
        decision.settled_until = rest.as_ref().map_or(until, |rest| rest.last);
        excluded.extend(rest);
    }
    decision.skipped.append(&mut excluded);
    decision.skipped.sort_by_key(|range| range.first);
    Ok(())
}
