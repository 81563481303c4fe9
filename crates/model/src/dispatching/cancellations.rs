//! Cancelling dispatches, waiting or running.
//!
//! One that waits is closed at once. One that runs is marked, and its worker is told: it stops the work and ends the attempt as
//! cancelled under its claim token, which closes the dispatch. A worker that misses the hint sees the mark at its next heartbeat ([`word_of`]);
//! one that dies first leaves a lost attempt, and a dispatch that is marked is not tried again. Asking twice changes nothing.
//!
//! [`cancel`] and [`cancel_of_job`] are commands of people and programs. They hold the lock on the job, as whoever ends attempts does,
//! so of an end and a cancellation one comes first and the other sees it. A claim does not take that lock; it holds the dispatch, and a
//! cancellation that waits for it finds the dispatch running.

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::schema::{job_dispatch, scheduled_jobs};
use crate::{Conn, DbResult, dispatching::overlap_queue};
use sched_domain::dispatch::DispatchStatus;
use sched_domain::ids::{ClaimToken, DispatchId, JobId, ProjectId, TenantId, WorkerId};

/// Most dispatches of a job that one command stops.
pub const MOST_AT_ONCE: usize = 1_000;

/// Most open dispatches of a job that one command looks at.
const MOST_LOOKED_AT: i32 = 10_000;

/// A job whose oldest open dispatches are to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MakeRoom {
    /// Owner.
    pub tenant_id: TenantId,
    /// The job.
    pub job_id: JobId,
    /// How many of them.
    pub count: i32,
}

statement! {
    CancelOldest<'a> = "cancellations/cancel_oldest.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        counts: &'a [i32] as Array<Int4>,
    ) -> SqlUuid
}

/// Cancels the oldest open dispatches of jobs whose locks the caller holds; returns the workers that run some of them and should be
/// told after the commit ([`crate::connection::notify::cancellations`]).
///
/// # Errors
/// When the database cannot be asked.
pub async fn cancel_oldest(conn: &mut Conn, rooms: &[MakeRoom]) -> DbResult<Vec<WorkerId>> {
    if rooms.is_empty() {
        return Ok(Vec::new());
    }
    let workers = CancelOldest {
        tenants: &rooms.iter().map(|room| room.tenant_id.0).collect::<Vec<_>>(),
        jobs: &rooms.iter().map(|room| room.job_id.0).collect::<Vec<_>>(),
        counts: &rooms.iter().map(|room| room.count).collect::<Vec<_>>(),
    }
    .load(conn)
    .await?;
    Ok(workers)
}

/// Why work under a claim is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Somebody wants it stopped.
    Cancelled,
    /// The claim was taken away: the work is done again by others, or by nobody.
    Lost,
}

statement! {
    Look<'a> = "cancellations/cancel_word.sql", (
        dispatches: &'a [Uuid] as Array<SqlUuid>,
        tokens: &'a [i64] as Array<BigInt>,
    ) -> (BigInt, Bool)
}

/// Those of the claims, which a worker holds itself to have, whose work is to end, and why: one statement, by the dispatches' key.
///
/// A claim whose end is stored already does not hold either; the caller knows which those are.
///
/// # Errors
/// When the database cannot be asked.
pub async fn word_of(
    conn: &mut Conn,
    claims: &[(DispatchId, ClaimToken)],
) -> DbResult<Vec<(ClaimToken, Word)>> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let dispatches: Vec<Uuid> = claims.iter().map(|(id, _)| id.0).collect();
    let tokens: Vec<i64> = claims.iter().map(|(_, token)| token.0).collect();
    let rows: Vec<(ClaimToken, bool)> = Look { dispatches: &dispatches, tokens: &tokens }.load(conn).await?;
    let word = |holds| if holds { Word::Cancelled } else { Word::Lost };
    Ok(rows.into_iter().map(|(token, holds)| (token, word(holds))).collect())
}

/// By whose word work is to be stopped.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// Who asks.
    pub by: &'a str,
    /// Why, for people.
    pub reason: Option<&'a str>,
}

impl Order<'_> {
    /// What the dispatch keeps of it.
    fn message(&self) -> String {
        match self.reason {
            Some(reason) => format!("cancelled by {}: {reason}", self.by),
            None => format!("cancelled by {}", self.by),
        }
    }
}

/// The job whose dispatches were to be stopped.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct Stricken {
    /// The job.
    pub job_id: JobId,
    /// Its project.
    pub project_id: Option<ProjectId>,
    /// Its name.
    pub job_name: String,
}

/// What a command has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stopped {
    /// Dispatches that waited and are closed.
    pub closed: Vec<DispatchId>,
    /// Dispatches that run and are marked.
    pub requested: Vec<DispatchId>,
    /// Their workers, to be told after the commit ([`crate::connection::notify::cancellations`]).
    pub workers: Vec<WorkerId>,
    /// Queues in which dispatches wait now that had stood in line behind these.
    pub released_queues: Vec<String>,
}

/// What became of the command to cancel a dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    /// It was closed, or its worker is to stop it.
    Stopped(Stricken, Stopped),
    /// Somebody had asked its worker before.
    AlreadyRequested(Option<WorkerId>),
    /// It had been cancelled before.
    AlreadyCancelled,
    /// It had come to another end.
    Finished(DispatchStatus),
    /// There is no such dispatch.
    NoSuchDispatch,
}

