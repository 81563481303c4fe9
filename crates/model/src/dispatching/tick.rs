//! Reads and writes of the leader's tick. The statements work on sets, so the number of round trips
//! does not depend on the size of the batch.
//!
//! One transaction contains everything and begins with [`fence`]. [`lock_due`] locks the jobs.
//! Other modules decide the fires of each job. [`write()`] inserts the runs under their unique key,
//! records the skips, and moves each cursor by compare-and-set. A process that dies before the
//! commit leaves nothing, and the next leader finds the same jobs due.

mod quotas;
mod rezone;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{
    Array, BigInt, Bool, Int2, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid,
};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::cancellations::{self, MakeRoom};
use super::insert::{self, NewDispatch};
use super::room::Instances;
use crate::{Conn, DbError, DbResult, dispatching::overlap_queue};
use sched_domain::ids::{InstanceId, JobId, ProjectId, TenantId, Term, WorkerId};
use sched_domain::job::{MisfireKind, OverlapPolicy};
use sched_domain::run_state::Trigger;
use sched_timetable::{CalendarRoll, DstGap, DstOverlap, JobType, SkipReason};

pub(crate) use self::quotas::{QuotaRequest, take_from_quota};
pub use self::quotas::{next_quota_window, open_quotas};
pub use self::rezone::{computed_elsewhere, lock_computed_elsewhere};

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
    pub args: serde_json::Value,
    pub queue: String,
    pub priority: i16,
    pub start_within_seconds: Option<i32>,
    pub version: i64,
    pub is_enabled: bool,
    pub is_function_active: bool,
    /// The kill switch that is on, if any.
    pub paused_by: Option<SkipReason>,
    /// The time at which the pause of the job ends automatically.
    pub paused_until: Option<DateTime<Utc>>,
    /// The tenant's quota of runs per minute; after [`open_quotas`], the rest of it. `None` without
    /// a quota.
    pub quota_left: Option<i64>,
}

#[rustfmt::skip]
type DueColumns = (
    SqlUuid, SqlUuid, Nullable<SqlUuid>, Text, Timestamptz, Timestamptz,
    Text, Jsonb, Text, Nullable<Text>, Nullable<Text>,
    Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<BigInt>, Int4, Array<Text>, Text, Timestamptz, BigInt,
    Text, Nullable<Int4>, Int4, Int4, Text, Int4, Int4,
    Nullable<Timestamptz>, Nullable<Timestamptz>,
    Jsonb, Text, Int2, Nullable<Int4>, BigInt, Bool, Bool, Nullable<Text>, Nullable<Timestamptz>, Nullable<BigInt>,
);

statement! {
    LockDue = "tick/tick_lock_due.sql", (
        now: DateTime<Utc> as Timestamptz,
        limit: i64 as BigInt,
        skip: i64 as BigInt,
    ) -> DueColumns
}

/// Locks up to `limit` jobs that are due at `now`, longest due first. Skips jobs that other
/// transactions have locked; the next tick takes them.
pub async fn lock_due(conn: &mut Conn, now: DateTime<Utc>, limit: i64) -> DbResult<Vec<DueJob>> {
    Ok(LockDue { now, limit, skip: 0 }.load(conn).await?)
}

/// Locks the job at position `skip` in the order of [`lock_due`], due or not. Returns `None` if no
/// such job will fire.
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

/// The calendars of the due jobs, each once. Sends no query if the jobs name no calendar, which is
/// the usual case.
///
/// A transaction that changes a calendar waits for the locks on the jobs that use it. So the
/// definitions read here are those from which the cursors of the locked jobs were computed.
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
    /// The time at which the next job is due, and the number of jobs due then or now.
    NextDue = "tick/tick_next_due.sql", (limit: i64 as BigInt) -> (Nullable<Timestamptz>, Timestamptz, BigInt)
}

/// The work ahead of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Outlook {
    /// The time at which the scheduler should check the next job; `None` if no job will be due.
    pub next_due: Option<DateTime<Utc>>,
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// Number of jobs due at the later of the two times, counted up to the limit.
    due_then: i64,
}

