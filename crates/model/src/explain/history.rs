//! Reads the records of a job's past for an explanation.
//!
//! Reads only, each kind of row in one bounded statement. The job is read before the clock: a
//! decision in between then appears as a record beside an older state, never the reverse.
//! [`sched_domain::explain`] interprets the records. The view `ledger_gaps` checks completeness for
//! all jobs.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::dispatching::dispatches::Dispatch;
use crate::jobs::Job;
use crate::{Conn, DbResult, definitions::calendars, explain::blockers};
use sched_domain::attempt::AttemptOutcome;
use sched_domain::explain::{
    Attempt, BlockingDispatch, CalendarFacts, Cause, DispatchRecord, Evidence, LeadershipGap, MAX_FIRE_TIMES,
    Skip, Successor, Version,
};
use sched_domain::ids::{DispatchId, JobId, TenantId, Term};
use sched_domain::instance::TermEnd;
use sched_domain::job::JobSettings;
use sched_domain::run_state::{DispatchStatus, Trigger};
use sched_domain::trace::TraceContext;
use sched_timetable::SkipReason;

/// One row more than an explanation uses, to detect an overflow.
const MOST_ROWS: i64 = MAX_FIRE_TIMES as i64 + 1;

/// Maximum number of attempts in one window: each run has a few.
const MOST_ATTEMPTS: i64 = 5 * MOST_ROWS;

/// Maximum number of runs in one window that are read with their blockers: the first ones.
const MOST_WAITING: usize = 50;

/// Maximum number of overlap records in one window that are read with their blockers: the first
/// ones.
const MOST_OVERLAPS: usize = 50;

const MOST_DISABLED: i64 = 1_000;

type Instant = DateTime<Utc>;

/// A request for the records of a job in the window `from..to`.
#[derive(Debug, Clone, Copy)]
pub struct EvidenceRequest<'a> {
    /// The job, which was read before `now`.
    pub job: &'a Job,
    /// Time of the request, by the database's clock.
    pub now: Instant,
    pub from: Instant,
    pub to: Instant,
}

/// The records of a job for a window of time.
pub async fn evidence(conn: &mut Conn, tenant: TenantId, request: EvidenceRequest<'_>) -> DbResult<Evidence> {
    let EvidenceRequest { job, now, from, to } = request;
    let versions = versions(conn, tenant, job, (from, to)).await?;
    let mut names: Vec<String> = versions
        .iter()
        .filter_map(|version| version.settings.as_ref().ok())
        .flat_map(|settings| settings.calendars.iter().cloned())
        .collect();
    names.sort_unstable();
    names.dedup();
    let calendars = calendars::by_names(conn, tenant, &names).await?.into_iter();
    let skips = skips(conn, tenant, job.id, (from, to)).await?;
    let disabled_at = Disabled { tenant, job: job.id, to, limit: MOST_DISABLED }.load(conn).await?;
    let dispatches =
        |is_of_schedule| Dispatches { tenant, job: job.id, from, to, is_of_schedule, limit: MOST_ROWS };
    Ok(Evidence {
        tenant,
        created_at: job.state.created_at,
        settled_until: job.state.settled_until,
        cursor: job.state.next_run_at,
        is_enabled: job.settings.is_enabled,
        is_paused: job.state.is_paused,
        paused_until: job.state.paused_until,
        held_until: job.state.dispatch_lock_until,
        ledger_starts_at: job.state.ledger_starts_at,
        now,
        versions,
        calendars: calendars
            .map(|known| CalendarFacts {
                name: known.name,
                definition: known.definition,
                updated_at: known.updated_at,
            })
            .collect(),
        disabled_at,
        skips,
        dispatches: dispatched(conn, dispatches(true)).await?,
        triggers: dispatched(conn, dispatches(false)).await?,
    })
}

#[derive(Queryable)]
struct VersionRow {
    number: i64,
    change: String,
    settings: serde_json::Value,
    changed_at: Instant,
    changed_by: String,
    pause_reason: Option<String>,
    paused_until: Option<Instant>,
    ended_at: Option<Instant>,
}

#[rustfmt::skip]
type VersionColumns = (
    BigInt, Text, Jsonb, Timestamptz, Text, Nullable<Text>, Nullable<Timestamptz>, Nullable<Timestamptz>,
);

statement! {
    Versions = "history/ledger_versions.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        from: Instant as Timestamptz,
        to: Instant as Timestamptz,
        limit: i64 as BigInt,
    ) -> VersionColumns
}

