//! Parsed calendars of due jobs, cached by version, because parsing recurrence rules is slow.
//!
//! The cache lives as long as the term. A changed calendar has a new version. For a definition that
//! does not parse, the cache holds the error, which disables the jobs that name the calendar.

use sched_model::dispatching::tick::{DueJob, NamedCalendar};
use sched_model::domain::ids::TenantId;
use sched_model::domain::timetable::Calendar;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use uuid::Uuid;

/// A full cache is emptied.
const MOST_KEPT: usize = 1_000;

#[derive(Debug, Default)]
pub struct Calendars {
    cached: HashMap<(TenantId, String), CachedCalendar>,
}

#[derive(Debug)]
struct CachedCalendar {
    /// Id and version: a calendar that is created again starts at version 1.
    edition: (Uuid, i64),
    calendar: Result<Calendar, String>,
}

impl Calendars {
    pub fn update(&mut self, jobs: &[DueJob], found: Vec<NamedCalendar>) {
        for job in jobs {
            for name in &job.calendars {
                let exists =
                    found.iter().any(|found| found.tenant_id == job.tenant_id && found.name == *name);
                if !exists {
                    self.cached.remove(&(job.tenant_id, name.clone()));
                }
            }
        }
        if self.cached.len() + found.len() > MOST_KEPT {
            self.cached.clear();
        }
        for NamedCalendar { tenant_id, id, name, version, definition } in found {
            let (key, edition) = ((tenant_id, name), (id, version));
            if self.cached.get(&key).is_none_or(|cached| cached.edition != edition) {
                let calendar = parse(&definition);
                self.cached.insert(key, CachedCalendar { edition, calendar });
            }
        }
    }

    /// Fails if a calendar of the job is missing or does not parse.
    pub fn of(&self, job: &DueJob) -> Result<Vec<Calendar>, String> {
        let find = |name: &String| match self.cached.get(&(job.tenant_id, name.clone())) {
            Some(CachedCalendar { calendar: Ok(calendar), .. }) => Ok(calendar.clone()),
            Some(CachedCalendar { calendar: Err(reason), .. }) => Err(format!("calendar {name:?}: {reason}")),
            None => Err(format!("calendars: there is no calendar named {name:?}")),
        };
        job.calendars.iter().map(find).collect()
    }
}

fn parse(definition: &serde_json::Value) -> Result<Calendar, String> {
    let parsed = catch_unwind(AssertUnwindSafe(|| Calendar::parse(definition)));
    match parsed {
        Ok(parsed) => parsed.map_err(|error| error.to_string()),
        Err(_panic) => Err("reading its definition failed".into()),
    }
}
