//! The overlap queue: runs that wait for other runs of their job to end, because `max_instances` of
//! them are open.
//!
//! Waiting runs of paused projects or functions are queued too ([`queue_paused`]), so claims need
//! not read the pauses. A queued run is PENDING with `claimable_at = 'infinity'`, which no claim
//! reaches, and is counted in `scheduled_jobs.queued_dispatches`.
//!
//! # Locks
//! A transaction that creates a run decides under the lock on its job whether the run is queued. A
//! transaction that closes a waiting run calls [`release`] under the same lock. The end of an attempt
//! does not lock the job: the count of its end does ([`crate::running::job_counters`]), and calls
//! [`release`]. [`release_stranded`] handles changes that bypass this code, such as a policy that an
//! operator edits in SQL.
//!
//! # Crashes
//! Either the counters show the room and the next run is released, or neither. An end without its
//! count stays in `uncounted_ends` until a process counts it.

use diesel::sql_types::{Array, BigInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::{Conn, DbResult};
use sched_domain::ids::{JobId, TenantId};

statement! {
    Release<'a> = "overlap_queue/line_release.sql" after "room/room.sql", (tenants: &'a [Uuid] as Array<SqlUuid>, jobs: &'a [Uuid] as Array<SqlUuid>) -> Text
}

statement! {
    WithRoom = "overlap_queue/line_with_room.sql" after "room/room.sql", (limit: i64 as BigInt) -> (SqlUuid, SqlUuid)
}

statement! {
    Hold = "overlap_queue/line_hold.sql", (limit: i64 as BigInt) -> BigInt
}

/// Queues up to `limit` due runs of paused projects or functions; returns their number. Call it in
/// a fenced transaction.
///
/// [`release_stranded`] releases them after the pause.
pub async fn queue_paused(conn: &mut Conn, limit: i64) -> DbResult<u64> {
    let held: i64 = Hold { limit }.get_result(conn).await?;
    Ok(u64::try_from(held).unwrap_or(0))
}

/// Releases as many of the oldest queued runs as each job has room for. Returns the queues that
/// workers should check after the commit. The caller holds the lock on the jobs.
pub async fn release(conn: &mut Conn, jobs: &[(TenantId, JobId)]) -> DbResult<Vec<String>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let (tenants, jobs): (Vec<Uuid>, Vec<Uuid>) = jobs.iter().map(|(tenant, job)| (tenant.0, job.0)).unzip();
    Ok(Release { tenants: &tenants, jobs: &jobs }.load(conn).await?)
}

/// Releases up to `limit` overlap queues that have room and were not released. Call it in a fenced
/// transaction.
pub async fn release_stranded(conn: &mut Conn, limit: i64) -> DbResult<Vec<String>> {
    let stranded: Vec<(TenantId, JobId)> = WithRoom { limit }.load(conn).await?;
    release(conn, &stranded).await
}