async fn versions(
    conn: &mut Conn,
    tenant: TenantId,
    job: &Job,
    (from, to): (Instant, Instant),
) -> DbResult<Vec<Version>> {
    let rows: Vec<VersionRow> =
        Versions { tenant, job: job.id, from, to, limit: MOST_ROWS }.load(conn).await?;
    if rows.is_empty() && from >= job.state.created_at {
        // Not written by this code: only the current settings are known.
        return Ok(vec![Version {
            number: 1,
            change: "created".to_owned(),
            settings: Ok(job.settings.clone()),
            changed_at: job.state.created_at,
            changed_by: job.state.created_src.clone(),
            pause_reason: None,
            paused_until: None,
            ended_at: None,
        }]);
    }
    let version = |row: VersionRow| Version {
        number: row.number,
        settings: serde_json::from_value(row.settings)
            .map(|settings| in_effect(&row.change, settings))
            .map_err(|error| error.to_string()),
        change: row.change,
        changed_at: row.changed_at,
        changed_by: row.changed_by,
        pause_reason: row.pause_reason,
        paused_until: row.paused_until,
        ended_at: row.ended_at,
    };
    Ok(rows.into_iter().map(version).collect())
}

/// The effective settings of a version: a deleted job never fires, for any settings.
fn in_effect(change: &str, settings: JobSettings) -> JobSettings {
    JobSettings { is_enabled: settings.is_enabled && change != "deleted", ..settings }
}

#[derive(Queryable)]
struct SkipRow {
    first: Instant,
    last: Instant,
    count: i64,
    is_count_exact: bool,
    reason: SkipReason,
    detail: Option<String>,
    recorded_at: Instant,
    term: Option<Term>,
    next_term_at: Option<Instant>,
    former_ended_at: Option<Instant>,
    former_end: Option<TermEnd>,
    lease_expired_at: Option<Instant>,
}

impl SkipRow {
    fn into_skip(self) -> Skip {
        let (former_end, lease_expired_at) =
            (self.former_ended_at.zip(self.former_end), self.lease_expired_at);
        Skip {
            first: self.first,
            last: self.last,
            count: u64::try_from(self.count).unwrap_or(0),
            is_count_exact: self.is_count_exact,
            reason: self.reason,
            detail: self.detail,
            recorded_at: self.recorded_at,
            term: self.term,
            lead: self.next_term_at.map(|next_at| LeadershipGap { next_at, former_end, lease_expired_at }),
            in_the_way: Vec::new(),
        }
    }
}

#[rustfmt::skip]
type SkipColumns = (
    Timestamptz, Timestamptz, BigInt, Bool, Text, Nullable<Text>, Timestamptz, Nullable<BigInt>,
    Nullable<Timestamptz>, Nullable<Timestamptz>, Nullable<Text>, Nullable<Timestamptz>,
);

statement! {
    Skips = "history/ledger_skips.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        from: Instant as Timestamptz,
        to: Instant as Timestamptz,
        limit: i64 as BigInt,
    ) -> SkipColumns
}

statement! {
    InTheWayOf<'a> = "history/ledger_in_the_way.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        firsts: &'a [Instant] as Array<Timestamptz>,
        recorded: &'a [Instant] as Array<Timestamptz>,
    ) -> (Timestamptz, SqlUuid, Timestamptz, Nullable<Timestamptz>)
}

async fn skips(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    (from, to): (Instant, Instant),
) -> DbResult<Vec<Skip>> {
    let rows: Vec<SkipRow> = Skips { tenant, job, from, to, limit: MOST_ROWS }.load(conn).await?;
    let mut skips: Vec<Skip> = rows.into_iter().map(SkipRow::into_skip).collect();
    let overlaps = skips.iter().filter(|skip| skip.reason == SkipReason::Overlap).take(MOST_OVERLAPS);
    let (firsts, recorded): (Vec<_>, Vec<_>) = overlaps.map(|skip| (skip.first, skip.recorded_at)).unzip();
    if firsts.is_empty() {
        return Ok(skips);
    }
    let found: Vec<(Instant, DispatchId, Instant, Option<Instant>)> =
        InTheWayOf { tenant, job, firsts: &firsts, recorded: &recorded }.load(conn).await?;
    let mut in_the_way: HashMap<Instant, Vec<BlockingDispatch>> = HashMap::new();
    for (first, id, scheduled_for, completed_at) in found {
        in_the_way.entry(first).or_default().push(BlockingDispatch { id, scheduled_for, completed_at });
    }
    for skip in &mut skips {
        skip.in_the_way = in_the_way.remove(&skip.first).unwrap_or_default();
    }
    Ok(skips)
}

statement! {
    Disabled = "history/ledger_disabled.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        to: Instant as Timestamptz,
        limit: i64 as BigInt,
    ) -> Timestamptz
}

#[derive(Queryable)]
struct DispatchRow {
    id: DispatchId,
    scheduled_for: Instant,
    created_at: Instant,
    available_at: Instant,
    claimed_at: Option<Instant>,
    completed_at: Option<Instant>,
    status: DispatchStatus,
    queue: String,
    is_in_line: bool,
    is_catch_up: bool,
    triggered_by: Trigger,
    triggered_by_user: Option<String>,
    term: Option<Term>,
    scheduler: Option<String>,
    attempt: i32,
    worker: Option<String>,
    error: Option<String>,
    cancel_requested_at: Option<Instant>,
    successor: Option<DispatchId>,
    successor_for: Option<Instant>,
    cause: Option<DispatchId>,
    cause_job: Option<String>,
    traceparent: Option<String>,
}

