//! Health of the installation and totals of a tenant: numbers only.
//!
//! The numbers of all tenants come from a database function that returns no rows.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::ids::TenantId;

#[derive(Debug, Clone, PartialEq, Queryable)]
pub struct Health {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// Seconds since the leader's last heartbeat; `None` without a leader.
    pub leader_silence: Option<f64>,
    pub term: Option<i64>,
    /// Tasks of the leader that keep failing.
    pub failing_tasks: Vec<String>,
    /// Schedulers with a heartbeat within the lease.
    pub schedulers_online: i64,
    pub idle: i64,
    pub busy: i64,
    pub draining: i64,
    pub offline: i64,
    /// Due time of the job that has been due longest, of all tenants.
    pub oldest_due: Option<DateTime<Utc>>,
    /// Jobs of all tenants that the scheduler disabled automatically.
    pub quarantined: i64,
    /// Seconds since the oldest heartbeat of a living worker; `None` without one.
    pub oldest_worker_heartbeat: Option<f64>,
}

statement! {
    Look = "health/health.sql", (lease_seconds: f64 as Double) -> (
        Timestamptz, Nullable<Double>, Nullable<BigInt>, Array<Text>, BigInt, BigInt, BigInt, BigInt, BigInt,
        Nullable<Timestamptz>, BigInt, Nullable<Double>,
    )
}

/// `lease`: the lease of the leader, after which a silent scheduler counts as gone.
pub async fn load(conn: &mut Conn, lease: Duration) -> DbResult<Health> {
    Ok(Look { lease_seconds: lease.as_secs_f64() }.get_result(conn).await?)
}

#[derive(Debug, Clone, Copy, PartialEq, Queryable)]
pub struct Fleet {
    pub idle: i64,
    pub busy: i64,
    pub draining: i64,
    /// Seconds for which the oldest waiting run has been claimable; 0 if none is. Queued runs are
    /// not claimable.
    pub oldest_pending: f64,
}

statement! {
    LookFleet = "health/health_fleet.sql", () -> (BigInt, BigInt, BigInt, Double)
}

pub async fn fleet(conn: &mut Conn) -> DbResult<Fleet> {
    Ok(LookFleet {}.get_result(conn).await?)
}

/// Jobs of all tenants by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct JobCounts {
    pub enabled: i64,
    pub paused: i64,
    pub disabled: i64,
    pub quarantined: i64,
}

statement! {
    CountJobs = "health/health_jobs.sql", (most: i64 as BigInt) -> (BigInt, BigInt, BigInt, BigInt)
}

/// Counts at most `most` jobs.
pub async fn job_counts(conn: &mut Conn, most: i64) -> DbResult<JobCounts> {
    Ok(CountJobs { most }.get_result(conn).await?)
}

/// A job of any tenant with the time at which the leader decides about it next.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct NextDue {
    pub tenant: String,
    pub job: String,
    pub due_at: DateTime<Utc>,
    /// A pause of the job skips the fire, unless it ends before.
    pub is_paused: bool,
}

statement! {
    FirstDue = "health/health_next_due.sql", (limit: i64 as BigInt) -> (Text, Text, Timestamptz, Bool)
}

pub async fn next_due(conn: &mut Conn, limit: i64) -> DbResult<Vec<NextDue>> {
    Ok(FirstDue { limit }.load(conn).await?)
}

/// Work that should have been done for longer than some time, each with its age in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Queryable)]
pub struct Overdue {
    /// The job that has been due longest.
    pub due_job: Option<f64>,
    /// The run that has been claimable longest, without paused ones and those of limited queues.
    pub waiting_run: Option<f64>,
}

statement! {
    LookOverdue = "health/health_overdue.sql", (seconds: f64 as Double) -> (Nullable<Double>, Nullable<Double>)
}

/// Jobs of all tenants that have been due for longer than `after`, and runs that workers could have
/// claimed for longer than that.
pub async fn overdue(conn: &mut Conn, after: Duration) -> DbResult<Overdue> {
    Ok(LookOverdue { seconds: after.as_secs_f64() }.get_result(conn).await?)
}

#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    pub status: String,
    pub count: i64,
    /// Average duration in milliseconds; `None` for jobs.
    pub average_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    pub jobs: Vec<Total>,
    pub runs: Vec<Total>,
}

statement! {
    Count = "health/metrics.sql", (tenant: TenantId as SqlUuid, since: DateTime<Utc> as Timestamptz) -> (Text, Text, BigInt, Nullable<Double>)
}

/// Current jobs of a tenant, and its finished attempts with a start in the minute `since` or later. An
/// attempt is counted a few seconds after its end.
pub async fn totals(conn: &mut Conn, tenant: TenantId, since: DateTime<Utc>) -> DbResult<Totals> {
    let rows: Vec<(String, String, i64, Option<f64>)> = Count { tenant, since }.load(conn).await?;
    let mut totals = Totals::default();
    for (kind, status, count, average_ms) in rows {
        let of = if kind == "job" { &mut totals.jobs } else { &mut totals.runs };
        of.push(Total { status, count, average_ms });
    }
    Ok(totals)
}
