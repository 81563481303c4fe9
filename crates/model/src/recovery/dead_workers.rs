//! Recovery: finding work that nobody does any more, and ending its attempts as lost.
//!
//! A worker whose heartbeat is older than its lease (or from the future by more than the lease, see
//! [`crate::cluster::leadership`]) is marked OFFLINE. From then on its heartbeats and claims are refused, and it will have killed its
//! own work before, because it stops trusting itself earlier. What it ran is found through `worker_claims` and ended under
//! its own claim tokens; a late completion then changes nothing.
//!
//! A worker that lives may still have lost hold of an attempt, so that it neither ends nor is killed. [`overdue`] finds those by what
//! their claims say about how long they may run, which is what the worker was told and not what the settings say by now. Nothing here
//! looks for running dispatches in the table of dispatches itself: an index for that costs every completion.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{
    Array, BigInt, Bool, Double, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;

use crate::definitions::functions::stored_policy;
use crate::running::attempts::{self, Ended};
use crate::{Conn, DbResult};
use sched_domain::attempt::{Failures, OVERDUE_MARGIN, overdue_after};
use sched_domain::dispatch::DispatchStatus;
use sched_domain::ids::{ClaimToken, DispatchId, JobId, ProjectId, TenantId, WorkerId};
use sched_domain::retry::RetryPolicy;

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

impl OpenAttempt {
    /// How long ago it was claimed, by the database's clock.
    #[must_use]
    pub fn running_for(&self) -> Duration {
        (self.now - self.claimed_at).to_std().unwrap_or_default()
    }
}

/// An attempt that runs for longer than it may, on a worker that lives.
#[derive(Debug, Clone)]
pub struct OverdueAttempt {
    /// The attempt.
    pub attempt: OpenAttempt,
    /// How long it may run: its time-out and its grace.
    pub limit: Duration,
}

/// What a look for lost work finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Found {
    /// Workers whose lease has expired and that are not OFFLINE yet.
    pub silent_workers: bool,
    /// Claims of workers that are OFFLINE.
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
}

#[rustfmt::skip]
pub(crate) type Columns = (
    SqlUuid, SqlUuid, Nullable<SqlUuid>, SqlUuid, Text, BigInt, Int4, Int4, Int4, Timestamptz, Timestamptz, SqlUuid,
    Nullable<Jsonb>,
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
        }
    }
}

statement! {
    Look = "dead_workers/recovery_look.sql", (seconds: f64 as Double) -> (Bool, Bool)
}

/// Whether there is anything for [`expire_workers`] and [`lost_attempts`] to do: one cheap statement, so that looking often costs
/// little. Needs no fence, because it decides nothing.
pub async fn look(conn: &mut Conn, lease: Duration) -> DbResult<Found> {
    Ok(Look { seconds: lease.as_secs_f64() }.get_result(conn).await?)
}

statement! {
    Alone = "dead_workers/recovery_alone.sql", (seconds: f64 as Double) -> Bool
}

/// Whether a worker may recover in this transaction: nobody leads, or the leader has been silent for `silence`, and no other worker is at it.
///
/// It saves work and is no fence: a leader may come back a moment later, and then both end attempts under their claim tokens, each of
/// them once.
pub async fn may_recover_alone(conn: &mut Conn, silence: Duration) -> DbResult<bool> {
    Ok(Alone { seconds: silence.as_secs_f64() }.get_result(conn).await?)
}

statement! {
    ExpireWorkers = "dead_workers/recovery_expire_workers.sql", (seconds: f64 as Double) -> (SqlUuid, Text)
}

/// Marks workers OFFLINE that have been silent for `lease`, and for their own lease; returns them with their hosts. Call it in a
/// fenced transaction.
pub async fn expire_workers(conn: &mut Conn, lease: Duration) -> DbResult<Vec<(WorkerId, String)>> {
    Ok(ExpireWorkers { seconds: lease.as_secs_f64() }.load(conn).await?)
}

statement! {
    LostAttempts = "dead_workers/recovery_lost_attempts.sql", (limit: i64 as BigInt) -> Columns
}

/// Attempts that run on workers that are OFFLINE, at most `limit`.
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

/// Attempts that living workers have been running for longer than they may, at most `limit`.
///
/// `unknown_limit` applies, if it is more than the present settings say, to claims of older releases, which do not tell how long
/// their dispatches may run.
pub async fn overdue(conn: &mut Conn, unknown_limit: Duration, limit: i64) -> DbResult<Vec<OverdueAttempt>> {
    let margin_seconds = OVERDUE_MARGIN.as_secs_f64();
    let unknown_limit_seconds = unknown_limit.as_secs_f64();
    let rows: Vec<(Row, f64)> = Overdue { margin_seconds, unknown_limit_seconds, limit }.load(conn).await?;
    let found = rows.into_iter().map(|(row, seconds)| OverdueAttempt {
        attempt: row.into_open(),
        limit: Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX),
    });
    // The statement knows the least margin only.
    Ok(found.filter(|overdue| overdue.attempt.running_for() > overdue_after(overdue.limit)).collect())
}

statement! {
    UnknownClaims<'a> = "dead_workers/recovery_unknown_claims.sql", (
        worker: WorkerId as SqlUuid,
        known: &'a [i64] as Array<BigInt>,
    ) -> Columns
}

/// Attempts that the database holds for a living worker which the worker knows nothing of, by their tokens: claims whose commit
/// was confirmed to nobody. The worker ends them as released.
pub async fn unknown_claims(
    conn: &mut Conn,
    worker: WorkerId,
    known: &[ClaimToken],
) -> DbResult<Vec<OpenAttempt>> {
    let known: Vec<i64> = known.iter().map(|token| token.0).collect();
    let rows: Vec<Row> = UnknownClaims { worker, known: &known }.load(conn).await?;
    Ok(rows.into_iter().map(Row::into_open).collect())
}

/// An attempt that no claim names.
#[derive(Debug, Clone)]
pub struct StrayAttempt {
    /// The attempt.
    pub attempt: OpenAttempt,
    /// Whether its worker is given up, or not registered at all.
    pub is_worker_gone: bool,
}

statement! {
    Strays = "dead_workers/recovery_strays.sql", (
        unknown_limit_seconds: f64 as Double,
        margin_seconds: f64 as Double,
        limit: i64 as BigInt,
    ) -> (Columns, Bool, Double)
}

/// Attempts that run although no claim of their worker names them, at most `limit`.
///
/// Those of workers that are gone, and those of living ones
/// that are overdue, where they may run for `unknown_limit` at least. Reads the whole table of dispatches.
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
/// Returns those whose claim still held, with what has become of their dispatches: one that somebody wants cancelled is, whatever the verdict was.
pub async fn end_lost(conn: &mut Conn, ended: &[Ended]) -> DbResult<Vec<(DispatchId, DispatchStatus)>> {
    Ok(attempts::end_in_transaction(conn, ended).await?.states)
}

statement! {
    ForgetClaims = "dead_workers/recovery_forget_claims.sql", () -> BigInt
}

/// Forgets the claims of OFFLINE workers that hold nothing any more, so that their registration can go.
pub async fn forget_finished_claims(conn: &mut Conn) -> DbResult<usize> {
    Ok(ForgetClaims {}.execute(conn).await?)
}
