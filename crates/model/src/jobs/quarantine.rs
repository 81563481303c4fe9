//! Quarantine: the scheduler disables jobs whose schedule cannot fire.
//!
//! As after a change by a user, the job has a new version, an entry in the audit log and an event.
//! So a write with the former version fails, and the history names the scheduler and not the next
//! editor. All of it belongs to the caller's transaction, which holds the locks on the jobs: a
//! process that dies in between leaves the jobs enabled. The number of statements does not depend
//! on the number of jobs, apart from one for each tenant.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde_json::{Value, json};

use super::{Job, by_ids};
use crate::connection::statement::column;
use crate::events::append::{self, NewEvent};
use crate::identity::audit::{self, AuditEntry};
use crate::{Conn, DbError, DbResult};
use sched_domain::ids::{JobId, ProjectId, TenantId};

/// Actor of the audit entry.
const ACTOR: &str = "scheduler";

/// A job to disable.
#[derive(Debug, Clone, Copy)]
pub struct Quarantine<'a> {
    pub tenant: TenantId,
    pub job: JobId,
    pub reason: &'a str,
    /// Later fires follow the new version; `None` for now.
    pub at: Option<DateTime<Utc>>,
}

statement! {
    Disable<'a> = "quarantine/quarantine_jobs.sql", (
        tenants: &'a [TenantId] as Array<SqlUuid>,
        jobs: &'a [JobId] as Array<SqlUuid>,
        reasons: &'a [&'a str] as Array<Text>,
        at: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
    ) -> (SqlUuid, SqlUuid, Nullable<SqlUuid>)
}

statement! {
    StoreVersions<'a> = "quarantine/quarantine_versions.sql", (
        tenants: &'a [TenantId] as Array<SqlUuid>,
        jobs: &'a [JobId] as Array<SqlUuid>,
        versions: &'a [i64] as Array<BigInt>,
        settings: &'a [Value] as Array<Jsonb>,
        changed_at: &'a [DateTime<Utc>] as Array<Timestamptz>,
    ) -> ()
}

/// Disables locked jobs, each with its reason. Does nothing without jobs.
pub async fn quarantine(conn: &mut Conn, jobs: &[Quarantine<'_>]) -> DbResult<()> {
    if jobs.is_empty() {
        return Ok(());
    }
    let written: Vec<(TenantId, JobId, Option<ProjectId>)> = Disable {
        tenants: &column(jobs, |it| it.tenant),
        jobs: &column(jobs, |it| it.job),
        reasons: &column(jobs, |it| it.reason),
        at: &column(jobs, |it| it.at),
    }
    .load(conn)
    .await?;
    let mut of_tenant = BTreeMap::<TenantId, HashMap<JobId, Option<ProjectId>>>::new();
    for (tenant, job, project) in written {
        of_tenant.entry(tenant).or_default().insert(job, project);
    }
    let mut disabled = Vec::new();
    for (tenant, projects) in &of_tenant {
        let ids: Vec<JobId> = projects.keys().copied().collect();
        let found = by_ids(conn, *tenant, &ids).await?;
        disabled
            .extend(found.into_iter().map(|job| (*tenant, projects.get(&job.id).copied().flatten(), job)));
    }
    let settings = disabled.iter().map(|(_, _, job)| settings_of(job)).collect::<DbResult<Vec<_>>>()?;
    StoreVersions {
        tenants: &column(&disabled, |(tenant, _, _)| *tenant),
        jobs: &column(&disabled, |(_, _, job)| job.id),
        versions: &column(&disabled, |(_, _, job)| job.state.version),
        settings: &settings,
        changed_at: &column(&disabled, |(_, _, job)| job.state.updated_at),
    }
    .execute(conn)
    .await?;
    audit::write(conn, &column(&disabled, |(tenant, _, job)| entry(*tenant, job))).await?;
    append::append(conn, &column(&disabled, |(tenant, project, job)| event(*tenant, *project, job))).await
}

fn settings_of(job: &Job) -> DbResult<Value> {
    serde_json::to_value(&job.settings).map_err(|error| DbError::Corrupt {
        what: format!("settings of job {}", job.id),
        reason: error.to_string(),
    })
}

/// Has the fields of an entry for the route that disables a job, and the reason.
fn entry(tenant: TenantId, job: &Job) -> AuditEntry {
    let state = &job.state;
    let flags = |is_enabled: bool, version: i64, reason: Option<&str>| {
        json!({
            "is_enabled": is_enabled,
            "disabled_reason": reason,
            "is_paused": state.is_paused,
            "pause_reason": state.pause_reason,
            "paused_until": state.paused_until,
            "version": version,
        })
    };
    AuditEntry {
        tenant_id: Some(tenant),
        actor: ACTOR.to_owned(),
        action: "disable_job",
        target_type: "job",
        target_id: job.id.to_string(),
        before: Some(flags(true, state.version - 1, None)),
        after: Some(flags(false, state.version, state.disabled_reason.as_deref())),
        request_id: None,
        address: None,
    }
}

/// Without `by`, which names a user: rules of notifications match only events without it.
fn event(tenant: TenantId, project: Option<ProjectId>, job: &Job) -> NewEvent {
    NewEvent {
        tenant_id: Some(tenant),
        project_id: project,
        job_id: Some(job.id),
        dispatch_id: None,
        event_type: append::JOB_DISABLED,
        payload: json!({"job_name": job.settings.name, "reason": job.state.disabled_reason}),
    }
}
