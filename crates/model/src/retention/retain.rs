//! Retention: finished things go when they are old, a page at a time.
//!
//! Each function does one page in the transaction of its caller, which fences it and commits: short, at the same cost whether
//! much may go or little, and without waiting for any lock that others hold. The caller goes on from the returned position until the
//! end of what is old; where it stands it may forget, for starting over costs reading and nothing else. A process that dies in between
//! has removed whole pages only.
//!
//! What stays provable: records of fire times form a chain for each job ([`crate::dispatching::tick`]), and removing one leaves its successor
//! pointing at nothing. So in the same transaction `scheduled_jobs.ledger_starts_at` is set no earlier than the last fire time that
//! goes: a link into the time before it says that retention was there, any other that a record was lost.
//!
//! # Design notes
//! - Dispatches are found by their primary key, whose time-ordered ids make "older than" a range: no index by time has to be kept,
//!   which each completion would pay for. The price is reading past what must stay longer (dead letters, what is still open), which a
//!   position that moves on pays once a pass.
//! - A page of a thousand scheduled dispatches of a thousand jobs, among a million of fifty thousand jobs, took 24 ms (median) on a busy
//!   machine with two cores: that is how long the end of an attempt of such a job may wait for it.
//! - `ledger_starts_at` is set to the cutoff, a whole hour, and not to the very last fire time that went: everything up to the cutoff
//!   goes with this pass, and a job is then written once an hour and not once a page. It says what may be gone.
//! - These are plain functions of a connection, so that a worker can run them as a job of the installation just as the leader does.

use chrono::{DateTime, Utc};
use diesel::sql_types::{BigInt, Nullable, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::{Conn, DbResult};
use sched_domain::ids::first_of;
use sched_domain::retention::Cutoffs;

/// What became of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page<P> {
    /// Where the next page begins; `None` when this was the last one.
    pub next: Option<P>,
    /// How many rows went, or lost what was to go.
    pub gone: u64,
}

/// Seen rows, the last of them, and those that went.
type Counted<P> = (i64, Option<P>, i64);

fn page<P>((seen, last, gone): Counted<P>, limit: i64) -> Page<P> {
    Page { next: last.filter(|_| seen >= limit), gone: u64::try_from(gone).unwrap_or(0) }
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

/// Removes finished dispatches among the `limit` ones that follow `after` in age ([`Uuid::nil`] for the oldest).
pub async fn dispatches(conn: &mut Conn, cutoffs: &Cutoffs, after: Uuid, limit: i64) -> DbResult<Page<Uuid>> {
    let Cutoffs { finished, dead_letters, .. } = *cutoffs;
    let before = first_of(finished.max(dead_letters));
    let counted: Counted<Uuid> =
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

/// Removes records of skipped fires among the `limit` ones that follow `after` (0 for the oldest).
pub async fn skips(conn: &mut Conn, cutoffs: &Cutoffs, after: i64, limit: i64) -> DbResult<Page<i64>> {
    let counted: Counted<i64> = Skips { after, limit, finished: cutoffs.finished }.get_result(conn).await?;
    Ok(page(counted, limit))
}

statement! {
    Keys = "retain/retention_keys.sql", (
        after: Uuid as SqlUuid,
        before: Uuid as SqlUuid,
        limit: i64 as BigInt,
    ) -> (BigInt, Nullable<SqlUuid>, BigInt)
}

/// Takes the idempotency keys off finished dispatches among the `limit` ones with a key that follow `after`.
///
/// Only those created before `before`. The key may be used again then; the unique index stays as small as the keys that matter.
pub async fn idempotency_keys(
    conn: &mut Conn,
    before: DateTime<Utc>,
    after: Uuid,
    limit: i64,
) -> DbResult<Page<Uuid>> {
    let counted: Counted<Uuid> = Keys { after, before: first_of(before), limit }.get_result(conn).await?;
    Ok(page(counted, limit))
}

statement! {
    Answers = "retain/retention_answers.sql", (before: DateTime<Utc> as Timestamptz, limit: i64 as BigInt) -> BigInt
}

/// Removes up to `limit` of the answers that were kept under the key of a request before `before`; returns how many. The same request is
/// a new one then.
pub async fn answers(conn: &mut Conn, before: DateTime<Utc>, limit: i64) -> DbResult<u64> {
    let gone: i64 = Answers { before, limit }.get_result(conn).await?;
    Ok(u64::try_from(gone).unwrap_or(0))
}

statement! {
    Audit = "retain/retention_audit.sql", (
        audit: DateTime<Utc> as Timestamptz,
        finished: DateTime<Utc> as Timestamptz,
        limit: i64 as BigInt,
    ) -> (BigInt, BigInt, BigInt)
}

/// What went of the installation's own past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Past {
    /// Entries of the audit log.
    pub entries: u64,
    /// Terms of leadership.
    pub terms: u64,
    /// Names of workers that are gone.
    pub workers: u64,
}

impl Past {
    /// Whether there were as many of something as asked for, so that there may be more.
    #[must_use]
    pub fn may_be_more(&self, limit: i64) -> bool {
        let most = self.entries.max(self.terms).max(self.workers);
        i64::try_from(most).is_ok_and(|most| most >= limit)
    }
}

/// Removes up to `limit` each of the oldest entries of the audit log, of the oldest terms of leadership, and of the names of workers that were gone
/// before what history is kept.
pub async fn past(conn: &mut Conn, cutoffs: &Cutoffs, limit: i64) -> DbResult<Past> {
    let Cutoffs { audit, finished, .. } = *cutoffs;
    let (entries, terms, workers): (i64, i64, i64) =
        Audit { audit, finished, limit }.get_result(conn).await?;
    let count = |rows: i64| u64::try_from(rows).unwrap_or(0);
    Ok(Past { entries: count(entries), terms: count(terms), workers: count(workers) })
}

/// Rows that went from default partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Strays {
    /// Attempts.
    pub attempts: u64,
    /// Pieces of output.
    pub output: u64,
    /// Events.
    pub events: u64,
}

impl Strays {
    /// Whether there were as many as asked for, so that there may be more.
    #[must_use]
    pub fn may_be_more(&self, limit: i64) -> bool {
        let limit = u64::try_from(limit).unwrap_or(0);
        self.attempts >= limit || self.output >= limit || self.events >= limit
    }
}

statement! {
    StrayRows = "retain/retention_strays.sql", (finished: DateTime<Utc> as Timestamptz, limit: i64 as BigInt) -> (BigInt, BigInt, BigInt)
}

/// Removes up to `limit` old rows from each default partition. The other months go as a whole ([`crate::connection::partitions`]).
pub async fn strays(conn: &mut Conn, cutoffs: &Cutoffs, limit: i64) -> DbResult<Strays> {
    let (attempts, output, events): (i64, i64, i64) =
        StrayRows { finished: cutoffs.finished, limit }.get_result(conn).await?;
    let count = |rows| u64::try_from(rows).unwrap_or(0);
    Ok(Strays { attempts: count(attempts), output: count(output), events: count(events) })
}

statement! {
    Live = "retain/retention_live.sql", (limit: i64 as BigInt) -> BigInt
}

/// Removes what up to `limit` attempts that are over have told while they ran, and returns how many. Workers take away their own; this
/// is for those that died.
pub async fn live(conn: &mut Conn, limit: i64) -> DbResult<u64> {
    let attempts: i64 = Live { limit }.get_result(conn).await?;
    Ok(u64::try_from(attempts).unwrap_or(0))
}
