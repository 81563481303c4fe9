//! Expiry: runs that no worker started in time, and queues without a live worker.
//!
//! A run may have a time by which its first attempt must start. Claims skip a run after that time,
//! and [`expire`] closes it, so no run starts too late or stays open forever. A table stores the
//! unserved queues, so each begin and end is reported once, whichever leader notices it. Every
//! write belongs into a fenced transaction. If it rolls back, for example because the process died,
//! the next check finds the same work.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct Expired {
    pub dispatch_id: DispatchId,
    pub tenant_id: TenantId,
    pub project_id: Option<ProjectId>,
    pub job_id: JobId,
    pub job_name: String,
    pub queue: String,
    pub scheduled_for: DateTime<Utc>,
    /// From this time on a worker could have started the run.
    pub available_at: DateTime<Utc>,
    /// A worker had to start the run before this time.
    pub expires_at: DateTime<Utc>,
    pub message: String,
    /// Whether the job has queued runs and may have room for one now.
    pub has_line: bool,
}

statement! {
    Expire = "expiry/waiting_expire.sql", (limit: i64 as BigInt) -> (
        SqlUuid, SqlUuid, Nullable<SqlUuid>, SqlUuid, Text, Text, Timestamptz, Timestamptz, Timestamptz, Text, Bool
    )
}

/// Closes up to `limit` expired runs as FAILED, the earliest `expires_at` first. History has a
/// record of each, with the reason.
///
/// Their jobs stay locked until the end of the transaction, so the caller can release the overlap
/// queues of those with [`Expired::has_line`].
pub async fn expire(conn: &mut Conn, limit: i64) -> DbResult<Vec<Expired>> {
    Ok(Expire { limit }.load(conn).await?)
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PendingExpiry {
    /// Whether [`expire`] has work.
    pub has_expired: bool,
    /// Queues that are unserved now, by name.
    pub unserved: Vec<String>,
    /// Queues that are unserved according to the table, by name.
    pub noted: Vec<String>,
}

impl PendingExpiry {
    /// Whether the table is up to date.
    #[must_use]
    pub fn is_noted(&self) -> bool {
        self.unserved == self.noted
    }
}

statement! {
    Look = "expiry/waiting_look.sql", (seconds: f64 as Double) -> (Nullable<Text>, Bool)
}

/// Checks for expired runs, at the end of an index, and for unserved queues.
///
/// A queue is unserved if it has had claimable runs for `patience` and no live worker serves it. A
/// draining worker takes no new runs and does not count.
pub async fn pending_work(conn: &mut Conn, patience: Duration) -> DbResult<PendingExpiry> {
    let rows: Vec<(Option<String>, bool)> = Look { seconds: patience.as_secs_f64() }.load(conn).await?;
    let mut found = PendingExpiry::default();
    for row in rows {
        match row {
            (None, _) => found.has_expired = true,
            (Some(queue), true) => found.unserved.push(queue),
            (Some(queue), false) => found.noted.push(queue),
        }
    }
    found.unserved.sort_unstable();
    found.noted.sort_unstable();
    Ok(found)
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct UnservedQueue {
    pub queue: String,
    /// Since when its oldest run was claimable.
    pub since: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct ServedQueue {
    pub queue: String,
    pub since: DateTime<Utc>,
    /// Whether a worker serves the queue now; otherwise no run waits in it.
    pub has_live_worker: bool,
}

statement! {
    NoteUnserved<'a> = "expiry/waiting_note_unserved.sql", (queues: &'a [String] as Array<Text>) -> (Text, Timestamptz)
}

statement! {
    ForgetUnserved<'a> = "expiry/waiting_forget_unserved.sql", (queues: &'a [String] as Array<Text>) -> (Text, Timestamptz, Bool)
}

/// Stores the unserved queues; returns the changes.
pub async fn note_unserved(
    conn: &mut Conn,
    queues: &[String],
) -> DbResult<(Vec<UnservedQueue>, Vec<ServedQueue>)> {
    let over = ForgetUnserved { queues }.load(conn).await?;
    let begun = NoteUnserved { queues }.load(conn).await?;
    Ok((begun, over))
}
