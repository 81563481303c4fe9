//! The run that a run of a dependent job follows.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::ids::{DispatchId, ExecutionId, JobId, TenantId, first_of};
use sched_domain::run_state::DispatchStatus;

#[derive(Debug, Clone, PartialEq)]
pub struct Upstream {
    pub run_id: DispatchId,
    pub job: String,
    pub status: DispatchStatus,
    /// Result of its last attempt; `None` without a result, and after retention has removed it.
    pub result: Option<serde_json::Value>,
}

#[derive(Debug, Queryable)]
struct UpstreamRun {
    id: DispatchId,
    job_id: JobId,
    job_name: String,
    status: DispatchStatus,
    attempt: i32,
    claimed_at: Option<DateTime<Utc>>,
}

statement! {
    UpstreamOf = "upstream/upstream_of_run.sql", (tenant: TenantId as SqlUuid, run: DispatchId as SqlUuid)
        -> (SqlUuid, SqlUuid, Text, Text, Int4, Nullable<Timestamptz>)
}

statement! {
    ResultOf = "upstream/upstream_result.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        run: DispatchId as SqlUuid,
        attempt: i32 as Int4,
        from: ExecutionId as SqlUuid,
    ) -> Nullable<Jsonb>
}

/// `None` for a run that no dependency caused, and after retention has removed the earlier run.
pub async fn of_run(conn: &Conn, tenant: TenantId, run: DispatchId) -> DbResult<Option<Upstream>> {
    let found: Option<UpstreamRun> = UpstreamOf { tenant, run }.get_result(&mut { conn }).await.optional()?;
    let Some(UpstreamRun { id, job_id, job_name, status, attempt, claimed_at }) = found else {
        return Ok(None);
    };
    let result = match claimed_at {
        // The ids of attempts contain the time of the claim.
        Some(at) => ResultOf { tenant, job: job_id, run: id, attempt, from: ExecutionId(first_of(at)) }
            .get_result::<Option<serde_json::Value>>(&mut { conn })
            .await
            .optional()?
            .flatten(),
        None => None,
    };
    Ok(Some(Upstream { run_id: id, job: job_name, status, result }))
}
