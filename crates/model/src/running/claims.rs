//! Claiming: how a worker takes waiting runs.
//!
//! One statement takes up to the worker's free slots from all its queues and skips rows that
//! another claim has locked. It gives each run a claim token that no claim ever had. Each tenant
//! with due work gets an equal share of the slots, for any backlog; within the share the best
//! priority comes first. If there are more tenants than slots, each claim of a worker starts at the
//! tenant where its last one ended.
//!
//! The statement reads waiting runs through a partial index, so its cost does not grow with
//! history. It writes the claim to `worker_claims` in the same commit: recovery finds the work of a
//! lost worker there, without an index on running rows. [`claim_limited`] serves queues with
//! limits, so only they pay for limits, and all queues of tenants with a quota of running runs. An
//! idle worker that receives a notification tries the small statement [`claim_lone`] first. The
//! three are heads before one common end, `claim_end.sql`, which explains the two parts.

mod details;
mod turn;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use uuid::Uuid;

use crate::definitions::stored_json::stored_policy;
use crate::running::attempts::JobColumns;
use crate::{
    Conn, DbError, DbResult,
    connection::{pipelined::Pipelined, transaction},
    transact,
};
use sched_domain::attempt::Failures;
use sched_domain::ids::{ClaimToken, DispatchId, JobId, ProjectId, TenantId, WorkerId};
use sched_domain::job::{self, RunDetails};
use sched_domain::retry::RetryPolicy;
use sched_domain::run_state::Trigger;

/// A claimed run, with all data needed to run and finish it.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Id of the claim statement; see [`super::attempts::end`].
    pub claim_id: i64,
    pub dispatch_id: DispatchId,
    pub tenant_id: TenantId,
    pub job_id: JobId,
    pub job: Arc<JobColumns>,
    /// Every write of this claim carries it.
    pub token: ClaimToken,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Failures of earlier attempts.
    pub failures: Failures,
    /// Fire time, or time of the manual trigger.
    pub scheduled_for: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
    pub available_at: DateTime<Utc>,
    pub claimed_at: DateTime<Utc>,
    pub triggered_by: Trigger,
    /// Whether the run is a catch-up for a misfire.
    pub is_catch_up: bool,
    pub args: serde_json::Value,
    /// W3C trace context of the run's creator.
    pub traceparent: Option<String>,
    /// May be unknown to this program.
    pub handler_type: String,
    pub handler_config: serde_json::Value,
    /// Time-out of the attempt.
    pub timeout: Duration,
    /// Retry policy of the job or its function; `None` for the installation's default.
    pub retry_policy: Option<RetryPolicy>,
    /// For handlers that need them.
    pub details: Option<Box<RunDetails>>,
    /// The claim's queue, if it has a limit: it has room again when the attempt has ended. Empty,
    /// meaning any queue, if the tenant has a quota.
    pub limited_queue: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub struct ClaimRequest<'a> {
    pub worker: WorkerId,
    pub queues: &'a [String],
    pub limit: u32,
    /// The tenant with the last turn, because the previous claim ended with it
    /// ([`ClaimOutcome::last`]). Any tenant for the first claim.
    pub last: TenantId,
    /// The lease that the first run announces, in milliseconds: of a worker that announced a longer
    /// one while it ran nothing, or recovery would wait for that. `None` renews nothing.
    pub lease_ms: Option<i32>,
}

#[derive(Debug, Clone)]
pub struct ClaimOutcome {
    /// The claimed runs, in the order in which they should start.
    pub claimed: Vec<Claimed>,
    /// Tenants (limited queues, in [`claim_limited`]) with claimable runs. If there are several and
    /// the claim got less than the limit, some had less than their share, and the rest may have
    /// more.
    pub shared_by: u32,
    /// The last tenant of this claim.
    pub last: TenantId,
    /// Whether a run waits in a queue with a limit.
    pub has_limited: bool,
    /// When a queue with an exhausted rate has room again.
    pub room_in: Option<Duration>,
    /// Time until a run that is not due yet (a retry) becomes claimable, if [`claim_unlimited`] took
    /// fewer runs than it might. A hint, which may miss some runs.
    pub next_claimable: Option<Duration>,
    /// Whether the claim renewed the lease: with a run if [`ClaimRequest::lease_ms`] requests it, else
    /// only if the latest renewal is a quarter of that lease ago.
    pub is_renewed: bool,
}

