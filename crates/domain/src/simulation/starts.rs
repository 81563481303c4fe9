//! The starts of one job in a window, in order.
//!
//! With jitter a later fire may start earlier, so a start is returned only when no later fire can
//! precede it. Fires before the window are read too, because their starts may lie in it. Pure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Timing, Window, hash};
use sched_timetable::ScheduleError;

/// Resolution of the database.
const TICK: TimeDelta = TimeDelta::microseconds(1);

#[derive(Debug)]
pub(super) struct Starts<'a> {
    timing: &'a Timing<'a>,
    key: &'a str,
    jitter_seconds: u32,
    window: Window,
    /// Its start is not yet waiting.
    fire: Option<DateTime<Utc>>,
    waiting: BinaryHeap<Reverse<DateTime<Utc>>>,
    closest: Option<TimeDelta>,
}

impl<'a> Starts<'a> {
    pub(super) fn new(
        timing: &'a Timing<'a>,
        key: &'a str,
        jitter_seconds: u32,
        window: Window,
    ) -> Result<Self, ScheduleError> {
        let before = TimeDelta::seconds(jitter_seconds.into()) + TICK;
        let after = window.from.checked_sub_signed(before).unwrap_or(DateTime::<Utc>::MIN_UTC);
        let mut starts = Self {
            timing,
            key,
            jitter_seconds,
            window,
            fire: None,
            waiting: BinaryHeap::new(),
            closest: None,
        };
        starts.fire = starts.fire_after(after)?;
        Ok(starts)
    }

    pub(super) fn next(&mut self) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        loop {
            while let Some(fire) = self.fire
                && self.waiting.peek().is_none_or(|Reverse(start)| fire <= *start)
            {
                let start = fire + hash::jitter(self.jitter_seconds, self.key, fire);
                self.waiting.push(Reverse(start));
                self.fire = self.fire_after(fire)?;
                let distance = self.fire.map(|next| next - fire);
                self.closest = self.closest.into_iter().chain(distance).min();
            }
            match self.waiting.pop() {
                None => return Ok(None),
                Some(Reverse(start)) if self.window.contains(start) => return Ok(Some(start)),
                Some(_outside) => {}
            }
        }
    }

    pub(super) fn closest(&self) -> Option<TimeDelta> {
        self.closest
    }

    fn fire_after(&self, after: DateTime<Utc>) -> Result<Option<DateTime<Utc>>, ScheduleError> {
        Ok(self.timing.next_after(after)?.filter(|fire| *fire < self.window.to))
    }
}
