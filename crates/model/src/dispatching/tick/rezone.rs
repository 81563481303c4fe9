//! Jobs whose next fire was computed from other zone tables than those of this process.

use chrono::{DateTime, Utc};
use diesel::sql_types::{BigInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::{DueJob, RezoneLock};
use crate::{Conn, DbResult};
use sched_domain::ids::{JobId, TenantId};

statement! {
    RezoneCandidates<'a> = "rezone/rezone_candidates.sql", (
        tenant: TenantId as SqlUuid,
        id: JobId as SqlUuid,
        tzdata_version: &'a str as Text,
        limit: i64 as BigInt,
    ) -> (SqlUuid, SqlUuid)
}

/// Up to `limit` jobs after `after`, by key, whose future next fire was computed from other zone
/// tables.
pub async fn computed_elsewhere(
    conn: &mut Conn,
    after: (TenantId, JobId),
    tzdata_version: &str,
    limit: i64,
) -> DbResult<Vec<(TenantId, JobId)>> {
    Ok(RezoneCandidates { tenant: after.0, id: after.1, tzdata_version, limit }.load(conn).await?)
}

/// Locks those of the jobs for which this still holds at `now`. Call it in a fenced transaction.
pub async fn lock_computed_elsewhere(
    conn: &mut Conn,
    now: DateTime<Utc>,
    tzdata_version: &str,
    jobs: &[(TenantId, JobId)],
) -> DbResult<Vec<DueJob>> {
    let (tenants, jobs): (Vec<Uuid>, Vec<Uuid>) = jobs.iter().map(|(tenant, job)| (tenant.0, job.0)).unzip();
    Ok(RezoneLock { now, tzdata_version, tenants: &tenants, jobs: &jobs }.load(conn).await?)
}