impl DueJob {
    /// The limit and the counters of the job's runs.
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
    /// Number of due jobs, counted up to the limit.
    #[must_use]
    pub fn due(&self) -> i64 {
        if self.next_due.is_some_and(|due| due <= self.now) { self.due_then } else { 0 }
    }

    /// The outlook at the time when the next jobs are due, if nothing changes before. `None` if
    /// jobs are due already or no job will be due.
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

/// All writes of one batch.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub dispatches: Vec<NewDispatch<'static>>,
    pub skips: Vec<NewSkip>,
    /// One move for each job of the batch that is not held back.
    pub cursors: Vec<CursorMove>,
    /// Jobs whose oldest open runs are cancelled to make room for the runs of this batch.
    pub rooms: Vec<MakeRoom>,
    /// Jobs for which nothing is decided now; a later tick checks them again.
    pub holds: Vec<Hold>,
    /// Runs to add to the usage of tenants that have a quota.
    pub used: BTreeMap<TenantId, i64>,
}

/// A job that is held back until a later tick.
#[derive(Debug, Clone, Copy)]
pub struct Hold {
    pub tenant_id: TenantId,
    pub job_id: JobId,
    pub until: DateTime<Utc>,
}

#[derive(Debug, Clone)]
pub struct NewSkip {
    pub tenant_id: TenantId,
    pub job_id: JobId,
    pub first_fire_at: DateTime<Utc>,
    pub last_fire_at: DateTime<Utc>,
    pub fire_count: i64,
    pub is_count_exact: bool,
    pub reason: SkipReason,
    /// Fire time of the preceding record.
    pub follows: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone)]
pub struct CursorMove {
    pub tenant_id: TenantId,
    pub job_id: JobId,
    /// The expected value of the cursor.
    pub from: DateTime<Utc>,
    /// The new value of the cursor; `None` if the job will not fire again.
    pub to: Option<DateTime<Utc>>,
    /// The reason to disable the job; `None` leaves it enabled.
    pub disable: Option<String>,
    /// Version of the zone tables from which `to` was computed.
    pub tzdata_version: Option<&'static str>,
    /// This batch decides every fire time up to and including this instant; `None` leaves the
    /// stored value unchanged.
    pub settled_until: Option<DateTime<Utc>>,
    /// Fire time of the last record of this batch; `None` if it has no record.
    pub last_fire_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    pub dispatched: usize,
    /// Fire times that already had a run. A value above zero means that another guard failed and
    /// the unique key prevented a second run.
    pub already_dispatched: usize,
    pub skipped: usize,
    /// Workers of the cancelled runs. Notify them after the commit.
    pub cancelled_on: Vec<WorkerId>,
}

statement! {
    InsertSkips<'a> = "tick/tick_insert_skips.sql", (
        term: Term as BigInt,
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        firsts: &'a [DateTime<Utc>] as Array<Timestamptz>,
        lasts: &'a [DateTime<Utc>] as Array<Timestamptz>,
        counts: &'a [i64] as Array<BigInt>,
        exact: &'a [bool] as Array<Bool>,
        reasons: &'a [&'static str] as Array<Text>,
        follows: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
    ) -> BigInt
}

statement! {
    MoveCursors<'a> = "tick/tick_move_cursors.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        from: &'a [DateTime<Utc>] as Array<Timestamptz>,
        to: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
        dispatched: &'a [i32] as Array<Int4>,
        disable: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        tzdata: &'a [Option<&'static str>] as Array<Nullable<Text>>,
        settled: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
        in_line: &'a [i32] as Array<Int4>,
        last_fires: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
    ) -> SqlUuid
}

statement! {
    HoldBack<'a> = "tick/tick_hold.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        until: &'a [DateTime<Utc>] as Array<Timestamptz>,
    ) -> SqlUuid
}

