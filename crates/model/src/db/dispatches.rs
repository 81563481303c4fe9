//! Dispatches: triggering jobs by hand, and looking at what waits, runs and has finished.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Timestamptz};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::live::Progress;
use super::quotas::{self, DispatchesUsedUp};
use super::schema::{job_dispatch, live_progress, queues, scheduled_jobs, task_functions, tenants};
use super::{Conn, DbResult, clock};
use crate::domain::dispatch::{DispatchStatus, Trigger};
use crate::domain::ids::{
    ClaimToken, DispatchId, FunctionId, InstanceId, JobId, TenantId, Term, WorkerId, first_of, time_ordered,
};
use crate::domain::job::{self, OverlapPolicy};

/// Priority of dispatches when neither the job nor the queue names one.
pub const STANDARD_PRIORITY: i16 = 50;

/// A dispatch as it is kept, with the name of its job.
#[derive(Debug, Clone, Queryable)]
#[expect(missing_docs, reason = "the columns are documented in the schema")]
pub struct Dispatch {
    pub row: DispatchRow,
    pub job_name: String,
    /// What its running attempt has told last.
    pub progress: Option<Progress>,
}

/// The columns of a dispatch.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = job_dispatch, check_for_backend(diesel::pg::Pg))]
#[expect(missing_docs, reason = "the columns are documented in the schema")]
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
    pub args: serde_json::Value,
    pub is_catch_up: bool,
    pub expires_at: Option<DateTime<Utc>>,
    pub traceparent: Option<String>,
}

/// Which dispatches to list.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only of this job.
    pub job: Option<JobId>,
    /// Only in this state.
    pub status: Option<DispatchStatus>,
    /// Only those created then or later.
    pub since: Option<DateTime<Utc>>,
    /// Only those created before then.
    pub until: Option<DateTime<Utc>>,
    /// Only those older than this one: the last of the page before.
    pub before: Option<DispatchId>,
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

/// Restricts a boxed query to what a filter means, whatever its position. Ids are ordered by the time of creation.
macro_rules! filtered {
    ($query:expr, $filter:expr) => {{
        use job_dispatch as d;
        let (mut query, filter) = ($query, $filter);
        if let Some(job) = filter.job {
            query = query.filter(d::job_id.eq(job));
        }
        if let Some(status) = filter.status {
            query = query.filter(d::status.eq(status));
        }
        if let Some(since) = filter.since {
            query = query.filter(d::id.ge(DispatchId(first_of(since))));
        }
        if let Some(until) = filter.until {
            query = query.filter(d::id.lt(DispatchId(first_of(until))));
        }
        query
    }};
}

/// Dispatches of the tenant, newest first, at most `limit`.
///
/// # Errors
/// When the database cannot be asked.
pub async fn list(conn: &mut Conn, tenant: TenantId, filter: &Filter, limit: i64) -> DbResult<Vec<Dispatch>> {
    use job_dispatch as d;
    let mut query = d::table
        .inner_join(scheduled_jobs::table.on(job_of_dispatch!()))
        .left_join(live_progress::table.on(progress_of_dispatch!()))
        .filter(d::tenant_id.eq(tenant))
        .select((DispatchRow::as_select(), scheduled_jobs::name, Option::<Progress>::as_select()))
        .order(d::id.desc())
        .limit(limit)
        .into_boxed();
    if let Some(before) = filter.before {
        query = query.filter(d::id.lt(before));
    }
    Ok(filtered!(query, filter).load(conn).await?)
}

/// How many dispatches of the tenant a filter means in all, counted up to `most`.
///
/// # Errors
/// When the database cannot be asked.
pub async fn count(conn: &mut Conn, tenant: TenantId, filter: &Filter, most: i64) -> DbResult<usize> {
    use job_dispatch as d;
    let query = d::table.filter(d::tenant_id.eq(tenant)).select(d::id).limit(most).into_boxed();
    let found: Vec<DispatchId> = filtered!(query, filter).load(conn).await?;
    Ok(found.len())
}

