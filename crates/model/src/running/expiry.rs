//! What waits in vain: dispatches that nobody has begun in time, and queues that no living worker serves.
//!
//! A dispatch may carry an instant by which its first attempt must have begun. Claims pass over one whose instant has passed,
//! and [`expire`] closes it, so that nothing is begun too late and nothing stays open for ever. Which queues are unserved
//! is kept in a table, so that the beginning and the end are told once each, whichever leader notices. Every write here belongs into a
//! fenced transaction; one that is rolled back, by the death of the process or otherwise, leaves the same to be found by the next
//! look.

use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::{Conn, DbResult};
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};

/// A dispatch that was given up because nobody had begun it in time.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct Expired {
    /// The dispatch.
    pub dispatch_id: DispatchId,
    /// Owner.
    pub tenant_id: TenantId,
    /// Project of the job.
    pub project_id: Option<ProjectId>,
    /// The job.
    pub job_id: JobId,
    /// Its name.
    pub job_name: String,
    /// The queue it waited in.
    pub queue: String,
    /// The fire time, or when the trigger was made.
    pub scheduled_for: DateTime<Utc>,
    /// From when on it could have been begun.
    pub available_at: DateTime<Utc>,
    /// By when it was to be begun.
    pub expires_at: DateTime<Utc>,
    /// Why it was not, in words; as the dispatch keeps it.
    pub message: String,
    /// Whether others of the job stand in line and there may be room for one now.
    pub has_line: bool,
}

statement! {
    Expire = "expiry/waiting_expire.sql", (limit: i64 as BigInt) -> (
        SqlUuid, SqlUuid, Nullable<SqlUuid>, SqlUuid, Text, Text, Timestamptz, Timestamptz, Timestamptz, Text, Bool
    )
}

/// Closes up to `limit` dispatches that nobody has begun in time as FAILED, and returns them.
///
/// Those first whose time was over first. Their jobs stay locked to the end of the transaction, so that the lines of those with
/// [`Expired::has_line`] can be released in it.
pub async fn expire(conn: &mut Conn, limit: i64) -> DbResult<Vec<Expired>> {
    Ok(Expire { limit }.load(conn).await?)
}

/// What there is to do: whether something has expired, the queues that are unserved, and those that were when they were last noted; by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Whether there is anything for [`expire`] to do.
    pub has_expired: bool,
    /// Unserved now.
    pub unserved: Vec<String>,
    /// Unserved as noted.
    pub noted: Vec<String>,
}

impl Found {
    /// Whether what is noted is what is so.
    #[must_use]
    pub fn is_noted(&self) -> bool {
        self.unserved == self.noted
    }
}

statement! {
    Look = "expiry/waiting_look.sql", (seconds: f64 as Double) -> (Nullable<Text>, Bool)
}

/// Looks for dispatches that have expired, at the end of an index, and for unserved queues.
///
/// Those are queues in which something could have been
/// claimed for as long as `patience` and that no living worker serves. A worker that drains takes nothing new and does not count.
pub async fn look(conn: &mut Conn, patience: Duration) -> DbResult<Found> {
    let rows: Vec<(Option<String>, bool)> = Look { seconds: patience.as_secs_f64() }.load(conn).await?;
    let mut found = Found::default();
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

/// A queue that has become unserved.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct Begun {
    /// The queue.
    pub queue: String,
    /// Since when its oldest dispatch could have been claimed.
    pub since: DateTime<Utc>,
}

/// A queue that is unserved no more.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct Over {
    /// The queue.
    pub queue: String,
    /// Since when its oldest dispatch could have been claimed, when that was noticed.
    pub since: DateTime<Utc>,
    /// Whether a worker serves it now; otherwise nothing waits in it any more.
    pub has_live_worker: bool,
}

statement! {
    NoteUnserved<'a> = "expiry/waiting_note_unserved.sql", (queues: &'a [String] as Array<Text>) -> (Text, Timestamptz)
}

statement! {
    ForgetUnserved<'a> = "expiry/waiting_forget_unserved.sql", (queues: &'a [String] as Array<Text>) -> (Text, Timestamptz, Bool)
}

/// Notes that these queues and no others are unserved; returns what has changed.
pub async fn note_unserved(conn: &mut Conn, queues: &[String]) -> DbResult<(Vec<Begun>, Vec<Over>)> {
    let over = ForgetUnserved { queues }.load(conn).await?;
    let begun = NoteUnserved { queues }.load(conn).await?;
    Ok((begun, over))
}
