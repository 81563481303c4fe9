//! The state of an installation at a glance.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::{Conn, DbResult};
use crate::domain::ids::TenantId;

/// Counts of a tenant's jobs and work, and the processes that serve it.
#[derive(Debug, Clone, Queryable)]
pub struct Counts {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// Jobs that fire.
    pub jobs_active: i64,
    /// Jobs that are disabled or paused.
    pub jobs_inactive: i64,
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
    /// Whether one of them leads.
    pub has_leader: bool,
}

/// A queue with waiting work.
#[derive(Debug, Clone, Queryable)]
pub struct Waiting {
    /// The queue.
    pub queue: String,
    /// How many dispatches wait in it.
    pub waiting: i64,
    /// When the oldest could first have been claimed.
    pub oldest_claimable_at: DateTime<Utc>,
    /// Whether any living worker serves the queue.
    pub has_live_worker: bool,
    /// Whether the queue is paused.
    pub is_paused: bool,
}

statement! {
    CountAll = "overview_counts.sql", (tenant: TenantId as SqlUuid) -> (
        Timestamptz, BigInt, BigInt, BigInt, BigInt, Nullable<Timestamptz>, BigInt, BigInt, Bool
    )
}

statement! {
    WaitingQueues = "overview_waiting.sql", (tenant: TenantId as SqlUuid) -> (Text, BigInt, Timestamptz, Bool, Bool)
}

/// Counts for one tenant.
///
/// # Errors
/// When the database cannot be asked.
pub async fn counts(conn: &mut Conn, tenant: TenantId) -> DbResult<Counts> {
    Ok(CountAll { tenant }.get_result(conn).await?)
}

/// The queues of a tenant in which something waits.
///
/// # Errors
/// When the database cannot be asked.
pub async fn waiting(conn: &mut Conn, tenant: TenantId) -> DbResult<Vec<Waiting>> {
    Ok(WaitingQueues { tenant }.load(conn).await?)
}
