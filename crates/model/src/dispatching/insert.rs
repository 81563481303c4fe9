//! Inserts runs: the one text for ticks, triggers, ends of jobs, retries and notifications.
//!
//! # Locks
//! The order is `scheduled_jobs` before `job_dispatch`. The caller locks the jobs in the order of
//! their ids, with a separate statement, and decides under these locks which runs are queued
//! ([`super::room`]). Then it calls [`insert`] in the same transaction, which writes the jobs'
//! counters under these locks.
//!
//! Four callers differ:
//! - A tick counts its runs when it moves the cursors ([`super::tick::write`]), so that each job
//!   gets one new row version. It calls [`insert_uncounted`].
//! - A planned fire ([`super::planned`]) moves its cursor and inserts its run in one statement. The
//!   update of the job takes the lock and compares all that the plan relied on.
//! - A trigger of a job that allows any number of runs ([`super::trigger`]) locks it FOR KEY SHARE in the
//!   same statement, and its runs are counted later.
//! - A notification locks the built-in job with the counters, after the insert. It holds the row of
//!   the cursor of notifications, so no other transaction inserts runs of that job for
//!   notifications, and it locks no other job.
//!
//! # Crashes
//! A process that dies before the commit has inserted and counted nothing. The same run inserted
//! again, by any process, meets the unique key and is not counted twice.

use std::borrow::Cow;
use std::collections::HashSet;

use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Bool, Jsonb, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde_json::Value;
use uuid::Uuid;

use crate::connection::statement::column;
use crate::{Conn, DbResult};
use sched_domain::ids::{DispatchId, InstanceId, JobId, TenantId, Term};
use sched_domain::run_state::Trigger;

#[derive(Debug, Clone)]
pub struct NewDispatch<'a> {
    pub id: DispatchId,
    pub tenant_id: TenantId,
    pub job_id: JobId,
    pub scheduled_for: DateTime<Utc>,
    pub available_at: DateTime<Utc>,
    /// The run waits for other runs of its job to end ([`super::overlap_queue`]).
    pub is_queued: bool,
    pub expires_at: Option<DateTime<Utc>>,
    pub queue: String,
    pub priority: i16,
    /// The version of the job, which the caller has locked.
    pub job_version: i64,
    /// An object; `None` for the arguments of that version, which must be stored
    /// ([`super::arguments`]).
    pub args: Option<Cow<'a, Value>>,
    pub is_catch_up: bool,
    /// Fire time of the preceding record; only for a fire.
    pub follows: Option<DateTime<Utc>>,
    pub origin: Origin<'a>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Origin<'a> {
    pub user: Option<&'a str>,
    /// Part of the unique key; `None` only for a fire.
    pub trigger_id: Option<Uuid>,
    pub retry_of: Option<DispatchId>,
    /// Unique for the job.
    pub idempotency_key: Option<&'a str>,
    /// W3C trace context; `None` if the run starts its own trace.
    pub traceparent: Option<&'a str>,
}

impl Origin<'_> {
    pub const FIRE: Self =
        Self { user: None, trigger_id: None, retry_of: None, idempotency_key: None, traceparent: None };
}

/// The leader, if the leader inserts the runs.
pub(crate) type Leader = Option<(InstanceId, Term)>;

/// Declares a statement that inserts runs. Its head defines `new`, the runs with all columns; its
/// end reads `created`, the inserted ones. Both lie in a folder beside this file.
macro_rules! dispatch_statement {
    ($(#[$meta:meta])* $name:ident <$lt:lifetime> = $head:literal, $end:literal, $($rest:tt)*) => {
        statement! {
            $(#[$meta])*
            $name<$lt> = $head before "insert/insert_dispatches.sql" $end, $($rest)*
        }
    };
}
pub(crate) use dispatch_statement;

macro_rules! insert_statement {
    ($name:ident = $end:literal) => {
        dispatch_statement! {
            $name<'a> = "insert/insert_given.sql", $end, (
                instance: Option<InstanceId> as Nullable<SqlUuid>,
                term: Option<Term> as Nullable<BigInt>,
                triggered_by: Trigger as Text,
                ids: &'a [DispatchId] as Array<SqlUuid>,
                tenants: &'a [TenantId] as Array<SqlUuid>,
                jobs: &'a [JobId] as Array<SqlUuid>,
                scheduled_for: &'a [DateTime<Utc>] as Array<Timestamptz>,
                available_at: &'a [DateTime<Utc>] as Array<Timestamptz>,
                queued: &'a [bool] as Array<Bool>,
                expire: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
                queues: &'a [&'a str] as Array<Text>,
                priorities: &'a [i16] as Array<SmallInt>,
                job_versions: &'a [i64] as Array<BigInt>,
                args: &'a [Option<&'a Value>] as Array<Nullable<Jsonb>>,
                catch_ups: &'a [bool] as Array<Bool>,
                follows: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
                users: &'a [Option<&'a str>] as Array<Nullable<Text>>,
                trigger_ids: &'a [Option<Uuid>] as Array<Nullable<SqlUuid>>,
                retries_of: &'a [Option<DispatchId>] as Array<Nullable<SqlUuid>>,
                keys: &'a [Option<&'a str>] as Array<Nullable<Text>>,
                traceparents: &'a [Option<&'a str>] as Array<Nullable<Text>>,
            ) -> SqlUuid
        }
    };
}

