//! Retries of finished runs.
//!
//! The state of a finished run never changes, so a retry is a new run. It has the fire time and the
//! arguments of its run, and the queue, priority, function and policy that its job has now. The
//! unique key allows one retry per run, and a retry never takes the place of a fire. A repeated
//! command returns the same retry, which can itself be retried.
//!
//! Call each function in a transaction. A process that dies before the commit has created nothing.

use std::borrow::Cow;
use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{
    Array, BigInt, Bool, Int4, Jsonb, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::insert::{self, NewDispatch, Origin};
use super::room::{Instances, InstancesColumns, Rooms};
use crate::schema::{dead_letters, job_dispatch, scheduled_jobs, task_functions};
use crate::{Conn, DbResult};
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId, time_ordered};
use sched_domain::run_state::{DispatchStatus, Trigger};

#[derive(Debug, Clone, Copy)]
pub struct RetryOrder<'a> {
    pub tenant: TenantId,
    pub by: &'a str,
    /// W3C trace context instead of that of the runs.
    pub traceparent: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct Retry {
    /// The finished run.
    pub of: DispatchId,
    /// The new run.
    pub dispatch_id: DispatchId,
    pub job_id: JobId,
    pub queue: String,
}

/// The reason for which no run of a job can be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobBar {
    Deleted,
    Disabled,
    FunctionInactive,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetriedJob {
    pub project_id: Option<ProjectId>,
    pub name: String,
    pub bar: Option<JobBar>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retried {
    Created(Retry, RetriedJob),
    /// The run was retried before, by this run.
    Duplicate(DispatchId),
    NotFinished(DispatchStatus),
    Succeeded,
    Barred(JobBar, RetriedJob),
    NoSuchDispatch,
}

/// Retries a finished run. Call it in a transaction that holds no lock on a job yet, and call
/// [`crate::connection::notify::dispatches_waiting`] afterwards.
pub async fn retry(conn: &mut Conn, order: &RetryOrder<'_>, id: DispatchId) -> DbResult<Retried> {
    use job_dispatch as d;
    let dispatch = || d::table.find(id).filter(d::tenant_id.eq(order.tenant));
    let job: Option<JobId> = dispatch().select(d::job_id).get_result(conn).await.optional()?;
    let Some(job) = job else { return Ok(Retried::NoSuchDispatch) };
    let Some((_, locked)) = lock_jobs(conn, order.tenant, &BTreeSet::from([job])).await?.pop() else {
        return Ok(Retried::NoSuchDispatch);
    };
    let found = dispatch().select((d::status, d::scheduled_for)).get_result(conn).await.optional()?;
    let Some((status, scheduled_for)): Option<(DispatchStatus, chrono::DateTime<chrono::Utc>)> = found else {
        return Ok(Retried::NoSuchDispatch);
    };
    match status {
        DispatchStatus::Pending | DispatchStatus::InProgress => return Ok(Retried::NotFinished(status)),
        DispatchStatus::Completed => return Ok(Retried::Succeeded),
        DispatchStatus::Failed
        | DispatchStatus::Timeout
        | DispatchStatus::Cancelled
        | DispatchStatus::DeadLetter => {}
    }
    let earlier = d::table
        .filter(d::job_id.eq(job))
        .filter(d::scheduled_for.eq(scheduled_for))
        .filter(d::retry_of.eq(id))
        .select(d::id);
    if let Some(earlier) = earlier.get_result(conn).await.optional()? {
        return Ok(Retried::Duplicate(earlier));
    }
    // A dead letter is kept for longer than its retry.
    let gone = dead_letters::table
        .find((order.tenant, id))
        .select(dead_letters::retried_as)
        .get_result::<Option<DispatchId>>(conn);
    if let Some(earlier) = gone.await.optional()?.flatten() {
        return Ok(Retried::Duplicate(earlier));
    }
    if let Some(bar) = locked.bar {
        return Ok(Retried::Barred(bar, locked));
    }
    let created = create(conn, order, &[id]).await?.pop();
    Ok(created.map_or(Retried::NoSuchDispatch, |created| Retried::Created(created, locked)))
}

/// Locks jobs of the tenant in the order of their ids; returns the existing ones, with deleted
/// ones.
pub(crate) async fn lock_jobs(
    conn: &mut Conn,
    tenant: TenantId,
    jobs: &BTreeSet<JobId>,
) -> DbResult<Vec<(JobId, RetriedJob)>> {
    use {scheduled_jobs as j, task_functions as f};
    let mine = j::tenant_id.eq(tenant).and(j::id.eq_any(jobs.iter().copied().collect::<Vec<_>>()));
    let locked: Vec<JobId> =
        j::table.filter(mine).select(j::id).order(j::id).for_no_key_update().load(conn).await?;
    // A separate statement: functions are read and not locked.
    let rows: Vec<(JobId, Option<ProjectId>, String, bool, bool, bool)> = j::table
        .inner_join(f::table.on(f::tenant_id.eq(j::tenant_id).and(f::id.eq(j::task_function_id))))
        .filter(j::tenant_id.eq(tenant).and(j::id.eq_any(locked)))
        .select((j::id, j::project_id, j::name, j::deleted_at.is_not_null(), j::is_enabled, f::is_active))
        .load(conn)
        .await?;
    let jobs = rows.into_iter().map(|(id, project_id, name, is_deleted, is_enabled, is_active)| {
        let bar = match (is_deleted, is_enabled, is_active) {
            (true, _, _) => Some(JobBar::Deleted),
            (false, false, _) => Some(JobBar::Disabled),
            (false, true, false) => Some(JobBar::FunctionInactive),
            (false, true, true) => None,
        };
        (id, RetriedJob { project_id, name, bar })
    });
    Ok(jobs.collect())
}

statement! {
    Sources<'a> = "retries/retry_sources.sql", (
        tenant: TenantId as SqlUuid,
        ids: &'a [DispatchId] as Array<SqlUuid>,
    ) -> (
        SqlUuid, SqlUuid, SqlUuid, Timestamptz, BigInt, Nullable<Jsonb>, Bool, Nullable<Text>, Text, SmallInt, Nullable<Int4>, InstancesColumns, Timestamptz,
    )
}

