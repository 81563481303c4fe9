//! Stale cursors: the cursors of jobs whose schedule was written with plain SQL.
//!
//! A trigger marks a job when a statement writes its schedule without the cursor. The leader then
//! computes the cursor by the rules of a change whose former timetable is unknown: a due fire stays
//! due, and the schedule counts from now. The change is stored as a version. A job whose fire times
//! cannot be computed is disabled with the reason. The mark and the cursor are written in one
//! transaction under the lock on the job: a process that dies in between leaves the mark, and the
//! next pass finds it.

use std::panic::AssertUnwindSafe;

use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Jsonb, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use futures_util::FutureExt;

use super::cursor::{self, NewTimetable};
use super::parsed_calendars::ParsedCalendars;
use super::quarantine::{Quarantine, quarantine};
use super::refusal::SaveError;
use super::{Job, by_id};
use crate::connection::database_clock;
use crate::connection::statement::column;
use crate::definitions::calendars;
use crate::{Conn, DbError, DbResult};
use sched_domain::ids::{JobId, TenantId};

statement! {
    Find = "stale_cursors/stale_cursors_find.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        limit: i64 as BigInt,
    ) -> (SqlUuid, SqlUuid)
}

statement! {
    Lock<'a> = "stale_cursors/stale_cursors_lock.sql", (
        tenants: &'a [TenantId] as Array<SqlUuid>,
        jobs: &'a [JobId] as Array<SqlUuid>,
    ) -> (SqlUuid, SqlUuid)
}

statement! {
    Clear<'a> = "stale_cursors/stale_cursors_clear.sql", (
        tenants: &'a [TenantId] as Array<SqlUuid>,
        jobs: &'a [JobId] as Array<SqlUuid>,
    ) -> SqlUuid
}

statement! {
    StoreVersion<'a> = "stale_cursors/stale_cursors_version.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        settings: &'a serde_json::Value as Jsonb,
        changed_at: DateTime<Utc> as Timestamptz,
    ) -> ()
}

/// A job with a mark, after a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recomputed {
    pub job: JobId,
    pub name: String,
    /// Why the job was disabled; `None` if it has its cursor.
    pub disabled: Option<String>,
}

/// Up to `limit` jobs with a mark after `after`, by key.
pub async fn find(conn: &mut Conn, after: (TenantId, JobId), limit: i64) -> DbResult<Vec<(TenantId, JobId)>> {
    Ok(Find { tenant: after.0, job: after.1, limit }.load(conn).await?)
}

/// Computes the cursors of those of the jobs that are still marked. Call it in a fenced
/// transaction.
pub async fn recompute(conn: &mut Conn, jobs: &[(TenantId, JobId)]) -> DbResult<Vec<Recomputed>> {
    let locked = lock(conn, jobs).await?;
    if locked.is_empty() {
        return Ok(Vec::new());
    }
    let (parsed, now) = (ParsedCalendars::default(), database_clock::now(conn).await?);
    let mut done = Vec::new();
    let mut refused = Vec::new();
    for (tenant, id) in &locked {
        // A deleted or disabled job has no fires; the end of the pass clears its mark.
        let job = by_id(conn, *tenant, *id).await?.filter(|job| job.settings.is_enabled);
        let Some(job) = job else { continue };
        let renewed = AssertUnwindSafe(renew(conn, (*tenant, &job), &parsed, now)).catch_unwind().await;
        let reason = match renewed {
            Ok(Ok(())) => None,
            Ok(Err(SaveError::Database(error))) => return Err(error),
            Ok(Err(error)) => Some(error.to_string()),
            Err(_panic) => Some("computing its fire times failed".to_owned()),
        };
        refused.extend(reason.clone().map(|reason| (*tenant, *id, reason)));
        done.push(Recomputed { job: *id, name: job.settings.name, disabled: reason });
    }
    disable(conn, &refused, now).await?;
    clear(conn, &locked).await?;
    Ok(done)
}

/// Disables a job whose cursor the database rejects, if it is still marked. Call it in a fenced
/// transaction.
pub async fn refuse(
    conn: &mut Conn,
    (tenant, id): (TenantId, JobId),
    reason: &str,
) -> DbResult<Option<Recomputed>> {
    if lock(conn, &[(tenant, id)]).await?.is_empty() {
        return Ok(None);
    }
    let now = database_clock::now(conn).await?;
    let Some(job) = by_id(conn, tenant, id).await? else { return Ok(None) };
    disable(conn, &[(tenant, id, reason.to_owned())], now).await?;
    Ok(Some(Recomputed { job: id, name: job.settings.name, disabled: Some(reason.to_owned()) }))
}

/// Computes the cursor of a locked, enabled job if the job is marked.
pub(super) async fn renew_if_stale(conn: &mut Conn, tenant: TenantId, job: &Job) -> Result<bool, SaveError> {
    let locked = lock(conn, &[(tenant, job.id)]).await?;
    if locked.is_empty() {
        return Ok(false);
    }
    let now = database_clock::now(conn).await?;
    renew(conn, (tenant, job), &ParsedCalendars::default(), now).await?;
    clear(conn, &locked).await?;
    Ok(true)
}

async fn lock(conn: &mut Conn, jobs: &[(TenantId, JobId)]) -> DbResult<Vec<(TenantId, JobId)>> {
    let (tenants, jobs) = (column(jobs, |job| job.0), column(jobs, |job| job.1));
    Ok(Lock { tenants: &tenants, jobs: &jobs }.load(conn).await?)
}

async fn clear(conn: &mut Conn, jobs: &[(TenantId, JobId)]) -> DbResult<()> {
    let (tenants, jobs) = (column(jobs, |job| job.0), column(jobs, |job| job.1));
    Clear { tenants: &tenants, jobs: &jobs }.execute(conn).await?;
    Ok(())
}

async fn disable(conn: &mut Conn, jobs: &[(TenantId, JobId, String)], now: DateTime<Utc>) -> DbResult<()> {
    let disabled = column(jobs, |(tenant, job, reason)| Quarantine {
        tenant: *tenant,
        job: *job,
        reason,
        at: Some(now),
    });
    quarantine(conn, &disabled).await
}

async fn renew(
    conn: &mut Conn,
    (tenant, job): (TenantId, &Job),
    parsed: &ParsedCalendars,
    now: DateTime<Utc>,
) -> Result<(), SaveError> {
    let names = &job.settings.calendars;
    let found = calendars::by_names(conn, tenant, names).await?;
    if let Some(name) = names.iter().find(|name| found.iter().all(|calendar| calendar.name != **name)) {
        return Err(SaveError::Missing { field: "calendars", kind: "calendar", name: name.clone() });
    }
    let calendars = parsed.all(&found)?;
    let timetable = job.settings.timetable(tenant, job.state.created_at, &calendars)?;
    let new = NewTimetable { settings: &job.settings, timetable: &timetable, now };
    let is_new = job.state.next_run_at.is_none() && job.state.last_fire_at.is_none();
    let cursor = match is_new {
        true => cursor::of_new(new)?,
        false => cursor::after_change(conn, job, None, new).await?,
    };
    cursor.store(conn, (tenant, job.id), timetable.schedule().tzdata_version()).await?;
    let settings = serde_json::to_value(&job.settings).map_err(|error| DbError::Corrupt {
        what: format!("settings of job {}", job.id),
        reason: error.to_string(),
    })?;
    StoreVersion { tenant, job: job.id, settings: &settings, changed_at: now }.execute(conn).await?;
    Ok(())
}
