//! The first fires of paused jobs after the ends of their pauses.

use chrono::{DateTime, Utc};
use sched_model::definitions::calendars::{self, CalendarRecord};
use sched_model::domain::ids::TenantId;
use sched_model::domain::timetable::Calendar;
use sched_model::jobs::Job;
use sched_model::{Conn, DbResult};

/// The calendars of paused jobs.
#[derive(Debug, Default)]
pub(super) struct Pauses {
    calendars: Vec<CalendarRecord>,
}

impl Pauses {
    /// Reads nothing unless a paused job names calendars.
    pub(super) async fn read(conn: &Conn, tenant: TenantId, jobs: &[Job]) -> DbResult<Self> {
        let paused = jobs.iter().filter(|job| ends_later(job).is_some());
        let mut names: Vec<String> = paused.flat_map(|job| job.settings.calendars.clone()).collect();
        names.sort_unstable();
        names.dedup();
        Ok(Self { calendars: calendars::by_names(conn, tenant, &names).await? })
    }

    /// The next fire that the scheduler does not skip because of a pause of the job.
    pub(super) fn next_fire(&self, tenant: TenantId, job: &Job) -> Option<DateTime<Utc>> {
        let state = &job.state;
        let Some(until) = ends_later(job) else {
            let is_after_pause = |at: &DateTime<Utc>| state.paused_until.is_some_and(|until| until <= *at);
            return state.next_run_at.filter(|at| !state.is_paused || is_after_pause(at));
        };
        let named = self.calendars.iter().filter(|known| job.settings.calendars.contains(&known.name));
        let calendars: Vec<Calendar> =
            named.map(|known| Calendar::parse(&known.definition)).collect::<Result<_, _>>().ok()?;
        job.settings.first_fire_after_pause((tenant, state.created_at), &calendars, until)
    }
}

/// The end of the pause, if a fire before it is next.
fn ends_later(job: &Job) -> Option<DateTime<Utc>> {
    let (until, next) = (job.state.paused_until?, job.state.next_run_at?);
    (job.state.is_paused && next < until).then_some(until)
}
