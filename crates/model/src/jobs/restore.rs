//! Restores a deleted job with its settings, pause and history, under its name or, if that is
//! taken, another.
//!
//! Its calendars and the jobs that it runs after must exist again. The job had no fire times while
//! it was deleted; cancelled runs stay cancelled. All of it is one transaction of the caller: a
//! process that dies in between leaves the job deleted.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::super::schema::scheduled_jobs;
use super::super::{Conn, DbError};
use super::parsed_calendars::ParsedCalendars;
use super::refusal::{SaveError, refused};
use super::save::{Saving, Writing, calendars_of};
use super::save_mode::SaveMode;
use super::{Job, by_id_with_deleted};
use crate::{
    connection::database_clock,
    definitions::{dependencies, functions, projects},
    dispatching::quotas,
};
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::JobSettings;

#[derive(Debug, Clone, Copy)]
pub struct RestoreRequest<'a> {
    pub tenant: TenantId,
    pub job: JobId,
    /// New, validated name; `None` for the old one.
    pub name: Option<&'a str>,
    pub version: Option<i64>,
    /// Component or user e-mail address.
    pub source: &'a str,
}

#[derive(Debug, Clone)]
pub enum Restored {
    Done { before: Box<Job>, after: Box<Job> },
    Unchanged(Box<Job>),
    OtherName(Box<Job>),
    NoSuchJob,
    OtherVersion(i64),
}

/// Restores a deleted job. Call it in a transaction that holds no lock yet.
///
/// # Errors
/// The name is taken, or an object in the settings does not exist; nothing is written then.
pub async fn restore(conn: &mut Conn, request: &RestoreRequest<'_>) -> Result<Restored, SaveError> {
    let RestoreRequest { tenant, job: id, name, version, source } = *request;
    let Some(seen) = by_id_with_deleted(conn, tenant, id).await? else { return Ok(Restored::NoSuchJob) };
    let mut settings = seen.settings.clone();
    if let Some(name) = name {
        name.clone_into(&mut settings.name);
    }
    let quota = quotas::hold_jobs(conn, tenant).await?;
    dependencies::serialise(conn, tenant, [&settings]).await?;
    let parsed = ParsedCalendars::default();
    let calendars = calendars_of(conn, tenant, &settings, &parsed).await?;
    dependencies::lock_restored(conn, tenant, id, &settings).await?;
    let Some(job) = by_id_with_deleted(conn, tenant, id).await? else { return Ok(Restored::NoSuchJob) };
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
        // The names were resolved with outdated settings.
        return Err(DbError::outdated().into());
    }
    hold_names(conn, tenant, &settings).await?;
    let mode = SaveMode::Create;
    diesel::update(scheduled_jobs::table.find((tenant, id)))
        .set((
            scheduled_jobs::deleted_at.eq(None::<chrono::DateTime<chrono::Utc>>),
            scheduled_jobs::name.eq(&settings.name),
            // The write below computes the cursor, so the trigger marks nothing.
            scheduled_jobs::settled_until.eq(database_clock::clock_timestamp()),
        ))
        .execute(conn)
        .await
        .map_err(|error| refused(error, &settings, mode))?;
    let writing = Writing { mode, source, change: Some("restored") };
    let saving = Saving { tenant, settings: &settings, parsed: &parsed, writing };
    // No fire times while deleted.
    let silent = JobSettings { is_enabled: false, ..job.settings.clone() };
    let before = Box::new(job.clone());
    let mut saved = saving.write(conn, &calendars, Some(Job { settings: silent, ..job })).await?;
    // Deleted with the job, although its settings list them.
    saved.before = None;
    dependencies::replace(conn, tenant, saved.new_dependent().as_slice()).await?;
    quota.check(conn, 1).await?;
    Ok(Restored::Done { before, after: Box::new(saved.job) })
}

/// Locks the objects that the job names until the end of the transaction: a deleted job did not
/// protect them.
async fn hold_names(conn: &mut Conn, tenant: TenantId, settings: &JobSettings) -> Result<(), SaveError> {
    let missing = |field, kind, name: &str| SaveError::Missing { field, kind, name: name.to_owned() };
    if functions::lock_for_use(conn, tenant, &settings.function).await?.is_none() {
        return Err(missing("function", "task function", &settings.function));
    }
    if let Some(name) = &settings.project
        && projects::lock_for_use(conn, tenant, name).await?.is_none()
    {
        return Err(missing("project", "project", name));
    }
    Ok(())
}
