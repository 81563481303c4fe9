//! Cancelling dispatches, waiting or running.
//!
//! One that waits is closed at once. One that runs is marked, and its worker is told: it stops the work and ends the attempt as
//! cancelled under its claim token, which closes the dispatch. A worker that misses the hint sees the mark at its next heartbeat; one
//! that dies first leaves a lost attempt, and a dispatch that is marked is not tried again. Asking twice changes nothing.

use diesel::sql_types::{Array, BigInt, Int4, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::{Conn, DbResult};
use crate::domain::ids::{ClaimToken, JobId, TenantId, WorkerId};

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
    CancelOldest<'a> = "cancel_oldest.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        counts: &'a [i32] as Array<Int4>,
    ) -> SqlUuid
}

/// Cancels the oldest open dispatches of jobs whose locks the caller holds; returns the workers that run some of them and should be
/// told after the commit ([`super::notify::cancellations`]).
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

statement! {
    Requested = "cancel_requested.sql", (worker: WorkerId as SqlUuid) -> BigInt
}

/// Claims of the worker that somebody wants stopped.
///
/// # Errors
/// When the database cannot be asked.
pub async fn requested(conn: &mut Conn, worker: WorkerId) -> DbResult<Vec<ClaimToken>> {
    Ok(Requested { worker }.load(conn).await?)
}
