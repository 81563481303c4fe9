//! Which settings were in effect when, and their fire times.
//!
//! Fires up to and including the instant of a change belong to the settings before. Pure.

use std::collections::BTreeMap;
use std::ops::Range;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Evidence, ExplainError, MAX_FIRE_TIMES, Version};
use crate::job::JobSettings;
use sched_timetable::{Calendar, CalendarRoll, ScheduleError, Timetable};

/// Resolution of the database.
pub(super) const TICK: TimeDelta = TimeDelta::microseconds(1);

/// The reach of calendar moves, plus a day for a clock change.
const REACH: TimeDelta = TimeDelta::days(61);

#[derive(Debug)]
pub(super) struct Segment<'a> {
    pub(super) version: &'a Version,
    /// Fires after this instant belong to the segment.
    pub(super) after: DateTime<Utc>,
    /// Fires up to and including this instant belong to the segment.
    pub(super) until: DateTime<Utc>,
    pub(super) timetable: Result<Timetable, String>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Occurrence {
    pub(super) moved_from: Option<DateTime<Utc>>,
    pub(super) is_excluded: bool,
    pub(super) is_suppressed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Occurrences {
    pub(super) fires: BTreeMap<DateTime<Utc>, Occurrence>,
    pub(super) moved: Vec<(DateTime<Utc>, DateTime<Utc>)>,
}

pub(super) fn segments(evidence: &Evidence, from: DateTime<Utc>, to: DateTime<Utc>) -> Vec<Segment<'_>> {
    let calendars: Vec<(&str, Result<Calendar, String>)> = evidence
        .calendars
        .iter()
        .map(|known| {
            let calendar = Calendar::parse(&known.definition).map_err(|error| error.to_string());
            (known.name.as_str(), calendar)
        })
        .collect();
    let ends = evidence.versions.iter().skip(1).map(|next| next.changed_at);
    let ends = ends.chain(std::iter::once(DateTime::<Utc>::MAX_UTC));
    let touches = |after: DateTime<Utc>, until: DateTime<Utc>| after < to && until >= from;
    evidence
        .versions
        .iter()
        .zip(ends)
        .map(|(version, until)| (version, begin(evidence, version), until))
        .filter(|(_, after, until)| after < until && touches(*after, *until))
        .map(|(version, after, until)| {
            let timetable = match &version.settings {
                Ok(settings) => timetable(evidence, settings, &calendars),
                Err(why) => Err(why.clone()),
            };
            Segment { version, after, until, timetable }
        })
        .collect()
}

/// The first version counts from the creation of the job.
fn begin(evidence: &Evidence, version: &Version) -> DateTime<Utc> {
    if version.number <= 1 { evidence.created_at } else { version.changed_at.max(evidence.created_at) }
}

fn timetable(
    evidence: &Evidence,
    settings: &JobSettings,
    calendars: &[(&str, Result<Calendar, String>)],
) -> Result<Timetable, String> {
    let mut named = Vec::new();
    for name in &settings.calendars {
        // A deleted calendar excludes nothing any more; its past exclusions have records.
        if let Some((_, calendar)) = calendars.iter().find(|(known, _)| known == name) {
            named.push(calendar.clone()?);
        }
    }
    let timetable = settings.timetable(evidence.tenant, evidence.created_at, &named);
    timetable.map_err(|error| error.to_string())
}

impl Segment<'_> {
    pub(super) fn settings(&self) -> Option<&JobSettings> {
        self.version.settings.as_ref().ok()
    }

    /// Only the present calendars are known.
    pub(super) fn moves_fires(&self) -> bool {
        self.settings().is_some_and(|settings| {
            !settings.calendars.is_empty() && settings.calendar_roll != CalendarRoll::Skip
        })
    }

    /// Its fire times in `window`. `room` is the number of fire times that still fit; it is
    /// reduced by the result.
    pub(super) fn occurrences(
        &self,
        timetable: &Timetable,
        window: &Range<DateTime<Utc>>,
        room: &mut usize,
    ) -> Result<Result<Occurrences, ScheduleError>, ExplainError> {
        let (from, to) = (window.start, window.end);
        let reach = if self.moves_fires() { REACH } else { TimeDelta::zero() };
        let after = self.after.max(earlier(from, reach + TICK));
        let until = self.until.min(later(earlier(to, TICK), reach));
        let in_window = |at: DateTime<Utc>| window.contains(&at) && self.after < at && at <= self.until;
        let mut found = Occurrences::default();
        let (mut at, mut steps) = (after, 0);
        loop {
            let nominal = match timetable.nominal_after(at) {
                Ok(Some(nominal)) if nominal <= until => nominal,
                Ok(_) => break,
                Err(error) => return Ok(Err(error)),
            };
            steps += 1;
            let moved = timetable.moved(nominal);
            if let Some(to) = moved.filter(|to| *to != nominal) {
                if in_window(nominal) {
                    found.moved.push((nominal, to));
                }
                if in_window(to) {
                    let occurrence = Occurrence { moved_from: Some(nominal), ..Occurrence::default() };
                    found.fires.entry(to).or_insert(occurrence);
                }
            } else if in_window(nominal) {
                let is_excluded = moved.is_none();
                found.fires.insert(nominal, Occurrence { is_excluded, ..Occurrence::default() });
            }
            if found.fires.len() + found.moved.len() > *room || steps > 2 * MAX_FIRE_TIMES {
                return Err(ExplainError::TooMany);
            }
            at = nominal;
        }
        let (after, before) =
            (self.after.max(earlier(from, TICK)), later(self.until.min(earlier(to, TICK)), TICK));
        match timetable.suppressed_between(after, before) {
            Ok(suppressed) => {
                let occurrence = Occurrence { is_suppressed: true, ..Occurrence::default() };
                found.fires.extend(suppressed.into_iter().map(|at| (at, occurrence)));
            }
            Err(error) => return Ok(Err(error)),
        }
        *room = room.saturating_sub(found.fires.len() + found.moved.len());
        Ok(Ok(found))
    }
}

fn earlier(at: DateTime<Utc>, by: TimeDelta) -> DateTime<Utc> {
    at.checked_sub_signed(by).unwrap_or(DateTime::<Utc>::MIN_UTC)
}

fn later(at: DateTime<Utc>, by: TimeDelta) -> DateTime<Utc> {
    at.checked_add_signed(by).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
