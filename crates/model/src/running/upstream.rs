//! The run that a run of a dependent job follows.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::executions;
use crate::{Conn, DbResult};
use sched_domain::ids::{ClaimToken, DispatchId, TenantId, execution_id};
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
    job_name: String,
    status: DispatchStatus,
    claimed_at: Option<DateTime<Utc>>,
    claim_token: Option<ClaimToken>,
}

statement! {
    UpstreamOf = "upstream/upstream_of_run.sql", (tenant: TenantId as SqlUuid, run: DispatchId as SqlUuid)
        -> (SqlUuid, Text, Text, Nullable<Timestamptz>, Nullable<BigInt>)
}

/// `None` for a run that no dependency caused, and after retention has removed the earlier run.
pub async fn of_run(conn: &Conn, tenant: TenantId, run: DispatchId) -> DbResult<Option<Upstream>> {
    let found: Option<UpstreamRun> = UpstreamOf { tenant, run }.get_result(&mut { conn }).await.optional()?;
    let Some(UpstreamRun { id, job_name, status, claimed_at, claim_token }) = found else { return Ok(None) };
    let last = match claimed_at.zip(claim_token) {
        Some((at, token)) => executions::by_id(conn, tenant, execution_id(at, id, token)).await?,
        None => None,
    };
    let result = last.and_then(|attempt| attempt.result);
    Ok(Some(Upstream { run_id: id, job: job_name, status, result }))
}
