//! The decision about the due fire times of a job: all policies together.
//!
//! [`decide`] takes the stored state of a job and the present. It returns the fires to dispatch,
//! the skips to record, and the next cursor. The steps:
//!
//! 1. the misfire policy ([`super::misfire`]) selects among the due fires; a kill switch instead
//!    skips all of them;
//! 2. the overlap policy ([`super::overlap`]) admits as many as have room;
//! 3. `max_runs` ends the job: fires beyond it are recorded as `ended`;
//! 4. fires between all of these that calendars excluded or clock changes suppressed are recorded.
//!
//! So every nominal fire time in `(settled_until, new settled_until]` ends as exactly one of: a
//! dispatch, a position inside a skipped range, or a move to another day that is itself one of
//! these. An excluded fire time inside the range of an outage belongs to that range. If nothing
//! will fire any more before the end of the job, the cursor visits its last excluded fire, so that
//! these get their record too. `settled_until` never passes the present.
//!
//! A change of a job may leave a due fire that the change must not drop: a cursor at or before
//! `settled_until`. It is decided separately, and settling continues after it.
//!
//! The cost does not grow with the length of an outage, except for the fires that `fire_all`
//! catches up. On an error, nothing is decided.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::OverlapPolicy;
use sched_vocabulary::schedule::SkipReason;

use super::{
    ScheduleError, Timetable,
    misfire::{self, Count, MisfirePolicy, MisfireRules, SkippedRange, TICK},
    overlap::{self, Admission, Load},
};

#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub timetable: &'a Timetable,
    /// Every fire time up to and including this one has been decided.
    pub settled_until: DateTime<Utc>,
    /// A fire even if the current timetable does not name it, or a visit to the last excluded fire.
    pub cursor: DateTime<Utc>,
    /// The present, by the database's clock.
    pub now: DateTime<Utc>,
    pub misfire: MisfirePolicy,
    /// How late a fire may be and still be on time; `None` for [`misfire::DEFAULT_GRACE`].
    pub grace: Option<Duration>,
    pub overlap: OverlapPolicy,
    pub load: Load,
    /// Fires that may still be dispatched; `None` for any number.
    pub runs_left: Option<u64>,
    pub held_by: Option<SkipReason>,
    /// Most dispatches, at least one; the remaining fires stay due.
    pub limit: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Ascending.
    pub fires: Vec<DateTime<Utc>>,
    /// Number of the last `fires` that are queued until other runs have ended.
    pub waiting: usize,
    /// Number of the oldest open dispatches to cancel.
    pub cancelled: usize,
    /// Ascending and disjoint.
    pub skipped: Vec<SkippedRange>,
    /// `None` if it never fires again.
    pub next: Option<DateTime<Utc>>,
    pub settled_until: DateTime<Utc>,
    pub is_over: bool,
}

pub fn decide(situation: &Situation<'_>) -> Result<Decision, ScheduleError> {
    let Situation { timetable, cursor, now, settled_until, .. } = *situation;
    let plan = due(situation)?;
    let mut decision = match situation.held_by {
        Some(reason) => {
            let skipped = plan.skipped.into_iter().map(|range| SkippedRange { reason, ..range }).collect();
            let next = plan.next;
            Decision {
                fires: Vec::new(),
                waiting: 0,
                cancelled: 0,
                skipped,
                next,
                settled_until,
                is_over: false,
            }
        }
        None => admitted(situation, plan)?,
    };
    if decision.next.is_none() && !decision.is_over {
        decision.next = timetable.last_visit(now.max(cursor))?;
    }
    settle(timetable, settled_until, now, &mut decision)?;
    Ok(decision)
}

fn due(situation: &Situation<'_>) -> Result<misfire::Plan, ScheduleError> {
    let Situation { timetable, settled_until, cursor, now, .. } = *situation;
    let begin = match cursor {
        // A change of the job left this fire; settling continues after it.
        left if left <= settled_until => timetable.next_after(settled_until)?,
        // A visit exists only for the records of excluded fires.
        visited if timetable.is_excluded(visited) => timetable.next_after(visited)?,
        fire => Some(fire),
    };
    let mut plan = match begin {
        Some(begin) if begin <= now => due_from(situation, begin)?,
        next => misfire::Plan { fires: Vec::new(), skipped: Vec::new(), next },
    };
    if cursor <= settled_until {
        let is_late = situation.held_by.is_some() || now - cursor > grace(situation);
        let is_superseded = !plan.fires.is_empty() || !plan.skipped.is_empty();
        let is_skipped = match situation.misfire {
            _ if situation.held_by.is_some() => true,
            MisfirePolicy::Skip => is_late,
            MisfirePolicy::FireOnce => is_late && is_superseded,
            MisfirePolicy::FireAll { .. } => false,
        };
        if is_skipped {
            let (reason, count) = (SkipReason::Misfire, Count::Exact(1));
            plan.skipped.insert(0, SkippedRange { first: cursor, last: cursor, count, reason });
        } else {
            plan.fires.insert(0, cursor);
        }
    }
    Ok(plan)
}

