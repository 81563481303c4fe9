//! Reading history: attempts and their output, from the public schema and schema `maintenance`.

mod count;

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::schema::job_dispatch;
use crate::{Conn, DbResult};
use sched_domain::attempt::{AttemptOutcome, LONGEST_TAIL, output_tail};
use sched_domain::ids::{
    DispatchId, ExecutionId, FunctionId, JobId, ProjectId, TenantId, WorkerId, first_of,
};
use sched_domain::run_state::Trigger;
use sched_domain::trace::TraceContext;

pub use count::count;

/// Longer than any time between a claim and the start of its attempt, including a step of a clock
/// between the two.
const CLAIM_TO_START: TimeDelta = TimeDelta::hours(1);

#[derive(Debug, Clone, Queryable)]
pub struct Execution {
    pub id: ExecutionId,
    pub job_id: JobId,
    /// `None` after the job was purged.
    pub job_name: Option<String>,
    pub dispatch_id: DispatchId,
    pub attempt: i32,
    pub status: AttemptOutcome,
    pub scheduled_for: DateTime<Utc>,
    pub started_at: DateTime<Utc>,
    pub completed_at: DateTime<Utc>,
    pub duration_ms: i64,
    pub exit_code: Option<i32>,
    pub result: Option<serde_json::Value>,
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    pub output_bytes: i64,
    pub worker_id: Option<WorkerId>,
    pub triggered_by: Trigger,
    /// Trace context of the run, empty if the run has none; `None` if the scheduler dispatched the
    /// run or the run was deleted.
    pub traceparent: Option<String>,
    pub metrics: Option<serde_json::Value>,
    /// Read only with a single attempt: it may be long.
    pub traceback: Option<String>,
}

impl Execution {
    #[must_use]
    pub fn trace(&self) -> Option<TraceContext> {
        let is_known = self.traceparent.is_some() || self.triggered_by == Trigger::Scheduler;
        let dispatch = TraceContext::of_dispatch(self.dispatch_id, self.traceparent.as_deref());
        is_known.then(|| dispatch.attempt(self.id))
    }
}

#[rustfmt::skip]
type Columns = (
    SqlUuid, SqlUuid, Nullable<Text>, SqlUuid, Int4, Text, Timestamptz, Timestamptz, Timestamptz, BigInt, Nullable<Int4>,
    Nullable<Jsonb>, Nullable<Text>, Nullable<Text>, BigInt, Nullable<SqlUuid>, Text, Nullable<Text>,
    Nullable<Jsonb>, Nullable<Text>,
);

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub job: Option<JobId>,
    pub dispatch: Option<DispatchId>,
    /// Any of these outcomes; empty for any outcome.
    pub status: &'static [AttemptOutcome],
    pub worker: Option<WorkerId>,
    /// Project of the job when the attempt ran.
    pub project: Option<ProjectId>,
    /// Function of the job now.
    pub function: Option<FunctionId>,
    pub triggered_by: Option<Trigger>,
    /// Started at this time or later.
    pub since: Option<DateTime<Utc>>,
    /// Started before this time.
    pub until: Option<DateTime<Utc>>,
    pub after: Option<ExecutionId>,
    /// Ordered by claim time, oldest first.
    pub oldest_first: bool,
}

/// A page of attempts, of a tenant or of one job, in one order.
macro_rules! list {
    ($name:ident = $file:literal $(, of a $job:ident)?) => {
        statement! {
            $name<'a> = $file after "executions/executions_page.sql", (
                tenant: TenantId as SqlUuid,
                $($job: JobId as SqlUuid,)?
                beyond: ExecutionId as SqlUuid,
                since: Option<DateTime<Utc>> as Nullable<Timestamptz>,
                until: Option<DateTime<Utc>> as Nullable<Timestamptz>,
                status: Option<&'a [AttemptOutcome]> as Nullable<Array<Text>>,
                dispatch: Option<DispatchId> as Nullable<SqlUuid>,
                worker: Option<WorkerId> as Nullable<SqlUuid>,
                project: Option<ProjectId> as Nullable<SqlUuid>,
                function: Option<FunctionId> as Nullable<SqlUuid>,
                triggered_by: Option<Trigger> as Nullable<Text>,
                limit: i64 as BigInt,
            ) -> Columns
        }
    };
}

list!(List = "executions/executions_list.sql");
list!(OldestFirst = "executions/executions_list_oldest.sql");
list!(ListOfJob = "executions/executions_of_job.sql", of a job);
list!(OldestOfJobFirst = "executions/executions_of_job_oldest.sql", of a job);

/// A page of the attempts of a tenant without success, in one order.
macro_rules! unsuccessful {
    ($name:ident = $file:literal) => {
        statement! {
            $name<'a> = $file after "executions/executions_unsuccessful_begin.sql" "executions/executions_page.sql", (
                status: &'a [AttemptOutcome] as Array<Text>,
                tenant: TenantId as SqlUuid,
                beyond: ExecutionId as SqlUuid,
                since: Option<DateTime<Utc>> as Nullable<Timestamptz>,
                until: Option<DateTime<Utc>> as Nullable<Timestamptz>,
                dispatch: Option<DispatchId> as Nullable<SqlUuid>,
                worker: Option<WorkerId> as Nullable<SqlUuid>,
                project: Option<ProjectId> as Nullable<SqlUuid>,
                function: Option<FunctionId> as Nullable<SqlUuid>,
                triggered_by: Option<Trigger> as Nullable<Text>,
                limit: i64 as BigInt,
            ) -> Columns
        }
    };
}

