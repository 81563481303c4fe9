//! Pauses, resumes, enables and disables a job, with its fires and versions.
//!
//! A pause changes no setting. While it holds, the schedule dispatches nothing, and the scheduler
//! records each due fire as skipped. A pause with an end expires without any write: from then on
//! the flag has no meaning, and the next change of the pause clears it. The pause holds the fires
//! before its end and not those after it, however late a scheduler processes them: resuming records
//! the fires that the scheduler has not seen yet. Manual triggers are not held.
//!
//! All of it is one transaction of the caller, under the lock on the job: a process that dies in
//! between leaves the job unchanged.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::super::schema::scheduled_jobs;
use super::super::{Conn, DbError, DbResult};
use super::cursor::{self, Cursor};
use super::parsed_calendars::ParsedCalendars;
use super::refusal::SaveError;
use super::save::{NewVersion, Saving, Writing};
use super::save_mode::SaveMode;
use super::{Job, by_id, reschedule, stale_cursors};
use crate::{connection::database_clock, definitions::calendars};
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::JobSettings;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PauseEnd {
    /// The present end; without a pause, on resume.
    #[default]
    AsItIs,
    /// Ends on resume.
    Never,
    At(DateTime<Utc>),
}

/// A new or changed pause. Omitted fields stay unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewPause<'a> {
    pub reason: Option<&'a str>,
    pub end: PauseEnd,
}

impl NewPause<'_> {
    fn merged<'a>(&'a self, job: &'a Job, now: DateTime<Utc>) -> Pause<'a> {
        let (mut reason, mut until) = (None, None);
        // A pause that expired after the read does not continue.
        if job.state.is_paused && job.state.paused_until.is_none_or(|until| until > now) {
            (reason, until) = (job.state.pause_reason.as_deref(), job.state.paused_until);
        }
        let until = match self.end {
            PauseEnd::AsItIs => until,
            PauseEnd::Never => None,
            PauseEnd::At(at) => Some(at),
        };
        Pause { reason: self.reason.or(reason), until }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause<'a> {
    pub reason: Option<&'a str>,
    pub until: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch<'a> {
    Pause(NewPause<'a>),
    Resume,
    /// Starts the schedule; the job has no fire times from the time when it was disabled. Computes
    /// the cursor of an enabled job whose schedule was written with plain SQL.
    Enable,
    /// Stops the schedule permanently.
    Disable,
}

#[derive(Debug, Clone, Copy)]
pub struct SwitchRequest<'a> {
    pub tenant: TenantId,
    pub job: JobId,
    pub switch: Switch<'a>,
    pub version: Option<i64>,
    /// Component or user e-mail address.
    pub source: &'a str,
}

#[derive(Debug, Clone)]
pub enum Switched {
    Changed {
        before: Box<Job>,
        after: Box<Job>,
    },
    Unchanged(Box<Job>),
    NoSuchJob,
    OtherVersion(i64),
    EndHasPassed {
        /// The database's clock.
        now: DateTime<Utc>,
    },
}

/// Pauses, resumes, enables or disables a job. Call it in a transaction.
///
/// # Errors
/// Also if the schedule of a job to enable cannot be computed.
pub async fn switch(conn: &mut Conn, request: &SwitchRequest<'_>) -> Result<Switched, SaveError> {
    let Some(job) = lock(conn, request.tenant, request.job).await? else { return Ok(Switched::NoSuchJob) };
    if request.version.is_some_and(|version| version != job.state.version) {
        return Ok(Switched::OtherVersion(job.state.version));
    }
    let is_so_already = match request.switch {
        Switch::Pause(_) => false,
        Switch::Resume => !job.state.has_pause(),
        Switch::Enable => job.settings.is_enabled,
        Switch::Disable => !job.settings.is_enabled,
    };
    if is_so_already {
        let is_stale = request.switch == Switch::Enable
            && stale_cursors::renew_if_stale(conn, request.tenant, &job).await?;
        let present = if is_stale { by_id(conn, request.tenant, job.id).await? } else { None };
        return Ok(Switched::Unchanged(Box::new(present.unwrap_or(job))));
    }
    match request.switch {
        Switch::Pause(requested) => pause(conn, request, job, requested).await,
        Switch::Resume => {
            let now = database_clock::now(conn).await?;
            PauseChange { request, job, now }.write(conn, None).await
        }
        Switch::Enable | Switch::Disable => set_enabled(conn, request, job).await,
    }
}

