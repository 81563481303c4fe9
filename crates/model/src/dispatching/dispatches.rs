//! Reads runs. Triggers are in [`crate::dispatching::trigger`].

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::arguments::RunArguments;
use crate::running::live_output::Progress;
use crate::schema::{job_dispatch, live_progress, scheduled_jobs};
use crate::{Conn, DbResult};
use sched_domain::ids::{
    ClaimToken, DispatchId, FunctionId, InstanceId, JobId, ProjectId, TenantId, Term, WorkerId, first_of,
};
use sched_domain::run_state::{DispatchStatus, Trigger};

/// Priority of a run if neither the job nor the queue has one.
pub const STANDARD_PRIORITY: i16 = 50;

#[derive(Debug, Clone, Queryable)]
pub struct Dispatch {
    pub row: DispatchRow,
    pub job_name: String,
    /// Last report of the running attempt.
    pub progress: Option<Progress>,
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = job_dispatch, check_for_backend(diesel::pg::Pg))]
pub struct DispatchRow {
    pub id: DispatchId,
    pub job_id: JobId,
    pub scheduled_for: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
    pub available_at: DateTime<Utc>,
    pub claimed_at: Option<DateTime<Utc>>,
    pub completed_at: Option<DateTime<Utc>>,
    pub status: DispatchStatus,
    pub queue: String,
    pub priority: i16,
    pub worker_id: Option<WorkerId>,
    pub claim_token: Option<ClaimToken>,
    pub attempt: i32,
    pub retry_count: i32,
    pub lost_count: i32,
    pub error_message: Option<String>,
    pub triggered_by: Trigger,
    pub triggered_by_user: Option<String>,
    pub trigger_id: Option<Uuid>,
    pub retry_of: Option<DispatchId>,
    pub scheduler_instance_id: Option<InstanceId>,
    pub term: Option<Term>,
    /// Its own or those of its version of the job.
    #[diesel(select_expression = RunArguments, select_expression_type = RunArguments)]
    pub args: serde_json::Value,
    pub is_catch_up: bool,
    pub expires_at: Option<DateTime<Utc>>,
    pub traceparent: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub job: Option<JobId>,
    /// Any of these states; empty for every state.
    pub status: &'static [DispatchStatus],
    /// Created at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Created before this time.
    pub until: Option<DateTime<Utc>>,
    pub function: Option<FunctionId>,
    pub project: Option<ProjectId>,
    pub queue: Option<String>,
    /// Last claimed by this worker.
    pub worker: Option<WorkerId>,
    pub triggered_by: Option<Trigger>,
    /// The last run of the previous page.
    pub after: Option<DispatchId>,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
}

macro_rules! job_of_dispatch {
    () => {
        scheduled_jobs::tenant_id.eq(job_dispatch::tenant_id).and(scheduled_jobs::id.eq(job_dispatch::job_id))
    };
}

macro_rules! progress_of_dispatch {
    () => {
        live_progress::tenant_id
            .eq(job_dispatch::tenant_id)
            .and(live_progress::dispatch_id.eq(job_dispatch::id))
            .and(live_progress::claim_token.nullable().eq(job_dispatch::claim_token))
            .and(job_dispatch::status.eq(DispatchStatus::InProgress))
    };
}

/// Restricts a query to a filter, without its position. Ids are ordered by the time of creation.
macro_rules! filtered {
    ($query:expr, $filter:expr) => {{
        use job_dispatch as d;
        let (mut query, filter) = ($query, $filter);
        if let Some(job) = filter.job {
            query = query.filter(d::job_id.eq(job));
        }
        query = match filter.status {
            [] => query,
            // `=` keeps the order of an index after the state; `= ANY` does not.
            [status] => query.filter(d::status.eq(status)),
            several => query.filter(d::status.eq_any(several)),
        };
        if let Some(since) = filter.since {
            query = query.filter(d::id.ge(DispatchId(first_of(since))));
        }
        if let Some(until) = filter.until {
            query = query.filter(d::id.lt(DispatchId(first_of(until))));
        }
        if let Some(queue) = &filter.queue {
            query = query.filter(d::queue.eq(queue));
        }
        if let Some(worker) = filter.worker {
            query = query.filter(d::worker_id.eq(worker));
        }
        if let Some(triggered_by) = filter.triggered_by {
            query = query.filter(d::triggered_by.eq(triggered_by));
        }
        if let Some(function) = filter.function {
            query = query.filter(scheduled_jobs::task_function_id.eq(function));
        }
        if let Some(project) = filter.project {
            query = query.filter(scheduled_jobs::project_id.eq(project));
        }
        query
    }};
}