#[rustfmt::skip]
type DispatchColumns = (
    SqlUuid, Timestamptz, Timestamptz, Timestamptz, Nullable<Timestamptz>, Nullable<Timestamptz>, Text, Text,
    Bool, Bool, Text, Nullable<Text>, Nullable<BigInt>, Nullable<Text>, Int4, Nullable<Text>, Nullable<Text>,
    Nullable<Timestamptz>, Nullable<SqlUuid>, Nullable<Timestamptz>, Nullable<SqlUuid>, Nullable<Text>,
    Nullable<Text>,
);

statement! {
    Dispatches = "history/ledger_dispatches.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        from: Instant as Timestamptz,
        to: Instant as Timestamptz,
        is_of_schedule: bool as Bool,
        limit: i64 as BigInt,
    ) -> DispatchColumns
}

#[derive(Queryable)]
struct AttemptRow {
    dispatch: DispatchId,
    number: i32,
    outcome: AttemptOutcome,
    started_at: Instant,
    completed_at: Instant,
    worker: Option<String>,
    exit_code: Option<i32>,
    error: Option<String>,
}

#[rustfmt::skip]
type AttemptColumns = (
    SqlUuid, Int4, Text, Timestamptz, Timestamptz, Nullable<Text>, Nullable<Int4>, Nullable<Text>,
);

statement! {
    Attempts<'a> = "history/ledger_attempts.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        from: Instant as Timestamptz,
        dispatches: &'a [Uuid] as Array<SqlUuid>,
        limit: i64 as BigInt,
    ) -> AttemptColumns
}

async fn dispatched(conn: &mut Conn, statement: Dispatches) -> DbResult<Vec<DispatchRecord>> {
    let Dispatches { tenant, job, from, .. } = statement;
    let rows: Vec<DispatchRow> = statement.load(conn).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id.0).collect();
    let mut attempts: HashMap<DispatchId, Vec<Attempt>> = HashMap::new();
    if !ids.is_empty() {
        let found: Vec<AttemptRow> =
            Attempts { tenant, job, from, dispatches: &ids, limit: MOST_ATTEMPTS }.load(conn).await?;
        for row in found {
            let AttemptRow { dispatch, number, outcome, started_at, completed_at, worker, exit_code, error } =
                row;
            let attempt = Attempt { number, outcome, started_at, completed_at, worker, exit_code, error };
            attempts.entry(dispatch).or_default().push(attempt);
        }
    }
    let waiting = rows.iter().filter(|row| row.status == DispatchStatus::Pending).map(|row| row.id);
    let waiting: Vec<DispatchId> = waiting.take(MOST_WAITING).collect();
    let mut waits = blockers::of_dispatches(conn, tenant, &waiting).await?;
    let dispatched = |row: DispatchRow| DispatchRecord {
        attempts: attempts.remove(&row.id).unwrap_or_default(),
        waits: waits.remove(&row.id).unwrap_or_default(),
        trace: TraceContext::of_dispatch(row.id, row.traceparent.as_deref()),
        id: row.id,
        scheduled_for: row.scheduled_for,
        created_at: row.created_at,
        available_at: row.available_at,
        claimed_at: row.claimed_at,
        completed_at: row.completed_at,
        status: row.status,
        queue: row.queue,
        is_in_line: row.is_in_line,
        is_catch_up: row.is_catch_up,
        triggered_by: row.triggered_by,
        triggered_by_user: row.triggered_by_user,
        term: row.term,
        scheduler: row.scheduler,
        attempt: row.attempt,
        worker: row.worker,
        error: row.error,
        cancel_requested_at: row.cancel_requested_at,
        successor: row
            .successor
            .zip(row.successor_for)
            .map(|(id, scheduled_for)| Successor { id, scheduled_for }),
        cause: row.cause.map(|dispatch| Cause { dispatch, job: row.cause_job }),
    };
    Ok(rows.into_iter().map(dispatched).collect())
}

/// As [`evidence`], for one run; `None` if it was deleted after it was read.
pub async fn dispatch(conn: &mut Conn, tenant: TenantId, row: &Dispatch) -> DbResult<Option<DispatchRecord>> {
    let row = &row.row;
    // Only runs triggered in the same microsecond share job and time.
    let dispatches = Dispatches {
        tenant,
        job: row.job_id,
        from: row.scheduled_for,
        to: row.scheduled_for + TimeDelta::microseconds(1),
        is_of_schedule: row.trigger_id.is_none(),
        limit: MOST_ROWS,
    };
    let found = dispatched(conn, dispatches).await?;
    Ok(found.into_iter().find(|found| found.id == row.id))
}