insert_statement! { InsertAndCount = "insert/insert_and_count.sql" }

insert_statement! { InsertAlone = "insert/insert_alone.sql" }

macro_rules! run_insert {
    ($statement:ident, $conn:ident, $leader:ident, $triggered_by:ident, $new:ident) => {{
        if $new.is_empty() {
            return Ok(Vec::new());
        }
        let inserted: Vec<DispatchId> = $statement {
            instance: $leader.map(|(instance, _)| instance),
            term: $leader.map(|(_, term)| term),
            triggered_by: $triggered_by,
            ids: &column($new, |n| n.id),
            tenants: &column($new, |n| n.tenant_id),
            jobs: &column($new, |n| n.job_id),
            scheduled_for: &column($new, |n| n.scheduled_for),
            available_at: &column($new, |n| n.available_at),
            queued: &column($new, |n| n.is_queued),
            expire: &column($new, |n| n.expires_at),
            queues: &column($new, |n| n.queue.as_str()),
            priorities: &column($new, |n| n.priority),
            job_versions: &column($new, |n| n.job_version),
            args: &column($new, |n| n.args.as_deref()),
            catch_ups: &column($new, |n| n.is_catch_up),
            follows: &column($new, |n| n.follows),
            users: &column($new, |n| n.origin.user),
            trigger_ids: &column($new, |n| n.origin.trigger_id),
            retries_of: &column($new, |n| n.origin.retry_of),
            keys: &column($new, |n| n.origin.idempotency_key),
            traceparents: &column($new, |n| n.origin.traceparent),
        }
        .load(&mut { $conn })
        .await?;
        Ok(of_ids($new, &inserted))
    }};
}

/// Inserts runs and counts them in their jobs. Returns the new ones, in their order.
pub(crate) async fn insert<'n>(
    conn: &Conn,
    leader: Leader,
    triggered_by: Trigger,
    new: &'n [NewDispatch<'n>],
) -> DbResult<Vec<&'n NewDispatch<'n>>> {
    run_insert!(InsertAndCount, conn, leader, triggered_by, new)
}

/// As [`insert`], with one statement for each source. Returns the number of new runs.
pub(crate) async fn insert_by_source(conn: &Conn, new: Vec<(Trigger, NewDispatch<'_>)>) -> DbResult<usize> {
    let mut inserted = 0;
    let mut left = new;
    while let [(source, _), ..] = left.as_slice() {
        let source = *source;
        let (now, later) = left.into_iter().partition::<Vec<_>, _>(|(of, _)| *of == source);
        let runs: Vec<NewDispatch<'_>> = now.into_iter().map(|(_, run)| run).collect();
        inserted += insert(conn, None, source, &runs).await?.len();
        left = later;
    }
    Ok(inserted)
}

/// As [`insert`]; the caller writes the jobs' counters in the same transaction.
pub(crate) async fn insert_uncounted<'n>(
    conn: &Conn,
    leader: Leader,
    triggered_by: Trigger,
    new: &'n [NewDispatch<'n>],
) -> DbResult<Vec<&'n NewDispatch<'n>>> {
    run_insert!(InsertAlone, conn, leader, triggered_by, new)
}

fn of_ids<'n>(new: &'n [NewDispatch<'n>], ids: &[DispatchId]) -> Vec<&'n NewDispatch<'n>> {
    // The usual case.
    if ids.len() == new.len() {
        return new.iter().collect();
    }
    let ids: HashSet<DispatchId> = ids.iter().copied().collect();
    new.iter().filter(|n| ids.contains(&n.id)).collect()
}
