//! Deleting a job: softly, so that its history stays and it can be restored.
//!
//! From its moment on the job has no fire times, no trigger and no name: another job may take that. What was due and not yet dispatched is
//! recorded as skipped, as when a job is disabled, so that its ledger stays whole. What waits is cancelled; what runs goes on to its end,
//! with its retries, since stopping half-done work is a decision of its own ([`crate::dispatching::cancellations`]). A job that others run
//! after is not deleted: they would wait for ever without anybody having said so. What it runs after itself is forgotten, though its
//! settings go on saying it.
//!
//! All of it is one transaction, the caller's, under the lock on the job: a process that dies in between leaves the job as it was.

use std::collections::BTreeSet;

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::super::schema::scheduled_jobs;
use super::super::{Conn, DbError};
use super::parsed_calendars::ParsedCalendars;
use super::refusal::SaveError;
use super::reschedule::stored_timetable;
use super::save::NewVersion;
use super::{Job, by_id, by_id_ever, cursor};
use crate::dispatching::cancellations::{self, Order};
use crate::{
    connection::database_clock,
    definitions::{calendars, dependencies},
};
use sched_domain::ids::{DispatchId, JobId, TenantId};

/// Which job to delete, and by whose word.
#[derive(Debug, Clone, Copy)]
pub struct DeleteRequest<'a> {
    /// Owner.
    pub tenant: TenantId,
    /// The job.
    pub job: JobId,
    /// Only if the job has this version; `None` whatever its version.
    pub version: Option<i64>,
    /// Which component or whose e-mail asks.
    pub source: &'a str,
    /// Who asks, and why, for what is cancelled.
    pub order: Order<'a>,
}

/// What became of it.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// The job is deleted, and has a version more.
    Done {
        /// As it was.
        before: Box<Job>,
        /// As it is.
        after: Box<Job>,
        /// What waited and is cancelled.
        cancelled: Vec<DispatchId>,
    },
    /// There is no such job.
    NoSuchJob,
    /// It has another version than was asked for.
    OtherVersion(i64),
    /// These jobs run after it.
    Followed(Vec<String>),
}

/// A job that was deleted.
#[derive(Debug, Clone)]
pub struct DeletedJob {
    /// As it was.
    pub before: Job,
    /// As it is.
    pub after: Job,
    /// What waited and is cancelled.
    pub cancelled: Vec<DispatchId>,
}

/// Deletes a job. Call it in a transaction that holds no lock yet.
pub async fn delete(conn: &mut Conn, request: &DeleteRequest<'_>) -> Result<Deleted, SaveError> {
    let DeleteRequest { tenant, job: id, version, source, order } = *request;
    let Some(seen) = by_id(conn, tenant, id).await? else { return Ok(Deleted::NoSuchJob) };
    dependencies::serialise(conn, tenant, [&seen.settings]).await?;
    dependencies::lock_with_upstream(conn, tenant, &BTreeSet::from([id])).await?;
    // Read again, now that nobody else changes it.
    let Some(job) = by_id(conn, tenant, id).await? else { return Ok(Deleted::NoSuchJob) };
    if version.is_some_and(|version| version != job.state.version) {
        return Ok(Deleted::OtherVersion(job.state.version));
    }
    if seen.settings.after.is_empty() && !job.settings.after.is_empty() {
        // Its edges are to be written, and nobody was kept from writing others.
        return Err(DbError::outdated().into());
    }
    let followers = dependencies::followers(conn, tenant, &[id]).await?.remove(&id).unwrap_or_default();
    if !followers.is_empty() {
        return Ok(Deleted::Followed(followers.into_iter().map(|follower| follower.job).collect()));
    }
    let ended = end(conn, tenant, job, source, &order).await?;
    Ok(Deleted::Done {
        before: Box::new(ended.before),
        after: Box::new(ended.after),
        cancelled: ended.cancelled,
    })
}

/// Ends a job that is locked, with those that it runs after, and that no other runs after.
pub(crate) async fn end(
    conn: &mut Conn,
    tenant: TenantId,
    job: Job,
    source: &str,
    order: &Order<'_>,
) -> Result<DeletedJob, SaveError> {
    let id = job.id;
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
    cursor.record(conn, tenant, id, job.state.last_fire_at).await?;
    let kept = NewVersion {
        version,
        change: "deleted",
        settings: &job.settings,
        changed_at: now,
        source,
        pause: None,
    };
    kept.keep(conn, tenant, id).await?;
    dependencies::remove(conn, tenant, id).await?;
    let cancelled = cancellations::cancel_waiting(conn, tenant, id, order).await?;
    let after = by_id_ever(conn, tenant, id).await?.ok_or(DbError::NotFound)?;
    Ok(DeletedJob { before: job, after, cancelled })
}