async fn pause(
    conn: &mut Conn,
    request: &SwitchRequest<'_>,
    job: Job,
    requested: NewPause<'_>,
) -> Result<Switched, SaveError> {
    let now = database_clock::now(conn).await?;
    let present = Pause { reason: job.state.pause_reason.as_deref(), until: job.state.paused_until };
    let new = requested.merged(&job, now);
    if job.state.is_paused && present == new {
        return Ok(Switched::Unchanged(Box::new(job)));
    }
    if new.until.is_some_and(|until| until <= now) {
        return Ok(Switched::EndHasPassed { now });
    }
    let reason = new.reason.map(str::to_owned);
    let new = Pause { reason: reason.as_deref(), until: new.until };
    PauseChange { request, job, now }.write(conn, Some(new)).await
}

/// Locks only the job, not its calendars: a change of a calendar locks its jobs before it reads
/// them.
async fn lock(conn: &mut Conn, tenant: TenantId, id: JobId) -> DbResult<Option<Job>> {
    let found: Option<JobId> = scheduled_jobs::table
        .find((tenant, id))
        .filter(scheduled_jobs::deleted_at.is_null())
        .select(scheduled_jobs::id)
        .for_no_key_update()
        .get_result(conn)
        .await
        .optional()?;
    match found {
        Some(id) => by_id(conn, tenant, id).await,
        None => Ok(None),
    }
}

/// A change of the pause of a locked job.
struct PauseChange<'a> {
    request: &'a SwitchRequest<'a>,
    job: Job,
    now: DateTime<Utc>,
}

impl PauseChange<'_> {
    /// Begins, replaces or ends a pause. The end records the held fires.
    async fn write(self, conn: &mut Conn, pause: Option<Pause<'_>>) -> Result<Switched, SaveError> {
        let Self { request, job, now } = self;
        let SwitchRequest { tenant, source, .. } = *request;
        let cursor = match held(conn, tenant, &job, now).await? {
            Some(cursor) => cursor,
            None => Cursor::unchanged(&job),
        };
        let version = job.state.version + 1;
        diesel::update(scheduled_jobs::table.find((tenant, job.id)))
            .set((
                scheduled_jobs::is_paused.eq(pause.is_some()),
                scheduled_jobs::pause_reason.eq(pause.and_then(|pause| pause.reason)),
                scheduled_jobs::paused_until.eq(pause.and_then(|pause| pause.until)),
                scheduled_jobs::next_run_at.eq(cursor.next_run_at),
                scheduled_jobs::settled_until.eq(cursor.settled_until),
                scheduled_jobs::version.eq(version),
                scheduled_jobs::updated_at.eq(now),
                scheduled_jobs::updated_src.eq(source),
            ))
            .execute(conn)
            .await?;
        cursor.record(conn, tenant, job.id).await?;
        let version = NewVersion {
            version,
            change: if pause.is_some() { "paused" } else { "resumed" },
            settings: &job.settings,
            changed_at: now,
            source,
            pause: pause.as_ref(),
        };
        version.store(conn, tenant, job.id).await?;
        let after = by_id(conn, tenant, job.id).await?.ok_or(DbError::NotFound)?;
        Ok(Switched::Changed { before: Box::new(job), after: Box::new(after) })
    }
}

/// The position after the fires held by the pause are recorded; `None` if no due fire is held.
async fn held(
    conn: &mut Conn,
    tenant: TenantId,
    job: &Job,
    now: DateTime<Utc>,
) -> Result<Option<Cursor>, SaveError> {
    if !job.state.has_pause() || job.state.next_run_at.is_none_or(|next| next > now) {
        return Ok(None);
    }
    let calendars = calendars::by_names(conn, tenant, &job.settings.calendars).await?;
    let Ok(calendars) = ParsedCalendars::default().all(&calendars) else { return Ok(None) };
    let timetable = reschedule::stored_timetable(tenant, job, &calendars);
    Ok(timetable.and_then(|timetable| cursor::held(job, &timetable, now)))
}

async fn set_enabled(conn: &mut Conn, request: &SwitchRequest<'_>, job: Job) -> Result<Switched, SaveError> {
    let SwitchRequest { tenant, source, .. } = *request;
    let settings = JobSettings { is_enabled: !job.settings.is_enabled, ..job.settings.clone() };
    let parsed = ParsedCalendars::default();
    let calendars = parsed.all(&calendars::by_names(conn, tenant, &settings.calendars).await?)?;
    let writing = Writing::new(SaveMode::Upsert, source);
    let saving = Saving { tenant, settings: &settings, parsed: &parsed, writing };
    let before = Box::new(job.clone());
    let saved = saving.write(conn, &calendars, Some(job)).await?;
    Ok(Switched::Changed { before, after: Box::new(saved.job) })
}
