//! Due fire times: which to dispatch, which to record as skipped, and the next cursor.
//!
//! A due fire no older than the grace is on time and fires under every policy. An older one is a
//! misfire:
//!
//! - `skip`: all misfires become one skipped range;
//! - `fire_once`: the latest misfire fires, the earlier ones become one skipped range;
//! - `fire_all`: the latest `cap` misfires fire, the earlier ones become one skipped range.
//!
//! So every due fire is fired or lies in exactly one range. A plan holds at most [`MAX_FIRES`]
//! fires. If more are due, the earliest are taken and `next` is the first remaining one, not later
//! than the present. Otherwise `next` is later than the present.
//!
//! The cost does not grow with the length of an outage: the latest misfire is found by arithmetic
//! for an interval and by bisection otherwise. A range is counted exactly for an interval of
//! elapsed time, and otherwise up to [`COUNT_LIMIT`], beyond which the count is a lower bound.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use sched_vocabulary::job::MisfireKind;
use sched_vocabulary::schedule::SkipReason;

use super::{
    Schedule,
    error::{QuotedText, ScheduleError},
    interval::Interval,
};

/// Default for how late a fire may be and still be on time.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(60);

/// Also the largest effective cap of `fire_all`.
pub const MAX_FIRES: usize = 10_000;

/// Limit for counting a range one fire at a time.
///
/// It covers ten days of an hourly job, and lets a restart after an outage plan tens of thousands
/// of jobs in seconds.
pub const COUNT_LIMIT: u64 = 250;

/// Resolution of the database.
pub(super) const TICK: TimeDelta = TimeDelta::microseconds(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MisfirePolicy {
    Skip,
    #[default]
    FireOnce,
    FireAll {
        /// At least one, at most [`MAX_FIRES`].
        cap: u32,
    },
}

impl MisfirePolicy {
    /// `cap` counts for `fire_all` only, and at least 1.
    #[must_use]
    pub fn from_kind(kind: MisfireKind, cap: i32) -> Self {
        match kind {
            MisfireKind::Skip => Self::Skip,
            MisfireKind::FireOnce => Self::FireOnce,
            MisfireKind::FireAll => Self::FireAll { cap: u32::try_from(cap).unwrap_or(1).max(1) },
        }
    }

    pub const NAMES: [&str; 3] = ["skip", "fire_once", "fire_all"];

    pub fn from_parts(name: &str, cap: u32) -> Result<Self, ScheduleError> {
        match name {
            "skip" => Ok(Self::Skip),
            "fire_once" => Ok(Self::FireOnce),
            "fire_all" if cap > 0 => Ok(Self::FireAll { cap }),
            "fire_all" => Err(ScheduleError::invalid("misfire_cap", "is 0; it must be at least 1")),
            _ => Err(ScheduleError::invalid(
                "misfire_policy",
                format!("{} is unknown; use one of {}", QuotedText(name), Self::NAMES.join(", ")),
            )),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::FireOnce => "fire_once",
            Self::FireAll { .. } => "fire_all",
        }
    }

    fn caught_up(self) -> usize {
        match self {
            Self::Skip => 0,
            Self::FireOnce => 1,
            Self::FireAll { cap } => usize::try_from(cap).unwrap_or(MAX_FIRES).clamp(1, MAX_FIRES),
        }
    }
}

/// How a plan treats due fires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MisfireRules {
    pub policy: MisfirePolicy,
    /// How late a fire may be and still be on time; `None` for [`DEFAULT_GRACE`].
    pub grace: Option<Duration>,
    /// Most fires of the plan; more than [`MAX_FIRES`] counts as that.
    pub limit: usize,
}

impl MisfireRules {
    /// The policy with the default grace and as many fires as a plan holds.
    #[must_use]
    pub fn new(policy: MisfirePolicy) -> Self {
        Self { policy, grace: None, limit: MAX_FIRES }
    }
}

pub trait Occurrences {
    /// Fails only with a defect of the cron engine.
    fn next_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError>;

    /// The interval with exactly these fires, for arithmetic instead of a search.
    fn as_interval(&self) -> Option<&Interval>;
}