#[derive(Queryable)]
struct Source {
    id: DispatchId,
    /// Part of the unique key. It is the same for every retry of the run.
    key: Uuid,
    job_id: JobId,
    scheduled_for: DateTime<Utc>,
    job_version: i64,
    /// `None` if they are those of that version.
    args: Option<serde_json::Value>,
    is_catch_up: bool,
    traceparent: Option<String>,
    queue: String,
    priority: i16,
    start_within_seconds: Option<i32>,
    instances: Instances,
    now: DateTime<Utc>,
}

statement! {
    SettleLetters<'a> = "retries/retry_settle.sql", (
        tenant: TenantId as SqlUuid,
        by: &'a str as Text,
        at: DateTime<Utc> as Timestamptz,
        ids: &'a [DispatchId] as Array<SqlUuid>,
        retries: &'a [DispatchId] as Array<SqlUuid>,
    ) -> ()
}

/// Retries those of the runs that can be and were not yet. The caller has locked their jobs.
pub(crate) async fn create(
    conn: &mut Conn,
    order: &RetryOrder<'_>,
    ids: &[DispatchId],
) -> DbResult<Vec<Retry>> {
    let RetryOrder { tenant, by, traceparent } = *order;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let select = Sources { tenant, ids };
    let sources: Vec<Source> = select.load(conn).await?;
    let mut rooms = Rooms::default();
    let new: Vec<NewDispatch<'_>> = sources
        .iter()
        .map(|source| NewDispatch {
            id: DispatchId(time_ordered(source.now)),
            tenant_id: tenant,
            job_id: source.job_id,
            scheduled_for: source.scheduled_for,
            available_at: source.now,
            is_queued: rooms.is_full_for((tenant, source.job_id), &source.instances),
            expires_at: source.start_within_seconds.map(|span| source.now + TimeDelta::seconds(span.into())),
            queue: source.queue.clone(),
            priority: source.priority,
            job_version: source.job_version,
            args: source.args.as_ref().map(Cow::Borrowed),
            is_catch_up: source.is_catch_up,
            follows: None,
            origin: Origin {
                user: Some(by),
                trigger_id: Some(source.key),
                retry_of: Some(source.id),
                traceparent: traceparent.or(source.traceparent.as_deref()),
                ..Origin::default()
            },
        })
        .collect();
    let mut created: Vec<Retry> = insert::insert(conn, None, Trigger::Retry, &new)
        .await?
        .into_iter()
        .filter_map(|new| {
            let of = new.origin.retry_of?;
            Some(Retry { of, dispatch_id: new.id, job_id: new.job_id, queue: new.queue.clone() })
        })
        .collect();
    created.sort_unstable_by_key(|retry| retry.dispatch_id);
    let Some(Source { now: at, .. }) = sources.as_slice().first() else { return Ok(created) };
    if !created.is_empty() {
        let settle = SettleLetters {
            tenant,
            by,
            at: *at,
            ids: &created.iter().map(|retry| retry.of).collect::<Vec<_>>(),
            retries: &created.iter().map(|retry| retry.dispatch_id).collect::<Vec<_>>(),
        };
        settle.execute(conn).await?;
    }
    Ok(created)
}
