//! Stuck attempts: the attempts that a reset would end as lost, and the resulting states of their
//! runs.
//!
//! For `dry_run`: changes nothing and needs no fence. One statement finds what
//! [`crate::recovery::dead_workers`] finds in three; a test compares both. The result may be
//! outdated when it is read.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::sql_types::{BigInt, Bool, Double, Nullable, Text};
use diesel_async::RunQueryDsl;

use crate::recovery::dead_workers::{Columns, Row};
use crate::recovery::lost_attempts::{Cause, Losses};
use crate::{Conn, DbResult};
use sched_domain::attempt::{OVERDUE_MARGIN, overdue_after};
use sched_domain::ids::{DispatchId, WorkerId};
use sched_domain::run_state::DispatchStatus;

/// Limits as in the settings of the schedulers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Silence before a worker is marked OFFLINE, unless its own lease is longer.
    pub worker_lease: Duration,
    /// Minimum limit of an attempt whose claim has none.
    pub unknown_limit: Duration,
    /// Maximum attempts of jobs without a policy.
    pub max_attempts: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckAttempt {
    pub dispatch_id: DispatchId,
    pub tenant: String,
    /// `None` if the job belongs to a tenant other than the transaction's.
    pub job: Option<String>,
    pub attempt: u32,
    pub claimed_at: DateTime<Utc>,
    pub worker_id: WorkerId,
    /// `None` if the worker is not registered.
    pub hostname: Option<String>,
    pub cause: Cause,
    pub becomes: DispatchStatus,
}

statement! {
    Stuck = "stuck_attempts/recovery_stuck.sql", (
        worker_lease_seconds: f64 as Double,
        unknown_limit_seconds: f64 as Double,
        margin_seconds: f64 as Double,
        limit: i64 as BigInt,
    ) -> (Columns, Text, Nullable<Text>, Bool, Bool, Bool, Double)
}

/// Stuck attempts, at most `limit`. Reads the whole table `job_dispatch`. Call it in a transaction
/// of the installation; in one of a tenant it finds nothing.
pub async fn find(conn: &mut Conn, thresholds: Thresholds, limit: i64) -> DbResult<Vec<StuckAttempt>> {
    let Thresholds { worker_lease, unknown_limit, max_attempts } = thresholds;
    let statement = Stuck {
        worker_lease_seconds: worker_lease.as_secs_f64(),
        unknown_limit_seconds: unknown_limit.as_secs_f64(),
        margin_seconds: OVERDUE_MARGIN.as_secs_f64(),
        limit,
    };
    let rows: Vec<Found> = statement.load(conn).await?;
    let losses = Losses { max_attempts };
    Ok(rows.into_iter().filter_map(|found| stuck(found, worker_lease, losses)).collect())
}

/// The attempt; tenant slug; worker's host; whether cancellation is requested, a claim names it,
/// its worker is gone; time limit in seconds.
type Found = (Row, String, Option<String>, bool, bool, bool, f64);

fn stuck(found: Found, lease: Duration, losses: Losses) -> Option<StuckAttempt> {
    let (row, tenant, hostname, is_cancel_requested, has_claim, is_worker_gone, seconds) = found;
    let attempt = row.into_open();
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if !is_worker_gone && attempt.running_for() <= overdue_after(limit) {
        return None;
    }
    let cause = match (has_claim, is_worker_gone) {
        (false, _) => Cause::Stray,
        (true, true) => Cause::WorkerLost { lease },
        (true, false) => Cause::Overdue { limit },
    };
    Some(StuckAttempt {
        dispatch_id: attempt.dispatch_id,
        tenant,
        job: Some(attempt.job_name.clone()).filter(|name| !name.is_empty()),
        attempt: attempt.attempt,
        claimed_at: attempt.claimed_at,
        worker_id: attempt.worker_id,
        hostname,
        cause,
        becomes: match is_cancel_requested {
            true => DispatchStatus::Cancelled,
            false => losses.foresee(attempt, cause),
        },
    })
}
