//! The counters of jobs: open runs, and the time and state of the last run.
//!
//! A transaction that opens runs, or closes waiting ones, locks the jobs and counts at once. Two do
//! not, and [`count`] counts them later:
//! - The end of an attempt inserts its batch of ends into `uncounted_ends` in the same transaction
//!   ([`super::attempts`]).
//! - A trigger of a job that allows any number of runs inserts a row into `uncounted_openings`
//!   ([`crate::dispatching::trigger`]). A change of the overlap policy counts these rows first
//!   ([`count_openings`]).
//!
//! So `active_dispatches` of a job with a limit is never too low, and room that it shows is real.
//!
//! A count also adds the ends to `attempt_minutes`, the totals of a tenant by minute.
//!
//! # Callers
//! - The leader counts twice a second while attempts end or runs are triggered, and before a tick
//!   decides about due jobs.
//! - A worker counts at once after the end of a run whose job has an overlap queue, and after it
//!   recovered the attempts of another worker. Within a second it counts the ends that the leader
//!   has not counted.
//! - The API never counts. It queues a trigger of a job without room and notifies the leader, which
//!   counts and releases the run if the job has room.
//!
//! # Locks
//! `uncounted_ends` before `attempt_minutes` before `scheduled_jobs` before `uncounted_openings`.
//! Concurrent counts skip each other's batches of ends. Rows of `uncounted_openings` are deleted
//! only under the lock on their job, by a count and by each statement that closes or queues waiting
//! runs of a job that may have some, so not by that of the policy `cancel_oldest`. Such a statement
//! deletes the rows of all runs in its snapshot, so no counter falls below zero.
//!
//! # Crashes
//! The rows are deleted in the transaction that counts them. A batch is counted exactly once.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::connection::notify;
use crate::dispatching::overlap_queue;
use crate::schema::scheduled_jobs;
use crate::{Conn, DbError, DbResult, transact};
use sched_domain::ids::{JobId, TenantId};

/// Batches that one transaction counts.
const PAGE: i64 = 200;

statement! {
    Take = "job_counters/uncounted_take.sql", (page: i64 as BigInt)
        -> (SqlUuid, SqlUuid, Int4, Nullable<Timestamptz>, Nullable<Text>, Bool)
}

statement! {
    LockJobs<'a> = "job_counters/job_counters_lock.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
    ) -> SqlUuid
}

statement! {
    Add<'a> = "job_counters/job_counters_add.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        closed: &'a [i32] as Array<Int4>,
        last_run_at: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
        last_status: &'a [Option<&'a str>] as Array<Nullable<Text>>,
    ) -> (SqlUuid, SqlUuid, Bool)
}

statement! {
    HasUncounted = "job_counters/uncounted_exist.sql", (seconds: f64 as Double) -> Bool
}

/// Whether ends or runs wait to be counted.
pub async fn has_uncounted(conn: &mut Conn) -> DbResult<bool> {
    is_behind(conn, Duration::ZERO).await
}

/// Whether ends or runs have waited for longer than `patience` to be counted.
pub async fn is_behind(conn: &mut Conn, patience: Duration) -> DbResult<bool> {
    Ok(HasUncounted { seconds: patience.as_secs_f64() }.get_result(conn).await?)
}

/// One job in the batches that a transaction took, as the columns of [`Take`].
#[derive(Queryable)]
struct Ends {
    tenant: Uuid,
    job: Uuid,
    closed: i32,
    last_run_at: Option<DateTime<Utc>>,
    last_status: Option<String>,
    /// Whether the page was full.
    is_full: bool,
}

/// The work of [`count`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counted {
    pub jobs: usize,
    /// Queues that received runs from overlap queues; notify their workers after the commit.
    pub released_queues: Vec<String>,
}

struct Page {
    counted: Counted,
    /// More ends or runs may wait.
    is_full: bool,
}

