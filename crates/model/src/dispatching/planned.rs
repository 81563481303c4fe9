//! Fires that the leader computes ahead of their time and dispatches at the instant.
//!
//! A plan is in the leader's memory only. At the instant, [`dispatch`] sends one statement per
//! batch: it proves the term, checks by the database's clock that the fires are due, moves each
//! cursor by compare-and-set, and inserts the runs. The comparison covers everything that the plan
//! relied on, so a job that changed since is left to the ordinary tick ([`super::tick`]), and so is
//! every job of a batch that fails.
//!
//! # Locks
//! The ordinary tick skips locked jobs because it decides about each row that it locks. A planned
//! fire is decided, and the compare-and-set takes the place of `SKIP LOCKED`: the update waits for a
//! locked job, at most 50 ms, and then compares the new row. The jobs are in the order of their ids.
//!
//! # Crashes
//! A process that dies before the commit has moved and inserted nothing, and its plans are gone. The
//! next tick finds the same jobs due.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Int4, Nullable, SmallInt, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use super::insert::{NewDispatch, dispatch_statement};
use crate::connection::statement::column;
use crate::{Conn, DbError, DbResult, transact};
use sched_domain::ids::{DispatchId, InstanceId, JobId, ProjectId, TenantId, Term};

/// The rows whose switches and defaults hold for a job, in the versions that were read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Source {
    pub tenant_id: TenantId,
    pub function_id: Uuid,
    pub queue: String,
    pub project_id: Option<ProjectId>,
    pub edition: String,
}

#[derive(Debug, Clone)]
pub struct PlannedFire {
    /// The run of the fire; not queued, without separate arguments, and without an expiry.
    pub run: NewDispatch<'static>,
    /// Fires of one plan share equal sources.
    pub source: Arc<Source>,
    pub job_name: String,
    /// Afterwards the ordinary tick might decide differently about the fire.
    pub valid_until: DateTime<Utc>,
    pub next_run_at: DateTime<Utc>,
    /// Version of the zone tables from which the next fire was computed.
    pub tzdata_version: Option<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchedPlan {
    /// The database's clock.
    pub now: DateTime<Utc>,
    /// The inserted runs. The other jobs of the batch are unchanged.
    pub created: Vec<DispatchId>,
}

dispatch_statement! {
    MovePlanned<'a> = "planned/move_planned.sql", "planned/dispatched_planned.sql", (
        instance: InstanceId as SqlUuid,
        term: Term as BigInt,
        source_tenants: &'a [TenantId] as Array<SqlUuid>,
        source_functions: &'a [Uuid] as Array<SqlUuid>,
        source_queues: &'a [&'a str] as Array<Text>,
        source_projects: &'a [Option<ProjectId>] as Array<Nullable<SqlUuid>>,
        editions: &'a [&'a str] as Array<Text>,
        sources: &'a [i32] as Array<Int4>,
        ids: &'a [DispatchId] as Array<SqlUuid>,
        tenants: &'a [TenantId] as Array<SqlUuid>,
        jobs: &'a [JobId] as Array<SqlUuid>,
        versions: &'a [i64] as Array<BigInt>,
        fires: &'a [DateTime<Utc>] as Array<Timestamptz>,
        valid_until: &'a [DateTime<Utc>] as Array<Timestamptz>,
        next: &'a [DateTime<Utc>] as Array<Timestamptz>,
        available_at: &'a [DateTime<Utc>] as Array<Timestamptz>,
        queues: &'a [&'a str] as Array<Text>,
        priorities: &'a [i16] as Array<SmallInt>,
        follows: &'a [Option<DateTime<Utc>>] as Array<Nullable<Timestamptz>>,
        tzdata: &'a [Option<&'static str>] as Array<Nullable<Text>>,
    ) -> (Nullable<Timestamptz>, BigInt, Array<SqlUuid>)
}

/// Dispatches the planned fires of unchanged jobs, in one transaction. `fires` are in the order of
/// their jobs' ids and have each job at most once.
///
/// # Errors
/// [`DbError::TermOver`] if the instance does not lead with this term; [`DbError::Corrupt`] if a
/// fire time has a run already. After any error the batch has no effect.
pub async fn dispatch(
    conn: &mut Conn,
    instance: InstanceId,
    term: Term,
    fires: &[PlannedFire],
) -> DbResult<DispatchedPlan> {
    transact(conn, "tick_planned", async |conn: &mut Conn| move_planned(conn, instance, term, fires).await)
        .await
}

async fn move_planned(
    conn: &mut Conn,
    instance: InstanceId,
    term: Term,
    fires: &[PlannedFire],
) -> DbResult<DispatchedPlan> {
    let (sources, places) = distinct_sources(fires);
    let (now, moved, created): (Option<DateTime<Utc>>, i64, Vec<DispatchId>) = MovePlanned {
        instance,
        term,
        source_tenants: &sources.iter().map(|s| s.tenant_id).collect::<Vec<_>>(),
        source_functions: &sources.iter().map(|s| s.function_id).collect::<Vec<_>>(),
        source_queues: &sources.iter().map(|s| s.queue.as_str()).collect::<Vec<_>>(),
        source_projects: &sources.iter().map(|s| s.project_id).collect::<Vec<_>>(),
        editions: &sources.iter().map(|s| s.edition.as_str()).collect::<Vec<_>>(),
        sources: &places,
        ids: &column(fires, |f| f.run.id),
        tenants: &column(fires, |f| f.run.tenant_id),
        jobs: &column(fires, |f| f.run.job_id),
        versions: &column(fires, |f| f.run.job_version),
        fires: &column(fires, |f| f.run.scheduled_for),
        valid_until: &column(fires, |f| f.valid_until),
        next: &column(fires, |f| f.next_run_at),
        available_at: &column(fires, |f| f.run.available_at),
        queues: &column(fires, |f| f.run.queue.as_str()),
        priorities: &column(fires, |f| f.run.priority),
        follows: &column(fires, |f| f.run.follows),
        tzdata: &column(fires, |f| f.tzdata_version),
    }
    .get_result(conn)
    .await?;
    let now = now.ok_or(DbError::TermOver)?;
    if usize::try_from(moved).ok() != Some(created.len()) {
        return Err(DbError::Corrupt {
            what: "the cursor of a planned job".into(),
            reason: format!("{} of {moved} fire times had no run yet", created.len()),
        });
    }
    Ok(DispatchedPlan { now, created })
}

/// Each source once, and for each fire the position of its source, counted from 1.
fn distinct_sources(fires: &[PlannedFire]) -> (Vec<&Source>, Vec<i32>) {
    let (mut sources, mut known) = (Vec::new(), HashMap::new());
    let places = fires
        .iter()
        .map(|fire| {
            *known.entry(Arc::as_ptr(&fire.source)).or_insert_with(|| {
                sources.push(&*fire.source);
                i32::try_from(sources.len()).unwrap_or(i32::MAX)
            })
        })
        .collect();
    (sources, places)
}
