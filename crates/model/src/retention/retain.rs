//! Retention: deletes old finished data, one page at a time.
//!
//! Each function processes one page in its caller's fenced transaction. A page is short, costs the
//! same whether much or little is deleted, and does not wait for locks of other transactions. The
//! caller continues from the returned position until the end of the old data. It may forget the
//! position: a restart costs only reads. A process that dies in between has deleted whole pages
//! only.
//!
//! Completeness stays provable. Records of fire times form a chain for each job
//! ([`crate::dispatching::tick`]), and a deleted record leaves its successor with a broken link. So
//! the same transaction sets `scheduled_jobs.ledger_starts_at` not earlier than the last deleted
//! fire time: a link into the time before it means retention, any other broken link means a lost
//! record.
//!
//! # Design notes
//! - Runs are found by their primary key, whose time-ordered ids make "older than" a range. An
//!   index by time would cost every completion. Instead, each pass reads rows that must stay longer
//!   (dead letters, open runs) once.
//! - The end of an attempt waits for a page that locks its job, so pages must stay short.
//! - `ledger_starts_at` is set to the cutoff, a whole hour: this pass deletes everything up to it,
//!   and a job is then written once an hour and not once a page.
//! - Plain functions of a connection: a worker can run them as a built-in job, as the leader does.