impl Occurrences for Schedule {
    fn next_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        Self::next_after(self, after)
    }

    fn as_interval(&self) -> Option<&Interval> {
        match self {
            Self::Interval(interval) => Some(interval),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Ascending.
    pub fires: Vec<DateTime<Utc>>,
    /// Ascending and disjoint.
    pub skipped: Vec<SkippedRange>,
    /// `None` if it never fires again.
    pub next: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRange {
    pub first: DateTime<Utc>,
    /// Included.
    pub last: DateTime<Utc>,
    pub count: Count,
    pub reason: SkipReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    Exact(u64),
    AtLeast(u64),
}

impl Count {
    /// A lower bound unless [`Count::is_exact`].
    pub fn value(self) -> u64 {
        match self {
            Self::Exact(count) | Self::AtLeast(count) => count,
        }
    }

    /// Exact if both are.
    pub fn plus(self, other: Self) -> Self {
        let sum = self.value().saturating_add(other.value());
        if self.is_exact() && other.is_exact() { Self::Exact(sum) } else { Self::AtLeast(sum) }
    }

    pub fn is_exact(self) -> bool {
        matches!(self, Self::Exact(_))
    }
}

/// Plans the due fires of a job.
///
/// `cursor` is the job's stored next fire time and is a fire even if the current schedule does not
/// name it.
pub fn plan(
    schedule: &impl Occurrences,
    cursor: DateTime<Utc>,
    now: DateTime<Utc>,
    rules: MisfireRules,
) -> Result<Plan, ScheduleError> {
    let MisfireRules { policy, grace, limit } = rules;
    let mut plan = Plan { fires: Vec::new(), skipped: Vec::new(), next: Some(cursor) };
    let grace = TimeDelta::from_std(grace.unwrap_or(DEFAULT_GRACE)).unwrap_or(TimeDelta::MAX);
    let on_time_from = now.checked_sub_signed(grace).unwrap_or(DateTime::<Utc>::MIN_UTC);
    if cursor < on_time_from {
        let due = Due { schedule, cursor };
        let last = due.latest(on_time_from - TICK)?;
        let first_fired = due.back_from(last, policy.caught_up())?;
        plan.next = first_fired.map_or_else(|| schedule.next_after(last), |first| Ok(Some(first)))?;
        let skipped_until = match first_fired {
            None => Some(last),
            Some(first) if first > cursor => Some(due.latest(first - TICK)?),
            Some(_) => None,
        };
        if let Some(last) = skipped_until {
            let count = due.count(last)?;
            plan.skipped.push(SkippedRange { first: cursor, last, count, reason: SkipReason::Misfire });
        }
    }
    while let Some(fire) = plan.next.filter(|next| *next <= now) {
        if plan.fires.len() >= limit.min(MAX_FIRES) {
            break;
        }
        plan.fires.push(fire);
        plan.next = schedule.next_after(fire)?;
    }
    Ok(plan)
}

pub(super) fn latest_until(
    schedule: &impl Occurrences,
    known: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<DateTime<Utc>, ScheduleError> {
    Due { schedule, cursor: known }.latest(until)
}

pub(super) fn until(
    schedule: &impl Occurrences,
    first: DateTime<Utc>,
    until: DateTime<Utc>,
) -> Result<(DateTime<Utc>, Count), ScheduleError> {
    let due = Due { schedule, cursor: first };
    let last = due.latest(until)?;
    Ok((last, due.count(last)?))
}

struct Due<'a, S> {
    schedule: &'a S,
    cursor: DateTime<Utc>,
}

impl<S: Occurrences> Due<'_, S> {
    /// The latest fire not later than `until`; the cursor if there is no other.
    fn latest(&self, until: DateTime<Utc>) -> Result<DateTime<Utc>, ScheduleError> {
        let Some(second) = self.next_until(self.cursor, until)? else { return Ok(self.cursor) };
        if let Some(interval) = self.schedule.as_interval()
            && let Some(last) = interval.latest(until)
        {
            return Ok(last.max(second));
        }
        // `fire` is not later than `until`; no fire lies in `(high, until]`. Each round halves the
        // distance.
        let (mut fire, mut high) = (second, until);
        let mut window = TimeDelta::minutes(1);
        while let Some(low) = until.checked_sub_signed(window).filter(|low| *low > self.cursor) {
            if let Some(found) = self.next_until(low, until)? {
                fire = found;
                break;
            }
            high = low;
            window = window * 2;
        }
        while let Some(following) = self.next_until(fire, until)? {
            let middle = following + (high - following) / 2;
            match self.next_until(middle, until)? {
                Some(found) => fire = found,
                None => (fire, high) = (following, middle),
            }
        }
        Ok(fire)
    }

    /// The earliest of the `wanted` latest fires up to `last`, which is a fire itself; `None` if
    /// `wanted` is zero.
    fn back_from(&self, last: DateTime<Utc>, wanted: usize) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        if wanted <= 1 || last == self.cursor {
            return Ok(Some(last).filter(|_| wanted > 0));
        }
        if let Some(interval) = self.schedule.as_interval()
            && let Some(earlier) = interval.earlier(last, wanted - 1)
        {
            return Ok(Some(if earlier > self.cursor { earlier } else { self.cursor }));
        }
        // Too few fires follow `few`, too many `many`. Windows double until they hold enough; over
        // a burst, the distance is halved again.
        let (mut few, mut many) = (last, None);
        let mut window = TimeDelta::minutes(1);
        loop {
            let start = match many {
                Some(many) => many + (few - many) / 2,
                None => last.checked_sub_signed(window).map_or(self.cursor, |start| start.max(self.cursor)),
            };
            let fires = self.list(start, last, wanted.saturating_mul(2))?;
            match fires {
                None => many = Some(start),
                Some(fires) => match fires.len().checked_sub(wanted).and_then(|surplus| fires.get(surplus)) {
                    Some(first) => return Ok(Some(*first)),
                    None if start == self.cursor => return Ok(Some(self.cursor)),
                    None => few = start,
                },
            }
            window = window * 2;
        }
    }

    fn count(&self, last: DateTime<Utc>) -> Result<Count, ScheduleError> {
        if let Some(interval) = self.schedule.as_interval()
            && let Some(after_cursor) = interval.count_between(self.cursor, last)
        {
            return Ok(Count::Exact(after_cursor.saturating_add(1)));
        }
        let (mut fire, mut count) = (self.cursor, 1);
        while let Some(next) = self.next_until(fire, last)? {
            if count == COUNT_LIMIT {
                return Ok(Count::AtLeast(count));
            }
            (fire, count) = (next, count + 1);
        }
        Ok(Count::Exact(count))
    }

    /// `None` if they are more than `limit`.
    fn list(
        &self,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
        limit: usize,
    ) -> Result<Option<Vec<DateTime<Utc>>>, ScheduleError> {
        let (mut fires, mut from) = (Vec::new(), after);
        while let Some(next) = self.next_until(from, until)? {
            if fires.len() == limit {
                return Ok(None);
            }
            fires.push(next);
            from = next;
        }
        Ok(Some(fires))
    }

    fn next_until(
        &self,
        after: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        Ok(self.schedule.next_after(after)?.filter(|next| *next <= until))
    }
}