/// Cancels a dispatch. Call it in a transaction that holds no lock on a job yet.
///
/// # Errors
/// When the database cannot be asked.
pub async fn cancel(
    conn: &mut Conn,
    tenant: TenantId,
    id: DispatchId,
    order: &Order<'_>,
) -> DbResult<Cancelled> {
    let dispatch = || job_dispatch::table.find(id).filter(job_dispatch::tenant_id.eq(tenant));
    let job: Option<JobId> = dispatch().select(job_dispatch::job_id).get_result(conn).await.optional()?;
    let Some(job) = job else { return Ok(Cancelled::NoSuchDispatch) };
    let Some((stricken, _)) = lock_job(conn, tenant, job).await? else {
        return Ok(Cancelled::NoSuchDispatch);
    };
    let mut stopped = stop(conn, tenant, job, &[id.0], order).await?;
    if stopped.closed.is_empty() && stopped.requested.is_empty() {
        let found: Option<(DispatchStatus, Option<WorkerId>)> = dispatch()
            .select((job_dispatch::status, job_dispatch::worker_id))
            .get_result(conn)
            .await
            .optional()?;
        return Ok(match found {
            None => Cancelled::NoSuchDispatch,
            Some((DispatchStatus::Cancelled, _)) => Cancelled::AlreadyCancelled,
            Some((status, _)) if status.is_final() => Cancelled::Finished(status),
            Some((_, worker)) => Cancelled::AlreadyRequested(worker),
        });
    }
    stopped.released_queues = overlap_queue::release(conn, &[(tenant, job)]).await?;
    Ok(Cancelled::Stopped(stricken, stopped))
}

/// Cancels up to [`MOST_AT_ONCE`] of the open dispatches of a job, the newest first, so that none takes the place of another.
///
/// Returns what was changed and whether there are more; `None` if there is no such job. Call it in a transaction that holds no lock on a
/// job yet.
///
/// # Errors
/// When the database cannot be asked.
pub async fn cancel_of_job(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    order: &Order<'_>,
) -> DbResult<Option<(Stricken, Stopped, bool)>> {
    let Some((stricken, open)) = lock_job(conn, tenant, job).await? else { return Ok(None) };
    let most = i64::from(open.min(MOST_LOOKED_AT));
    let open: Vec<(Uuid, bool)> = Open { tenant, job, most }.load(conn).await?;
    let fresh: Vec<Uuid> = open.iter().filter(|(_, is_marked)| !is_marked).map(|(id, _)| *id).collect();
    let now: Vec<Uuid> = fresh.iter().take(MOST_AT_ONCE).copied().collect();
    let has_more = fresh.len() > now.len();
    let mut stopped = stop(conn, tenant, job, &now, order).await?;
    if !has_more {
        stopped.released_queues = overlap_queue::release(conn, &[(tenant, job)]).await?;
    }
    Ok(Some((stricken, stopped, has_more)))
}

statement! {
    Waiting<'a> = "cancellations/cancel_waiting.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        message: &'a str as Text,
    ) -> SqlUuid
}

/// Cancels all that waits of a job whose lock the caller holds; what runs goes on. Nothing of the job stands in line afterwards.
///
/// # Errors
/// When the database cannot be asked.
pub async fn cancel_waiting(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    order: &Order<'_>,
) -> DbResult<Vec<DispatchId>> {
    Ok(Waiting { tenant, job, message: &order.message() }.load(conn).await?)
}

/// Locks the job, which orders the command with ticks, ends and triggers of it; returns how many of its dispatches are open, too.
async fn lock_job(conn: &mut Conn, tenant: TenantId, job: JobId) -> DbResult<Option<(Stricken, i32)>> {
    use scheduled_jobs as j;
    let found = j::table
        .find((tenant, job))
        .select(((j::id, j::project_id, j::name), j::active_dispatches))
        .for_no_key_update()
        .get_result(conn)
        .await
        .optional()?;
    Ok(found)
}

statement! {
    Open = "cancellations/cancel_open.sql", (tenant: TenantId as SqlUuid, job: JobId as SqlUuid, most: i64 as BigInt) -> (SqlUuid, Bool)
}

statement! {
    Stop<'a> = "cancellations/cancel_dispatches.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        ids: &'a [Uuid] as Array<SqlUuid>,
        message: &'a str as Text,
    ) -> (SqlUuid, Nullable<SqlUuid>)
}

async fn stop(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    ids: &[Uuid],
    order: &Order<'_>,
) -> DbResult<Stopped> {
    let mut stopped = Stopped::default();
    if ids.is_empty() {
        return Ok(stopped);
    }
    let message = order.message();
    let rows: Vec<(DispatchId, Option<WorkerId>)> =
        Stop { tenant, job, ids, message: &message }.load(conn).await?;
    for (id, worker) in rows {
        match worker {
            Some(worker) => {
                stopped.requested.push(id);
                if !stopped.workers.contains(&worker) {
                    stopped.workers.push(worker);
                }
            }
            None => stopped.closed.push(id),
        }
    }
    Ok(stopped)
}
