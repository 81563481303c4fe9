//! Numbers of attempts, counted up to a bound.

use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::{Filter, bounds, job_of};
use crate::{Conn, DbResult};
use sched_domain::attempt::AttemptOutcome;
use sched_domain::ids::{DispatchId, ExecutionId, FunctionId, JobId, ProjectId, TenantId, WorkerId};
use sched_domain::run_state::Trigger;

statement! {
    Count<'a> = "executions_count.sql", (
        tenant: TenantId as SqlUuid,
        above: ExecutionId as SqlUuid,
        below: ExecutionId as SqlUuid,
        since: Option<DateTime<Utc>> as Nullable<Timestamptz>,
        until: Option<DateTime<Utc>> as Nullable<Timestamptz>,
        status: Option<&'a [AttemptOutcome]> as Nullable<Array<Text>>,
        dispatch: Option<DispatchId> as Nullable<SqlUuid>,
        worker: Option<WorkerId> as Nullable<SqlUuid>,
        project: Option<ProjectId> as Nullable<SqlUuid>,
        function: Option<FunctionId> as Nullable<SqlUuid>,
        triggered_by: Option<Trigger> as Nullable<Text>,
        most: i64 as BigInt,
    ) -> BigInt
}

statement! {
    CountUnsuccessful<'a> = "executions_unsuccessful_count.sql", (
        tenant: TenantId as SqlUuid,
        status: &'a [AttemptOutcome] as Array<Text>,
        above: ExecutionId as SqlUuid,
        below: ExecutionId as SqlUuid,
        since: Option<DateTime<Utc>> as Nullable<Timestamptz>,
        until: Option<DateTime<Utc>> as Nullable<Timestamptz>,
        dispatch: Option<DispatchId> as Nullable<SqlUuid>,
        worker: Option<WorkerId> as Nullable<SqlUuid>,
        project: Option<ProjectId> as Nullable<SqlUuid>,
        function: Option<FunctionId> as Nullable<SqlUuid>,
        triggered_by: Option<Trigger> as Nullable<Text>,
        most: i64 as BigInt,
    ) -> BigInt
}

statement! {
    CountOfJob<'a> = "executions_count_of_job.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        above: ExecutionId as SqlUuid,
        below: ExecutionId as SqlUuid,
        since: Option<DateTime<Utc>> as Nullable<Timestamptz>,
        until: Option<DateTime<Utc>> as Nullable<Timestamptz>,
        status: Option<&'a [AttemptOutcome]> as Nullable<Array<Text>>,
        dispatch: Option<DispatchId> as Nullable<SqlUuid>,
        worker: Option<WorkerId> as Nullable<SqlUuid>,
        project: Option<ProjectId> as Nullable<SqlUuid>,
        function: Option<FunctionId> as Nullable<SqlUuid>,
        triggered_by: Option<Trigger> as Nullable<Text>,
        most: i64 as BigInt,
    ) -> BigInt
}

pub async fn count(conn: &Conn, tenant: TenantId, filter: &Filter, most: i64) -> DbResult<usize> {
    let job = job_of(conn, tenant, filter).await?;
    let (above, below) = bounds(&Filter { after: None, ..*filter });
    let Filter { dispatch, status, worker, project, function, triggered_by, since, until, .. } = *filter;
    let conn = &mut { conn };
    if job.is_none() && filter.is_unsuccessful() {
        let count = CountUnsuccessful {
            tenant,
            status,
            above,
            below,
            since,
            until,
            dispatch,
            worker,
            project,
            function,
            triggered_by,
            most,
        };
        let found: i64 = count.get_result(conn).await?;
        return Ok(usize::try_from(found).unwrap_or(0));
    }
    let status = (!status.is_empty()).then_some(status);
    macro_rules! count {
        ($statement:ident $(, $job:ident)?) => {
            $statement {
                tenant, $($job,)? above, below, since, until, status, dispatch, worker, project, function, triggered_by, most,
            }
            .get_result(conn)
            .await?
        };
    }
    let found: i64 = match job {
        Some(job) => count!(CountOfJob, job),
        None => count!(Count),
    };
    Ok(usize::try_from(found).unwrap_or(0))
}