/// Writes a batch, in the transaction that fenced and locked it.
///
/// # Errors
/// [`DbError::Corrupt`] if a cursor does not have the value that was read. That is impossible while
/// the lock holds, so the caller rolls the whole batch back.
pub async fn write(conn: &mut Conn, instance: InstanceId, term: Term, batch: &Batch) -> DbResult<Written> {
    // First, so that the runs of this batch are not among the oldest.
    let cancelled_on = cancellations::cancel_oldest(conn, &batch.rooms).await?;
    let created =
        insert::insert_uncounted(conn, Some((instance, term)), Trigger::Scheduler, &batch.dispatches).await?;
    insert_skips(conn, term, &batch.skips).await?;
    let moved = move_cursors(conn, &batch.cursors, &created).await?;
    if moved != batch.cursors.len() {
        return Err(DbError::Corrupt {
            what: "the cursor of a due job".into(),
            reason: format!("{} of {} were unchanged since the tick read them", moved, batch.cursors.len()),
        });
    }
    let with_room: Vec<(TenantId, JobId)> =
        batch.rooms.iter().map(|room| (room.tenant_id, room.job_id)).collect();
    overlap_queue::release(conn, &with_room).await?;
    hold_back(conn, &batch.holds).await?;
    quotas::use_up(conn, &batch.used).await?;
    Ok(Written {
        dispatched: created.len(),
        already_dispatched: batch.dispatches.len() - created.len(),
        skipped: batch.skips.len(),
        cancelled_on,
    })
}

async fn hold_back(conn: &mut Conn, holds: &[Hold]) -> DbResult<()> {
    if holds.is_empty() {
        return Ok(());
    }
    HoldBack {
        tenants: &holds.iter().map(|h| h.tenant_id.0).collect::<Vec<_>>(),
        jobs: &holds.iter().map(|h| h.job_id.0).collect::<Vec<_>>(),
        until: &holds.iter().map(|h| h.until).collect::<Vec<_>>(),
    }
    .execute(conn)
    .await?;
    Ok(())
}

async fn insert_skips(conn: &mut Conn, term: Term, new: &[NewSkip]) -> DbResult<()> {
    if new.is_empty() {
        return Ok(());
    }
    InsertSkips {
        term,
        tenants: &new.iter().map(|s| s.tenant_id.0).collect::<Vec<_>>(),
        jobs: &new.iter().map(|s| s.job_id.0).collect::<Vec<_>>(),
        firsts: &new.iter().map(|s| s.first_fire_at).collect::<Vec<_>>(),
        lasts: &new.iter().map(|s| s.last_fire_at).collect::<Vec<_>>(),
        counts: &new.iter().map(|s| s.fire_count).collect::<Vec<_>>(),
        exact: &new.iter().map(|s| s.is_count_exact).collect::<Vec<_>>(),
        reasons: &new.iter().map(|s| s.reason.as_str()).collect::<Vec<_>>(),
        follows: &new.iter().map(|s| s.follows).collect::<Vec<_>>(),
    }
    .execute(conn)
    .await?;
    Ok(())
}

async fn move_cursors(
    conn: &mut Conn,
    moves: &[CursorMove],
    created: &[&NewDispatch<'_>],
) -> DbResult<usize> {
    if moves.is_empty() {
        return Ok(0);
    }
    let mut counted = HashMap::<JobId, (i32, i32)>::new();
    for new in created {
        let (dispatched, queued) = counted.entry(new.job_id).or_default();
        *dispatched += 1;
        *queued += i32::from(new.is_queued);
    }
    let count = |m: &CursorMove| counted.get(&m.job_id).copied().unwrap_or_default();
    let moved = MoveCursors {
        tenants: &moves.iter().map(|m| m.tenant_id.0).collect::<Vec<_>>(),
        jobs: &moves.iter().map(|m| m.job_id.0).collect::<Vec<_>>(),
        from: &moves.iter().map(|m| m.from).collect::<Vec<_>>(),
        to: &moves.iter().map(|m| m.to).collect::<Vec<_>>(),
        dispatched: &moves.iter().map(|m| count(m).0).collect::<Vec<_>>(),
        disable: &moves.iter().map(|m| m.disable.as_deref()).collect::<Vec<_>>(),
        tzdata: &moves.iter().map(|m| m.tzdata_version).collect::<Vec<_>>(),
        settled: &moves.iter().map(|m| m.settled_until).collect::<Vec<_>>(),
        in_line: &moves.iter().map(|m| count(m).1).collect::<Vec<_>>(),
        last_fires: &moves.iter().map(|m| m.last_fire_at).collect::<Vec<_>>(),
    }
    .execute(conn)
    .await?;
    Ok(moved)
}
