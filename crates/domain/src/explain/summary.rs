//! Counts of fire times per fate.

use std::collections::BTreeMap;

use super::{Fate, TimelineEntry};
use sched_timetable::SkipReason;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    /// Without those that a disabled or ended job would have had.
    pub fire_times: u64,
    pub dispatched: u64,
    pub skipped: BTreeMap<&'static str, u64>,
    pub upcoming: u64,
    pub undecided: u64,
    /// Perhaps removed by retention.
    pub pruned: u64,
    /// Their fate, or whether they were fire times, is unknown.
    pub unclear: u64,
    pub two_fates: u64,
    pub unaccounted: u64,
    pub while_disabled: u64,
    pub after_last_run: u64,
    pub triggers: u64,
}

impl TimelineEntry {
    /// False for hypothetical fire times and for those that a calendar moved away.
    #[must_use]
    pub fn is_of_fire_times(&self) -> bool {
        let mut summary = Summary::default();
        summary.add(self);
        summary.fire_times > 0
    }
}

impl Summary {
    pub(super) fn of(lines: &[TimelineEntry], triggers: usize) -> Self {
        let triggers = u64::try_from(triggers).unwrap_or(u64::MAX);
        let mut summary = Self { triggers, ..Self::default() };
        for line in lines {
            summary.add(line);
        }
        summary
    }

    fn add(&mut self, line: &TimelineEntry) {
        let count = line.count;
        let place = match &line.fate {
            Fate::Dispatched(_) => &mut self.dispatched,
            Fate::Skipped { skip, .. } => self.skipped_for(skip.reason),
            Fate::Suppressed => self.skipped_for(SkipReason::DstSuppressed),
            Fate::Excluded => self.skipped_for(SkipReason::Calendar),
            Fate::Upcoming { .. } => &mut self.upcoming,
            Fate::Undecided { .. } => &mut self.undecided,
            Fate::Pruned => &mut self.pruned,
            Fate::TwoFates { .. } => &mut self.two_fates,
            Fate::Unaccounted => &mut self.unaccounted,
            Fate::Unclear { .. } => {
                // An unknown segment must not appear as zero.
                self.unclear += count.max(1);
                self.fire_times += count;
                return;
            }
            Fate::Disabled { .. } => {
                self.while_disabled += count;
                return;
            }
            Fate::Ended => {
                self.after_last_run += count;
                return;
            }
            Fate::Moved { .. } | Fate::NotCreated => return,
        };
        *place += count;
        self.fire_times += count;
    }

    fn skipped_for(&mut self, reason: SkipReason) -> &mut u64 {
        self.skipped.entry(reason.as_str()).or_default()
    }

    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.unaccounted == 0 && self.two_fates == 0
    }

    #[must_use]
    pub fn sentence(&self) -> String {
        let skipped: u64 = self.skipped.values().sum();
        let mut reasons: Vec<_> = self.skipped.iter().collect();
        reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut parts = vec![format!("{} dispatched", self.dispatched)];
        if skipped == 0 {
            parts.push("0 skipped".to_owned());
        } else {
            let reasons = reasons.iter().map(|(reason, count)| format!("{count} {reason}"));
            parts.push(format!("{skipped} skipped ({})", reasons.collect::<Vec<_>>().join(", ")));
        }
        for (count, what) in [
            (self.upcoming, "to come"),
            (self.undecided, "due and not yet decided about"),
            (self.pruned, "perhaps removed by retention"),
            (self.unclear, "unclear"),
            (self.two_fates, "with TWO FATES"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        let unaccounted = if self.unaccounted == 0 { "unaccounted" } else { "UNACCOUNTED" };
        parts.push(format!("{} {unaccounted}", self.unaccounted));
        let noun = if self.fire_times == 1 { "fire time" } else { "fire times" };
        let mut text = format!("{} {noun}: {}", self.fire_times, parts.join(", "));
        for (count, what) in [
            (self.while_disabled, "more if the job had not been disabled"),
            (self.after_last_run, "more if the job had not had its last run"),
            (self.triggers, "triggered beside the schedule"),
        ] {
            if count > 0 {
                text.push_str(&format!("; {count} {what}"));
            }
        }
        text
    }
}
