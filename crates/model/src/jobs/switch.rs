//! Pausing, resuming, enabling and disabling a job: what becomes of its fires, and the version each of these makes.
//!
//! A pause changes no setting. From its moment on nothing of the schedule is dispatched; what is due and not yet dispatched
//! counts as paused, and the scheduler goes on recording each fire as skipped. A pause with an end is over at that instant without
//! anybody's doing: from then on the flag means nothing, and the next change of it clears it. Fires before the end of a pause
//! are held by it and those after are not, however late anybody looks: what the scheduler has not seen yet is recorded here when
//! the job is resumed. Triggers by hand are not held.
//!
//! All of it is one transaction under the lock on the job, the caller's: a process that dies in between leaves the job as it was.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::super::schema::scheduled_jobs;
use super::super::{Conn, DbError, DbResult};
use super::cursor::{self, Cursor};
use super::parsed_calendars::ParsedCalendars;
use super::refusal::SaveError;
use super::save::{NewVersion, SaveMode, Saving, Writing};
use super::{Job, by_id, reschedule};
use crate::{connection::database_clock, definitions::calendars};
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::JobSettings;

/// When a pause is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PauseEnd {
    /// Nothing is said: when the pause ends that there is, and when somebody resumes the job if there is none.
    #[default]
    AsItIs,
    /// When somebody resumes the job.
    Never,
    /// By itself at this instant.
    At(DateTime<Utc>),
}

/// What is asked for: a pause, or a change of the one there is. What is left out of a change stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NewPause<'a> {
    /// Why, for people.
    pub reason: Option<&'a str>,
    /// When it ends.
    pub end: PauseEnd,
}

impl NewPause<'_> {
    /// The pause that this makes of the present one at `now`.
    fn merged<'a>(&'a self, job: &'a Job, now: DateTime<Utc>) -> Pause<'a> {
        let (mut reason, mut until) = (None, None);
        // One that has ended by itself since the job was read is none to go on.
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

/// A pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause<'a> {
    /// Why, for people.
    pub reason: Option<&'a str>,
    /// When it ends by itself; `None` for when somebody resumes the job.
    pub until: Option<DateTime<Utc>>,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch<'a> {
    /// The schedule is not to fire for a while. Of a job that is paused, the pause is changed.
    Pause(NewPause<'a>),
    /// The schedule is to fire again.
    Resume,
    /// The schedule is to fire; fire times while the job was disabled are none.
    Enable,
    /// The schedule is not to fire any more.
    Disable,
}

/// Which job to switch, and by whose word.
#[derive(Debug, Clone, Copy)]
pub struct SwitchRequest<'a> {
    /// Owner.
    pub tenant: TenantId,
    /// The job.
    pub job: JobId,
    /// What is to be done.
    pub switch: Switch<'a>,
    /// Only if the job has this version; `None` whatever its version.
    pub version: Option<i64>,
    /// Which component or whose e-mail asks.
    pub source: &'a str,
}

/// What became of it.
#[derive(Debug, Clone)]
pub enum Switched {
    /// The job was changed, and has a version more.
    Changed {
        /// As it was.
        before: Box<Job>,
        /// As it is.
        after: Box<Job>,
    },
    /// It was so already; nothing was written.
    Unchanged(Box<Job>),
    /// There is no such job.
    NoSuchJob,
    /// It has another version than was asked for.
    OtherVersion(i64),
    /// The pause would end before it begins.
    EndHasPassed {
        /// The database's clock.
        now: DateTime<Utc>,
    },
}

/// Pauses, resumes, enables or disables a job. Call it in a transaction.
///
/// # Errors
/// When the job is to be enabled and its schedule cannot be computed, or when the database cannot be asked.
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
        return Ok(Switched::Unchanged(Box::new(job)));
    }
    match request.switch {
        Switch::Pause(asked) => pause(conn, request, job, asked).await,
        Switch::Resume => {
            let now = database_clock::now(conn).await?;
            set_pause(conn, request, job, None, now).await
        }
        Switch::Enable | Switch::Disable => set_enabled(conn, request, job).await,
    }
}

/// Pauses a job, or changes its pause.
async fn pause(
    conn: &mut Conn,
    request: &SwitchRequest<'_>,
    job: Job,
    asked: NewPause<'_>,
) -> Result<Switched, SaveError> {
    let now = database_clock::now(conn).await?;
    let present = Pause { reason: job.state.pause_reason.as_deref(), until: job.state.paused_until };
    let wanted = asked.merged(&job, now);
    if job.state.is_paused && present == wanted {
        return Ok(Switched::Unchanged(Box::new(job)));
    }
    if wanted.until.is_some_and(|until| until <= now) {
        return Ok(Switched::EndHasPassed { now });
    }
    let reason = wanted.reason.map(str::to_owned);
    let wanted = Pause { reason: reason.as_deref(), until: wanted.until };
    set_pause(conn, request, job, Some(wanted), now).await
}

/// Locks the job alone. Its calendars are read and not locked: who changes one locks the jobs that name it before it looks at them.
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

/// Begins a pause, over the one there may be, or ends it. Of one that ends, what it held is recorded.
async fn set_pause(
    conn: &mut Conn,
    request: &SwitchRequest<'_>,
    job: Job,
    pause: Option<Pause<'_>>,
    now: DateTime<Utc>,
) -> Result<Switched, SaveError> {
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
    cursor.record(conn, tenant, job.id, job.state.last_fire_at).await?;
    let kept = NewVersion {
        version,
        change: if pause.is_some() { "paused" } else { "resumed" },
        settings: &job.settings,
        changed_at: now,
        source,
        pause: pause.as_ref(),
    };
    kept.keep(conn, tenant, job.id).await?;
    let after = by_id(conn, tenant, job.id).await?.ok_or(DbError::NotFound)?;
    Ok(Switched::Changed { before: Box::new(job), after: Box::new(after) })
}

/// Where the job stands once what its pause holds has been recorded; `None` if it holds nothing that is due.
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
    let saving = Saving {
        tenant,
        settings: &settings,
        calendars: &calendars,
        parsed: &parsed,
        writing: Writing { mode: SaveMode::Upsert, source, change: None },
    };
    let before = Box::new(job.clone());
    let saved = saving.write(conn, Some(job)).await?;
    Ok(Switched::Changed { before, after: Box::new(saved.job) })
}