use chrono::{DateTime, TimeDelta, Utc};
use diesel::sql_types::{BigInt, Nullable, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::{Conn, DbResult};
use sched_domain::ids::first_of;
use sched_domain::retention::Cutoffs;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<P> {
    /// Start of the next page; `None` after the last one.
    pub next: Option<P>,
    /// Number of rows that were deleted or cleared.
    pub deleted: u64,
}

/// Rows seen, the last of them, and rows deleted.
type PageCounts<P> = (i64, Option<P>, i64);

fn page<P>((seen, last, deleted): PageCounts<P>, limit: i64) -> Page<P> {
    Page { next: last.filter(|_| seen >= limit), deleted: u64::try_from(deleted).unwrap_or(0) }
}

statement! {
    Dispatches = "retain/retention_dispatches.sql", (
        after: Uuid as SqlUuid,
        before: Uuid as SqlUuid,
        limit: i64 as BigInt,
        finished: DateTime<Utc> as Timestamptz,
        dead_letters: DateTime<Utc> as Timestamptz,
    ) -> (BigInt, Nullable<SqlUuid>, BigInt)
}

/// Deletes finished runs among the next `limit` after `after`, oldest first ([`Uuid::nil`] for the
/// start).
pub async fn dispatches(conn: &mut Conn, cutoffs: &Cutoffs, after: Uuid, limit: i64) -> DbResult<Page<Uuid>> {
    let Cutoffs { finished, dead_letters, .. } = *cutoffs;
    let before = first_of(finished.max(dead_letters));
    let counted: PageCounts<Uuid> =
        Dispatches { after, before, limit, finished, dead_letters }.get_result(conn).await?;
    Ok(page(counted, limit))
}

statement! {
    Skips = "retain/retention_skips.sql", (
        after: i64 as BigInt,
        limit: i64 as BigInt,
        finished: DateTime<Utc> as Timestamptz,
    ) -> (BigInt, Nullable<BigInt>, BigInt)
}

/// Deletes records of skipped fires among the next `limit` after `after` (0 for the start).
pub async fn skips(conn: &mut Conn, cutoffs: &Cutoffs, after: i64, limit: i64) -> DbResult<Page<i64>> {
    let counted: PageCounts<i64> =
        Skips { after, limit, finished: cutoffs.finished }.get_result(conn).await?;
    Ok(page(counted, limit))
}

statement! {
    Keys = "retain/retention_keys.sql", (
        after: Uuid as SqlUuid,
        before: Uuid as SqlUuid,
        limit: i64 as BigInt,
    ) -> (BigInt, Nullable<SqlUuid>, BigInt)
}

/// Clears the idempotency keys of finished runs among the next `limit` runs with a key after
/// `after`.
///
/// Only of runs created before `before`. The keys may then be used again, and the unique index
/// contains only relevant keys.
pub async fn idempotency_keys(
    conn: &mut Conn,
    before: DateTime<Utc>,
    after: Uuid,
    limit: i64,
) -> DbResult<Page<Uuid>> {
    let counted: PageCounts<Uuid> = Keys { after, before: first_of(before), limit }.get_result(conn).await?;
    Ok(page(counted, limit))
}

statement! {
    Answers = "retain/retention_answers.sql", (before: DateTime<Utc> as Timestamptz, limit: i64 as BigInt) -> BigInt
}

/// Deletes up to `limit` stored responses from before `before`; returns their number. The same
/// request then counts as new.
pub async fn answers(conn: &mut Conn, before: DateTime<Utc>, limit: i64) -> DbResult<u64> {
    let deleted: i64 = Answers { before, limit }.get_result(conn).await?;
    Ok(u64::try_from(deleted).unwrap_or(0))
}

statement! {
    Audit = "retain/retention_audit.sql", (
        audit: DateTime<Utc> as Timestamptz,
        finished: DateTime<Utc> as Timestamptz,
        limit: i64 as BigInt,
    ) -> (BigInt, BigInt, BigInt)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeletedRows {
    pub entries: u64,
    pub terms: u64,
    pub workers: u64,
}

impl DeletedRows {
    /// Whether a limit was reached, so that there may be more rows.
    #[must_use]
    pub fn may_be_more(&self, limit: i64) -> bool {
        let most = self.entries.max(self.terms).max(self.workers);
        i64::try_from(most).is_ok_and(|most| most >= limit)
    }
}

/// Deletes up to `limit` each of the oldest audit entries, of the oldest terms, and of the names of
/// workers removed before the oldest stored history.
pub async fn delete_expired(conn: &mut Conn, cutoffs: &Cutoffs, limit: i64) -> DbResult<DeletedRows> {
    let Cutoffs { audit, finished, .. } = *cutoffs;
    let (entries, terms, workers): (i64, i64, i64) =
        Audit { audit, finished, limit }.get_result(conn).await?;
    let count = |rows: i64| u64::try_from(rows).unwrap_or(0);
    Ok(DeletedRows { entries: count(entries), terms: count(terms), workers: count(workers) })
}

statement! {
    Credentials = "retain/retention_credentials.sql", (finished: DateTime<Utc> as Timestamptz, limit: i64 as BigInt) -> (BigInt, BigInt)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeletedCredentials {
    pub sessions: u64,
    pub api_keys: u64,
}

/// Deletes up to `limit` expired sessions, and as many API keys that ended before all stored history.
///
/// The leader calls it, so that workers need no rights on these tables.
pub async fn credentials(conn: &mut Conn, cutoffs: &Cutoffs, limit: i64) -> DbResult<DeletedCredentials> {
    let (sessions, api_keys): (i64, i64) =
        Credentials { finished: cutoffs.finished, limit }.get_result(conn).await?;
    let count = |rows| u64::try_from(rows).unwrap_or(0);
    Ok(DeletedCredentials { sessions: count(sessions), api_keys: count(api_keys) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strays {
    pub attempts: u64,
    pub output: u64,
    pub events: u64,
}

impl Strays {
    /// Whether a limit was reached, so that there may be more rows.
    #[must_use]
    pub fn may_be_more(&self, limit: i64) -> bool {
        let limit = u64::try_from(limit).unwrap_or(0);
        self.attempts >= limit || self.output >= limit || self.events >= limit
    }
}

statement! {
    StrayRows = "retain/retention_strays.sql", (finished: DateTime<Utc> as Timestamptz, limit: i64 as BigInt) -> (BigInt, BigInt, BigInt)
}

/// Deletes up to `limit` old rows from each default partition. Other months are removed whole
/// ([`crate::connection::partitions`]).
pub async fn strays(conn: &mut Conn, cutoffs: &Cutoffs, limit: i64) -> DbResult<Strays> {
    let (attempts, output, events): (i64, i64, i64) =
        StrayRows { finished: cutoffs.finished, limit }.get_result(conn).await?;
    let count = |rows| u64::try_from(rows).unwrap_or(0);
    Ok(Strays { attempts: count(attempts), output: count(output), events: count(events) })
}

statement! {
    Live = "retain/retention_live.sql", (limit: i64 as BigInt) -> BigInt
}

/// Deletes the live output of up to `limit` ended attempts, and returns their number. Workers
/// delete their own; this covers workers that died.
pub async fn live(conn: &mut Conn, limit: i64) -> DbResult<u64> {
    let attempts: i64 = Live { limit }.get_result(conn).await?;
    Ok(u64::try_from(attempts).unwrap_or(0))
}

/// Retention of the totals by minute: the longest window that the API shows, and a day.
const MINUTES_KEPT: TimeDelta = TimeDelta::days(32);

statement! {
    Minutes = "retain/retention_minutes.sql", (before: DateTime<Utc> as Timestamptz, limit: i64 as BigInt) -> BigInt
}

/// Deletes up to `limit` old totals by minute, and returns their number.
pub async fn minutes(conn: &mut Conn, now: DateTime<Utc>, limit: i64) -> DbResult<u64> {
    let deleted: i64 = Minutes { before: now - MINUTES_KEPT, limit }.get_result(conn).await?;
    Ok(u64::try_from(deleted).unwrap_or(0))
}
