//! From fire times and records to lines: each fire time gets its one fate.
//!
//! An existing record always decides. Without one, `settled_until` decides whether a record should
//! exist. Pure.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};

use super::timeline::{Occurrence, Occurrences, Segment, segments};
use super::{
    DispatchRecord, Evidence, ExplainError, Explanation, Fate, MAX_FIRE_TIMES, MisfireRule, PauseInForce,
    Skip, Summary, TimelineEntry,
};
use sched_timetable::SkipReason;

/// Source of the versions in which the scheduler disabled the job.
const SCHEDULER: &str = "scheduler";

/// Explains the fire times in `from..to`.
///
/// # Errors
/// The window is empty or has too many fire times.
pub fn explain(
    evidence: &Evidence,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
) -> Result<Explanation, ExplainError> {
    if to <= from {
        return Err(ExplainError::NoWindow);
    }
    if evidence.dispatches.len().max(evidence.skips.len()).max(evidence.triggers.len()) > MAX_FIRE_TIMES {
        return Err(ExplainError::TooMany);
    }
    let mut lines = Lines::new(evidence, from, to);
    if from < evidence.created_at {
        lines
            .all
            .push(TimelineEntry { count: 0, ..line(from, evidence.created_at.min(to), Fate::NotCreated) });
    }
    let mut room = MAX_FIRE_TIMES;
    for segment in segments(evidence, from, to) {
        let occurrences = match &segment.timetable {
            Ok(timetable) => {
                segment.occurrences(timetable, &(from..to), &mut room)?.map_err(|error| error.to_string())
            }
            Err(why) => Err(why.clone()),
        };
        match occurrences {
            Ok(occurrences) => lines.add(&segment, &occurrences),
            Err(error) => lines.add_unknown(&segment, &error),
        }
    }
    lines.add_cursor();
    lines.add_unexpected();
    let lines = collapsed(lines.all);
    let summary = Summary::of(&lines, evidence.triggers.len());
    Ok(Explanation { lines, triggers: evidence.triggers.clone(), summary })
}

fn line(first: DateTime<Utc>, last: DateTime<Utc>, fate: Fate) -> TimelineEntry {
    TimelineEntry { first, last, count: 1, is_count_exact: true, version: None, moved_from: None, fate }
}

struct Lines<'a> {
    evidence: &'a Evidence,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    dispatches: BTreeMap<DateTime<Utc>, &'a DispatchRecord>,
    skips: BTreeMap<DateTime<Utc>, &'a Skip>,
    used: HashSet<DateTime<Utc>>,
    all: Vec<TimelineEntry>,
}

impl<'a> Lines<'a> {
    fn new(evidence: &'a Evidence, from: DateTime<Utc>, to: DateTime<Utc>) -> Self {
        Self {
            evidence,
            from,
            to,
            dispatches: evidence.dispatches.iter().map(|known| (known.scheduled_for, known)).collect(),
            skips: evidence.skips.iter().map(|known| (known.first, known)).collect(),
            used: HashSet::new(),
            all: Vec::new(),
        }
    }

    fn add(&mut self, segment: &Segment<'_>, found: &Occurrences) {
        let version = Some(segment.version.number);
        for (at, occurrence) in &found.fires {
            let fate = self.fate(segment, *at, *occurrence);
            let moved_from = occurrence.moved_from;
            self.all.push(TimelineEntry { version, moved_from, ..line(*at, *at, fate) });
        }
        for (nominal, to) in &found.moved {
            let fate = Fate::Moved { to: *to };
            self.all.push(TimelineEntry { version, count: 0, ..line(*nominal, *nominal, fate) });
        }
    }

    /// A segment without computable fire times: shows its records and reports that missing ones are
    /// unknown.
    fn add_unknown(&mut self, segment: &Segment<'_>, error: &str) {
        let (first, last) = (segment.after.max(self.from), segment.until.min(self.to));
        let why = format!(
            "the fire times of version {} cannot be computed any more: {error}",
            segment.version.number
        );
        self.all.push(TimelineEntry { count: 0, ..line(first, last, Fate::Unclear { why }) });
    }