/// Counts up to [`PAGE`] batches, and the runs of the jobs with the oldest uncounted ones, within the caller's transaction, which holds no lock on a job yet.
/// Releases queued runs of jobs that have room afterwards.
async fn count_page(conn: &mut Conn) -> DbResult<Page> {
    let ends: Vec<Ends> = Take { page: PAGE }.load(conn).await?;
    let Some(is_full) = <[Ends]>::first(&ends).map(|first| first.is_full) else {
        return Ok(Page { counted: Counted::default(), is_full: false });
    };
    let tenants: Vec<Uuid> = ends.iter().map(|e| e.tenant).collect();
    let jobs: Vec<Uuid> = ends.iter().map(|e| e.job).collect();
    LockJobs { tenants: &tenants, jobs: &jobs }.execute(conn).await?;
    let counted: Vec<(TenantId, JobId, bool)> = Add {
        tenants: &tenants,
        jobs: &jobs,
        closed: &ends.iter().map(|e| e.closed).collect::<Vec<_>>(),
        last_run_at: &ends.iter().map(|e| e.last_run_at).collect::<Vec<_>>(),
        last_status: &ends.iter().map(|e| e.last_status.as_deref()).collect::<Vec<_>>(),
    }
    .load(conn)
    .await?;
    let queues: Vec<(TenantId, JobId)> = counted
        .iter()
        .filter(|(_, _, has_queue)| *has_queue)
        .map(|(tenant, job, _)| (*tenant, *job))
        .collect();
    let released_queues = overlap_queue::release(conn, &queues).await?;
    Ok(Page { counted: Counted { jobs: ends.len(), released_queues }, is_full })
}

/// Counts all ends and runs that are committed when the call begins, in one or more transactions.
///
/// Without any, it sends a single query. It stops after a page that was not full, because new ends
/// and runs may arrive as fast as they are counted.
///
/// # Errors
/// Pages that were counted before the error stay counted; their notifications may be missing.
pub async fn count(conn: &mut Conn) -> DbResult<Counted> {
    let mut sum = Counted::default();
    while has_uncounted(conn).await? {
        let page =
            transact(conn, "count_ends", async |conn: &mut Conn| Ok::<_, DbError>(count_page(conn).await?))
                .await?;
        sum.jobs += page.counted.jobs;
        sum.released_queues.extend(page.counted.released_queues);
        // Without a job, another transaction counts the rest.
        if !page.is_full {
            break;
        }
    }
    sum.released_queues.sort_unstable();
    sum.released_queues.dedup();
    Ok(sum)
}

/// Locks a job against triggers until the end of the transaction, and counts all its runs. Call it
/// before a change of the overlap policy or a deletion.
///
/// FOR UPDATE waits for the triggers that hold the job FOR KEY SHARE. The next statement finds the
/// rows of their runs. It must be the first lock of the transaction on the job. A later FOR UPDATE
/// beside a lock of another transaction is one of several members of the row's lock. A trigger
/// with an older snapshot tests these members singly after the commit, and takes the job as it was.
pub(crate) async fn count_openings(conn: &mut Conn, tenant: TenantId, job: JobId) -> DbResult<()> {
    let job_row = scheduled_jobs::table.find((tenant, job)).select(scheduled_jobs::id);
    job_row.for_update().get_result::<JobId>(conn).await?;
    Add { tenants: &[tenant.0], jobs: &[job.0], closed: &[0], last_run_at: &[None], last_status: &[None] }
        .execute(conn)
        .await?;
    Ok(())
}

/// [`count`], and notifies the workers of released runs.
pub async fn count_and_notify(conn: &mut Conn) -> DbResult<Counted> {
    let counted = count(conn).await?;
    if let Err(error) = notify::dispatches_waiting(conn, &counted.released_queues).await {
        tracing::debug!(
            error = error.with_causes(),
            "notifying the workers failed; they find the work at their next poll"
        );
    }
    Ok(counted)
}
