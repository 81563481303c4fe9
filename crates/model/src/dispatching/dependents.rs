//! Ends of jobs after which others run, from where they are told to the dispatches they make.
//!
//! Who closes a dispatch of a job that has dependents writes a row into `job_ends` in the same transaction (`attempts_end.sql`). The
//! leader takes rows from there, locks the dependents, lets [`follow`](fn@sched_domain::dependency::follow) decide, makes the
//! dispatches, and removes the rows, all in one fenced transaction: a leader that dies in between has done nothing, and the next one
//! finds the same rows. Two leaders at once take different rows; and each dispatch carries the dispatch that made it in its key, so that
//! an end that is told twice makes no second one. A dependent that may not run has its skip recorded instead.

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
use super::insert;
use super::room::{Instances, InstancesColumns};
use crate::schema::{job_dispatch, job_ends};
use crate::{Conn, DbResult};
use sched_domain::dependency::{AfterCondition, AfterMode, Edge};
use sched_domain::dispatch::{DispatchStatus, Trigger};
use sched_domain::ids::{DispatchId, InstanceId, JobId, TenantId, Term};
use sched_domain::trace::TraceContext;
use sched_timetable::SkipReason;

/// What one batch may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most ends.
    pub ends: i64,
    /// Roughly how many dependents of them in all; the first end is taken with all of its own.
    pub dependents: i64,
}

/// What a batch did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Followed {
    /// Ends that were taken and are done with.
    pub ends: usize,
    /// Dispatches created.
    pub dispatched: usize,
    /// Why dependents were not dispatched, one entry for each time.
    pub skipped: Vec<SkipReason>,
    /// Queues that workers should look at after the commit.
    pub queues: BTreeSet<String>,
}

/// Whether any end waits to be seen to. One statement, and no transaction of its own.
///
/// # Errors
/// When the database cannot be asked.
pub async fn any(conn: &mut Conn) -> DbResult<bool> {
    let first: Option<i64> =
        job_ends::table.order(job_ends::id).select(job_ends::id).first(conn).await.optional()?;
    Ok(first.is_some())
}

/// Takes the oldest ends and runs what is to run after them, in a transaction that was fenced at `now`.
///
/// # Errors
/// When the database cannot be asked.
pub async fn run_dependents(
    conn: &mut Conn,
    instance: InstanceId,
    term: Term,
    now: DateTime<Utc>,
    limits: Limits,
) -> DbResult<Followed> {
    let ends: Vec<ToldEnd> = Take { limit: limits.ends, dependents: limits.dependents }.load(conn).await?;
    if ends.is_empty() {
        return Ok(Followed::default());
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
    Ok(Followed {
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

/// A row of the queue, locked.
#[derive(Debug, Queryable)]
struct ToldEnd {
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
        SqlUuid, SqlUuid, Text, Jsonb, Text, Int2, Nullable<Int4>, InstancesColumns, Nullable<Text>, Bool, Bool, Bool,
    )
}

/// A job that runs after others, locked, with what decides about its dispatches.
#[derive(Debug, Queryable)]
struct Dependent {
    tenant_id: TenantId,
    id: JobId,
    mode: AfterMode,
    args: serde_json::Value,
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

/// The trace of each run after which others run. A run without one has its own trace.
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
