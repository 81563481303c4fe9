//! Reads the facts that block waiting runs and the next fires of jobs.
//!
//! Reads only, by key and bounded: the cost does not grow with finished runs, nor beyond a thousand
//! waiting entries. The statements run without a transaction; a change in between is visible to
//! some of them. [`sched_domain::explain::waits`] evaluates the facts.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::dispatching::room::{Instances, InstancesColumns};
use crate::dispatching::tick::next_quota_window;
use crate::jobs::Job;
use crate::schema::{job_dependencies, scheduled_jobs};
use crate::{Conn, DbError, DbResult, connection::database_clock, definitions::calendars};
use sched_domain::dependency::AfterCondition;
use sched_domain::explain::CalendarFacts;
use sched_domain::explain::waits::{
    BoundedCount, Holder, JobFacts, PausedResource, Pending, QueueFacts, Quota, Rate, RunningQuota, Upstream,
    Wait, of_dispatch,
};
use sched_domain::ids::{DispatchId, JobId, TenantId};
use sched_domain::lease::Leadership;
use sched_domain::run_state::DispatchStatus;

/// Upper bound of counts; the statements read one row more.
const MOST_COUNTED: i64 = 1_000;

/// Maximum number of open runs named as blockers of other runs of their job.
const MOST_HOLDERS: i32 = 5;

type Instant = DateTime<Utc>;

#[derive(Queryable)]
struct PendingRow {
    id: DispatchId,
    job: JobId,
    queue: String,
    available_at: Instant,
    expires_at: Option<Instant>,
    attempt: i32,
    error: Option<String>,
    now: Instant,
    is_tenant_paused: bool,
    project: Option<String>,
    project_reason: Option<String>,
    function: Option<String>,
    function_reason: Option<String>,
    instances: Instances,
    line: Option<i64>,
    counted: i64,
    due: i64,
}

#[rustfmt::skip]
type PendingColumns = (
    SqlUuid, SqlUuid, Text, Timestamptz, Nullable<Timestamptz>, Int4, Nullable<Text>, Timestamptz, Bool,
    Nullable<Text>, Nullable<Text>, Nullable<Text>, Nullable<Text>, InstancesColumns, Nullable<BigInt>, BigInt, BigInt,
);

statement! {
    PendingDispatches<'a> = "blockers/waits_dispatches.sql", (
        tenant: TenantId as SqlUuid,
        ids: &'a [Uuid] as Array<SqlUuid>,
    ) -> PendingColumns
}

fn bounded(counted: i64, shown: i64) -> BoundedCount {
    let count = u64::try_from(shown.clamp(0, MOST_COUNTED)).unwrap_or(0);
    BoundedCount { count, is_exact: counted <= MOST_COUNTED }
}

pub async fn of_dispatches(
    conn: &mut Conn,
    tenant: TenantId,
    ids: &[DispatchId],
) -> DbResult<HashMap<DispatchId, Vec<Wait>>> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<PendingRow> = PendingDispatches { tenant, ids: &ids }.load(conn).await?;
    let names: BTreeSet<String> = rows.iter().map(|row| row.queue.clone()).collect();
    let queues = queue_facts(conn, tenant, &names.into_iter().collect::<Vec<_>>()).await?;
    let in_line: BTreeSet<JobId> = rows.iter().filter(|row| row.line.is_some()).map(|row| row.job).collect();
    let holders = holders(conn, tenant, &in_line).await?;
    let none = QueueFacts::default();
    let waits = |row: PendingRow| {
        let queue = queues.iter().find(|queue| queue.name == row.queue).unwrap_or(&none);
        let holders = holders.get(&row.job).map_or(&[] as &[Holder], Vec::as_slice);
        let pending = Pending {
            available_at: row.available_at,
            expires_at: row.expires_at,
            attempt: row.attempt,
            error: row.error,
            line: row.line.map(|count| bounded(count, count)),
            ahead: bounded(row.counted, row.due),
            is_tenant_paused: row.is_tenant_paused,
            paused_project: row.project.map(|name| PausedResource { name, reason: row.project_reason }),
            paused_function: row.function.map(|name| PausedResource { name, reason: row.function_reason }),
            is_job_full: row.instances.room().is_some_and(|room| room <= 0),
        };
        (row.id, of_dispatch(row.now, &pending, queue, holders))
    };
    Ok(rows.into_iter().map(waits).collect())
}

