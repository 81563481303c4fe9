//! Cache of parsed calendars for one operation over many jobs; nothing depends on its content.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use uuid::Uuid;

use crate::definitions::calendars::CalendarRecord;
use sched_timetable::{Calendar, ScheduleError};

/// Parsed once per version: parsing many recurrence rules takes far longer than a query.
#[derive(Debug, Default)]
pub struct ParsedCalendars(Mutex<HashMap<(Uuid, i64), Calendar>>);

impl ParsedCalendars {
    pub(super) fn all(&self, records: &[CalendarRecord]) -> Result<Vec<Calendar>, ScheduleError> {
        records.iter().map(|record| self.one(record)).collect()
    }

    fn one(&self, record: &CalendarRecord) -> Result<Calendar, ScheduleError> {
        // After a panic the map has only complete entries.
        let mut parsed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calendar) = parsed.get(&(record.id, record.version)) {
            return Ok(calendar.clone());
        }
        let calendar = Calendar::parse(&record.definition)?;
        parsed.insert((record.id, record.version), calendar.clone());
        Ok(calendar)
    }
}
