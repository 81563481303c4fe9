//! Overview: the state of an installation, and what in it needs an operator.
//!
//! Waiting and running runs are counted through the indexes of waiting runs and the claims of
//! workers, never in the whole table. The numbers are not one snapshot.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::schema::scheduled_jobs;
use crate::{Conn, DbResult, connection::database_clock, explain::blockers};
use sched_domain::explain::waits::QueueFacts;
use sched_domain::ids::TenantId;
use sched_domain::job::Scope;

#[derive(Debug, Clone, Queryable)]
pub struct Counts {
    /// The database's clock.
    pub now: DateTime<Utc>,
    pub jobs_active: i64,
    /// Disabled or paused jobs.
    pub jobs_inactive: i64,
    pub jobs_quarantined: i64,
    pub dispatches_pending: i64,
    pub dispatches_running: i64,
    pub next_run_at: Option<DateTime<Utc>>,
    pub workers_online: i64,
    /// Schedulers with a heartbeat within the lease.
    pub schedulers_online: i64,
    /// Seconds since the last heartbeat of the current or last leader; `None` without one.
    pub leader_silence: Option<f64>,
}

/// A queue with waiting runs, or one that is paused or limited.
#[derive(Debug, Clone)]
pub struct Waiting {
    pub queue: QueueFacts,
    pub waiting: i64,
    pub oldest_claimable_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct DueJob {
    pub name: String,
    pub next_run_at: DateTime<Utc>,
}

#[derive(Debug, Clone, Queryable)]
pub struct Quarantined {
    pub name: String,
    pub reason: Option<String>,
}

statement! {
    CountAll = "overview/overview_counts.sql", (tenant: TenantId as SqlUuid, lease_seconds: f64 as Double) -> (
        Timestamptz, BigInt, BigInt, BigInt, BigInt, BigInt, Nullable<Timestamptz>, BigInt, BigInt, Nullable<Double>
    )
}

statement! {
    WaitingQueues = "overview/overview_waiting.sql", (tenant: TenantId as SqlUuid) -> (Text, BigInt, Nullable<Timestamptz>)
}

/// `lease`: the lease of the leader, after which a silent scheduler counts as gone.
pub async fn counts(conn: &mut Conn, tenant: TenantId, lease: Duration) -> DbResult<Counts> {
    Ok(CountAll { tenant, lease_seconds: lease.as_secs_f64() }.get_result(conn).await?)
}

/// Queues of a tenant that have waiting runs or are paused or limited; by name.
pub async fn waiting(conn: &mut Conn, tenant: TenantId) -> DbResult<Vec<Waiting>> {
    let rows: Vec<(String, i64, Option<DateTime<Utc>>)> = WaitingQueues { tenant }.load(conn).await?;
    let names: Vec<String> = rows.iter().map(|(name, _, _)| name.clone()).collect();
    let mut facts: HashMap<String, QueueFacts> = blockers::queue_facts(conn, tenant, &names)
        .await?
        .into_iter()
        .map(|queue| (queue.name.clone(), queue))
        .collect();
    let waiting = rows.into_iter().filter_map(|(name, waiting, oldest_claimable_at)| {
        Some(Waiting { queue: facts.remove(&name)?, waiting, oldest_claimable_at })
    });
    Ok(waiting.collect())
}

/// The jobs of a tenant that fire next, without paused ones, at most `limit`.
pub async fn next_due(conn: &mut Conn, tenant: TenantId, limit: i64) -> DbResult<Vec<DueJob>> {
    use scheduled_jobs as j;
    let found = j::table
        .filter(j::tenant_id.eq(tenant))
        .filter(j::next_run_at.is_not_null())
        .filter(j::is_enabled)
        .filter(
            diesel::dsl::not(j::is_paused)
                .or(j::paused_until.le(database_clock::clock_timestamp().nullable()).assume_not_null()),
        )
        .order((j::next_run_at, j::name))
        .limit(limit)
        .select((j::name, j::next_run_at.assume_not_null()))
        .load(conn)
        .await?;
    Ok(found)
}

/// Jobs of a tenant that the scheduler disabled automatically, at most `limit`, by name.
pub async fn quarantined(conn: &mut Conn, tenant: TenantId, limit: i64) -> DbResult<Vec<Quarantined>> {
    use scheduled_jobs as j;
    let found = j::table
        .filter(j::tenant_id.eq(tenant))
        .filter(j::deleted_at.is_null())
        .filter(diesel::dsl::not(j::is_enabled))
        .filter(j::disabled_reason.is_not_null())
        .filter(j::last_fire_at.is_not_null().or(j::scope.eq(Scope::Project)))
        .order(j::name)
        .limit(limit)
        .select((j::name, j::disabled_reason))
        .load(conn)
        .await?;
    Ok(found)
}