/// One row of the result. The columns of a run are NULL in the row that represents no run.
#[derive(Queryable)]
struct Row {
    claim_id: Option<i64>,
    dispatch_id: Option<DispatchId>,
    tenant_id: Option<TenantId>,
    job_id: Option<JobId>,
    project_id: Option<ProjectId>,
    is_apart: Option<bool>,
    job_name: Option<String>,
    token: Option<ClaimToken>,
    attempt: Option<i32>,
    retry_count: Option<i32>,
    lost_count: Option<i32>,
    scheduled_for: Option<DateTime<Utc>>,
    created_at: Option<DateTime<Utc>>,
    available_at: Option<DateTime<Utc>>,
    claimed_at: Option<DateTime<Utc>>,
    triggered_by: Option<Trigger>,
    is_catch_up: Option<bool>,
    args: Option<serde_json::Value>,
    traceparent: Option<String>,
    handler_type: Option<String>,
    handler_config: Option<serde_json::Value>,
    timeout_seconds: Option<i32>,
    retry_policy: Option<serde_json::Value>,
    details: Option<serde_json::Value>,
    limited_queue: Option<String>,
    shared_by: i64,
    last: Option<Uuid>,
    has_limited: bool,
    room_in_ms: Option<i64>,
    next_claimable_ms: Option<i64>,
    is_renewed: bool,
}

#[rustfmt::skip]
type Columns = (
    Nullable<BigInt>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<Bool>, Nullable<Text>, Nullable<BigInt>,
    Nullable<Int4>, Nullable<Int4>, Nullable<Int4>,
    Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<Text>, Nullable<Bool>,
    Nullable<Jsonb>, Nullable<Text>, Nullable<Text>, Nullable<Jsonb>, Nullable<Int4>, Nullable<Jsonb>, Nullable<Jsonb>,
    Nullable<Text>, BigInt, Nullable<SqlUuid>, Bool, Nullable<BigInt>, Nullable<BigInt>, Bool,
);

statement! {
    Claim<'a> = "claims/claim.sql" before "claims/claim_end.sql", (
        worker: WorkerId as SqlUuid,
        limit: i64 as BigInt,
        queues: &'a [String] as Array<Text>,
        last: TenantId as SqlUuid,
        lease_ms: Option<i32> as Nullable<Int4>,
    ) -> Columns
}

statement! {
    ClaimLone<'a> = "claims/claim_lone.sql" before "claims/claim_end.sql", (
        worker: WorkerId as SqlUuid,
        queues: &'a [String] as Array<Text>,
        lease_ms: Option<i32> as Nullable<Int4>,
    ) -> Columns
}

statement! {
    LimitedWaiting<'a> = "claims/claims_limited_waiting.sql", (queues: &'a [String] as Array<Text>) -> (SqlUuid, Text, Bool)
}

statement! {
    LimitedRows<'a> = "claims/claims_limited_rows.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        queues: &'a [String] as Array<Text>,
    ) -> SqlUuid
}

statement! {
    LockLimited<'a> = "claims/claims_limited_lock.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        queues: &'a [String] as Array<Text>,
    ) -> (SqlUuid, Text)
}

statement! {
    LockTenants<'a> = "claims/claims_limited_tenants.sql", (tenants: &'a [Uuid] as Array<SqlUuid>) -> SqlUuid
}

statement! {
    LockTenant = "claims/claims_limited_tenant.sql", (tenant: Uuid as SqlUuid) -> Bool
}

statement! {
    ClaimLimited<'a> = "claims/claim_limited.sql" before "claims/claim_end.sql", (
        worker: WorkerId as SqlUuid,
        limit: i64 as BigInt,
        tenants: &'a [Uuid] as Array<SqlUuid>,
        queues: &'a [String] as Array<Text>,
        lease_ms: Option<i32> as Nullable<Int4>,
    ) -> Columns
}

