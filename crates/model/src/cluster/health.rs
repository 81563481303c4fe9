//! Health of the installation and totals of a tenant: numbers only.
//!
//! The numbers of all tenants come from a database function that returns no rows.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::ids::{ExecutionId, TenantId, first_of};

#[derive(Debug, Clone, PartialEq, Queryable)]
pub struct Health {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// Seconds since the leader's last heartbeat; `None` without a leader.
    pub leader_silence: Option<f64>,
    pub term: Option<i64>,
    pub schedulers: i64,
    pub idle: i64,
    pub busy: i64,
    pub draining: i64,
    pub offline: i64,
    /// Due time of the job that has been due longest, of all tenants.
    pub oldest_due: Option<DateTime<Utc>>,
    /// Jobs of all tenants that the scheduler disabled automatically.
    pub quarantined: i64,
}

statement! {
    Look = "health/health.sql", () -> (
        Timestamptz, Nullable<Double>, Nullable<BigInt>, BigInt, BigInt, BigInt, BigInt, BigInt, Nullable<Timestamptz>, BigInt
    )
}

pub async fn load(conn: &mut Conn) -> DbResult<Health> {
    Ok(Look {}.get_result(conn).await?)
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
    Count = "health/metrics.sql", (tenant: TenantId as SqlUuid, first: ExecutionId as SqlUuid) -> (Text, Text, BigInt, Nullable<Double>)
}

/// Current jobs of a tenant, and its finished attempts with a claim since `since`.
pub async fn totals(conn: &mut Conn, tenant: TenantId, since: DateTime<Utc>) -> DbResult<Totals> {
    let rows: Vec<(String, String, i64, Option<f64>)> =
        Count { tenant, first: ExecutionId(first_of(since)) }.load(conn).await?;
    let mut totals = Totals::default();
    for (kind, status, count, average_ms) in rows {
        let of = if kind == "job" { &mut totals.jobs } else { &mut totals.runs };
        of.push(Total { status, count, average_ms });
    }
    Ok(totals)
}
