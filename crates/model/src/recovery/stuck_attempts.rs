//! What is stuck: the attempts that a reset would end as lost, and what would become of their dispatches.
//!
//! For who only wants to be told (`dry_run`), so it changes nothing and needs no fence. It says in one statement what [`crate::recovery::dead_workers`] finds in
//! three, and a test holds both against each other; what is told may be over by the time it is read.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::sql_types::{BigInt, Bool, Double, Nullable, Text};
use diesel_async::RunQueryDsl;

use crate::recovery::dead_workers::{Columns, Row};
use crate::recovery::lost_attempts::{Cause, Losses};
use crate::{Conn, DbResult};
use sched_domain::attempt::{OVERDUE_MARGIN, overdue_after};
use sched_domain::dispatch::DispatchStatus;
use sched_domain::ids::{DispatchId, WorkerId};

/// From when on something is stuck, as the schedulers have it in their settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Silence after which a worker is given up, if its own lease is no longer.
    pub worker_lease: Duration,
    /// How long an attempt may run at least where no claim says.
    pub unknown_limit: Duration,
    /// Attempts of jobs without a policy.
    pub max_attempts: u32,
}

/// An attempt that a reset would end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckAttempt {
    /// The dispatch.
    pub dispatch_id: DispatchId,
    /// Slug of the tenant.
    pub tenant: String,
    /// Name of the job; `None` when it is of another tenant than that of the transaction.
    pub job: Option<String>,
    /// Number of the attempt.
    pub attempt: u32,
    /// When it was claimed.
    pub claimed_at: DateTime<Utc>,
    /// The worker that claimed it.
    pub worker_id: WorkerId,
    /// Its host; `None` when the worker is not registered any more.
    pub hostname: Option<String>,
    /// Why it would be ended.
    pub cause: Cause,
    /// What its dispatch would be then.
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

/// What is stuck, at most `limit` attempts. Reads the whole table of dispatches. Call it in a transaction of the installation; in another it finds
/// nothing.
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

/// The attempt; the slug of its tenant and the host of its worker; whether its cancellation is wanted, a claim names it, and its worker is gone; and
/// how many seconds it may run.
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
