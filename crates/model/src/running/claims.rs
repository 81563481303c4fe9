//! Claiming: how a worker takes waiting dispatches.
//!
//! One statement takes up to the free slots of the worker from all its queues, skipping what others are about to take, and gives each
//! dispatch a token that no claim ever had. It is fair between tenants: each that has due work gets an equal share of the slots, whatever
//! the length of its line, and within the share the best priority comes first. Where there are more tenants than slots, the claims
//! go round: each begins where the last one of the same worker ended. It reads the waiting line through its
//! partial index, so its cost does not grow with history. It also notes the claim in `worker_claims`, in the same
//! commit: that is how the work of a lost worker is found without an index on running rows. Queues with limits are left to
//! [`claim_limited`], so that only they pay for them; so are all queues of tenants with a quota of what runs. A worker that is idle and
//! hears of something tries [`claim_lone`] first, which is small.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use uuid::Uuid;

use crate::definitions::functions::stored_policy;
use crate::{Conn, DbError, DbResult, connection::transaction, transact};
use sched_domain::attempt::Failures;
use sched_domain::dispatch::Trigger;
use sched_domain::ids::{ClaimToken, DispatchId, JobId, TenantId, WorkerId};
use sched_domain::job;
use sched_domain::retry::RetryPolicy;

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
    /// The queue it was claimed from, if that has a limit: room for others when the attempt has ended. Empty for any queue, if its tenant
    /// has a quota.
    pub limited_queue: Option<String>,
}

/// What a worker wants.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The worker.
    pub worker: WorkerId,
    /// From which queues.
    pub queues: &'a [String],
    /// How many at most.
    pub limit: u32,
    /// The tenant whose turn it is least, because the last claim ended with it; [`Looked::last`]. Any, at first.
    pub last: TenantId,
}

/// What a claim got and saw.
#[derive(Debug, Clone)]
pub struct Looked {
    /// What was claimed, in the order in which it should start.
    pub claimed: Vec<Claimed>,
    /// How many tenants (limited queues, in [`claim_limited`]) something was claimable of. If there are several and less was claimed
    /// than wanted, some had less than their share, and others may have more.
    pub shared_by: u32,
    /// The tenant with which it ended.
    pub last: TenantId,
    /// Whether something waits in a queue with a limit.
    pub has_limited: bool,
    /// When a queue whose rate is exhausted has room again.
    pub room_in: Option<Duration>,
}

/// One row of the answer. What belongs to a dispatch is missing in the row that stands for none.
#[derive(Queryable)]
struct Row {
    claim_id: Option<i64>,
    dispatch_id: Option<DispatchId>,
    tenant_id: Option<TenantId>,
    job_id: Option<JobId>,
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
    limited_queue: Option<String>,
    shared_by: i64,
    last: Option<Uuid>,
    has_limited: bool,
    room_in_ms: Option<i64>,
}

#[rustfmt::skip]
type Columns = (
    Nullable<BigInt>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<SqlUuid>, Nullable<Text>, Nullable<BigInt>,
    Nullable<Int4>, Nullable<Int4>, Nullable<Int4>,
    Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<Text>, Nullable<Bool>,
    Nullable<Jsonb>, Nullable<Text>, Nullable<Text>, Nullable<Jsonb>, Nullable<Int4>, Nullable<Jsonb>, Nullable<Text>,
    BigInt, Nullable<SqlUuid>, Bool, Nullable<BigInt>,
);

statement! {
    /// The claim.
    Claim<'a> = "claims/claim.sql", (
        worker: WorkerId as SqlUuid,
        limit: i64 as BigInt,
        queues: &'a [String] as Array<Text>,
        last: TenantId as SqlUuid,
    ) -> Columns
}

statement! {
    /// The claim of one.
    ClaimLone<'a> = "claims/claim_lone.sql", (
        worker: WorkerId as SqlUuid,
        queues: &'a [String] as Array<Text>,
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
    /// The claim from queues that are locked.
    ClaimLimited<'a> = "claims/claim_limited.sql", (
        worker: WorkerId as SqlUuid,
        limit: i64 as BigInt,
        tenants: &'a [Uuid] as Array<SqlUuid>,
        queues: &'a [String] as Array<Text>,
    ) -> Columns
}

/// Claims dispatches, but none from queues that have limits. A worker whose lease was lost claims nothing.
///
/// # Errors
/// When the database cannot be asked. If the connection broke, the claim may have taken effect: the worker keeps its
/// lease and the dispatches are recovered by [`crate::recovery::dead_workers`] once it knows of them, so the caller asks
/// [`crate::recovery::dead_workers::unknown_claims`].
pub async fn look(conn: &mut Conn, wanted: &Wanted<'_>) -> DbResult<Looked> {
    let &Wanted { worker, queues, limit, last } = wanted;
    let rows = Claim { worker, limit: limit.into(), queues, last }.load(conn).await;
    Ok(looked(answered(conn, rows)?, last))
}

