//! The line: dispatches of a job that wait for others of it to end, because `max_instances` of them are open.
//!
//! What waits of a job whose project or function is paused is put there too ([`hold`]), so that claims need not read it.
//!
//! A dispatch in line is PENDING with `claimable_at = 'infinity'`, beyond the reach of every claim, and is counted in
//! `scheduled_jobs.queued_dispatches`. Who creates one decides so under the lock on its job. Who closes a dispatch calls
//! [`release`] in the same transaction, under the same lock: so there is no moment at which a place is free and nobody is told.
//! [`release_stranded`] is for what changes past this code, such as a policy that an operator edits in SQL. Nothing is lost if a process
//! dies at any line: either the dispatch is closed and the next one released, or neither.

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

/// Puts up to `limit` due dispatches that a paused project or function holds up into the lines of their jobs.
///
/// Returns how many. [`release_stranded`] lets them go when the pause is over. Call it in a fenced transaction.
///
/// # Errors
/// When the database cannot be asked.
pub async fn hold(conn: &mut Conn, limit: i64) -> DbResult<u64> {
    let held: i64 = Hold { limit }.get_result(conn).await?;
    Ok(u64::try_from(held).unwrap_or(0))
}

/// Lets as many dispatches of each of the jobs go as there is room for, the oldest first; returns the queues that workers should
/// look at after the commit. The caller holds the lock on the jobs.
///
/// # Errors
/// When the database cannot be asked.
pub async fn release(conn: &mut Conn, jobs: &[(TenantId, JobId)]) -> DbResult<Vec<String>> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let (tenants, jobs): (Vec<Uuid>, Vec<Uuid>) = jobs.iter().map(|(tenant, job)| (tenant.0, job.0)).unzip();
    Ok(Release { tenants: &tenants, jobs: &jobs }.load(conn).await?)
}

/// Releases up to `limit` lines that have room and whom nobody released. Call it in a fenced transaction.
///
/// # Errors
/// When the database cannot be asked.
pub async fn release_stranded(conn: &mut Conn, limit: i64) -> DbResult<Vec<String>> {
    let stranded: Vec<(TenantId, JobId)> = WithRoom { limit }.load(conn).await?;
    release(conn, &stranded).await
}