/// The dispatch with this id, if the tenant has one.
///
/// # Errors
/// When the database cannot be asked.
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

/// A trigger by hand.
#[derive(Debug, Clone)]
pub struct NewTrigger<'a> {
    /// Owner of the job.
    pub tenant: TenantId,
    /// The job.
    pub job: JobId,
    /// What creates it; never the scheduler.
    pub triggered_by: Trigger,
    /// Who asks for it.
    pub user: &'a str,
    /// Arguments instead of the job's own; an object.
    pub args: Option<&'a serde_json::Value>,
    /// The same key for the same job is the same dispatch.
    pub idempotency_key: Option<&'a str>,
    /// W3C trace context.
    pub traceparent: Option<&'a str>,
}

/// What became of a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Triggered {
    /// A dispatch was created, in this queue.
    Created(DispatchId, String),
    /// The key had been used: this is the dispatch it made.
    Duplicate(DispatchId),
    /// The key had been used with other arguments.
    KeyReused(DispatchId),
    /// There is no such job.
    NoSuchJob,
    /// The function of the job is inactive.
    FunctionInactive,
    /// The tenant has made as many dispatches in this minute as it may.
    QuotaUsedUp(DispatchesUsedUp),
}

/// Creates a dispatch for a job, whatever its schedule says. Call it in a transaction, and
/// [`super::notify::dispatches_waiting`] after it.
///
/// # Errors
/// When the database cannot be asked.
pub async fn trigger(conn: &mut Conn, new: &NewTrigger<'_>) -> DbResult<Triggered> {
    let Some(job) = lock_job(conn, new).await? else { return Ok(Triggered::NoSuchJob) };
    let (job_args, job_queue, job_priority, function, is_full, start_within) = job;
    let (function_queue, is_active, quota) = function_and_quota(conn, new.tenant, function).await?;
    let args = new.args.unwrap_or(&job_args);
    if let Some(earlier) = earlier_with_same_key(conn, new).await? {
        return Ok(if earlier.1 == *args {
            Triggered::Duplicate(earlier.0)
        } else {
            Triggered::KeyReused(earlier.0)
        });
    }
    if !is_active {
        return Ok(Triggered::FunctionInactive);
    }
    let queue = job_queue.unwrap_or(function_queue);
    let priority = match job_priority {
        Some(priority) => priority,
        None => queue_priority(conn, new.tenant, &queue).await?,
    };
    let now = clock::now(conn).await?;
    if let Some(limit) = quota
        && let Some(used_up) = quotas::take_dispatch(conn, new.tenant, limit, now).await?
    {
        return Ok(Triggered::QuotaUsedUp(used_up));
    }
    let id = DispatchId(time_ordered(now));
    let place = Place { queue: &queue, priority, is_in_line: is_full };
    insert_trigger(conn, new, id, args, place, now).await?;
    if let Some(span) = start_within {
        let expires_at = job_dispatch::expires_at.eq(now + job::seconds(span));
        diesel::update(job_dispatch::table.find(id)).set(expires_at).execute(conn).await?;
    }
    count_trigger(conn, new, is_full, now).await?;
    Ok(Triggered::Created(id, queue))
}

/// Arguments, queue, priority, function, whether as many dispatches are open as may be, and within how many seconds they must start.
type LockedJob = (serde_json::Value, Option<String>, Option<i16>, FunctionId, bool, Option<i32>);

/// Queue of the function, whether it is active, and how many dispatches its tenant may make in a minute.
async fn function_and_quota(
    conn: &mut Conn,
    tenant: TenantId,
    function: FunctionId,
) -> DbResult<(String, bool, Option<i64>)> {
    let quota = diesel::dsl::sql::<Nullable<BigInt>>("(tenants.quotas ->> 'dispatches_per_minute')::bigint");
    let found = task_functions::table
        .inner_join(tenants::table.on(tenants::id.eq(task_functions::tenant_id)))
        .filter(task_functions::tenant_id.eq(tenant))
        .filter(task_functions::id.eq(function))
        .select((task_functions::queue, task_functions::is_active, quota))
        .get_result(conn)
        .await?;
    Ok(found)
}

