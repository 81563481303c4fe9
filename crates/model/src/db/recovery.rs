//! Recovery: finding work that nobody does any more, and ending its attempts as lost.
//!
//! A worker whose heartbeat is older than its lease (or from the future by more than the lease, see
//! [`super::instances`]) is marked OFFLINE. From then on its heartbeats and claims are refused, and it will have killed its
//! own work before, because it stops trusting itself earlier. What it ran is found through `worker_claims` and ended under
//! its own claim tokens; a late completion then changes nothing.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Double, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::attempts::{self, Ended};
use super::functions::stored_policy;
use super::{Conn, DbResult};
use crate::domain::attempt::Failures;
use crate::domain::ids::{ClaimToken, DispatchId, JobId, ProjectId, TenantId, WorkerId};
use crate::domain::retry::RetryPolicy;

/// A running attempt, as the database sees it.
#[derive(Debug, Clone)]
pub struct OpenAttempt {
    /// The dispatch.
    pub dispatch_id: DispatchId,
    /// Owner.
    pub tenant_id: TenantId,
    /// Project of the job.
    pub project_id: Option<ProjectId>,
    /// The job.
    pub job_id: JobId,
    /// Its name.
    pub job_name: String,
    /// Token of the claim.
    pub token: ClaimToken,
    /// Number of the attempt.
    pub attempt: u32,
    /// Failures before it.
    pub failures: Failures,
    /// When it was claimed.
    pub claimed_at: DateTime<Utc>,
    /// The database's clock at the time of asking.
    pub now: DateTime<Utc>,
    /// The worker that claimed it.
    pub worker_id: WorkerId,
    /// Retry policy of the job or its function; `None` for the installation's default.
    pub retry_policy: Option<RetryPolicy>,
}

#[derive(Queryable)]
struct Row {
    dispatch_id: DispatchId,
    tenant_id: TenantId,
    project_id: Option<ProjectId>,
    job_id: JobId,
    job_name: String,
    token: ClaimToken,
    attempt: i32,
    retry_count: i32,
    lost_count: i32,
    claimed_at: DateTime<Utc>,
    now: DateTime<Utc>,
    worker_id: WorkerId,
    retry_policy: Option<serde_json::Value>,
}

#[rustfmt::skip]
type Columns = (
    SqlUuid, SqlUuid, Nullable<SqlUuid>, SqlUuid, Text, BigInt, Int4, Int4, Int4, Timestamptz, Timestamptz, SqlUuid,
    Nullable<Jsonb>,
);

impl Row {
    fn into_open(self) -> OpenAttempt {
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        OpenAttempt {
            retry_policy: stored_policy(self.retry_policy, || {
                format!("retry_policy of job {}", self.job_name)
            }),
            dispatch_id: self.dispatch_id,
            tenant_id: self.tenant_id,
            project_id: self.project_id,
            job_id: self.job_id,
            job_name: self.job_name,
            token: self.token,
            attempt: count(self.attempt),
            failures: Failures { retried: count(self.retry_count), lost: count(self.lost_count) },
            claimed_at: self.claimed_at,
            now: self.now,
            worker_id: self.worker_id,
        }
    }
}

statement! {
    ExpireWorkers = "recovery_expire_workers.sql", (seconds: f64 as Double) -> (SqlUuid, Text)
}

/// Marks workers OFFLINE that have been silent for `lease`, and for their own lease; returns them with their hosts. Call it in a
/// fenced transaction.
///
/// # Errors
/// When the database cannot be asked.
pub async fn expire_workers(conn: &mut Conn, lease: Duration) -> DbResult<Vec<(WorkerId, String)>> {
    Ok(ExpireWorkers { seconds: lease.as_secs_f64() }.load(conn).await?)
}

statement! {
    LostAttempts = "recovery_lost_attempts.sql", (limit: i64 as BigInt) -> Columns
}

/// Attempts that run on workers that are OFFLINE, at most `limit`.
///
/// # Errors
/// When the database cannot be asked.
pub async fn lost_attempts(conn: &mut Conn, limit: i64) -> DbResult<Vec<OpenAttempt>> {
    let rows: Vec<Row> = LostAttempts { limit }.load(conn).await?;
    Ok(rows.into_iter().map(Row::into_open).collect())
}

statement! {
    UnknownClaims<'a> = "recovery_unknown_claims.sql", (
        worker: WorkerId as SqlUuid,
        known: &'a [Uuid] as Array<SqlUuid>,
    ) -> Columns
}

/// Attempts that the database holds for a living worker which the worker knows nothing of: claims whose commit was
/// confirmed to nobody. The worker ends them as released.
///
/// # Errors
/// When the database cannot be asked.
pub async fn unknown_claims(
    conn: &mut Conn,
    worker: WorkerId,
    known: &[DispatchId],
) -> DbResult<Vec<OpenAttempt>> {
    let known: Vec<Uuid> = known.iter().map(|id| id.0).collect();
    let rows: Vec<Row> = UnknownClaims { worker, known: &known }.load(conn).await?;
    Ok(rows.into_iter().map(Row::into_open).collect())
}

/// Ends lost attempts within the caller's fenced transaction. Returns those whose claim still held.
///
/// # Errors
/// When the database cannot be asked.
pub async fn end_lost(conn: &mut Conn, ended: &[Ended]) -> DbResult<Vec<DispatchId>> {
    Ok(attempts::end_in_transaction(conn, ended).await?.held)
}

statement! {
    ForgetClaims = "recovery_forget_claims.sql", () -> BigInt
}

/// Forgets the claims of OFFLINE workers that hold nothing any more, so that their registration can go.
///
/// # Errors
/// When the database cannot be asked.
pub async fn forget_finished_claims(conn: &mut Conn) -> DbResult<usize> {
    Ok(ForgetClaims {}.execute(conn).await?)
}
