//! Reads and writes of the leader's tick. The statements work on sets: the number of round trips
//! does not depend on the size of the batch.
//!
//! One transaction contains everything and begins with [`fence`]. [`lock_due`] locks the jobs, and
//! other modules decide their fires. [`write()`] inserts the runs under their unique key, records
//! the skips, and moves each cursor by compare-and-set. A process that dies before the commit
//! leaves nothing, and the next leader finds the same jobs due.

mod quotas;
mod rezone;
mod write;

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{
    Array, BigInt, Bool, Int2, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::room::Instances;
use crate::{Conn, DbError, DbResult};
use sched_domain::ids::{InstanceId, JobId, ProjectId, TenantId, Term};
use sched_domain::job::{MisfireKind, OverlapPolicy};
use sched_timetable::{CalendarRoll, DstGap, DstOverlap, JobType, SkipReason};

pub(crate) use self::quotas::{QuotaRequest, take_from_quota};
pub use self::quotas::{next_quota_window, open_quotas};
pub use self::rezone::{computed_elsewhere, lock_computed_elsewhere};
pub use self::write::{Batch, CursorMove, Hold, NewSkip, Written, write};

statement! {
    Fence = "tick/tick_fence.sql", (id: InstanceId as SqlUuid, term: Term as BigInt) -> Timestamptz
}

/// Proves that the instance leads with this term, and keeps it so until the end of the transaction.
/// Returns the database's clock.
///
/// # Errors
/// [`DbError::TermOver`] if the instance does not lead with this term.
pub async fn fence(conn: &mut Conn, id: InstanceId, term: Term) -> DbResult<DateTime<Utc>> {
    Fence { id, term }.get_result(conn).await.optional()?.ok_or(DbError::TermOver)
}

/// A locked job whose cursor is due, with everything that decides its fires.
#[derive(Debug, Clone, Queryable)]
pub struct DueJob {
    pub tenant_id: TenantId,
    pub id: JobId,
    pub project_id: Option<ProjectId>,
    pub name: String,
    pub cursor: DateTime<Utc>,
    pub created_at: DateTime<Utc>,
    pub job_type: JobType,
    pub schedule_config: serde_json::Value,
    pub timezone: String,
    pub dst_gap: Option<DstGap>,
    pub dst_overlap: Option<DstOverlap>,
    pub start_at: Option<DateTime<Utc>>,
    pub end_at: Option<DateTime<Utc>>,
    pub max_runs: Option<i64>,
    pub jitter_seconds: i32,
    pub calendars: Vec<String>,
    pub calendar_roll: CalendarRoll,
    pub settled_until: DateTime<Utc>,
    pub fired_count: i64,
    pub misfire_policy: MisfireKind,
    pub misfire_grace_seconds: Option<i32>,
    pub misfire_cap: i32,
    pub max_instances: i32,
    pub overlap_policy: OverlapPolicy,
    pub active_dispatches: i32,
    pub queued_dispatches: i32,
    pub last_fire_at: Option<DateTime<Utc>>,
    pub dispatch_lock_until: Option<DateTime<Utc>>,
    /// `None` if its version is stored, with the arguments.
    pub args: Option<serde_json::Value>,
    pub queue: String,
    pub priority: i16,
    pub start_within_seconds: Option<i32>,
    pub version: i64,
    pub is_enabled: bool,
    pub is_function_active: bool,
    pub paused_by: Option<SkipReason>,
    /// Time at which the pause of the job ends automatically.
    pub paused_until: Option<DateTime<Utc>>,
    /// The tenant's quota of runs per minute; after [`open_quotas`], the rest of it. `None` without
    /// a quota.
    pub quota_left: Option<i64>,
    pub function_id: Uuid,
    /// Position among the jobs that are due at the same time.
    pub burst_order: i32,
    /// The row versions of the job's tenant, function, queue and project; only from
    /// [`read_ahead`].
    pub edition: Option<String>,
}

#[rustfmt::skip]
type DueColumns = (
    SqlUuid, SqlUuid, Nullable<SqlUuid>, Text, Timestamptz, Timestamptz,
    Text, Jsonb, Text, Nullable<Text>, Nullable<Text>,
    Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<BigInt>, Int4, Array<Text>, Text, Timestamptz, BigInt,
    Text, Nullable<Int4>, Int4, Int4, Text, Int4, Int4,
    Nullable<Timestamptz>, Nullable<Timestamptz>,
    Nullable<Jsonb>, Text, Int2, Nullable<Int4>, BigInt, Bool, Bool, Nullable<Text>, Nullable<Timestamptz>, Nullable<BigInt>,
    SqlUuid, Int4, Nullable<Text>,
);

statement! {
    LockDue = "tick/tick_lock_due.sql" before "tick/tick_due_jobs.sql", (
        now: DateTime<Utc> as Timestamptz,
        limit: i64 as BigInt,
        skip: i64 as BigInt,
    ) -> DueColumns
}

// Here, because one file names each text.
statement! {
    RezoneLock<'a> = "tick/rezone_lock.sql" before "tick/tick_due_jobs.sql", (
        now: DateTime<Utc> as Timestamptz,
        tzdata_version: &'a str as Text,
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
    ) -> DueColumns
}

statement! {
    ReadAhead = "tick/tick_read_ahead.sql" before "tick/tick_due_jobs.sql", (
        after: DateTime<Utc> as Timestamptz,
        order: i32 as Int4,
        until: DateTime<Utc> as Timestamptz,
        limit: i64 as BigInt,
    ) -> DueColumns
}

