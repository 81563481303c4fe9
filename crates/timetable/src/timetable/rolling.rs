//! The next fire of a timetable that moves excluded fires to a business day.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Fire, LONGEST_ROLL, MOST_STEPS, Timetable, gave_up};
use crate::{ScheduleError, misfire::TICK};

impl Timetable {
    pub(super) fn next_rolled_forward(&self, after: DateTime<Utc>) -> Result<Option<Fire>, ScheduleError> {
        let mut best = self.rolled_past(after)?;
        let mut from = after;
        for _ in 0..MOST_STEPS {
            let Some(nominal) = self.nominal_after(from)? else { return Ok(best) };
            // Nothing moves to before its nominal time.
            if best.is_some_and(|best| best.at < nominal) {
                return Ok(best);
            }
            let moved = self.moved(nominal);
            best = earliest(best, moved, nominal, after);
            // Of a stretch that is excluded as a whole, only the last days can move out of it.
            let reach = self.exclusions.until(nominal).filter(|_| moved.is_none());
            let reach = reach.and_then(|end| end.checked_sub_signed(TimeDelta::days(LONGEST_ROLL + 1)));
            from = reach.map_or(nominal, |reach| reach.max(nominal));
        }
        Err(gave_up())
    }

    /// The first fire after an instant that was nominally due at or before it.
    ///
    /// A fire moved past a whole day found that day excluded, so the walk back ends at the first
    /// untouched day.
    fn rolled_past(&self, after: DateTime<Utc>) -> Result<Option<Fire>, ScheduleError> {
        let (mut best, today) = (None, self.exclusions.day_of(after));
        for back in 0..=LONGEST_ROLL {
            let Some(day) = today.checked_sub_signed(TimeDelta::days(back)) else { break };
            if !self.exclusions.touch(day) {
                if back == 0 { continue } else { break }
            }
            let end = after.min(self.exclusions.end_of(day) - TICK);
            let mut from = self.exclusions.start_of(day) - TICK;
            while let Some(nominal) = self.nominal_after(from)?.filter(|nominal| *nominal <= end) {
                best = earliest(best, self.moved(nominal), nominal, after);
                from = nominal;
            }
        }
        Ok(best)
    }

    pub(super) fn next_rolled_back(&self, after: DateTime<Utc>) -> Result<Option<Fire>, ScheduleError> {
        let (mut best, mut from) = (None::<Fire>, after);
        let mut barrier = None;
        for _ in 0..MOST_STEPS {
            let Some(nominal) = self.nominal_after(from)? else { return Ok(best) };
            if let Some(best) = best {
                let limit = *barrier.get_or_insert_with(|| self.first_untouched_after(best.at));
                if nominal >= limit {
                    return Ok(Some(best));
                }
            }
            let moved = self.moved(nominal);
            let found = earliest(best, moved, nominal, after);
            if found != best {
                (best, barrier) = (found, None);
            }
            // If one fire finds no day before a fully excluded stretch, no later fire of the
            // stretch finds one.
            let end = self.exclusions.until(nominal).filter(|_| moved.is_none());
            from = end.map_or(nominal, |end| nominal.max(end - TICK));
        }
        Err(gave_up())
    }

    /// The start of the first day after that of `at` without an exclusion: a fire nominally due
    /// then or later does not move to before `at`.
    fn first_untouched_after(&self, at: DateTime<Utc>) -> DateTime<Utc> {
        let day = self.exclusions.day_of(at);
        let mut days = day.iter_days().skip(1);
        let last = usize::try_from(LONGEST_ROLL).unwrap_or_default();
        let untouched =
            days.by_ref().take(last).find(|day| !self.exclusions.touch(*day)).or_else(|| days.next());
        untouched.map_or(DateTime::<Utc>::MAX_UTC, |day| self.exclusions.start_of(day))
    }
}

/// The earlier of two fires; at one instant, the one that was not moved.
fn earliest(
    best: Option<Fire>,
    at: Option<DateTime<Utc>>,
    nominal: DateTime<Utc>,
    after: DateTime<Utc>,
) -> Option<Fire> {
    let found = at.filter(|at| *at > after).map(|at| Fire { at, nominal });
    match (best, found) {
        (Some(best), Some(found)) => {
            let is_better = found.at < best.at || (found.at == best.at && found.nominal == found.at);
            Some(if is_better { found } else { best })
        }
        (best, found) => best.or(found),
    }
}
