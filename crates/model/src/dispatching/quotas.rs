//! Quotas of tenants: what they are, how much of each is used, and those that are kept when something is created.
//!
//! A quota that is not set costs nothing beyond reading that it is not. `jobs` is kept by whoever makes one: the row of the tenant is held
//! from before the job is written until the commit, and what is there is counted, never kept in a counter that could drift.
//! `dispatches_per_minute` is kept by ticks ([`super::tick`]) and by triggers, by one count; `running_dispatches` by claims
//! ([`crate::running::claims::claim_limited`]); `log_bytes` when the output of attempts is stored ([`crate::running::attempts`]). A process that dies has used
//! nothing up that it did not commit.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Date, Jsonb, Nullable, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::{Deserialize, Serialize};

use super::tick::{self, next_quota_window};
use crate::jobs::SaveError;
use crate::{Conn, DbError, DbResult};
use sched_domain::ids::TenantId;

/// What a tenant may use; what is not set has no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Quotas {
    /// How many jobs it may have, built-in and deleted ones not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jobs: Option<i64>,
    /// How many dispatches fire times and triggers may make in a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatches_per_minute: Option<i64>,
    /// How many dispatches may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_dispatches: Option<i64>,
    /// How many bytes of output are kept in a day (UTC).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<i64>,
}

impl Quotas {
    /// The quotas that are stored as `value`, which a constraint has checked.
    ///
    /// # Errors
    /// When it was written past the constraint.
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

/// The quota of jobs of a tenant, held against everybody else who makes jobs of it.
#[derive(Debug)]
#[must_use = "it is to be checked when the jobs are written"]
pub struct JobsQuota {
    tenant: TenantId,
    limit: Option<i64>,
}

/// Holds the quota of jobs until the end of the transaction, before anything else is locked. Nothing is held without one.
///
/// # Errors
/// When the database cannot be asked.
pub async fn hold_jobs(conn: &mut Conn, tenant: TenantId) -> DbResult<JobsQuota> {
    let limit = HoldJobs { tenant }.get_result(conn).await.optional()?;
    Ok(JobsQuota { tenant, limit })
}

impl JobsQuota {
    /// Whether the tenant may have the jobs it has, now that `made` of them were made or restored.
    ///
    /// # Errors
    /// [`SaveError::Quota`] when it may not; the transaction is to be rolled back then.
    pub async fn check(self, conn: &mut Conn, made: usize) -> Result<(), SaveError> {
        let Some(limit) = self.limit.filter(|_| made > 0) else { return Ok(()) };
        let there: i64 = CountJobs { tenant: self.tenant }.get_result(conn).await?;
        if there > limit {
            let made = i64::try_from(made).unwrap_or(i64::MAX);
            return Err(SaveError::Quota { limit, used: there - made });
        }
        Ok(())
    }
}

/// Why a trigger is to be sent again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchesUsedUp {
    /// How many dispatches the tenant may have in a minute.
    pub limit: i64,
    /// In how many seconds the next minute of the quota begins, at least 1.
    pub after_seconds: u32,
}

/// What was taken off a quota of dispatches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// So many.
    pub(crate) granted: i64,
    /// What is told to those for whom none was left.
    pub(crate) used_up: DispatchesUsedUp,
}

/// Takes up to `wanted` dispatches off the quota of `limit` per minute, as many as are left, until the end of the transaction. The caller
/// holds their jobs.
///
/// # Errors
/// When the database cannot be asked.
pub(crate) async fn take_dispatches(
    conn: &Conn,
    tenant: TenantId,
    limit: i64,
    now: DateTime<Utc>,
    wanted: i64,
) -> DbResult<Taken> {
    let granted = tick::take_from_quota(conn, tenant, limit, now, wanted).await?;
    let wait = (next_quota_window(now) - now).num_seconds() + 1;
    let after_seconds = u32::try_from(wait.clamp(1, 60)).unwrap_or(60);
    Ok(Taken { granted, used_up: DispatchesUsedUp { limit, after_seconds } })
}

/// How much of the quotas of a tenant is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Used {
    /// Jobs, built-in and deleted ones not counted.
    pub jobs: i64,
    /// Dispatches of this minute; counted only where that is limited.
    pub dispatches: Option<i64>,
    /// Dispatches that run.
    pub running: i64,
    /// Bytes of output kept today; counted only where that is limited.
    pub log_bytes: Option<i64>,
    /// Bytes of output not kept today, because the quota was used up.
    pub log_bytes_dropped: Option<i64>,
    /// The day (UTC) of these.
    pub day: chrono::NaiveDate,
}

statement! {
    ReadUsed = "quotas/quotas_used.sql", (tenant: TenantId as SqlUuid) -> (
        Jsonb, BigInt, Nullable<BigInt>, BigInt, Nullable<BigInt>, Nullable<BigInt>, Date,
    )
}

/// The quotas of a tenant, and how much of each is used. The transaction names that tenant, or belongs to who operates the installation
/// ([`crate::connection::row_security::Scope`]).
///
/// # Errors
/// [`DbError::NotFound`] when there is no such tenant.
pub async fn used(conn: &mut Conn, tenant: TenantId) -> DbResult<(Quotas, Used)> {
    type Row = (serde_json::Value, i64, Option<i64>, i64, Option<i64>, Option<i64>, chrono::NaiveDate);
    let row: Row = ReadUsed { tenant }.get_result(conn).await?;
    let (quotas, jobs, dispatches, running, log_bytes, log_bytes_dropped, day) = row;
    Ok((Quotas::stored(quotas)?, Used { jobs, dispatches, running, log_bytes, log_bytes_dropped, day }))
}