/// Claims runs, except from queues with limits. A worker that lost its lease claims nothing.
///
/// Claims of a queue take turns: they run one after another, each with all queues of its request.
///
/// # Errors
/// If the connection broke, or after another error, the claim may have taken effect. The worker keeps its lease, so
/// recovery does not find these runs until the worker reports them: call
/// [`crate::recovery::dead_workers::unknown_claims`].
pub async fn claim_unlimited(conn: &mut Conn, request: &ClaimRequest<'_>) -> DbResult<ClaimOutcome> {
    let &ClaimRequest { worker, queues, limit, last, lease_ms } = request;
    let claim = || Claim { worker, limit: limit.into(), queues, last, lease_ms };
    if let Some(rows) = claim_in_turn(conn, claim()).await? {
        return Ok(claim_outcome(rows, last));
    }
    tracing::debug!(?queues, "no turn in time; claiming without one");
    let rows = claim().load(conn).await;
    Ok(claim_outcome(leave_read_only_on_error(conn, rows)?, last))
}

/// `None` if the turn did not come in time.
async fn claim_in_turn(conn: &mut Conn, claim: Claim<'_>) -> DbResult<Option<Vec<Row>>> {
    let begin = turn::begin(claim.queues);
    let pipelined = Pipelined::new(conn);
    let mut shared = pipelined.conn();
    let (done, is_late) = match pipelined.begin_with(&begin, claim.load(&mut shared)).await {
        Ok(rows) => (rows, false),
        Err(error) => {
            let is_late = matches!(error, DbError::TimedOut(_));
            (Err(error), is_late)
        }
    };
    match pipelined.end(done).await {
        Err(_) if is_late => Ok(None),
        done => done.map(Some),
    }
}

/// Claims the run that is alone in `queues`, if exactly one waits there.
///
/// For an idle worker that received a notification. It takes a fraction of the time of [`claim_unlimited`],
/// which must follow, because the result does not show whether more runs wait. It takes only a run
/// that [`claim_unlimited`] would take. If another run waits, even one that is not due yet, it takes nothing.
/// `lease_ms` is as in [`ClaimRequest`].
pub async fn claim_lone(
    conn: &mut Conn,
    worker: WorkerId,
    queues: &[String],
    lease_ms: Option<i32>,
) -> DbResult<ClaimOutcome> {
    let rows = ClaimLone { worker, queues, lease_ms }.load(conn).await;
    Ok(claim_outcome(leave_read_only_on_error(conn, rows)?, TenantId(Uuid::max())))
}

fn leave_read_only_on_error(conn: &mut Conn, rows: QueryResult<Vec<Row>>) -> DbResult<Vec<Row>> {
    rows.map_err(|error| {
        let error = DbError::from(error);
        transaction::leave_read_only(conn, &error);
        error
    })
}

/// Claims runs from queues with limits, as many as the limits allow.
///
/// Claims of all workers from such a queue run one after another: each locks the row that counts
/// the queue's rate, and only then counts the running runs. If a tenant has a quota of running
/// runs, all its queues share that limit, and claims of this tenant run one after another too. A
/// claim skips tenants that another claim has locked.
///
/// # Errors
/// As [`claim_unlimited`].
pub async fn claim_limited(conn: &mut Conn, request: &ClaimRequest<'_>) -> DbResult<ClaimOutcome> {
    let &ClaimRequest { worker, queues, limit, last, lease_ms } = request;
    let rows = transact(conn, "claim_limited", async |conn: &mut Conn| {
        let waiting: Vec<(Uuid, String, bool)> = LimitedWaiting { queues }.load(conn).await?;
        let free = lock_tenants(conn, &waiting).await?;
        let lanes = waiting.into_iter().filter(|(tenant, _, has_quota)| !has_quota || free.contains(tenant));
        let lanes: Vec<(Uuid, String)> = lanes.map(|(tenant, queue, _)| (tenant, queue)).collect();
        let (tenants, queues) = lock_queues(conn, lanes).await?;
        if queues.is_empty() {
            return Ok::<Vec<Row>, DbError>(Vec::new());
        }
        Ok(ClaimLimited { worker, limit: limit.into(), tenants: &tenants, queues: &queues, lease_ms }
            .load(conn)
            .await?)
    })
    .await?;
    Ok(claim_outcome(rows, last))
}

