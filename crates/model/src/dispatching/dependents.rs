//! Ends of jobs after which other jobs run, from the recorded end to the runs that it causes.
//!
//! A transaction that closes a run of a job with dependents inserts a row into `job_ends`
//! (`attempts_end.sql`). The leader takes rows and locks the dependents.
//! [`follow`](fn@sched_domain::dependency::follow) decides; the leader creates the runs and deletes
//! the rows. A dependent that may not run gets a recorded skip.
//!
//! # Crashes and races
//! All of this is one fenced transaction. A leader that dies before the commit has done nothing,
//! and the next one finds the same rows. Two leaders at the same time take different rows. The key
//! of each run contains the run that caused it, so an end that is reported twice creates no second
//! run.

mod plan;
mod write;

use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{
    Array, BigInt, Bool, Int2, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use self::plan::{EdgesByJob, Plan};
use super::room::{Instances, InstancesColumns};
use super::{insert, tick};
use crate::schema::{job_dispatch, job_ends};
use crate::{Conn, DbResult};
use sched_domain::dependency::{AfterCondition, AfterMode, Edge};
use sched_domain::ids::{DispatchId, InstanceId, JobId, TenantId, Term};
use sched_domain::run_state::{DispatchStatus, Trigger};
use sched_domain::trace::TraceContext;
use sched_timetable::SkipReason;

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub ends: i64,
    /// Approximate total of their dependents; the first end is taken with all of its dependents.
    pub dependents: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DependentsResult {
    pub ends: usize,
    pub dispatched: usize,
    /// The reasons of skipped dependents, one entry for each skip.
    pub skipped: Vec<SkipReason>,
    /// Queues that workers should check after the commit.
    pub queues: BTreeSet<String>,
}

/// Returns whether any end waits. One statement, without its own transaction.
pub async fn any(conn: &mut Conn) -> DbResult<bool> {
    let first: Option<i64> =
        job_ends::table.order(job_ends::id).select(job_ends::id).first(conn).await.optional()?;
    Ok(first.is_some())
}

/// Fences the transaction, takes the oldest ends and creates the runs of their dependents.
///
/// # Errors
/// [`DbError::TermOver`](crate::DbError::TermOver) if the instance does not lead with this term.
pub async fn run_dependents(
    conn: &mut Conn,
    instance: InstanceId,
    term: Term,
    limits: Limits,
) -> DbResult<DependentsResult> {
    let now = tick::fence(conn, instance, term).await?;
    let ends: Vec<JobEnd> = Take { limit: limits.ends, dependents: limits.dependents }.load(conn).await?;
    if ends.is_empty() {
        return Ok(DependentsResult::default());
    }
    let tenants: Vec<Uuid> = ends.iter().map(|end| end.tenant_id.0).collect();
    let jobs: Vec<Uuid> = ends.iter().map(|end| end.job_id.0).collect();
    let dependents: Vec<Dependent> = LockDependents { tenants: &tenants, jobs: &jobs }.load(conn).await?;
    let plan = if dependents.is_empty() {
        Plan::default()
    } else {
        let edges = edges_of(conn, &dependents).await?;
        Plan::of(&ends, dependents, edges, now)
    };
    let traces = traces_of(conn, &plan.dispatches).await?;
    let new = write::with_traces(&plan.dispatches, &traces);
    let created = insert::insert(conn, Some((instance, term)), Trigger::Dependency, &new).await?;
    write::skip(conn, term, &plan.skips).await?;
    write::mark(conn, &plan.marks).await?;
    diesel::delete(job_ends::table.filter(job_ends::id.eq_any(ends.iter().map(|end| end.id))))
        .execute(conn)
        .await?;
    Ok(DependentsResult {
        ends: ends.len(),
        dispatched: created.len(),
        skipped: plan.skips.iter().map(|skip| skip.reason).collect(),
        queues: created.iter().filter(|new| !new.is_queued).map(|new| new.queue.clone()).collect(),
    })
}

statement! {
    Take = "dependents/job_ends_take.sql", (limit: i64 as BigInt, dependents: i64 as BigInt)
        -> (BigInt, SqlUuid, SqlUuid, Text, SqlUuid, Text, Timestamptz)
}

#[derive(Debug, Queryable)]
struct JobEnd {
    id: i64,
    tenant_id: TenantId,
    job_id: JobId,
    job_name: String,
    dispatch_id: DispatchId,
    status: DispatchStatus,
    ended_at: DateTime<Utc>,
}

statement! {
    LockDependents<'a> = "dependents/job_ends_lock_dependents.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
    ) -> (
        SqlUuid, SqlUuid, Text, BigInt, Nullable<Jsonb>, Text, Int2, Nullable<Int4>, InstancesColumns, Nullable<Text>, Bool, Bool, Bool,
    )
}

/// A locked dependent, with everything that decides its runs.
#[derive(Debug, Queryable)]
struct Dependent {
    tenant_id: TenantId,
    id: JobId,
    mode: AfterMode,
    version: i64,
    /// `None` if its version is stored, with the arguments.
    args: Option<serde_json::Value>,
    queue: String,
    priority: i16,
    start_within_seconds: Option<i32>,
    instances: Instances,
    paused_by: Option<SkipReason>,
    is_enabled: bool,
    is_function_active: bool,
    is_deleted: bool,
}

statement! {
    Edges<'a> = "dependents/job_ends_edges.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
    ) -> (SqlUuid, SqlUuid, SqlUuid, Text, Timestamptz, Nullable<SqlUuid>, Nullable<Timestamptz>)
}

async fn edges_of(conn: &mut Conn, dependents: &[Dependent]) -> DbResult<EdgesByJob> {
    type Row =
        (TenantId, JobId, JobId, AfterCondition, DateTime<Utc>, Option<DispatchId>, Option<DateTime<Utc>>);
    let tenants: Vec<Uuid> = dependents.iter().map(|dependent| dependent.tenant_id.0).collect();
    let jobs: Vec<Uuid> = dependents.iter().map(|dependent| dependent.id.0).collect();
    let rows: Vec<Row> = Edges { tenants: &tenants, jobs: &jobs }.load(conn).await?;
    let mut edges = EdgesByJob::new();
    for (tenant, job, after, on, since, met_by, met_at) in rows {
        edges.entry((tenant, job)).or_default().push(Edge { after, on, since, met_by, met_at });
    }
    Ok(edges)
}

/// The traces of upstream runs. A run without one has its own trace.
async fn traces_of(conn: &mut Conn, new: &[plan::Dispatch]) -> DbResult<HashMap<DispatchId, String>> {
    if new.is_empty() {
        return Ok(HashMap::new());
    }
    let ended: BTreeSet<DispatchId> = new.iter().map(|new| new.run.by).collect();
    let found: Vec<(DispatchId, Option<String>)> = job_dispatch::table
        .filter(job_dispatch::id.eq_any(ended.iter().copied().collect::<Vec<_>>()))
        .select((job_dispatch::id, job_dispatch::traceparent))
        .load(conn)
        .await?;
    let mut found: HashMap<DispatchId, Option<String>> = found.into_iter().collect();
    let trace = |id: DispatchId| {
        let kept = found.remove(&id).flatten();
        (id, kept.unwrap_or_else(|| TraceContext::of_dispatch(id, None).to_string()))
    };
    Ok(ended.into_iter().map(trace).collect())
}