fn grace(situation: &Situation<'_>) -> TimeDelta {
    TimeDelta::from_std(situation.grace.unwrap_or(misfire::DEFAULT_GRACE)).unwrap_or(TimeDelta::MAX)
}

fn due_from(situation: &Situation<'_>, begin: DateTime<Utc>) -> Result<misfire::Plan, ScheduleError> {
    let Situation { timetable, now, .. } = *situation;
    if situation.held_by.is_none() {
        let Situation { misfire: policy, grace, limit, .. } = *situation;
        return misfire::plan(timetable, begin, now, MisfireRules { policy, grace, limit: limit.max(1) });
    }
    // Every due fire is skipped, also one that is due now: one tick later it is late.
    let just_after = now.checked_add_signed(TICK).unwrap_or(now);
    let rules = MisfireRules { grace: Some(Duration::ZERO), ..MisfireRules::new(MisfirePolicy::Skip) };
    let mut plan = misfire::plan(timetable, begin, just_after, rules)?;
    // A fire that is due one tick from now stays due.
    plan.next = plan.fires.first().copied().or(plan.next);
    plan.fires.clear();
    Ok(plan)
}

/// Settles a job without due fires: the fires that calendars have excluded since.
pub fn settle_quiet(
    timetable: &Timetable,
    settled_until: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Vec<SkippedRange>, ScheduleError> {
    let mut decision = Decision {
        fires: Vec::new(),
        waiting: 0,
        cancelled: 0,
        skipped: Vec::new(),
        next: None,
        settled_until,
        is_over: false,
    };
    settle(timetable, settled_until, now, &mut decision)?;
    Ok(decision.skipped)
}

fn admitted(situation: &Situation<'_>, plan: misfire::Plan) -> Result<Decision, ScheduleError> {
    let Situation { timetable, load, settled_until, now, .. } = *situation;
    let due = plan.fires.len();
    let Admission { mut dispatched, mut waiting, cancelled } = overlap::admit(situation.overlap, load, due);
    let left = situation.runs_left.and_then(|left| usize::try_from(left).ok());
    if left == Some(0) {
        dispatched = 0..0;
    }
    let is_over = left.is_some_and(|left| left <= dispatched.len());
    if let Some(left) = left.filter(|_| is_over) {
        let end = dispatched.start + left;
        waiting = waiting.saturating_sub(dispatched.end - end);
        dispatched.end = end;
    }
    let mut skipped = plan.skipped;
    // Fires without room overlap with open runs. If no run is open, they overlap only with each
    // other, because the scheduler saw them too late.
    let no_room = if load.open > 0 { SkipReason::Overlap } else { SkipReason::Misfire };
    let mut skip = |positions: std::ops::Range<usize>| {
        let goes_on = positions.start == 0;
        let fires = plan.fires.get(positions).unwrap_or_default();
        let (left, fires) = fires.split_at(fires.partition_point(|at| *at <= settled_until));
        if let (Some(first), Some(last)) = (fires.first(), fires.last()) {
            let count = Count::Exact(u64::try_from(fires.len()).unwrap_or(u64::MAX));
            let range = SkippedRange { first: *first, last: *last, count, reason: no_room };
            // Adjacent skips with the same reason are one range.
            match skipped
                .last_mut()
                .filter(|before| goes_on && before.reason == no_room && before.first > settled_until)
            {
                Some(before) => (before.last, before.count) = (range.last, before.count.plus(range.count)),
                None => skipped.push(range),
            }
        }
        // Fires between one that a change of the job left and these have already been decided.
        let single = |at: &DateTime<Utc>| SkippedRange {
            first: *at,
            last: *at,
            count: Count::Exact(1),
            reason: no_room,
        };
        skipped.extend(left.iter().map(single));
    };
    skip(0..dispatched.start);
    if is_over {
        // All due fires beyond the last run, listed or not.
        let first = plan.fires.get(dispatched.end).copied().or(plan.next.filter(|next| *next <= now));
        if let Some(first) = first {
            let (last, count) = misfire::until(timetable, first, now)?;
            skipped.push(SkippedRange { first, last, count, reason: SkipReason::Ended });
        }
    } else {
        skip(dispatched.end..due);
    }
    let next = plan.next.filter(|_| !is_over);
    let fires = plan.fires.get(dispatched).unwrap_or_default().to_vec();
    Ok(Decision { fires, waiting, cancelled, skipped, next, settled_until, is_over })
}

/// Records excluded and suppressed fires between the decided ones, up to the present.
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
        // More fires are due: settled up to the last decided one.
        Some(next) if next <= now => last.max(settled_until),
        _ => now.max(last).max(settled_until),
    };
    // After its last run a job has no fire times.
    let end = if decision.is_over { last } else { until.checked_add_signed(TICK).unwrap_or(until) };
    let mut from = settled_until;
    let mut excluded = Vec::new();
    for (first, last) in decided.into_iter().chain([(end, end)]) {
        excluded.extend(timetable.unfired_between(from, first)?);
        from = from.max(last);
    }
    decision.settled_until = until;
    decision.skipped.append(&mut excluded);
    decision.skipped.sort_by_key(|range| range.first);
    Ok(())
}
