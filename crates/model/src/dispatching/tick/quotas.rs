//! Quotas of runs per minute: the usage, locked against other ticks until the transaction ends.
//!
//! A process that dies before the commit has used nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, DurationRound, TimeDelta, Utc};
use diesel::sql_types::{Array, BigInt, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::DueJob;
use crate::{Conn, DbResult};
use sched_domain::ids::TenantId;

/// The window of a quota begins this much before the full minute, so that runs held back go before
/// those that are due with the minute.
const QUOTA_LEAD: TimeDelta = TimeDelta::seconds(1);

/// The window that contains `now`, named by its minute.
#[must_use]
fn quota_minute(now: DateTime<Utc>) -> DateTime<Utc> {
    (now + QUOTA_LEAD).duration_trunc(TimeDelta::minutes(1)).unwrap_or(now)
}

#[must_use]
pub fn next_quota_window(now: DateTime<Utc>) -> DateTime<Utc> {
    quota_minute(now) + TimeDelta::minutes(1) - QUOTA_LEAD
}

statement! {
    OpenQuotas<'a> = "quotas/tick_open_quotas.sql", (
        minute: DateTime<Utc> as Timestamptz,
        tenants: &'a [Uuid] as Array<SqlUuid>,
    ) -> (SqlUuid, BigInt)
}

/// Subtracts the usage from the quotas of the jobs' tenants, and locks the usage against other
/// transactions until the end of this one. Sends no query if no tenant has a quota.
pub async fn open_quotas(conn: &mut Conn, now: DateTime<Utc>, jobs: &mut [DueJob]) -> DbResult<()> {
    let limited: BTreeSet<Uuid> =
        jobs.iter().filter(|job| job.quota_left.is_some()).map(|job| job.tenant_id.0).collect();
    if limited.is_empty() {
        return Ok(());
    }
    let tenants: Vec<Uuid> = limited.into_iter().collect();
    let used: Vec<(TenantId, i64)> =
        OpenQuotas { minute: quota_minute(now), tenants: &tenants }.load(conn).await?;
    let used: HashMap<TenantId, i64> = used.into_iter().collect();
    for job in jobs {
        let used = used.get(&job.tenant_id).copied().unwrap_or(0);
        job.quota_left = job.quota_left.map(|quota| (quota - used).max(0));
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaRequest {
    pub(crate) tenant: TenantId,
    /// Maximum number of runs per minute.
    pub(crate) limit: i64,
    pub(crate) wanted: i64,
    /// Time of the request, by the database's clock.
    pub(crate) now: DateTime<Utc>,
}

/// Takes up to `wanted` runs from a quota of `limit` per minute, and returns how many were left to
/// take. The window is locked until the end of the transaction, as by [`open_quotas`].
pub(crate) async fn take_from_quota(conn: &Conn, request: QuotaRequest) -> DbResult<i64> {
    let QuotaRequest { tenant, limit, wanted, now } = request;
    let used: Vec<(TenantId, i64)> =
        OpenQuotas { minute: quota_minute(now), tenants: &[tenant.0] }.load(&mut { conn }).await?;
    let used: i64 = used.iter().map(|(_, used)| *used).sum();
    let granted = wanted.min((limit - used).max(0));
    if granted > 0 {
        use_up(conn, &BTreeMap::from([(tenant, granted)])).await?;
    }
    Ok(granted)
}

statement! {
    UseQuotas<'a> = "quotas/tick_use_quotas.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        dispatched: &'a [i64] as Array<BigInt>,
    ) -> SqlUuid
}

/// Adds to the tenants' usage, which [`open_quotas`] has locked.
pub(super) async fn use_up(conn: &Conn, used: &BTreeMap<TenantId, i64>) -> DbResult<()> {
    if used.is_empty() {
        return Ok(());
    }
    let (tenants, dispatched): (Vec<Uuid>, Vec<i64>) =
        used.iter().map(|(tenant, used)| (tenant.0, *used)).unzip();
    UseQuotas { tenants: &tenants, dispatched: &dispatched }.execute(&mut { conn }).await?;
    Ok(())
}
