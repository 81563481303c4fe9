//! The current runs of a worker, found through its claims.

use chrono::{DateTime, Utc};
use diesel::sql_types::{BigInt, Float, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::running::live_output::Progress;
use crate::{Conn, DbResult};
use sched_domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId, WorkerId, execution_id};

#[derive(Debug, Clone, PartialEq)]
pub struct WorkerRun {
    pub dispatch_id: DispatchId,
    pub execution_id: ExecutionId,
    pub job_id: JobId,
    pub job_name: String,
    pub attempt: i32,
    pub queue: String,
    pub scheduled_for: DateTime<Utc>,
    pub claimed_at: DateTime<Utc>,
    pub progress: Option<Progress>,
}

type Row = (
    DispatchId,
    JobId,
    String,
    i32,
    String,
    DateTime<Utc>,
    DateTime<Utc>,
    ClaimToken,
    Option<f32>,
    Option<String>,
    Option<DateTime<Utc>>,
);

statement! {
    RunsOf = "worker_runs.sql", (
        tenant: TenantId as SqlUuid,
        worker: WorkerId as SqlUuid,
        limit: i64 as BigInt,
    ) -> (
        SqlUuid, SqlUuid, Text, Int4, Text, Timestamptz, Timestamptz, BigInt, Nullable<Float>, Nullable<Text>,
        Nullable<Timestamptz>,
    )
}

/// The runs of the tenant that the worker holds now, oldest claim first, at most `limit`.
pub async fn current_runs(
    conn: &mut Conn,
    tenant: TenantId,
    worker: WorkerId,
    limit: i64,
) -> DbResult<Vec<WorkerRun>> {
    let rows: Vec<Row> = RunsOf { tenant, worker, limit }.load(conn).await?;
    Ok(rows.into_iter().map(worker_run).collect())
}

fn worker_run(row: Row) -> WorkerRun {
    let (
        dispatch_id,
        job_id,
        job_name,
        attempt,
        queue,
        scheduled_for,
        claimed_at,
        token,
        percent,
        message,
        at,
    ) = row;
    WorkerRun {
        dispatch_id,
        execution_id: execution_id(claimed_at, dispatch_id, token),
        job_id,
        job_name,
        attempt,
        queue,
        scheduled_for,
        claimed_at,
        progress: message.zip(at).map(|(message, updated_at)| Progress { percent, message, updated_at }),
    }
}