unsuccessful!(Unsuccessful = "executions/executions_unsuccessful.sql");
unsuccessful!(OldestUnsuccessful = "executions/executions_unsuccessful_oldest.sql");

/// The attempts of a tenant between two ids, in one order, and the end of a section of them.
macro_rules! section {
    ($name:ident = $file:literal, $end:ident = $end_file:literal) => {
        statement! {
            $name<'a> = $file after "executions/executions_page.sql", (
                tenant: TenantId as SqlUuid,
                beyond: ExecutionId as SqlUuid,
                end: ExecutionId as SqlUuid,
                since: Option<DateTime<Utc>> as Nullable<Timestamptz>,
                until: Option<DateTime<Utc>> as Nullable<Timestamptz>,
                status: Option<&'a [AttemptOutcome]> as Nullable<Array<Text>>,
                dispatch: Option<DispatchId> as Nullable<SqlUuid>,
                worker: Option<WorkerId> as Nullable<SqlUuid>,
                project: Option<ProjectId> as Nullable<SqlUuid>,
                function: Option<FunctionId> as Nullable<SqlUuid>,
                triggered_by: Option<Trigger> as Nullable<Text>,
                limit: i64 as BigInt,
            ) -> Columns
        }
        statement! {
            $end = $end_file, (
                tenant: TenantId as SqlUuid,
                beyond: ExecutionId as SqlUuid,
                others: i64 as BigInt,
            ) -> SqlUuid
        }
    };
}

section!(Section = "executions/executions_section.sql", SectionEnd = "executions/executions_section_end.sql");
section!(
    OldestSection = "executions/executions_section_oldest.sql",
    OldestSectionEnd = "executions/executions_section_end_oldest.sql"
);

impl Filter {
    /// Whether an index finds the matches by their status.
    fn is_unsuccessful(&self) -> bool {
        !self.status.is_empty() && !self.status.contains(&AttemptOutcome::Completed)
    }

    /// Whether matches may be so rare that [`list()`] would read much history to find a page of them.
    #[must_use]
    pub fn is_rare(&self) -> bool {
        let has_other = self.dispatch.is_some()
            || self.worker.is_some()
            || self.project.is_some()
            || self.function.is_some()
            || self.triggered_by.is_some();
        self.job.is_none() && !self.is_unsuccessful() && (has_other || !self.status.is_empty())
    }
}

/// The end of the next section of a search, `rows` attempts from `filter.after`. `None` if fewer are
/// left.
pub async fn section_end(
    conn: &Conn,
    tenant: TenantId,
    filter: &Filter,
    rows: i64,
) -> DbResult<Option<ExecutionId>> {
    let (above, below) = bounds(filter);
    let others = rows - 1;
    let conn = &mut { conn };
    let end: Option<ExecutionId> = if filter.oldest_first {
        OldestSectionEnd { tenant, beyond: above, others }.get_result(conn).await.optional()?
    } else {
        SectionEnd { tenant, beyond: below, others }.get_result(conn).await.optional()?
    };
    // Beyond the window of the filter, nothing matches.
    Ok(end.filter(|end| above < *end && *end < below))
}

/// The matches up to `end`, or all without one; at most `limit`.
pub async fn list_section(
    conn: &Conn,
    tenant: TenantId,
    filter: &Filter,
    (end, limit): (Option<ExecutionId>, i64),
) -> DbResult<Vec<Execution>> {
    let (above, below) = bounds(filter);
    let Filter { dispatch, status, worker, project, function, triggered_by, since, until, .. } = *filter;
    let status = (!status.is_empty()).then_some(status);
    let conn = &mut { conn };
    macro_rules! section {
        ($statement:ident, $beyond:expr, $end:expr) => {
            $statement {
                tenant,
                beyond: $beyond,
                end: $end,
                since,
                until,
                status,
                dispatch,
                worker,
                project,
                function,
                triggered_by,
                limit,
            }
            .load(conn)
            .await?
        };
    }
    Ok(if filter.oldest_first {
        section!(OldestSection, above, end.unwrap_or(below))
    } else {
        section!(Section, below, end.unwrap_or(above))
    })
}