/// Reads up to `limit` jobs that will be due, without locks, in their due order after the position
/// `after` and not later than `until`. Leaves out jobs that no plan can cover.
pub async fn read_ahead(
    conn: &mut Conn,
    after: (DateTime<Utc>, i32),
    until: DateTime<Utc>,
    limit: i64,
) -> DbResult<Vec<DueJob>> {
    let (after, order) = after;
    Ok(ReadAhead { after, order, until, limit }.load(conn).await?)
}

/// Locks up to `limit` jobs that are due at `now`, longest due first. Skips jobs that other
/// transactions have locked; the next tick takes them.
pub async fn lock_due(conn: &mut Conn, now: DateTime<Utc>, limit: i64) -> DbResult<Vec<DueJob>> {
    let mut jobs: Vec<DueJob> = LockDue { now, limit, skip: 0 }.load(conn).await?;
    discount_uncounted(conn, &mut jobs).await?;
    Ok(jobs)
}

statement! {
    Uncounted<'a> = "tick/tick_uncounted.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
    ) -> (SqlUuid, SqlUuid, Int4)
}

/// Subtracts ended runs that are not counted yet from jobs without room, so that no fire is skipped
/// for a run that has ended. Sends no query if every job has room.
///
/// A job with queued runs keeps its count: the count of its ends releases these runs first.
async fn discount_uncounted(conn: &mut Conn, jobs: &mut [DueJob]) -> DbResult<()> {
    let is_full =
        |job: &DueJob| job.queued_dispatches == 0 && job.instances().room().is_some_and(|room| room <= 0);
    let (tenants, full): (Vec<Uuid>, Vec<Uuid>) =
        jobs.iter().filter(|job| is_full(job)).map(|job| (job.tenant_id.0, job.id.0)).unzip();
    if full.is_empty() {
        return Ok(());
    }
    let rows: Vec<(TenantId, JobId, i32)> = Uncounted { tenants: &tenants, jobs: &full }.load(conn).await?;
    for (tenant, id, ended) in rows {
        let found = jobs.iter_mut().find(|job| job.tenant_id == tenant && job.id == id);
        if let Some(job) = found {
            job.active_dispatches = (job.active_dispatches - ended).max(0);
        }
    }
    Ok(())
}

/// Locks the job at position `skip` in the order of [`lock_due`], due or not; `None` if no such job
/// will fire.
pub async fn lock_another(conn: &mut Conn, now: DateTime<Utc>, skip: i64) -> DbResult<Option<DueJob>> {
    let at_any_time = now + TimeDelta::days(366_000);
    let jobs: Vec<DueJob> = LockDue { now: at_any_time, limit: 1, skip }.load(conn).await?;
    Ok(jobs.into_iter().next())
}

statement! {
    Calendars<'a> = "tick/tick_calendars.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        names: &'a [&'a str] as Array<Text>,
    ) -> (SqlUuid, SqlUuid, Text, BigInt, Jsonb)
}

#[derive(Debug, Clone, Queryable)]
pub struct NamedCalendar {
    pub tenant_id: TenantId,
    pub id: Uuid,
    pub name: String,
    pub version: i64,
    pub definition: serde_json::Value,
}

/// The calendars of the due jobs, each once. Sends no query without them, the usual case.
///
/// A transaction that changes a calendar waits for the locks on the jobs that use it. So the
/// cursors of the locked jobs were computed from these definitions.
pub async fn calendars_of(conn: &mut Conn, jobs: &[DueJob]) -> DbResult<Vec<NamedCalendar>> {
    let named: BTreeSet<(Uuid, &str)> = jobs
        .iter()
        .flat_map(|job| job.calendars.iter().map(|name| (job.tenant_id.0, name.as_str())))
        .collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let (tenants, names): (Vec<Uuid>, Vec<&str>) = named.into_iter().unzip();
    Ok(Calendars { tenants: &tenants, names: &names }.load(conn).await?)
}

statement! {
    NextDue = "tick/tick_next_due.sql", (limit: i64 as BigInt) -> (Nullable<Timestamptz>, Timestamptz, BigInt)
}

/// The work ahead of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Outlook {
    /// Time at which the scheduler should check the next job; `None` if no job will be due.
    pub next_due: Option<DateTime<Utc>>,
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// Jobs due at the later of the two times, counted up to the limit.
    due_then: i64,
}

impl DueJob {
    #[must_use]
    pub const fn instances(&self) -> Instances {
        Instances {
            overlap_policy: self.overlap_policy,
            max_instances: self.max_instances,
            active: self.active_dispatches,
            queued: self.queued_dispatches,
        }
    }
}

impl Outlook {
    /// Counted up to the limit.
    #[must_use]
    pub fn due(&self) -> i64 {
        if self.next_due.is_some_and(|due| due <= self.now) { self.due_then } else { 0 }
    }

    /// The outlook when the next jobs are due, if nothing changes before. `None` if jobs are due
    /// already or no job will be due.
    #[must_use]
    pub fn at_next_due(&self) -> Option<Self> {
        let due = self.next_due.filter(|due| *due > self.now)?;
        Some(Self { now: due, ..*self })
    }
}

/// Reads the next due time, and counts due jobs up to `limit`.
pub async fn outlook(conn: &mut Conn, limit: i64) -> DbResult<Outlook> {
    Ok(NextDue { limit }.get_result(conn).await?)
}
