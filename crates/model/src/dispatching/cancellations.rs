//! Cancels runs, waiting or running.
//!
//! A waiting run is closed at once. A running run is marked and its worker notified: the worker
//! ends the attempt as cancelled under its claim token, which closes the run. A worker that misses
//! the notification reads the mark at its next heartbeat ([`claims_to_end`]). If the worker dies
//! first, the attempt is lost, and a marked run is not tried again. A repeated cancellation changes
//! nothing.
//!
//! # Locks
//! [`cancel`] and [`cancel_of_job`] hold the lock on the job, because they change its counters.
//! Claims and ends of attempts do not take that lock but hold the row of the run. A cancellation
//! that waits for that row then finds the run running, or ended. An end that waits for it finds the
//! mark.

use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::schema::{job_dispatch, scheduled_jobs};
use crate::{Conn, DbResult, dispatching::overlap_queue};
use sched_domain::ids::{ClaimToken, DispatchId, JobId, ProjectId, TenantId, WorkerId};
use sched_domain::run_state::DispatchStatus;

/// Maximum number of runs of a job that one command cancels.
pub const MOST_AT_ONCE: usize = 1_000;

/// Maximum number of open runs of a job that one command reads.
const MOST_LOOKED_AT: i64 = 10_000;

/// A job whose oldest open runs are cancelled to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MakeRoom {
    pub tenant_id: TenantId,
    pub job_id: JobId,
    /// Number of runs to cancel.
    pub count: i32,
}

statement! {
    CancelOldest<'a> = "cancellations/cancel_oldest.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        counts: &'a [i32] as Array<Int4>,
    ) -> SqlUuid
}

/// Cancels the oldest open runs of jobs whose locks the caller holds. Returns the workers to notify
/// after the commit ([`crate::connection::notify::cancellations`]).
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimEndReason {
    Cancelled,
    /// The worker no longer holds the claim: another worker repeats the work, or the work is not
    /// repeated.
    Lost,
}

statement! {
    ClaimsToEnd<'a> = "cancellations/cancel_word.sql", (
        dispatches: &'a [Uuid] as Array<SqlUuid>,
        tokens: &'a [i64] as Array<BigInt>,
    ) -> (BigInt, Bool)
}

/// Returns those of a worker's claims whose work must end, with the reason. One statement, by the
/// key of the runs.
///
/// A claim whose end is already stored is also returned as lost; the caller knows these claims.
pub async fn claims_to_end(
    conn: &mut Conn,
    claims: &[(DispatchId, ClaimToken)],
) -> DbResult<Vec<(ClaimToken, ClaimEndReason)>> {
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    let dispatches: Vec<Uuid> = claims.iter().map(|(id, _)| id.0).collect();
    let tokens: Vec<i64> = claims.iter().map(|(_, token)| token.0).collect();
    let rows: Vec<(ClaimToken, bool)> =
        ClaimsToEnd { dispatches: &dispatches, tokens: &tokens }.load(conn).await?;
    let reason = |holds| if holds { ClaimEndReason::Cancelled } else { ClaimEndReason::Lost };
    Ok(rows.into_iter().map(|(token, holds)| (token, reason(holds))).collect())
}

#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    pub by: &'a str,
    pub reason: Option<&'a str>,
}

impl Order<'_> {
    fn message(&self) -> String {
        match self.reason {
            Some(reason) => format!("cancelled by {}: {reason}", self.by),
            None => format!("cancelled by {}", self.by),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct JobRef {
    pub job_id: JobId,
    pub project_id: Option<ProjectId>,
    pub job_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CancelledRuns {
    /// Waiting runs, now closed.
    pub closed: Vec<DispatchId>,
    /// Running runs, now marked.
    pub requested: Vec<DispatchId>,
    /// Workers to notify after the commit ([`crate::connection::notify::cancellations`]).
    pub workers: Vec<WorkerId>,
    /// Queues of the runs that were queued behind the cancelled ones and are released.
    pub released_queues: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cancelled {
    Stopped(JobRef, CancelledRuns),
    AlreadyRequested(Option<WorkerId>),
    AlreadyCancelled,
    Finished(DispatchStatus),
    NoSuchDispatch,
}

/// Cancels a run. Call it in a transaction that holds no lock on a job yet.
pub async fn cancel(
    conn: &mut Conn,
    tenant: TenantId,
    id: DispatchId,
    order: &Order<'_>,
) -> DbResult<Cancelled> {
    let dispatch = || job_dispatch::table.find(id).filter(job_dispatch::tenant_id.eq(tenant));
    let job: Option<JobId> = dispatch().select(job_dispatch::job_id).get_result(conn).await.optional()?;
    let Some(job) = job else { return Ok(Cancelled::NoSuchDispatch) };
    let Some(stricken) = lock_job(conn, tenant, job).await? else {
        return Ok(Cancelled::NoSuchDispatch);
    };
    let mut stopped = stop(conn, Stop { tenant, job, ids: &[id.0], message: &order.message() }).await?;
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

/// Cancels up to [`MOST_AT_ONCE`] open runs of a job, the newest first, so that no run takes the
/// place of another.
///
/// Returns the changes and whether more open runs remain; `None` without the job. Call it in a
/// transaction that holds no lock on a job yet.
pub async fn cancel_of_job(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    order: &Order<'_>,
) -> DbResult<Option<(JobRef, CancelledRuns, bool)>> {
    let Some(stricken) = lock_job(conn, tenant, job).await? else { return Ok(None) };
    let open: Vec<(Uuid, bool)> = Open { tenant, job, most: MOST_LOOKED_AT }.load(conn).await?;
    let fresh: Vec<Uuid> = open.iter().filter(|(_, is_marked)| !is_marked).map(|(id, _)| *id).collect();
    let now: Vec<Uuid> = fresh.iter().take(MOST_AT_ONCE).copied().collect();
    let has_more = fresh.len() > now.len();
    let mut stopped = stop(conn, Stop { tenant, job, ids: &now, message: &order.message() }).await?;
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

/// Cancels all waiting runs of a job whose lock the caller holds, queued ones included. Running
/// runs continue. No run of the job is queued afterwards.
pub async fn cancel_waiting(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    order: &Order<'_>,
) -> DbResult<Vec<DispatchId>> {
    Ok(Waiting { tenant, job, message: &order.message() }.load(conn).await?)
}

/// Locks the job, which orders the command with its ticks and counts.
async fn lock_job(conn: &mut Conn, tenant: TenantId, job: JobId) -> DbResult<Option<JobRef>> {
    use scheduled_jobs as j;
    let found = j::table
        .find((tenant, job))
        .select((j::id, j::project_id, j::name))
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

async fn stop(conn: &mut Conn, statement: Stop<'_>) -> DbResult<CancelledRuns> {
    let mut stopped = CancelledRuns::default();
    if statement.ids.is_empty() {
        return Ok(stopped);
    }
    let rows: Vec<(DispatchId, Option<WorkerId>)> = statement.load(conn).await?;
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