#[derive(Queryable)]
struct QueueRow {
    name: String,
    is_paused: bool,
    pause_reason: Option<String>,
    max_running: Option<i32>,
    running: Option<i64>,
    rate_count: Option<i32>,
    rate_period: Option<i32>,
    claimed: i64,
    next_at: Option<Instant>,
    workers: i64,
    slots: i64,
    busy: i64,
    draining: i64,
    unserved_since: Option<Instant>,
    quota: Option<i64>,
    quota_running: Option<i64>,
}

#[rustfmt::skip]
type QueueColumns = (
    Text, Bool, Nullable<Text>, Nullable<Int4>, Nullable<BigInt>, Nullable<Int4>, Nullable<Int4>, BigInt,
    Nullable<Timestamptz>, BigInt, BigInt, BigInt, BigInt, Nullable<Timestamptz>,
    Nullable<BigInt>, Nullable<BigInt>,
);

statement! {
    Queues<'a> = "blockers/waits_queues.sql", (
        tenant: TenantId as SqlUuid,
        names: &'a [String] as Array<Text>,
    ) -> QueueColumns
}

/// Queues with limits, usage and workers, in the order of `names`. A queue without a row has no
/// limits.
pub async fn queue_facts(conn: &mut Conn, tenant: TenantId, names: &[String]) -> DbResult<Vec<QueueFacts>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<QueueRow> = Queues { tenant, names }.load(conn).await?;
    let facts = |row: QueueRow| {
        let (claimed, next_at) = (row.claimed, row.next_at);
        let rate = row.rate_count.zip(row.rate_period).map(|(count, period)| Rate {
            count: count.into(),
            period_seconds: period.into(),
            claimed,
            next_at,
        });
        QueueFacts {
            name: row.name,
            is_paused: row.is_paused,
            pause_reason: row.pause_reason,
            max_running: row.max_running.map(Into::into),
            running: row.running,
            rate,
            workers: row.workers,
            slots: row.slots,
            busy: row.busy,
            draining: row.draining,
            unserved_since: row.unserved_since,
            quota: row.quota.zip(row.quota_running).map(|(most, running)| RunningQuota { most, running }),
        }
    };
    Ok(rows.into_iter().map(facts).collect())
}

statement! {
    Holders<'a> = "blockers/waits_holders.sql", (
        tenant: TenantId as SqlUuid,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        most: i32 as Int4,
    ) -> (SqlUuid, SqlUuid, Text, Timestamptz, Nullable<Text>)
}

async fn holders(
    conn: &mut Conn,
    tenant: TenantId,
    jobs: &BTreeSet<JobId>,
) -> DbResult<HashMap<JobId, Vec<Holder>>> {
    type Row = (JobId, DispatchId, DispatchStatus, Instant, Option<String>);
    let mut found: HashMap<JobId, Vec<Holder>> = HashMap::new();
    if jobs.is_empty() {
        return Ok(found);
    }
    let jobs: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
    let rows: Vec<Row> = Holders { tenant, jobs: &jobs, most: MOST_HOLDERS }.load(conn).await?;
    for (job, id, status, since, worker) in rows {
        found.entry(job).or_default().push(Holder { id, status, since, worker });
    }
    Ok(found)
}

#[derive(Queryable)]
struct JobRow {
    is_tenant_paused: bool,
    project: Option<String>,
    project_reason: Option<String>,
    is_function_active: bool,
    function: Option<String>,
    function_reason: Option<String>,
    queue: String,
    open: i64,
    quota: Option<i64>,
    used: i64,
    leader_silence: Option<f64>,
}

