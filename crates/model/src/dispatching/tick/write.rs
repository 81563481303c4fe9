//! Writing a tick: runs, skips, cursors and holds, in one transaction.

use super::super::cancellations::{self, MakeRoom};
use super::super::insert::{self, NewDispatch};
use crate::jobs::{self, Quarantine};
use crate::{Conn, DbError, DbResult, dispatching::overlap_queue};
use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Bool, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use sched_domain::ids::{InstanceId, JobId, TenantId, Term, WorkerId};
use sched_domain::run_state::Trigger;
use sched_timetable::SkipReason;
use std::collections::{BTreeMap, HashMap};
use uuid::Uuid;

/// All writes of one batch.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub dispatches: Vec<NewDispatch<'static>>,
    pub skips: Vec<NewSkip>,
    /// One move for each job of the batch that is not held back.
    pub cursors: Vec<CursorMove>,
    /// Jobs whose oldest open runs are cancelled first, to make room for the runs of this batch.
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
    /// The reason to disable the job, with a version and an event; `None` leaves the job enabled.
    pub disable: Option<String>,
    /// Version of the zone tables from which `to` was computed.
    pub tzdata_version: Option<&'static str>,
    /// This batch decides every fire time up to and including this instant; `None` keeps the stored
    /// value.
    pub settled_until: Option<DateTime<Utc>>,
    /// Fire time of the last record of this batch; `None` if the batch has no record of the job.
    pub last_fire_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    pub dispatched: usize,
    /// Fire times that already had a run. Above zero another guard failed, and the unique key
    /// prevented a second run.
    pub already_dispatched: usize,
    pub skipped: usize,
    /// Workers of the cancelled runs. Notify them after the commit.
    pub cancelled_on: Vec<WorkerId>,
}

statement! {
    InsertSkips<'a> = "write/tick_insert_skips.sql", (
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
    MoveCursors<'a> = "write/tick_move_cursors.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        from: &'a [DateTime<Utc>] as Array<Timestamptz>,
        to: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
        dispatched: &'a [i32] as Array<Int4>,
        tzdata: &'a [Option<&'static str>] as Array<Nullable<Text>>,
        settled: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
        in_line: &'a [i32] as Array<Int4>,
        last_fires: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
    ) -> SqlUuid
}

statement! {
    HoldBack<'a> = "write/tick_hold.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
        until: &'a [DateTime<Utc>] as Array<Timestamptz>,
    ) -> SqlUuid
}

/// Writes a batch, in the transaction that fenced and locked it.
///
/// # Errors
/// [`DbError::Corrupt`] if a cursor does not have the value that was read: impossible while the
/// lock holds, so the caller rolls the batch back.
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
    quarantine(conn, &batch.cursors).await?;
    let with_room: Vec<(TenantId, JobId)> =
        batch.rooms.iter().map(|room| (room.tenant_id, room.job_id)).collect();
    overlap_queue::release(conn, &with_room).await?;
    hold_back(conn, &batch.holds).await?;
    super::quotas::use_up(conn, &batch.used).await?;
    Ok(Written {
        dispatched: created.len(),
        already_dispatched: batch.dispatches.len() - created.len(),
        skipped: batch.skips.len(),
        cancelled_on,
    })
}

/// Disables the jobs of the moves with a reason; sends no query without any.
async fn quarantine(conn: &mut Conn, moves: &[CursorMove]) -> DbResult<()> {
    let disabled = moves.iter().filter_map(|m| {
        let reason = m.disable.as_deref()?;
        Some(Quarantine { tenant: m.tenant_id, job: m.job_id, reason, at: m.settled_until })
    });
    jobs::quarantine(conn, &disabled.collect::<Vec<_>>()).await
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
        tzdata: &moves.iter().map(|m| m.tzdata_version).collect::<Vec<_>>(),
        settled: &moves.iter().map(|m| m.settled_until).collect::<Vec<_>>(),
        in_line: &moves.iter().map(|m| count(m).1).collect::<Vec<_>>(),
        last_fires: &moves.iter().map(|m| m.last_fire_at).collect::<Vec<_>>(),
    }
    .execute(conn)
    .await?;
    Ok(moved)
}
