//! Claiming: how a worker takes waiting dispatches.
//!
//! One statement takes up to the free slots of the worker from all its queues, best priority first, skipping what others
//! are about to take, and gives each dispatch a token that no claim ever had. It reads the waiting line through its
//! partial index, so its cost does not grow with history. It also notes the claim in `worker_claims`, in the same
//! commit: that is how the work of a lost worker is found without an index on running rows.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::functions::stored_policy;
use super::{Conn, DbResult};
use crate::domain::attempt::Failures;
use crate::domain::dispatch::Trigger;
use crate::domain::ids::{ClaimToken, DispatchId, JobId, TenantId, WorkerId};
use crate::domain::job;
use crate::domain::retry::RetryPolicy;

/// A dispatch that was claimed, with everything needed to run and finish it.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The claim statement that took it; see [`super::attempts::end`].
    pub claim_id: i64,
    /// The dispatch.
    pub dispatch_id: DispatchId,
    /// Owner.
    pub tenant_id: TenantId,
    /// The job.
    pub job_id: JobId,
    /// Its name.
    pub job_name: String,
    /// Token that every write of this claim carries.
    pub token: ClaimToken,
    /// Number of this attempt, from 1.
    pub attempt: u32,
    /// Failures before it.
    pub failures: Failures,
    /// The fire time, or when the trigger was made.
    pub scheduled_for: DateTime<Utc>,
    /// When the dispatch was created.
    pub created_at: DateTime<Utc>,
    /// When it became available.
    pub available_at: DateTime<Utc>,
    /// When it was claimed.
    pub claimed_at: DateTime<Utc>,
    /// What created it.
    pub triggered_by: Trigger,
    /// Whether its fire time had been missed and was caught up.
    pub is_catch_up: bool,
    /// Arguments.
    pub args: serde_json::Value,
    /// W3C trace context of what created it.
    pub traceparent: Option<String>,
    /// How it is run; a word this program may not know.
    pub handler_type: String,
    /// Settings of the handler.
    pub handler_config: serde_json::Value,
    /// Longest run of the attempt.
    pub timeout: Duration,
    /// Retry policy of the job or its function; `None` for the installation's default.
    pub retry_policy: Option<RetryPolicy>,
}

#[derive(Queryable)]
struct Row {
    claim_id: i64,
    dispatch_id: DispatchId,
    tenant_id: TenantId,
    job_id: JobId,
    job_name: String,
    token: ClaimToken,
    attempt: i32,
    retry_count: i32,
    lost_count: i32,
    scheduled_for: DateTime<Utc>,
    created_at: DateTime<Utc>,
    available_at: DateTime<Utc>,
    claimed_at: DateTime<Utc>,
    triggered_by: Trigger,
    is_catch_up: bool,
    args: serde_json::Value,
    traceparent: Option<String>,
    handler_type: String,
    handler_config: serde_json::Value,
    timeout_seconds: i32,
    retry_policy: Option<serde_json::Value>,
}

#[rustfmt::skip]
type Columns = (
    BigInt, SqlUuid, SqlUuid, SqlUuid, Text, BigInt, Int4, Int4, Int4,
    Timestamptz, Timestamptz, Timestamptz, Timestamptz, Text, Bool,
    Jsonb, Nullable<Text>, Text, Jsonb, Int4, Nullable<Jsonb>,
);

statement! {
    /// The claim.
    Claim<'a> = "claim.sql", (
        worker: WorkerId as SqlUuid,
        limit: i64 as BigInt,
        queues: &'a [String] as Array<Text>,
    ) -> Columns
}

/// Claims up to `limit` dispatches that wait in `queues`, in the order in which they should start. A worker whose lease
/// was lost claims nothing.
///
/// # Errors
/// When the database cannot be asked. If the connection broke, the claim may have taken effect: the worker keeps its
/// lease and the dispatches are recovered by [`super::recovery`] once it knows of them, so the caller asks
/// [`super::recovery::unknown_claims`].
pub async fn claim(
    conn: &mut Conn,
    worker: WorkerId,
    queues: &[String],
    limit: u32,
) -> DbResult<Vec<Claimed>> {
    let rows: Vec<Row> = Claim { worker, limit: limit.into(), queues }.load(conn).await?;
    Ok(rows.into_iter().map(Row::into_claimed).collect())
}

statement! {
    NextClaimable<'a> = "claims_next_claimable.sql", (queues: &'a [String] as Array<Text>) -> Nullable<BigInt>
}

/// How long until something that waits in `queues` for its time (a retry) may be claimed; a hint, which may miss some.
///
/// # Errors
/// When the database cannot be asked.
pub async fn next_claimable(conn: &mut Conn, queues: &[String]) -> DbResult<Option<Duration>> {
    let milliseconds: Option<i64> = NextClaimable { queues }.get_result(conn).await?;
    Ok(milliseconds.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))))
}

impl Row {
    fn into_claimed(self) -> Claimed {
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        Claimed {
            retry_policy: stored_policy(self.retry_policy, || {
                format!("retry_policy of job {}", self.job_name)
            }),
            claim_id: self.claim_id,
            dispatch_id: self.dispatch_id,
            tenant_id: self.tenant_id,
            job_id: self.job_id,
            job_name: self.job_name,
            token: self.token,
            attempt: count(self.attempt),
            failures: Failures { retried: count(self.retry_count), lost: count(self.lost_count) },
            scheduled_for: self.scheduled_for,
            created_at: self.created_at,
            available_at: self.available_at,
            claimed_at: self.claimed_at,
            triggered_by: self.triggered_by,
            is_catch_up: self.is_catch_up,
            args: self.args,
            traceparent: self.traceparent,
            handler_type: self.handler_type,
            handler_config: self.handler_config,
            timeout: job::seconds(self.timeout_seconds),
        }
    }
}
