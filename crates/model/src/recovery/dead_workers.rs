//! Recovery: finds attempts that no worker runs any more, and ends them as lost.
//!
//! A worker is marked OFFLINE if its heartbeat is older than its lease (or from the future by more
//! than the lease, see [`crate::cluster::leadership`]). From then on its heartbeats and claims are
//! rejected. It has killed its own work before, because it stops trusting itself earlier. Its
//! attempts are found through `worker_claims` and ended under their claim tokens; a late completion
//! changes nothing.
//!
//! A live worker may still have lost track of an attempt, so that it neither ends nor kills it.
//! [`overdue`] finds those by the time limits that the worker received with the claim, not by the
//! current settings. Nothing here searches `job_dispatch` itself for running runs: an index for
//! that would cost every completion.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{
    Array, BigInt, Bool, Double, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;

use crate::definitions::stored_json::stored_policy;
use crate::running::attempts::{self, Ended, JobColumns};
use crate::{Conn, DbResult};
use sched_domain::attempt::{Failures, OVERDUE_MARGIN, overdue_after};
use sched_domain::ids::{ClaimToken, DispatchId, JobId, ProjectId, TenantId, WorkerId};
use sched_domain::retry::RetryPolicy;
use sched_domain::run_state::DispatchStatus;

#[derive(Debug, Clone)]
pub struct OpenAttempt {
    pub dispatch_id: DispatchId,
    pub tenant_id: TenantId,
    pub project_id: Option<ProjectId>,
    pub job_id: JobId,
    pub job_name: String,
    pub token: ClaimToken,
    pub attempt: u32,
    /// Failures of earlier attempts.
    pub failures: Failures,
    pub claimed_at: DateTime<Utc>,
    /// The database's clock at the query.
    pub now: DateTime<Utc>,
    pub worker_id: WorkerId,
    /// Retry policy of the job or its function; `None` for the installation's default.
    pub retry_policy: Option<RetryPolicy>,
    /// See [`JobColumns::is_apart`].
    pub is_apart: bool,
}

impl OpenAttempt {
    /// Since the claim, by the database's clock.
    #[must_use]
    pub fn running_for(&self) -> Duration {
        (self.now - self.claimed_at).to_std().unwrap_or_default()
    }

    #[must_use]
    pub fn job_columns(&self) -> Arc<JobColumns> {
        Arc::new(JobColumns {
            name: self.job_name.clone(),
            project_id: self.project_id,
            is_apart: self.is_apart,
        })
    }
}

#[derive(Debug, Clone)]
pub struct OverdueAttempt {
    pub attempt: OpenAttempt,
    /// Time-out of the attempt and its grace period.
    pub limit: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct PendingRecovery {
    /// Workers with an expired lease that are not OFFLINE yet.
    pub silent_workers: bool,
    /// Claims of OFFLINE workers.
    pub claims_of_the_lost: bool,
}

#[derive(Queryable)]
pub(crate) struct Row {
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
    is_apart: bool,
}

#[rustfmt::skip]
pub(crate) type Columns = (
    SqlUuid, SqlUuid, Nullable<SqlUuid>, SqlUuid, Text, BigInt, Int4, Int4, Int4, Timestamptz, Timestamptz, SqlUuid,
    Nullable<Jsonb>, Bool,
);

impl Row {
    pub(crate) fn into_open(self) -> OpenAttempt {
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
            is_apart: self.is_apart,
        }
    }
}

statement! {
    Look = "dead_workers/recovery_look.sql", (seconds: f64 as Double) -> (Bool, Bool)
}

/// Whether [`expire_workers`] and [`lost_attempts`] have work: one cheap statement. Needs no fence,
/// because it decides nothing.
pub async fn pending_work(conn: &mut Conn, lease: Duration) -> DbResult<PendingRecovery> {
    Ok(Look { seconds: lease.as_secs_f64() }.get_result(conn).await?)
}

statement! {
    Alone = "dead_workers/recovery_alone.sql", (seconds: f64 as Double) -> Bool
}

/// Whether a worker may recover in this transaction: there is no leader, or the leader has been
/// silent for `silence`, and no other worker recovers.
///
/// The check saves work but does not fence. A leader may return a moment later; then both end
/// attempts under their claim tokens, and each attempt ends once.
pub async fn may_recover_alone(conn: &mut Conn, silence: Duration) -> DbResult<bool> {
    Ok(Alone { seconds: silence.as_secs_f64() }.get_result(conn).await?)
}

statement! {
    ExpireWorkers = "dead_workers/recovery_expire_workers.sql", (seconds: f64 as Double) -> (SqlUuid, Text)
}

