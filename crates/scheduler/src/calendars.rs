//! The calendars of due jobs, parsed once per version and not once per fire.
//!
//! Reading a definition with recurrence rules takes far longer than asking it, so what was read is kept for as long as the
//! leader leads, up to [`MOST_KEPT`]; a calendar that changed has another version and is read anew. Belongs to one task; not
//! shared. A definition that cannot be read is kept as the reason, which disables the jobs that name it.

use sched_model::dispatching::tick::{DueJob, NamedCalendar};
use sched_model::domain::ids::TenantId;
use sched_model::domain::timetable::Calendar;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use uuid::Uuid;

/// Most calendars kept; beyond that all are forgotten, which costs reading them again.
const MOST_KEPT: usize = 1_000;

/// Parsed calendars, by owner and name.
#[derive(Debug, Default)]
pub struct Calendars {
    kept: HashMap<(TenantId, String), Kept>,
}

#[derive(Debug)]
struct Kept {
    /// The calendar's id and version: one that was deleted and made anew begins with version 1 again.
    edition: (Uuid, i64),
    calendar: Result<Calendar, String>,
}

impl Calendars {
    /// Takes over what the database says of the calendars that a batch names.
    pub fn update(&mut self, jobs: &[DueJob], found: Vec<NamedCalendar>) {
        for job in jobs {
            for name in &job.calendars {
                let exists =
                    found.iter().any(|found| found.tenant_id == job.tenant_id && found.name == *name);
                if !exists {
                    self.kept.remove(&(job.tenant_id, name.clone()));
                }
            }
        }
        if self.kept.len() + found.len() > MOST_KEPT {
            self.kept.clear();
        }
        for NamedCalendar { tenant_id, id, name, version, definition } in found {
            let (key, edition) = ((tenant_id, name), (id, version));
            if self.kept.get(&key).is_none_or(|kept| kept.edition != edition) {
                let calendar = parse(&definition);
                self.kept.insert(key, Kept { edition, calendar });
            }
        }
    }

    /// The calendars that a job names.
    ///
    /// # Errors
    /// Why the job cannot be scheduled: one of them does not exist or cannot be read.
    pub fn of(&self, job: &DueJob) -> Result<Vec<Calendar>, String> {
        let find = |name: &String| match self.kept.get(&(job.tenant_id, name.clone())) {
            Some(Kept { calendar: Ok(calendar), .. }) => Ok(calendar.clone()),
            Some(Kept { calendar: Err(reason), .. }) => Err(format!("calendar {name:?}: {reason}")),
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