/// Locks the tenants with a quota that no other claim has locked. Waits for one of them if there is
/// no other work.
async fn lock_tenants(conn: &mut Conn, waiting: &[(Uuid, String, bool)]) -> DbResult<Vec<Uuid>> {
    let with_quota = waiting.iter().filter(|(_, _, has_quota)| *has_quota).map(|(tenant, _, _)| *tenant);
    let tenants: Vec<Uuid> = with_quota.collect::<BTreeSet<_>>().into_iter().collect();
    let Some(first) = <[Uuid]>::first(&tenants).copied() else { return Ok(Vec::new()) };
    let free: Vec<Uuid> = LockTenants { tenants: &tenants }.load(conn).await?;
    if !free.is_empty() || waiting.iter().any(|(_, _, has_quota)| !has_quota) {
        return Ok(free);
    }
    LockTenant { tenant: first }.execute(conn).await?;
    Ok(vec![first])
}

/// Locks the rows of queues, and inserts missing rows.
async fn lock_queues(conn: &mut Conn, lanes: Vec<(Uuid, String)>) -> DbResult<(Vec<Uuid>, Vec<String>)> {
    let count = lanes.len();
    let (tenants, queues): (Vec<Uuid>, Vec<String>) = lanes.into_iter().unzip();
    if count == 0 {
        return Ok((tenants, queues));
    }
    let mut locked: Vec<(Uuid, String)> =
        LockLimited { tenants: &tenants, queues: &queues }.load(conn).await?;
    if locked.len() < count {
        LimitedRows { tenants: &tenants, queues: &queues }.execute(conn).await?;
        locked = LockLimited { tenants: &tenants, queues: &queues }.load(conn).await?;
    }
    Ok(locked.into_iter().unzip())
}

/// [`claim_unlimited`] for a single claim: returns up to `limit` claimed runs of `queues`.
pub async fn claim(
    conn: &mut Conn,
    worker: WorkerId,
    queues: &[String],
    limit: u32,
) -> DbResult<Vec<Claimed>> {
    let last = TenantId(Uuid::max());
    Ok(claim_unlimited(conn, &ClaimRequest { worker, queues, limit, last, lease_ms: None }).await?.claimed)
}

fn claim_outcome(rows: Vec<Row>, last: TenantId) -> ClaimOutcome {
    let wait = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    let first = <[Row]>::first(&rows);
    ClaimOutcome {
        shared_by: first.map_or(0, |row| u32::try_from(row.shared_by).unwrap_or(0)),
        last: first.and_then(|row| row.last).map_or(last, TenantId),
        has_limited: first.is_some_and(|row| row.has_limited),
        room_in: first.and_then(|row| row.room_in_ms).map(wait),
        next_claimable: first.and_then(|row| row.next_claimable_ms).map(wait),
        is_renewed: first.is_some_and(|row| row.is_renewed),
        claimed: rows.into_iter().filter_map(Row::into_claimed).collect(),
    }
}

impl Row {
    fn into_claimed(self) -> Option<Claimed> {
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        let job_name = self.job_name?;
        Some(Claimed {
            retry_policy: stored_policy(self.retry_policy, || format!("retry_policy of job {job_name}")),
            claim_id: self.claim_id?,
            dispatch_id: self.dispatch_id?,
            tenant_id: self.tenant_id?,
            job_id: self.job_id?,
            job: Arc::new(JobColumns {
                name: job_name,
                project_id: self.project_id,
                is_apart: self.is_apart?,
            }),
            token: self.token?,
            attempt: count(self.attempt?),
            failures: Failures { retried: count(self.retry_count?), lost: count(self.lost_count?) },
            scheduled_for: self.scheduled_for?,
            created_at: self.created_at?,
            available_at: self.available_at?,
            claimed_at: self.claimed_at?,
            triggered_by: self.triggered_by?,
            is_catch_up: self.is_catch_up?,
            args: self.args?,
            traceparent: self.traceparent,
            handler_type: self.handler_type?,
            handler_config: self.handler_config?,
            timeout: job::seconds(self.timeout_seconds?),
            details: details::read(self.details),
            limited_queue: self.limited_queue,
        })
    }
}