/// Where a dispatch waits.
#[derive(Clone, Copy)]
struct Place<'a> {
    queue: &'a str,
    priority: i16,
    /// Behind others of its job ([`super::line`]).
    is_in_line: bool,
}

/// Locks the job alone, which orders a trigger with ticks, completions and other triggers of the same job.
async fn lock_job(conn: &mut Conn, new: &NewTrigger<'_>) -> DbResult<Option<LockedJob>> {
    let job = scheduled_jobs::table
        .find((new.tenant, new.job))
        .filter(scheduled_jobs::deleted_at.is_null())
        .select((
            scheduled_jobs::task_args,
            scheduled_jobs::queue,
            scheduled_jobs::priority,
            scheduled_jobs::task_function_id,
            scheduled_jobs::overlap_policy.ne(OverlapPolicy::Allow).and(
                (scheduled_jobs::active_dispatches - scheduled_jobs::queued_dispatches)
                    .ge(scheduled_jobs::max_instances),
            ),
            scheduled_jobs::start_within_seconds,
        ))
        .for_no_key_update()
        .get_result(conn)
        .await
        .optional()?;
    Ok(job)
}

async fn earlier_with_same_key(
    conn: &mut Conn,
    new: &NewTrigger<'_>,
) -> DbResult<Option<(DispatchId, serde_json::Value)>> {
    let Some(key) = new.idempotency_key else { return Ok(None) };
    let earlier = job_dispatch::table
        .filter(job_dispatch::tenant_id.eq(new.tenant))
        .filter(job_dispatch::job_id.eq(new.job))
        .filter(job_dispatch::idempotency_key.eq(key))
        .select((job_dispatch::id, job_dispatch::args))
        .get_result(conn)
        .await
        .optional()?;
    Ok(earlier)
}

async fn queue_priority(conn: &mut Conn, tenant: TenantId, queue: &str) -> DbResult<i16> {
    let priority: Option<i16> = queues::table
        .find((tenant, queue))
        .select(queues::default_priority)
        .get_result(conn)
        .await
        .optional()?;
    Ok(priority.unwrap_or(STANDARD_PRIORITY))
}

async fn insert_trigger(
    conn: &mut Conn,
    new: &NewTrigger<'_>,
    id: DispatchId,
    args: &serde_json::Value,
    place: Place<'_>,
    now: DateTime<Utc>,
) -> DbResult<()> {
    use job_dispatch as d;
    diesel::insert_into(d::table)
        .values((
            d::id.eq(id),
            d::tenant_id.eq(new.tenant),
            d::job_id.eq(new.job),
            (d::scheduled_for.eq(now), d::available_at.eq(now)),
            d::claimable_at.eq(now),
            d::queue.eq(place.queue),
            d::priority.eq(place.priority),
            d::triggered_by.eq(new.triggered_by),
            d::triggered_by_user.eq(new.user),
            d::trigger_id.eq(id.0),
            d::args.eq(args),
            d::idempotency_key.eq(new.idempotency_key),
            d::traceparent.eq(new.traceparent),
        ))
        .execute(conn)
        .await?;
    if place.is_in_line {
        // The driver's type for instants has no infinity.
        let never = diesel::dsl::sql::<Nullable<Timestamptz>>("'infinity'");
        diesel::update(d::table.find(id)).set(d::claimable_at.eq(never)).execute(conn).await?;
    }
    Ok(())
}

async fn count_trigger(
    conn: &mut Conn,
    new: &NewTrigger<'_>,
    is_in_line: bool,
    now: DateTime<Utc>,
) -> DbResult<()> {
    use scheduled_jobs as j;
    diesel::update(j::table.find((new.tenant, new.job)))
        .set((
            j::total_run_count.eq(j::total_run_count + 1),
            j::active_dispatches.eq(j::active_dispatches + 1),
            j::queued_dispatches.eq(j::queued_dispatches + i32::from(is_in_line)),
            j::last_dispatched_at.eq(now),
        ))
        .execute(conn)
        .await?;
    Ok(())
}