/// Up to this many jobs with this many runs in total, runs are found by their jobs ([`of_few`]).
const FEW_JOBS: usize = 200;
const FEW_RUNS: i64 = 20_000;

statement! {
    /// Raw, so that each job is read by its index.
    OfFew<'a> = "dispatches/dispatches_of_few.sql", (
        tenant: TenantId as SqlUuid,
        first: Uuid as SqlUuid,
        last: Uuid as SqlUuid,
        status: Option<&'a [DispatchStatus]> as Nullable<Array<Text>>,
        queue: Option<&'a str> as Nullable<Text>,
        worker: Option<WorkerId> as Nullable<SqlUuid>,
        triggered_by: Option<Trigger> as Nullable<Text>,
        oldest_first: bool as Bool,
        jobs: &'a [JobId] as Array<SqlUuid>,
        limit: i64 as BigInt,
    ) -> SqlUuid
}

/// The runs that match a filter, found by their jobs. `None` if the jobs or their runs are too
/// many; then the runs are found among those of all tenants.
///
/// The counter of a job's runs never decreases, so the job has at most that many.
async fn of_few(
    conn: &mut Conn,
    tenant: TenantId,
    filter: &Filter,
    limit: i64,
) -> DbResult<Option<Vec<DispatchId>>> {
    use scheduled_jobs as j;
    let mut query = j::table
        .filter(j::tenant_id.eq(tenant))
        .select((j::id, j::total_run_count))
        .limit(i64::try_from(FEW_JOBS + 1).unwrap_or(i64::MAX))
        .into_boxed();
    if let Some(job) = filter.job {
        query = query.filter(j::id.eq(job));
    }
    if let Some(function) = filter.function {
        query = query.filter(j::task_function_id.eq(function));
    }
    if let Some(project) = filter.project {
        query = query.filter(j::project_id.eq(project));
    }
    let found: Vec<(JobId, i64)> = query.load(conn).await?;
    if found.len() > FEW_JOBS || found.iter().map(|(_, runs)| runs).sum::<i64>() > FEW_RUNS {
        return Ok(None);
    }
    let jobs: Vec<JobId> = found.into_iter().map(|(id, _)| id).collect();
    let (mut first, mut last) = (Uuid::nil(), Uuid::max());
    if let Some(since) = filter.since {
        first = first.max(first_of(since));
    }
    if let Some(until) = filter.until {
        last = last.min(Uuid::from_u128(first_of(until).as_u128().saturating_sub(1)));
    }
    match filter.after {
        Some(after) if filter.oldest_first => {
            first = first.max(Uuid::from_u128(after.0.as_u128().saturating_add(1)));
        }
        Some(after) => last = last.min(Uuid::from_u128(after.0.as_u128().saturating_sub(1))),
        None => {}
    }
    let found = OfFew {
        tenant,
        first,
        last,
        status: (!filter.status.is_empty()).then_some(filter.status),
        queue: filter.queue.as_deref(),
        worker: filter.worker,
        triggered_by: filter.triggered_by,
        oldest_first: filter.oldest_first,
        jobs: &jobs,
        limit,
    };
    Ok(Some(found.load(conn).await?))
}

/// Up to this many open runs of a tenant are found by the indexes of open runs ([`open`]). More open
/// runs are not rare among the newest ones.
const FEW_OPEN: usize = 5_000;