/// Claims the one dispatch that stands alone in the lines of `queues`, if one does.
///
/// For a worker that has nothing to do and was told that something waits: in a fraction of the time of [`look`], which must follow, because
/// nothing is said of what else there is. It takes only what [`look`] would have taken. Where anything else waits, were it for its time, it takes nothing.
///
/// # Errors
/// As [`look`].
pub async fn claim_lone(conn: &mut Conn, worker: WorkerId, queues: &[String]) -> DbResult<Option<Claimed>> {
    let rows = ClaimLone { worker, queues }.load(conn).await;
    Ok(answered(conn, rows)?.pop().and_then(Row::into_claimed))
}

fn answered(conn: &mut Conn, rows: QueryResult<Vec<Row>>) -> DbResult<Vec<Row>> {
    rows.map_err(|error| {
        let error = DbError::from(error);
        transaction::leave_read_only(conn, &error);
        error
    })
}

/// Claims dispatches from queues that have limits, as many as those leave room for.
///
/// The claims of all workers from such a queue come one after the other: each locks the row that counts the queue's rate, and only
/// then looks what runs. Where a tenant has a quota of what runs, all its queues have that limit together, and claims of it come one after
/// the other, too; those of which somebody claims already are left to them.
///
/// # Errors
/// As [`look`].
pub async fn claim_limited(conn: &mut Conn, wanted: &Wanted<'_>) -> DbResult<Looked> {
    let &Wanted { worker, queues, limit, last } = wanted;
    let rows = transact(conn, "claim_limited", async |conn: &mut Conn| {
        let waiting: Vec<(Uuid, String, bool)> = LimitedWaiting { queues }.load(conn).await?;
        let free = lock_tenants(conn, &waiting).await?;
        let lanes = waiting.into_iter().filter(|(tenant, _, has_quota)| !has_quota || free.contains(tenant));
        let lanes: Vec<(Uuid, String)> = lanes.map(|(tenant, queue, _)| (tenant, queue)).collect();
        let (tenants, queues) = lock_queues(conn, lanes).await?;
        if queues.is_empty() {
            return Ok::<Vec<Row>, DbError>(Vec::new());
        }
        Ok(ClaimLimited { worker, limit: limit.into(), tenants: &tenants, queues: &queues }
            .load(conn)
            .await?)
    })
    .await?;
    Ok(looked(rows, last))
}

/// Locks what may run of tenants with a quota, as far as nobody has; waits for one of them if there is nothing else to be had.
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

/// Locks the rows of queues, and makes those that are missing.
async fn lock_queues(conn: &mut Conn, lanes: Vec<(Uuid, String)>) -> DbResult<(Vec<Uuid>, Vec<String>)> {
    let wanted = lanes.len();
    let (tenants, queues): (Vec<Uuid>, Vec<String>) = lanes.into_iter().unzip();
    if wanted == 0 {
        return Ok((tenants, queues));
    }
    let mut locked: Vec<(Uuid, String)> =
        LockLimited { tenants: &tenants, queues: &queues }.load(conn).await?;
    if locked.len() < wanted {
        LimitedRows { tenants: &tenants, queues: &queues }.execute(conn).await?;
        locked = LockLimited { tenants: &tenants, queues: &queues }.load(conn).await?;
    }
    Ok(locked.into_iter().unzip())
}

/// [`look`] for one that claims once: what was claimed of up to `limit` in `queues`.
///
/// # Errors
/// As [`look`].
pub async fn claim(
    conn: &mut Conn,
    worker: WorkerId,
    queues: &[String],
    limit: u32,
) -> DbResult<Vec<Claimed>> {
    let last = TenantId(Uuid::max());
    Ok(look(conn, &Wanted { worker, queues, limit, last }).await?.claimed)
}

fn looked(rows: Vec<Row>, last: TenantId) -> Looked {
    let (shared_by, last, has_limited, room_in) =
        <[Row]>::first(&rows).map_or((0, last, false, None), |row| {
            let room_in = row.room_in_ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
            (row.shared_by, row.last.map_or(last, TenantId), row.has_limited, room_in)
        });
    Looked {
        claimed: rows.into_iter().filter_map(Row::into_claimed).collect(),
        shared_by: u32::try_from(shared_by).unwrap_or(0),
        last,
        has_limited,
        room_in,
    }
}

statement! {
    NextClaimable<'a> = "claims/claims_next_claimable.sql", (queues: &'a [String] as Array<Text>) -> Nullable<BigInt>
}

/// How long until something that waits in `queues` for its time (a retry) may be claimed; a hint, which may miss some.
pub async fn next_claimable(conn: &mut Conn, queues: &[String]) -> DbResult<Option<Duration>> {
    let milliseconds: Option<i64> = NextClaimable { queues }.get_result(conn).await?;
    Ok(milliseconds.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))))
}

impl Row {
    /// The dispatch, unless the row stands for none.
    fn into_claimed(self) -> Option<Claimed> {
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        let job_name = self.job_name?;
        Some(Claimed {
            retry_policy: stored_policy(self.retry_policy, || format!("retry_policy of job {job_name}")),
            claim_id: self.claim_id?,
            dispatch_id: self.dispatch_id?,
            tenant_id: self.tenant_id?,
            job_id: self.job_id?,
            job_name,
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
            limited_queue: self.limited_queue,
        })
    }
}