#[rustfmt::skip]
type JobColumns = (
    Bool, Nullable<Text>, Nullable<Text>, Bool, Nullable<Text>, Nullable<Text>, Text, BigInt, Nullable<BigInt>, BigInt,
    Nullable<Double>,
);

statement! {
    Surroundings = "blockers/waits_job.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        minute: Instant as Timestamptz,
    ) -> JobColumns
}

/// The present facts of a job; a leader counts as gone after `lease`.
///
/// # Errors
/// [`DbError::NotFound`] if the job was deleted after it was read.
pub async fn job_facts(conn: &mut Conn, tenant: TenantId, job: &Job, lease: Duration) -> DbResult<JobFacts> {
    let now = database_clock::now(conn).await?;
    let next_at = next_quota_window(now);
    // The window ends in the minute that names it, and begins a second before it.
    let minute = next_at - TimeDelta::seconds(59);
    let found: Option<JobRow> =
        Surroundings { tenant, job: job.id, minute }.get_result(conn).await.optional()?;
    let found = found.ok_or(DbError::NotFound)?;
    let mut queues = queue_facts(conn, tenant, std::slice::from_ref(&found.queue)).await?;
    let holders = if found.open > 0 {
        holders(conn, tenant, &BTreeSet::from([job.id])).await?.remove(&job.id)
    } else {
        None
    };
    let calendars = calendars::by_names(conn, tenant, &job.settings.calendars).await?.into_iter();
    Ok(JobFacts {
        now,
        tenant,
        created_at: job.state.created_at,
        settings: job.settings.clone(),
        calendars: calendars
            .map(|known| CalendarFacts {
                name: known.name,
                definition: known.definition,
                updated_at: known.updated_at,
            })
            .collect(),
        disabled_reason: job.state.disabled_reason.clone(),
        is_paused: job.state.is_paused,
        pause_reason: job.state.pause_reason.clone(),
        paused_until: job.state.paused_until,
        next_run_at: job.state.next_run_at,
        held_until: job.state.dispatch_lock_until,
        is_tenant_paused: found.is_tenant_paused,
        paused_project: found.project.map(|name| PausedResource { name, reason: found.project_reason }),
        is_function_active: found.is_function_active,
        paused_function: found.function.map(|name| PausedResource { name, reason: found.function_reason }),
        queue: queues.pop().unwrap_or_default(),
        upstream: upstream(conn, tenant, job.id).await?,
        leadership: Leadership::of(found.leader_silence, lease),
        quota: found.quota.map(|per_minute| Quota { per_minute, used: found.used, next_at }),
        open: found.open,
        holders: holders.unwrap_or_default(),
    })
}

/// The jobs that a job runs after, by name. Includes deleted ones, which never end.
async fn upstream(conn: &mut Conn, tenant: TenantId, job: JobId) -> DbResult<Vec<Upstream>> {
    use job_dependencies as d;
    let found: Vec<(String, AfterCondition, Option<Uuid>, Option<Instant>)> = d::table
        .inner_join(
            scheduled_jobs::table
                .on(scheduled_jobs::tenant_id.eq(d::tenant_id).and(scheduled_jobs::id.eq(d::after_job_id))),
        )
        .filter(d::tenant_id.eq(tenant))
        .filter(d::job_id.eq(job))
        .order(scheduled_jobs::name)
        .select((scheduled_jobs::name, d::condition, d::met_by, d::met_at))
        .load(conn)
        .await?;
    // A run uses up the end that met an edge: `met_by` is cleared, `met_at` stays.
    let of = |(job, on, met_by, met_at): (String, AfterCondition, Option<Uuid>, Option<Instant>)| Upstream {
        job,
        on,
        met_at: met_by.and(met_at),
    };
    Ok(found.into_iter().map(of).collect())
}