/// Marks workers OFFLINE that have been silent for `lease` and for their own lease; returns them
/// with hosts. Call it in a fenced transaction.
pub async fn expire_workers(conn: &mut Conn, lease: Duration) -> DbResult<Vec<(WorkerId, String)>> {
    Ok(ExpireWorkers { seconds: lease.as_secs_f64() }.load(conn).await?)
}

statement! {
    LostAttempts = "dead_workers/recovery_lost_attempts.sql", (limit: i64 as BigInt) -> Columns
}

/// Attempts of OFFLINE workers, at most `limit`.
pub async fn lost_attempts(conn: &mut Conn, limit: i64) -> DbResult<Vec<OpenAttempt>> {
    let rows: Vec<Row> = LostAttempts { limit }.load(conn).await?;
    Ok(rows.into_iter().map(Row::into_open).collect())
}

statement! {
    Overdue = "dead_workers/recovery_overdue.sql", (
        margin_seconds: f64 as Double,
        unknown_limit_seconds: f64 as Double,
        limit: i64 as BigInt,
    ) -> (Columns, Double)
}

/// Attempts that exceed their time limit on live workers.
///
/// Claims of older releases have no limit. For these, the greater of `unknown_limit` and the limit
/// in the current settings applies.
pub async fn overdue(conn: &mut Conn, unknown_limit: Duration, limit: i64) -> DbResult<Vec<OverdueAttempt>> {
    let margin_seconds = OVERDUE_MARGIN.as_secs_f64();
    let unknown_limit_seconds = unknown_limit.as_secs_f64();
    let rows: Vec<(Row, f64)> = Overdue { margin_seconds, unknown_limit_seconds, limit }.load(conn).await?;
    let found = rows.into_iter().map(|(row, seconds)| OverdueAttempt {
        attempt: row.into_open(),
        limit: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
    });
    // The statement knows only the smallest margin.
    Ok(found.filter(|overdue| overdue.attempt.running_for() > overdue_after(overdue.limit)).collect())
}

statement! {
    UnknownClaims<'a> = "dead_workers/recovery_unknown_claims.sql", (
        worker: WorkerId as SqlUuid,
        known: &'a [i64] as Array<BigInt>,
    ) -> Columns
}

/// Attempts that a live worker holds according to the database, but whose tokens it does not know:
/// no client received the confirmation of the commit. The worker ends them as released.
pub async fn unknown_claims(
    conn: &mut Conn,
    worker: WorkerId,
    known: &[ClaimToken],
) -> DbResult<Vec<OpenAttempt>> {
    let known: Vec<i64> = known.iter().map(|token| token.0).collect();
    let rows: Vec<Row> = UnknownClaims { worker, known: &known }.load(conn).await?;
    Ok(rows.into_iter().map(Row::into_open).collect())
}

#[derive(Debug, Clone)]
pub struct StrayAttempt {
    pub attempt: OpenAttempt,
    /// Whether the worker is OFFLINE or not registered.
    pub is_worker_gone: bool,
}

statement! {
    Strays = "dead_workers/recovery_strays.sql", (
        unknown_limit_seconds: f64 as Double,
        margin_seconds: f64 as Double,
        limit: i64 as BigInt,
    ) -> (Columns, Bool, Double)
}

/// Running attempts that no claim of their worker names: those of lost workers, and those of live
/// workers that are overdue with at least `unknown_limit`. Reads the whole table `job_dispatch`.
pub async fn strays(conn: &mut Conn, unknown_limit: Duration, limit: i64) -> DbResult<Vec<StrayAttempt>> {
    let unknown_limit_seconds = unknown_limit.as_secs_f64();
    let margin_seconds = OVERDUE_MARGIN.as_secs_f64();
    let rows: Vec<(Row, bool, f64)> =
        Strays { unknown_limit_seconds, margin_seconds, limit }.load(conn).await?;
    let may_be_ended = |(row, is_worker_gone, seconds): (Row, bool, f64)| {
        let attempt = row.into_open();
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let is_over = is_worker_gone || attempt.running_for() > overdue_after(limit);
        is_over.then_some(StrayAttempt { attempt, is_worker_gone })
    };
    Ok(rows.into_iter().filter_map(may_be_ended).collect())
}

/// Ends lost attempts within the caller's fenced transaction.
///
/// Returns those whose claim still held, with the new states of their runs: a run with a requested
/// cancellation is CANCELLED for any verdict.
pub async fn end_lost(conn: &mut Conn, ended: &[Ended]) -> DbResult<Vec<(DispatchId, DispatchStatus)>> {
    Ok(attempts::end_in_transaction(conn, ended).await?.states)
}

statement! {
    ForgetClaims = "dead_workers/recovery_forget_claims.sql", () -> BigInt
}

/// Deletes the claims of OFFLINE workers without work, so that their registration can be removed.
pub async fn forget_finished_claims(conn: &mut Conn) -> DbResult<usize> {
    Ok(ForgetClaims {}.execute(conn).await?)
}
