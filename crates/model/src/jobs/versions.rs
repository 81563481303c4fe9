//! Versions of a job: its settings after every change, newest first.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::super::schema::scheduled_job_versions as v;
use super::super::{Conn, DbResult, PageRequest};
use sched_domain::ids::{JobId, TenantId};

#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = super::super::schema::scheduled_job_versions, check_for_backend(diesel::pg::Pg))]
pub struct JobVersion {
    pub version: i64,
    pub change: String,
    /// In the format of this release or an earlier one.
    pub settings: serde_json::Value,
    pub changed_at: DateTime<Utc>,
    /// Component or user e-mail address.
    pub changed_src: String,
    pub pause_reason: Option<String>,
    pub paused_until: Option<DateTime<Utc>>,
}

/// A page of a job's versions, newest first: those before the version `page.after`, or the newest
/// ones.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    page: PageRequest<Option<i64>>,
) -> DbResult<Vec<JobVersion>> {
    Ok(v::table
        .filter(v::tenant_id.eq(tenant))
        .filter(v::job_id.eq(job))
        .filter(v::version.lt(page.after.unwrap_or(i64::MAX)))
        .order(v::version.desc())
        .limit(page.limit)
        .select(JobVersion::as_select())
        .load(conn)
        .await?)
}

pub async fn last_deletion(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
) -> DbResult<Option<(DateTime<Utc>, Option<String>)>> {
    let found: Option<(DateTime<Utc>, serde_json::Value)> = v::table
        .filter(v::tenant_id.eq(tenant))
        .filter(v::job_id.eq(job))
        .filter(v::change.eq("deleted"))
        .order(v::version.desc())
        .select((v::changed_at, v::settings))
        .first(conn)
        .await
        .optional()?;
    Ok(found
        .map(|(at, settings)| (at, settings.get("name").and_then(|name| name.as_str()).map(str::to_owned))))
}
