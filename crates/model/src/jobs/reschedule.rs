//! New cursors for jobs with unchanged settings when one of their calendars changes.
//!
//! Runs in the transaction of the change, which locks the calendar against every writer of jobs.
//! Each job is locked before its cursor is computed; that lock waits for the leader's tick.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::super::Conn;
use super::super::schema::scheduled_jobs;
use super::cursor::{self, Cursor, NewTimetable};
use super::{Job, ParsedCalendars, SaveError, by_id};
use crate::connection::database_clock;
use crate::definitions::calendars::{self, CalendarRecord};
use sched_domain::ids::{JobId, TenantId};
use sched_timetable::{Calendar, Timetable};

/// Reschedules the jobs that name a calendar whose definition has just changed from `before`;
/// returns their number.
///
/// Call it in the transaction of the change. Fires that the old definition excluded until now are
/// recorded. If a timetable cannot be computed, the scheduler disables the job.
pub async fn reschedule_users_of(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
    before: &serde_json::Value,
) -> Result<usize, SaveError> {
    let parsed = ParsedCalendars::default();
    let timetable =
        |job: &Job, calendars: &[CalendarRecord]| stored_timetable(tenant, job, &parsed.all(calendars).ok()?);
    let mut moved = 0;
    for id in calendars::jobs_using(conn, tenant, name).await? {
        let locked: Option<JobId> = scheduled_jobs::table
            .find((tenant, id))
            .filter(scheduled_jobs::deleted_at.is_null())
            .select(scheduled_jobs::id)
            .for_no_key_update()
            .get_result(conn)
            .await
            .optional()?;
        let Some(job) = (if locked.is_some() { by_id(conn, tenant, id).await? } else { None }) else {
            continue;
        };
        let mut calendars = calendars::by_names(conn, tenant, &job.settings.calendars).await?;
        let new = timetable(&job, &calendars);
        for calendar in calendars.iter_mut().filter(|calendar| calendar.name == name) {
            calendar.definition = before.clone();
            calendar.version -= 1;
        }
        let (Some(new), true) = (new, job.settings.is_enabled) else { continue };
        let old = timetable(&job, &calendars);
        let now = database_clock::now(conn).await?;
        let change = NewTimetable { settings: &job.settings, timetable: &new, now };
        let cursor = match cursor::after_change(conn, &job, old.as_ref(), change).await {
            // The leader visits the job at once and disables it with the reason.
            Err(SaveError::Schedule(_)) => Cursor::visit(&job, now),
            cursor => cursor?,
        };
        cursor.store(conn, (tenant, id), new.schedule().tzdata_version()).await?;
        moved += 1;
    }
    Ok(moved)
}

/// The timetable of a stored job with its calendars; `None` if it cannot be computed.
pub(super) fn stored_timetable(tenant: TenantId, job: &Job, calendars: &[Calendar]) -> Option<Timetable> {
    job.settings.timetable(tenant, job.state.created_at, calendars).ok()
}