    /// The cursor, if no schedule names it: a change of the job left this fire due.
    fn add_cursor(&mut self) {
        let Some(at) = self.evidence.cursor.filter(|at| *at <= self.evidence.now) else { return };
        let is_known = self.all.iter().any(|line| line.count > 0 && line.first == at)
            || self.dispatches.contains_key(&at)
            || self.skip_at(at).is_some();
        if self.from <= at && at < self.to && !is_known && self.evidence.is_enabled {
            let fate = self.undecided(at);
            self.all.push(line(at, at, fate));
        }
    }

    /// Records of fire times that no known schedule names.
    fn add_unexpected(&mut self) {
        for (at, dispatch) in &self.dispatches {
            if !self.used.contains(at) {
                self.all.push(line(*at, *at, Fate::Dispatched(Box::new((*dispatch).clone()))));
            }
        }
        for (first, skip) in &self.skips {
            if !self.used.contains(first) {
                let fate = self.skipped(skip, *first);
                let (count, is_count_exact) = (skip.count, skip.is_count_exact);
                self.all.push(TimelineEntry { count, is_count_exact, ..line(*first, skip.last, fate) });
            }
        }
    }

    fn skip_at(&self, at: DateTime<Utc>) -> Option<&'a Skip> {
        let (_, skip) = self.skips.range(..=at).next_back()?;
        Some(*skip).filter(|skip| at <= skip.last)
    }

    fn fate(&mut self, segment: &Segment<'_>, at: DateTime<Utc>, occurrence: Occurrence) -> Fate {
        let is_enabled = segment.settings().is_none_or(|settings| settings.is_enabled);
        let dispatch = self.dispatches.get(&at).copied();
        // A range with a continuing reason covers the instants between; a disabled job has no fire
        // times there.
        let skip = self.skip_at(at).filter(|_| is_enabled);
        self.used.extend(dispatch.map(|dispatch| dispatch.scheduled_for));
        self.used.extend(skip.map(|skip| skip.first));
        match (dispatch, skip) {
            (Some(dispatch), Some(skip)) => {
                Fate::TwoFates { dispatch: Box::new(dispatch.clone()), skip: Box::new(skip.clone()) }
            }
            (Some(dispatch), None) => Fate::Dispatched(Box::new(dispatch.clone())),
            (None, Some(skip)) => self.skipped(skip, at),
            (None, None) if occurrence.is_suppressed => Fate::Suppressed,
            (None, None) => self.unrecorded(segment, at, occurrence),
        }
    }

    fn unrecorded(&self, segment: &Segment<'_>, at: DateTime<Utc>, occurrence: Occurrence) -> Fate {
        let evidence = self.evidence;
        if let Some(disabled) = self.disabled(segment, at) {
            return disabled;
        }
        if segment.version.ended_at.is_some_and(|end| end < at) {
            return Fate::Ended;
        }
        let is_future = at > evidence.now;
        // A change may leave a fire due at or before `settled_until`.
        if evidence.cursor == Some(at) && !is_future {
            return self.undecided(at);
        }
        if at <= evidence.settled_until {
            return match evidence.ledger_starts_at {
                Some(start) if at <= start => Fate::Pruned,
                _ => self.unclear(segment).unwrap_or(Fate::Unaccounted),
            };
        }
        match evidence.cursor {
            _ if occurrence.is_excluded && is_future => {
                Fate::Upcoming { is_paused: false, is_excluded: true }
            }
            _ if occurrence.is_excluded => Fate::Excluded,
            Some(_) if is_future => Fate::Upcoming { is_paused: self.is_paused_at(at), is_excluded: false },
            Some(cursor) if cursor <= at => self.undecided(at),
            _ => self.unclear(segment).unwrap_or(Fate::Unaccounted),
        }
    }

    fn undecided(&self, at: DateTime<Utc>) -> Fate {
        let held_until = self.evidence.held_until.filter(|until| *until > self.evidence.now);
        let since = self.evidence.held_until.map_or(at, |until| until.max(at));
        Fate::Undecided { since, held_until }
    }

    fn disabled(&self, segment: &Segment<'_>, at: DateTime<Utc>) -> Option<Fate> {
        let version = segment.version;
        if segment.settings().is_some_and(|settings| !settings.is_enabled) {
            let by = Some(version.changed_by.clone()).filter(|by| by != SCHEDULER);
            return Some(Fate::Disabled { since: Some(version.changed_at), by });
        }
        let within = |since: &&DateTime<Utc>| segment.after <= **since && **since < at;
        if let Some(since) = self.evidence.disabled_at.iter().filter(within).max() {
            return Some(Fate::Disabled { since: Some(*since), by: None });
        }
        let is_last = segment.until == DateTime::<Utc>::MAX_UTC;
        let is_past_the_books = is_last && !self.evidence.is_enabled && at > self.evidence.settled_until;
        is_past_the_books.then_some(Fate::Disabled { since: None, by: None })
    }

    /// Why it is unknown whether this was a fire time.
    fn unclear(&self, segment: &Segment<'_>) -> Option<Fate> {
        let names = &segment.settings()?.calendars;
        let changed =
            |known: &&super::CalendarFacts| names.contains(&known.name) && known.updated_at > segment.after;
        let calendar = self.evidence.calendars.iter().filter(|_| segment.moves_fires()).find(changed)?;
        let why = format!(
            "the calendar {} was changed at {}, and it is not known to which day it moved fires before",
            calendar.name,
            super::phrases::instant(calendar.updated_at)
        );
        Some(Fate::Unclear { why })
    }

    fn skipped(&self, skip: &Skip, at: DateTime<Utc>) -> Fate {
        let pause = self.pause_at(at.max(skip.recorded_at)).filter(|_| skip.reason == SkipReason::PausedJob);
        let misfire =
            (skip.reason == SkipReason::Misfire).then(|| self.misfire_rule(skip.recorded_at)).flatten();
        Fate::Skipped { skip: Box::new(skip.clone()), pause, misfire }
    }

    /// The scheduler decides by the settings in effect when it records.
    fn misfire_rule(&self, at: DateTime<Utc>) -> Option<MisfireRule> {
        let mut versions = self.evidence.versions.iter().rev();
        let settings = versions.find(|version| version.changed_at <= at)?.settings.as_ref().ok()?;
        Some(MisfireRule {
            policy: settings.misfire_policy,
            cap: settings.misfire_cap,
            grace_seconds: settings.misfire_grace_seconds,
            max_instances: settings.max_instances,
        })
    }

    fn pause_at(&self, at: DateTime<Utc>) -> Option<PauseInForce> {
        let mut versions = self.evidence.versions.iter().rev();
        let version = versions.find(|version| version.change == "paused" && version.changed_at <= at)?;
        Some(PauseInForce {
            since: version.changed_at,
            by: version.changed_by.clone(),
            reason: version.pause_reason.clone(),
            until: version.paused_until,
        })
    }

    fn is_paused_at(&self, at: DateTime<Utc>) -> bool {
        self.evidence.is_paused && self.evidence.paused_until.is_none_or(|until| at < until)
    }
}