/// At most `limit` attempts, in the order of the filter.
pub async fn list(conn: &Conn, tenant: TenantId, filter: &Filter, limit: i64) -> DbResult<Vec<Execution>> {
    let job = job_of(conn, tenant, filter).await?;
    if job.is_none() && filter.is_unsuccessful() {
        return list_unsuccessful(conn, tenant, filter, limit).await;
    }
    let (above, below) = bounds(filter);
    let beyond = if filter.oldest_first { above } else { below };
    let Filter { dispatch, status, worker, project, function, triggered_by, since, until, .. } = *filter;
    let status = (!status.is_empty()).then_some(status);
    let conn = &mut { conn };
    macro_rules! page {
        ($statement:ident $(, $job:ident)?) => {
            $statement {
                tenant, $($job,)? beyond, since, until, status, dispatch, worker, project, function, triggered_by, limit,
            }
            .load(conn)
            .await?
        };
    }
    Ok(match (job, filter.oldest_first) {
        (Some(job), true) => page!(OldestOfJobFirst, job),
        (Some(job), false) => page!(ListOfJob, job),
        (None, true) => page!(OldestFirst),
        (None, false) => page!(List),
    })
}

async fn list_unsuccessful(
    conn: &Conn,
    tenant: TenantId,
    filter: &Filter,
    limit: i64,
) -> DbResult<Vec<Execution>> {
    let (above, below) = bounds(filter);
    let Filter { dispatch, status, worker, project, function, triggered_by, since, until, .. } = *filter;
    let conn = &mut { conn };
    macro_rules! page {
        ($statement:ident, $beyond:expr) => {
            $statement {
                status,
                tenant,
                beyond: $beyond,
                since,
                until,
                dispatch,
                worker,
                project,
                function,
                triggered_by,
                limit,
            }
            .load(conn)
            .await?
        };
    }
    let mut found: Vec<Execution> =
        if filter.oldest_first { page!(OldestUnsuccessful, above) } else { page!(Unsuccessful, below) };
    // Each status contributes up to the limit.
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found)
}

/// Id bounds of a filter. Ids contain the time of the claim, shortly before the start, so older and
/// newer attempts need not be read.
fn bounds(filter: &Filter) -> (ExecutionId, ExecutionId) {
    let since_claim = filter.since.and_then(|since| since.checked_sub_signed(CLAIM_TO_START));
    let until_claim = filter.until.and_then(|until| until.checked_add_signed(CLAIM_TO_START));
    let above = ExecutionId(since_claim.map_or(Uuid::nil(), first_of));
    let below = ExecutionId(until_claim.map_or(Uuid::max(), first_of));
    match filter.after {
        Some(after) if filter.oldest_first => (above.max(after), below),
        Some(after) => (above, below.min(after)),
        None => (above, below),
    }
}

/// The filter with the job of its run.
pub async fn with_job(conn: &Conn, tenant: TenantId, filter: &Filter) -> DbResult<Filter> {
    Ok(Filter { job: job_of(conn, tenant, filter).await?, ..*filter })
}

/// The job of the filter. The attempts of a run are found through its job, as long as the run
/// exists.
async fn job_of(conn: &Conn, tenant: TenantId, filter: &Filter) -> DbResult<Option<JobId>> {
    match (filter.job, filter.dispatch) {
        (None, Some(dispatch)) => Ok(job_dispatch::table
            .filter(job_dispatch::tenant_id.eq(tenant))
            .filter(job_dispatch::id.eq(dispatch))
            .select(job_dispatch::job_id)
            .get_result(&mut { conn })
            .await
            .optional()?),
        (job, _) => Ok(job),
    }
}

statement! {
    ById = "executions/executions_by_id.sql", (tenant: TenantId as SqlUuid, id: ExecutionId as SqlUuid) -> Columns
}

pub async fn by_id(conn: &Conn, tenant: TenantId, id: ExecutionId) -> DbResult<Option<Execution>> {
    Ok(ById { tenant, id }.get_result(&mut { conn }).await.optional()?)
}

#[derive(Debug, Clone, Queryable)]
pub struct Output {
    pub stream: String,
    pub chunk: i32,
    pub content: String,
    pub dropped_bytes: i64,
}

statement! {
    OutputOf = "executions/executions_output.sql", (tenant: TenantId as SqlUuid, id: ExecutionId as SqlUuid) -> (Text, Int4, Text, BigInt)
}

statement! {
    Tails<'a> = "executions/executions_tails.sql", (
        tenants: &'a [TenantId] as Array<SqlUuid>,
        ids: &'a [ExecutionId] as Array<SqlUuid>,
        characters: i32 as Int4,
    ) -> (SqlUuid, Text)
}

/// The last lines of standard error of attempts, or of their log without standard error.
pub async fn output_tails(
    conn: &mut Conn,
    attempts: &[(TenantId, ExecutionId)],
) -> DbResult<HashMap<ExecutionId, String>> {
    let (tenants, ids): (Vec<TenantId>, Vec<ExecutionId>) = attempts.iter().copied().unzip();
    // Lines may have characters that are not shown.
    let characters = i32::try_from(2 * LONGEST_TAIL).unwrap_or(i32::MAX);
    let found: Vec<(ExecutionId, String)> =
        Tails { tenants: &tenants, ids: &ids, characters }.load(conn).await?;
    Ok(found.into_iter().filter_map(|(id, text)| Some((id, output_tail(&text)?))).collect())
}

pub async fn output(conn: &Conn, tenant: TenantId, id: ExecutionId) -> DbResult<Vec<Output>> {
    Ok(OutputOf { tenant, id }.load(&mut { conn }).await?)
}
