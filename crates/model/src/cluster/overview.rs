//! The state of an installation at a glance, and what in it needs an operator.
//!
//! Reads only. What waits and runs is counted in the indexes of what waits and through the claims of the workers, never in the table of
//! everything that has been. The numbers are of moments next to each other, not of one.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::schema::scheduled_jobs;
use crate::{Conn, DbResult, explain::blockers};
use sched_domain::explain::waits::QueueFacts;
use sched_domain::ids::TenantId;

/// Counts of a tenant's jobs and work, and the processes that serve it.
#[derive(Debug, Clone, Queryable)]
pub struct Counts {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// Jobs that fire.
    pub jobs_active: i64,
    /// Jobs that are disabled or paused.
    pub jobs_inactive: i64,
    /// Those that the scheduler has disabled by itself.
    pub jobs_quarantined: i64,
    /// Dispatches that wait.
    pub dispatches_pending: i64,
    /// Dispatches that run.
    pub dispatches_running: i64,
    /// When the next job is due.
    pub next_run_at: Option<DateTime<Utc>>,
    /// Living workers.
    pub workers_online: i64,
    /// Registered schedulers.
    pub schedulers: i64,
    /// How many seconds ago the one that leads, or led, has last said so; `None` without one.
    pub leader_silence: Option<f64>,
}

/// A queue in which something waits, or that is paused or limited.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The queue: its switch, its limits, and who serves it.
    pub queue: QueueFacts,
    /// How many dispatches wait in it.
    pub waiting: i64,
    /// When the oldest could first have been claimed.
    pub oldest_claimable_at: Option<DateTime<Utc>>,
}

/// A job that the scheduler has disabled by itself.
#[derive(Debug, Clone, Queryable)]
pub struct Quarantined {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: Option<String>,
}

statement! {
    CountAll = "overview/overview_counts.sql", (tenant: TenantId as SqlUuid) -> (
        Timestamptz, BigInt, BigInt, BigInt, BigInt, BigInt, Nullable<Timestamptz>, BigInt, BigInt, Nullable<Double>
    )
}

statement! {
    WaitingQueues = "overview/overview_waiting.sql", (tenant: TenantId as SqlUuid) -> (Text, BigInt, Nullable<Timestamptz>)
}

/// Counts for one tenant.
pub async fn counts(conn: &mut Conn, tenant: TenantId) -> DbResult<Counts> {
    Ok(CountAll { tenant }.get_result(conn).await?)
}

/// The queues of a tenant in which something waits, or that are paused or limited; by name.
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

/// Jobs of a tenant that the scheduler has disabled by itself, at most `limit`, by name.
pub async fn quarantined(conn: &mut Conn, tenant: TenantId, limit: i64) -> DbResult<Vec<Quarantined>> {
    use scheduled_jobs as j;
    let found = j::table
        .filter(j::tenant_id.eq(tenant))
        .filter(j::deleted_at.is_null())
        .filter(diesel::dsl::not(j::is_enabled))
        .filter(j::disabled_reason.is_not_null())
        .filter(j::last_fire_at.is_not_null())
        .order(j::name)
        .limit(limit)
        .select((j::name, j::disabled_reason))
        .load(conn)
        .await?;
    Ok(found)
}