/// Merges neighbours of one fate.
fn collapsed(mut lines: Vec<TimelineEntry>) -> Vec<TimelineEntry> {
    lines.sort_by_key(|line| (line.first, line.count));
    let mut all: Vec<TimelineEntry> = Vec::new();
    for line in lines {
        match all.last_mut() {
            Some(last) if shares_fate(last, &line) => {
                last.last = line.last;
                last.count += line.count;
                last.is_count_exact &= line.is_count_exact;
            }
            _ => all.push(line),
        }
    }
    all
}

fn shares_fate(a: &TimelineEntry, b: &TimelineEntry) -> bool {
    let is_one = |line: &TimelineEntry| {
        matches!(
            line.fate,
            Fate::Dispatched(_) | Fate::TwoFates { .. } | Fate::Moved { .. } | Fate::NotCreated
        )
    };
    let is_fire = a.count > 0 && b.count > 0 && a.moved_from.is_none() && b.moved_from.is_none();
    // `since` of a due fire belongs to that fire.
    let both_undecided = matches!((&a.fate, &b.fate), (Fate::Undecided { .. }, Fate::Undecided { .. }));
    is_fire
        && !is_one(a)
        && a.version.is_some() == b.version.is_some()
        && (a.fate == b.fate || both_undecided)
}
