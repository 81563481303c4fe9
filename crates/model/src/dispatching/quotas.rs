//! Quotas of tenants: their limits, their usage, and the checks when something is created.
//!
//! An unset quota costs only the read that finds it unset. Each quota is enforced in one place:
//! - `jobs`: by the transaction that creates a job. It locks the tenant's row before it writes the
//!   job, until the commit, and counts the jobs. No stored counter can drift.
//! - `dispatches_per_minute`: by ticks ([`super::tick`]) and triggers, with one counter.
//! - `running_dispatches`: by claims ([`crate::running::claims::claim_limited`]).
//! - `log_bytes`: when the output of attempts is stored ([`crate::running::attempts`]).
//!
//! # Crashes
//! A process that dies has used nothing that it did not commit.

use diesel::prelude::*;
use diesel::sql_types::{BigInt, Date, Jsonb, Nullable, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};

use super::tick::{self, QuotaRequest, next_quota_window};
use crate::jobs::SaveError;
use crate::{Conn, DbError, DbResult};
use sched_domain::ids::TenantId;

/// The limits of a tenant; an unset limit means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quotas {
    /// Number of jobs, without built-in and deleted ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<i64>,
    /// Number of runs that fires and triggers may create in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatches_per_minute: Option<i64>,
    /// Number of runs that may be running at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_dispatches: Option<i64>,
    /// Bytes of output that are kept per day (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<i64>,
}

impl Quotas {
    /// # Errors
    /// A value that was written past the constraint.
    pub fn stored(value: serde_json::Value) -> DbResult<Self> {
        serde_json::from_value(value).map_err(|error| DbError::Corrupt {
            what: "quotas of a tenant".into(),
            reason: error.to_string(),
        })
    }
}

statement! {
    HoldJobs = "quotas/quotas_hold_jobs.sql", (tenant: TenantId as SqlUuid) -> BigInt
}

statement! {
    CountJobs = "quotas/quotas_count_jobs.sql", (tenant: TenantId as SqlUuid) -> BigInt
}

/// The quota of jobs of a tenant, locked against other transactions that create jobs of that
/// tenant.
#[derive(Debug)]
#[must_use = "it is to be checked when the jobs are written"]
pub struct JobsQuota {
    tenant: TenantId,
    limit: Option<i64>,
}

/// Locks the quota until the end of the transaction, if one is set. Call it before any other lock.
pub async fn hold_jobs(conn: &mut Conn, tenant: TenantId) -> DbResult<JobsQuota> {
    let limit = HoldJobs { tenant }.get_result(conn).await.optional()?;
    Ok(JobsQuota { tenant, limit })
}

impl JobsQuota {
    /// Checks the quota after `created` jobs were created or restored.
    ///
    /// # Errors
    /// [`SaveError::Quota`]; then roll the transaction back.
    pub async fn check(self, conn: &mut Conn, created: usize) -> Result<(), SaveError> {
        let Some(limit) = self.limit.filter(|_| created > 0) else { return Ok(()) };
        let there: i64 = CountJobs { tenant: self.tenant }.get_result(conn).await?;
        if there > limit {
            let created = i64::try_from(created).unwrap_or(i64::MAX);
            return Err(SaveError::Quota { limit, used: there - created });
        }
        Ok(())
    }
}

/// The quota that rejects a trigger, and the time until a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchesUsedUp {
    /// Number of runs that the tenant may create in a minute.
    pub limit: i64,
    /// Seconds until the next minute of the quota, at least 1.
    pub after_seconds: u32,
}

/// Runs taken from a quota.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaGrant {
    pub(crate) granted: i64,
    /// The error for the triggers that got no run; `None` without a quota.
    pub(crate) used_up: Option<DispatchesUsedUp>,
}

/// Takes as many runs as are wanted and left, until the end of the transaction. The caller holds
/// the locks on their jobs.
pub(crate) async fn take_dispatches(conn: &Conn, request: QuotaRequest) -> DbResult<QuotaGrant> {
    let QuotaRequest { limit, now, .. } = request;
    let granted = tick::take_from_quota(conn, request).await?;
    let wait = (next_quota_window(now) - now).num_seconds() + 1;
    let after_seconds = u32::try_from(wait.clamp(1, 60)).unwrap_or(60);
    Ok(QuotaGrant { granted, used_up: Some(DispatchesUsedUp { limit, after_seconds }) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct QuotaUsage {
    /// Without built-in and deleted jobs.
    pub jobs: i64,
    /// Runs created in this minute; counted only if limited.
    pub dispatches: Option<i64>,
    pub running: i64,
    /// Bytes of output kept today; counted only if limited.
    pub log_bytes: Option<i64>,
    /// Bytes of output dropped today, because the quota was used up.
    pub log_bytes_dropped: Option<i64>,
    /// Day (UTC) of the byte counts.
    pub day: chrono::NaiveDate,
}

statement! {
    ReadUsed = "quotas/quotas_used.sql", (tenant: TenantId as SqlUuid) -> (
        Jsonb, BigInt, Nullable<BigInt>, BigInt, Nullable<BigInt>, Nullable<BigInt>, Date,
    )
}

/// The quotas of a tenant and their usage. The transaction has the scope of that tenant or of the
/// operator of the installation ([`crate::connection::row_security::Scope`]).
///
/// # Errors
/// [`DbError::NotFound`] if the tenant does not exist.
pub async fn usage(conn: &mut Conn, tenant: TenantId) -> DbResult<(Quotas, QuotaUsage)> {
    type Row = (serde_json::Value, i64, Option<i64>, i64, Option<i64>, Option<i64>, chrono::NaiveDate);
    let row: Row = ReadUsed { tenant }.get_result(conn).await?;
    let (quotas, jobs, dispatches, running, log_bytes, log_bytes_dropped, day) = row;
    Ok((Quotas::stored(quotas)?, QuotaUsage { jobs, dispatches, running, log_bytes, log_bytes_dropped, day }))
}
