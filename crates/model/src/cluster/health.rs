//! How the installation stands, and what became of the work of a tenant: numbers only.
//!
//! Read on demand; nothing is kept. What is told of all tenants at once comes from a function of the database that gives two numbers and no rows.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::ids::{ExecutionId, TenantId, first_of};

/// How the installation stands.
#[derive(Debug, Clone, PartialEq, Queryable)]
pub struct Health {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// For how many seconds the leader has said nothing; `None` without one.
    pub leader_silence: Option<f64>,
    /// Its term.
    pub term: Option<i64>,
    /// Registered schedulers.
    pub schedulers: i64,
    /// Workers that run nothing.
    pub idle: i64,
    /// Workers that run something.
    pub busy: i64,
    /// Workers that take nothing new.
    pub draining: i64,
    /// Workers that were given up, and are still registered.
    pub offline: i64,
    /// Since when the job is due that is due longest, of all tenants; `None` when none is.
    pub oldest_due: Option<DateTime<Utc>>,
    /// Jobs of all tenants that the scheduler has disabled by itself.
    pub quarantined: i64,
}

statement! {
    Look = "health/health.sql", () -> (
        Timestamptz, Nullable<Double>, Nullable<BigInt>, BigInt, BigInt, BigInt, BigInt, BigInt, Nullable<Timestamptz>, BigInt
    )
}

/// How the installation stands. Needs no tenant.
pub async fn look(conn: &mut Conn) -> DbResult<Health> {
    Ok(Look {}.get_result(conn).await?)
}

/// Who works, and how long work waits.
#[derive(Debug, Clone, Copy, PartialEq, Queryable)]
pub struct Fleet {
    /// Workers that run nothing.
    pub idle: i64,
    /// Workers that run something.
    pub busy: i64,
    /// Workers that take nothing new.
    pub draining: i64,
    /// For how many seconds the oldest dispatch could have been claimed that waits; 0 where none could. What stands in line behind others of
    /// its job could not.
    pub oldest_pending: f64,
}

statement! {
    LookFleet = "health/health_fleet.sql", () -> (BigInt, BigInt, BigInt, Double)
}

/// Who works, and how long work waits, of all tenants.
pub async fn fleet(conn: &mut Conn) -> DbResult<Fleet> {
    Ok(LookFleet {}.get_result(conn).await?)
}

/// How many of something there are.
#[derive(Debug, Clone, PartialEq)]
pub struct Total {
    /// What they are.
    pub status: String,
    /// How many.
    pub count: i64,
    /// How many milliseconds they took on average; `None` for what takes no time.
    pub average_ms: Option<f64>,
}

/// Totals of a tenant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Its jobs, deleted ones included.
    pub jobs: Vec<Total>,
    /// Its attempts.
    pub runs: Vec<Total>,
}

statement! {
    Count = "health/metrics.sql", (tenant: TenantId as SqlUuid, first: ExecutionId as SqlUuid) -> (Text, Text, BigInt, Nullable<Double>)
}

/// Totals of a tenant: its jobs as they are, and its attempts that were claimed since an instant and have ended.
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
