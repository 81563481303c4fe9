//! Restoring a deleted job: with its settings, its pause and its history, under its name or, if that is taken by now, another.
//!
//! What it names must be there again: its calendars, and the jobs it runs after. Fire times while it was deleted are none, as of a job that
//! was disabled; what was cancelled stays so. All of it is one transaction, the caller's: a process that dies in between leaves the
//! job deleted.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::super::schema::scheduled_jobs;
use super::super::{Conn, DbError};
use super::parsed_calendars::ParsedCalendars;
use super::refusal::{SaveError, refused};
use super::save::{SaveMode, Saving, Writing, calendars_of};
use super::{Job, by_id_ever};
use crate::{
    definitions::{dependencies, functions, projects},
    dispatching::quotas,
};
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::JobSettings;

/// Which job to restore, and by whose word.
#[derive(Debug, Clone, Copy)]
pub struct RestoreRequest<'a> {
    /// Owner.
    pub tenant: TenantId,
    /// The job.
    pub job: JobId,
    /// Its name from now on, which has been checked; `None` for the one it had.
    pub name: Option<&'a str>,
    /// Only if the job has this version; `None` whatever its version.
    pub version: Option<i64>,
    /// Which component or whose e-mail asks.
    pub source: &'a str,
}

/// What became of it.
#[derive(Debug, Clone)]
pub enum Restored {
    /// The job is there again, and has a version more.
    Done {
        /// As it was while it was deleted.
        before: Box<Job>,
        /// As it is.
        after: Box<Job>,
    },
    /// It is not deleted; nothing was written.
    Unchanged(Box<Job>),
    /// It is not deleted, and keeps the name it has; nothing was written.
    OtherName(Box<Job>),
    /// There is no such job.
    NoSuchJob,
    /// It has another version than was asked for.
    OtherVersion(i64),
}

/// Restores a deleted job. Call it in a transaction that holds no lock yet.
///
/// # Errors
/// When its name is taken, or something that its settings name is not there; nothing is written then.
pub async fn restore(conn: &mut Conn, request: &RestoreRequest<'_>) -> Result<Restored, SaveError> {
    let RestoreRequest { tenant, job: id, name, version, source } = *request;
    let Some(seen) = by_id_ever(conn, tenant, id).await? else { return Ok(Restored::NoSuchJob) };
    let mut settings = seen.settings.clone();
    if let Some(name) = name {
        name.clone_into(&mut settings.name);
    }
    let quota = quotas::hold_jobs(conn, tenant).await?;
    dependencies::serialise(conn, tenant, [&settings]).await?;
    let parsed = ParsedCalendars::default();
    let calendars = calendars_of(conn, tenant, &settings, &parsed).await?;
    dependencies::lock_restored(conn, tenant, id, &settings).await?;
    let Some(job) = by_id_ever(conn, tenant, id).await? else { return Ok(Restored::NoSuchJob) };
    if version.is_some_and(|version| version != job.state.version) {
        return Ok(Restored::OtherVersion(job.state.version));
    }
    if job.state.deleted_at.is_none() {
        return Ok(match name {
            Some(name) if name != job.settings.name => Restored::OtherName(Box::new(job)),
            Some(_) | None => Restored::Unchanged(Box::new(job)),
        });
    }
    if job.settings != seen.settings {
        // What it names was looked for by what it was.
        return Err(DbError::outdated().into());
    }
    hold_names(conn, tenant, &settings).await?;
    let mode = SaveMode::Create;
    diesel::update(scheduled_jobs::table.find((tenant, id)))
        .set((
            scheduled_jobs::deleted_at.eq(None::<chrono::DateTime<chrono::Utc>>),
            scheduled_jobs::name.eq(&settings.name),
        ))
        .execute(conn)
        .await
        .map_err(|error| refused(error, &settings, mode))?;
    let saving = Saving {
        tenant,
        settings: &settings,
        calendars: &calendars,
        parsed: &parsed,
        writing: Writing { mode, source, change: Some("restored") },
    };
    // It had no fire times while it was deleted.
    let silent = JobSettings { is_enabled: false, ..job.settings.clone() };
    let before = Box::new(job.clone());
    let mut saved = saving.write(conn, Some(Job { settings: silent, ..job })).await?;
    // Its edges went with it, whatever its settings said.
    saved.before = None;
    dependencies::replace(conn, tenant, saved.new_dependent().as_slice()).await?;
    quota.check(conn, 1).await?;
    Ok(Restored::Done { before, after: Box::new(saved.job) })
}

/// Holds what the job names, so that none of it is deleted before the end of the transaction: while the job was deleted it needed nothing.
async fn hold_names(conn: &mut Conn, tenant: TenantId, settings: &JobSettings) -> Result<(), SaveError> {
    let missing = |field, kind, name: &str| SaveError::Missing { field, kind, name: name.to_owned() };
    if functions::hold(conn, tenant, &settings.function).await?.is_none() {
        return Err(missing("function", "task function", &settings.function));
    }
    if let Some(name) = &settings.project
        && projects::hold(conn, tenant, name).await?.is_none()
    {
        return Err(missing("project", "project", name));
    }
    Ok(())
}
