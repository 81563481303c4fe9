//! Deletes a job softly: its history stays and it can be restored.
//!
//! A deleted job has no fire times, no triggers and no name: another job may take the name. Due
//! fires that were not dispatched are recorded as skipped, so its ledger stays complete. Waiting
//! runs are cancelled. Running ones continue to their end, with their retries; stopping them is a
//! separate decision ([`crate::dispatching::cancellations`]). A job with dependents cannot be
//! deleted: they would wait forever without notice. Its own dependencies are removed, though its
//! settings still list them.
//!
//! All of it is one transaction of the caller, under the lock on the job: a process that dies in
//! between leaves the job unchanged.

use std::collections::BTreeSet;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::super::schema::scheduled_jobs;
use super::super::{Conn, DbError};
use super::parsed_calendars::ParsedCalendars;
use super::refusal::SaveError;
use super::reschedule::stored_timetable;
use super::save::NewVersion;
use super::{Job, by_id, by_id_with_deleted, cursor};
use crate::dispatching::cancellations::{self, Order};
use crate::running::job_counters;
use crate::{
    connection::database_clock,
    definitions::{calendars, dependencies},
};
use sched_domain::ids::{DispatchId, JobId, TenantId};

#[derive(Debug, Clone, Copy)]
pub struct DeleteRequest<'a> {
    pub tenant: TenantId,
    pub job: JobId,
    /// Required version of the job; `None` for any.
    pub version: Option<i64>,
    /// Component or user e-mail address.
    pub source: &'a str,
    /// Requester and reason for the cancelled runs.
    pub order: Order<'a>,
}

#[derive(Debug, Clone)]
pub enum Deleted {
    Done { before: Box<Job>, after: Box<Job>, cancelled: Vec<DispatchId> },
    NoSuchJob,
    OtherVersion(i64),
    Followed(Vec<String>),
}

#[derive(Debug, Clone)]
pub struct DeletedJob {
    pub before: Job,
    pub after: Job,
    pub cancelled: Vec<DispatchId>,
}

/// Deletes a job. Call it in a transaction that holds no lock yet.
pub async fn delete(conn: &mut Conn, request: &DeleteRequest<'_>) -> Result<Deleted, SaveError> {
    let DeleteRequest { tenant, job: id, version, source, order } = *request;
    let Some(seen) = by_id(conn, tenant, id).await? else { return Ok(Deleted::NoSuchJob) };
    dependencies::serialise(conn, tenant, [&seen.settings]).await?;
    dependencies::lock_with_upstream(conn, tenant, &BTreeSet::from([id])).await?;
    // Read again under the lock.
    let Some(job) = by_id(conn, tenant, id).await? else { return Ok(Deleted::NoSuchJob) };
    if version.is_some_and(|version| version != job.state.version) {
        return Ok(Deleted::OtherVersion(job.state.version));
    }
    if seen.settings.after.is_empty() && !job.settings.after.is_empty() {
        // Its dependencies must be written without the lock that blocks concurrent writes of them.
        return Err(DbError::outdated().into());
    }
    let followers = dependencies::followers(conn, tenant, &[id]).await?.remove(&id).unwrap_or_default();
    if !followers.is_empty() {
        return Ok(Deleted::Followed(followers.into_iter().map(|follower| follower.job).collect()));
    }
    let ended = end(conn, tenant, job, &Deletion { source, order }).await?;
    Ok(Deleted::Done {
        before: Box::new(ended.before),
        after: Box::new(ended.after),
        cancelled: ended.cancelled,
    })
}

/// How a job is ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deletion<'a> {
    /// Component or user e-mail address.
    pub(crate) source: &'a str,
    /// Requester and reason for the cancelled runs.
    pub(crate) order: Order<'a>,
}

/// Ends a locked job, its dependencies included, after which no other job runs.
pub(crate) async fn end(
    conn: &mut Conn,
    tenant: TenantId,
    job: Job,
    deletion: &Deletion<'_>,
) -> Result<DeletedJob, SaveError> {
    let Deletion { source, order } = *deletion;
    let id = job.id;
    job_counters::count_openings(conn, tenant, id).await?;
    let now = database_clock::now(conn).await?;
    let named = calendars::by_names(conn, tenant, &job.settings.calendars).await?;
    let named = ParsedCalendars::default().all(&named).ok();
    let timetable = named.and_then(|calendars| stored_timetable(tenant, &job, &calendars));
    let cursor = cursor::after_end(&job, timetable.as_ref(), false, now);
    let version = job.state.version + 1;
    diesel::update(scheduled_jobs::table.find((tenant, id)))
        .set((
            scheduled_jobs::deleted_at.eq(now),
            scheduled_jobs::next_run_at.eq(cursor.next_run_at),
            scheduled_jobs::settled_until.eq(cursor.settled_until),
            scheduled_jobs::version.eq(version),
            scheduled_jobs::updated_at.eq(now),
            scheduled_jobs::updated_src.eq(source),
        ))
        .execute(conn)
        .await?;
    cursor.record(conn, tenant, id).await?;
    let version = NewVersion {
        version,
        change: "deleted",
        settings: &job.settings,
        changed_at: now,
        source,
        pause: None,
    };
    version.store(conn, tenant, id).await?;
    dependencies::remove(conn, tenant, id).await?;
    let cancelled = cancellations::cancel_waiting(conn, tenant, id, &order).await?;
    let after = by_id_with_deleted(conn, tenant, id).await?.ok_or(DbError::NotFound)?;
    Ok(DeletedJob { before: job, after, cancelled })
}