statement! {
    /// Raw, so that each queue and each job is read by its index.
    Open = "dispatches/dispatches_open.sql", (
        tenant: TenantId as SqlUuid,
        with_waiting: bool as Bool,
        with_running: bool as Bool,
        limit: i64 as BigInt,
    ) -> SqlUuid
}

/// The runs of the open states of a filter. `None` if it has other states, or if they are too many.
async fn open(conn: &mut Conn, tenant: TenantId, filter: &Filter) -> DbResult<Option<Vec<DispatchId>>> {
    let is_open =
        |status: &DispatchStatus| matches!(status, DispatchStatus::Pending | DispatchStatus::InProgress);
    if filter.status.is_empty() || !filter.status.iter().all(is_open) {
        return Ok(None);
    }
    let found = Open {
        tenant,
        with_waiting: filter.status.contains(&DispatchStatus::Pending),
        with_running: filter.status.contains(&DispatchStatus::InProgress),
        limit: i64::try_from(FEW_OPEN + 1).unwrap_or(i64::MAX),
    };
    let found: Vec<DispatchId> = found.load(conn).await?;
    Ok((found.len() <= FEW_OPEN).then_some(found))
}

/// At most `limit` runs of the tenant, in the order of the filter.
pub async fn list(conn: &mut Conn, tenant: TenantId, filter: &Filter, limit: i64) -> DbResult<Vec<Dispatch>> {
    use job_dispatch as d;
    let few = match open(conn, tenant, filter).await? {
        Some(open) => Some(open),
        None => of_few(conn, tenant, filter, limit).await?,
    };
    let mut query = d::table
        .inner_join(scheduled_jobs::table.on(job_of_dispatch!()))
        .left_join(live_progress::table.on(progress_of_dispatch!()))
        .filter(d::tenant_id.eq(tenant))
        .select((DispatchRow::as_select(), scheduled_jobs::name, Option::<Progress>::as_select()))
        .limit(limit)
        .into_boxed();
    query = if filter.oldest_first { query.order(d::id.asc()) } else { query.order(d::id.desc()) };
    if let Some(few) = &few {
        query = query.filter(d::id.eq_any(few));
    }
    query = match (filter.after, filter.oldest_first) {
        (Some(after), true) => query.filter(d::id.gt(after)),
        (Some(after), false) => query.filter(d::id.lt(after)),
        (None, _) => query,
    };
    Ok(filtered!(query, filter).load(conn).await?)
}

/// Number of runs of the tenant that match a filter, counted up to `most`.
pub async fn count(conn: &mut Conn, tenant: TenantId, filter: &Filter, most: i64) -> DbResult<usize> {
    use job_dispatch as d;
    let whole = Filter { after: None, ..filter.clone() };
    let open = open(conn, tenant, filter).await?;
    if open.is_none()
        && let Some(few) = of_few(conn, tenant, &whole, most).await?
    {
        return Ok(few.len());
    }
    let mut query = d::table
        .inner_join(scheduled_jobs::table.on(job_of_dispatch!()))
        .filter(d::tenant_id.eq(tenant))
        .select(d::id)
        .limit(most)
        .into_boxed();
    if let Some(open) = &open {
        query = query.filter(d::id.eq_any(open));
    }
    let found: Vec<DispatchId> = filtered!(query, filter).load(conn).await?;
    Ok(found.len())
}

pub async fn by_id(conn: &mut Conn, tenant: TenantId, id: DispatchId) -> DbResult<Option<Dispatch>> {
    let dispatch = job_dispatch::table
        .inner_join(scheduled_jobs::table.on(job_of_dispatch!()))
        .left_join(live_progress::table.on(progress_of_dispatch!()))
        .filter(job_dispatch::tenant_id.eq(tenant))
        .filter(job_dispatch::id.eq(id))
        .select((DispatchRow::as_select(), scheduled_jobs::name, Option::<Progress>::as_select()))
        .get_result(conn)
        .await
        .optional()?;
    Ok(dispatch)
}
