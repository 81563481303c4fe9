//! Ends attempts: one transaction writes the state of the run, its history, its output and the
//! job's counters.
//!
//! The statements are set-based and end any number of attempts at once. The claim token fences each
//! attempt: an attempt that lost its claim changes nothing, and its caller learns so. The job rows
//! are locked first, in order, so two workers that end attempts of the same jobs cannot deadlock.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Bool, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::{
    Conn, DbError, DbResult,
    connection::{notify, transaction},
    dispatching::overlap_queue,
};
use sched_domain::attempt::{AttemptDecision, AttemptOutcome};
use sched_domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId};
use sched_domain::run_state::{DispatchEvent, DispatchStatus};

#[derive(Debug, Clone)]
pub struct Ended {
    pub dispatch_id: DispatchId,
    pub tenant_id: TenantId,
    pub job_id: JobId,
    pub token: ClaimToken,
    pub outcome: AttemptOutcome,
    pub verdict: AttemptDecision,
    pub record: Record,
}

impl Ended {
    /// Whether any part of the attempt ran. An attempt released with a zero duration never started:
    /// it keeps its number and its history row, but its run can still expire.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.outcome != AttemptOutcome::Released || !self.record.duration.is_zero()
    }
}

#[derive(Debug, Clone)]
pub struct Record {
    pub execution_id: ExecutionId,
    /// By the database's clock.
    pub started_at: DateTime<Utc>,
    /// By a monotonic clock; zero if released before its start.
    pub duration: Duration,
    /// Of a process, or the HTTP status.
    pub exit_code: Option<i32>,
    pub result: Option<serde_json::Value>,
    /// Stable for programs.
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    pub traceback: Option<String>,
    /// A JSON object of the handler's numbers.
    pub metrics: Option<serde_json::Value>,
    pub output: Vec<OutputChunk>,
    /// All written bytes, kept or not.
    pub output_bytes: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    pub stream: &'static str,
    /// From 0.
    pub chunk: i32,
    /// Contains no NUL.
    pub content: String,
    /// Bytes before this chunk that were not kept.
    pub dropped_bytes: i64,
}

statement! {
    /// Locks jobs in order, and reads the columns for history and dependents.
    LockJobs<'a> = "attempts/attempts_lock_jobs.sql", (
        tenants: &'a [Uuid] as Array<SqlUuid>,
        jobs: &'a [Uuid] as Array<SqlUuid>,
    ) -> (SqlUuid, SqlUuid, Nullable<SqlUuid>, Bool, Bool, Text)
}

statement! {
    End<'a> = "attempts/attempts_end.sql", (
        dispatches: &'a [Uuid] as Array<SqlUuid>,
        tokens: &'a [i64] as Array<BigInt>,
        statuses: &'a [&'static str] as Array<Text>,
        waits_ms: &'a [i64] as Array<BigInt>,
        is_retry: &'a [bool] as Array<Bool>,
        outcomes: &'a [&'static str] as Array<Text>,
        executions: &'a [Uuid] as Array<SqlUuid>,
        started_at: &'a [DateTime<Utc>] as Array<Timestamptz>,
        durations_ms: &'a [i64] as Array<BigInt>,
        exit_codes: &'a [Option<i32>] as Array<Nullable<Int4>>,
        results: &'a [Option<&'a serde_json::Value>] as Array<Nullable<Jsonb>>,
        error_classes: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        error_messages: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        output_bytes: &'a [i64] as Array<BigInt>,
        projects: &'a [Option<Uuid>] as Array<Nullable<SqlUuid>>,
        is_apart: &'a [bool] as Array<Bool>,
        has_dependents: &'a [bool] as Array<Bool>,
        has_started: &'a [bool] as Array<Bool>,
        job_names: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        tracebacks: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        metrics: &'a [Option<&'a serde_json::Value>] as Array<Nullable<Jsonb>>,
    ) -> (Nullable<SqlUuid>, Nullable<BigInt>, SqlUuid, SqlUuid, Bool, Bool, Nullable<Text>)
}

statement! {
    KeepOutput<'a> = "attempts/attempts_keep_output.sql", (
        executions: &'a [Uuid] as Array<SqlUuid>,
        streams: &'a [&'static str] as Array<Text>,
        chunks: &'a [i32] as Array<Int4>,
        contents: &'a [&'a str] as Array<Text>,
        dropped: &'a [i64] as Array<BigInt>,
        dispatches: &'a [Uuid] as Array<SqlUuid>,
        started_at: &'a [DateTime<Utc>] as Array<Timestamptz>,
    ) -> SqlUuid
}

statement! {
    ReleaseClaims<'a> = "attempts/attempts_release_claims.sql", (claims: &'a [i64] as Array<BigInt>) -> BigInt
}

/// Ends attempts, and deletes claims whose runs have all ended. Returns the runs whose claim held;
/// nothing is written for the rest.
///
/// Ending an attempt twice is harmless: the second time its claim does not hold. After an unknown
/// outcome the caller calls again, and checks the attempts that are not returned with
/// [`was_ended`].
pub async fn end(conn: &mut Conn, ended: &[Ended], finished_claims: &[i64]) -> DbResult<Vec<DispatchId>> {
    let written = transaction::transact(conn, "end_attempts", async |conn: &mut Conn| {
        let written = end_in_transaction(conn, ended).await?;
        if !finished_claims.is_empty() {
            release_claims(conn, finished_claims).await?;
        }
        Ok::<_, DbError>(written)
    })
    .await?;
    if let Err(error) = notify::dispatches_waiting(conn, &written.released_queues).await {
        tracing::debug!(
            error = error.with_causes(),
            "notifying the workers failed; they find the work at their next poll"
        );
    }
    if written.has_dependents
        && let Err(error) = notify::jobs_ended(conn).await
    {
        tracing::debug!(
            error = error.with_causes(),
            "notifying the leader failed; it finds the ended jobs at its next poll"
        );
    }
    Ok(written.held)
}

pub async fn release_claims(conn: &mut Conn, claims: &[i64]) -> DbResult<()> {
    ReleaseClaims { claims }.execute(conn).await?;
    Ok(())
}

#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) held: Vec<DispatchId>,
    /// A requested cancellation may have changed them.
    pub(crate) states: Vec<(DispatchId, DispatchStatus)>,
    /// Queues that received runs from the jobs' overlap queue.
    pub(crate) released_queues: Vec<String>,
    pub(crate) has_dependents: bool,
}

/// [`end`] within the caller's transaction, which may hold locks on schedulers but not yet on jobs.
pub(crate) async fn end_in_transaction(conn: &mut Conn, ended: &[Ended]) -> DbResult<Written> {
    if ended.is_empty() {
        return Ok(Written::default());
    }
    let jobs = lock_jobs(conn, ended).await?;
    let rows = write_ends(conn, ended, &jobs).await?;
    let held: HashSet<(DispatchId, ClaimToken)> = rows.iter().filter_map(|row| row.0.zip(row.1)).collect();
    store_output(conn, ended, &held).await?;
    let lines: Vec<(TenantId, JobId)> = rows.iter().filter(|row| row.4).map(|row| (row.2, row.3)).collect();
    let released_queues = overlap_queue::release(conn, &lines).await?;
    Ok(Written {
        states: rows.iter().filter_map(|row| row.0.zip(row.6)).collect(),
        held: held.into_iter().map(|(id, _)| id).collect(),
        released_queues,
        has_dependents: rows.iter().any(|row| row.5),
    })
}

/// Read under the job's lock.
#[derive(Debug, Clone)]
struct LockedJob {
    name: String,
    project_id: Option<Uuid>,
    /// Its history is in schema `maintenance`.
    is_apart: bool,
    has_dependents: bool,
}

/// In order, before any other lock.
async fn lock_jobs(conn: &mut Conn, ended: &[Ended]) -> DbResult<HashMap<(Uuid, Uuid), LockedJob>> {
    let named: BTreeSet<(Uuid, Uuid)> = ended.iter().map(|e| (e.tenant_id.0, e.job_id.0)).collect();
    let (tenants, jobs): (Vec<Uuid>, Vec<Uuid>) = named.into_iter().unzip();
    let rows: Vec<(Uuid, Uuid, Option<Uuid>, bool, bool, String)> =
        LockJobs { tenants: &tenants, jobs: &jobs }.load(conn).await?;
    let locked = rows.into_iter().map(|(tenant, id, project_id, is_apart, has_dependents, name)| {
        ((tenant, id), LockedJob { name, project_id, is_apart, has_dependents })
    });
    Ok(locked.collect())
}

/// Run, claim token and new state of an ended attempt; or none of these, and whether the job has
/// queued runs and dependents.
type EndedRow = (Option<DispatchId>, Option<ClaimToken>, TenantId, JobId, bool, bool, Option<DispatchStatus>);

async fn write_ends(
    conn: &mut Conn,
    ended: &[Ended],
    jobs: &HashMap<(Uuid, Uuid), LockedJob>,
) -> DbResult<Vec<EndedRow>> {
    let records = || ended.iter().map(|e| &e.record);
    // The runs of a deleted job are gone: nothing is written for them.
    let of_jobs: Vec<Option<&LockedJob>> =
        ended.iter().map(|e| jobs.get(&(e.tenant_id.0, e.job_id.0))).collect();
    let rows = End {
        dispatches: &ended.iter().map(|e| e.dispatch_id.0).collect::<Vec<_>>(),
        tokens: &ended.iter().map(|e| e.token.0).collect::<Vec<_>>(),
        statuses: &ended.iter().map(|e| status_after(e.verdict.event).as_str()).collect::<Vec<_>>(),
        waits_ms: &ended.iter().map(|e| milliseconds(e.verdict.wait.unwrap_or_default())).collect::<Vec<_>>(),
        is_retry: &ended.iter().map(|e| e.verdict.event == DispatchEvent::Retry).collect::<Vec<_>>(),
        outcomes: &ended.iter().map(|e| e.outcome.as_str()).collect::<Vec<_>>(),
        executions: &records().map(|r| r.execution_id.0).collect::<Vec<_>>(),
        started_at: &records().map(|r| r.started_at).collect::<Vec<_>>(),
        durations_ms: &records().map(|r| milliseconds(r.duration)).collect::<Vec<_>>(),
        exit_codes: &records().map(|r| r.exit_code).collect::<Vec<_>>(),
        results: &records().map(|r| r.result.as_ref()).collect::<Vec<_>>(),
        error_classes: &records().map(|r| r.error_class.as_deref()).collect::<Vec<_>>(),
        error_messages: &records().map(|r| r.error_message.as_deref()).collect::<Vec<_>>(),
        output_bytes: &records().map(|r| r.output_bytes).collect::<Vec<_>>(),
        projects: &of_jobs.iter().map(|job| job.and_then(|job| job.project_id)).collect::<Vec<_>>(),
        is_apart: &of_jobs.iter().map(|job| job.is_some_and(|job| job.is_apart)).collect::<Vec<_>>(),
        has_dependents: &of_jobs
            .iter()
            .map(|job| job.is_some_and(|job| job.has_dependents))
            .collect::<Vec<_>>(),
        has_started: &ended.iter().map(Ended::has_started).collect::<Vec<_>>(),
        job_names: &of_jobs.iter().map(|job| job.map(|job| job.name.as_str())).collect::<Vec<_>>(),
        tracebacks: &records().map(|r| r.traceback.as_deref()).collect::<Vec<_>>(),
        metrics: &records().map(|r| r.metrics.as_ref()).collect::<Vec<_>>(),
    }
    .load(conn)
    .await?;
    Ok(rows)
}

async fn store_output(
    conn: &mut Conn,
    ended: &[Ended],
    held: &HashSet<(DispatchId, ClaimToken)>,
) -> DbResult<()> {
    let chunks: Vec<(&Ended, &OutputChunk)> = ended
        .iter()
        .filter(|e| held.contains(&(e.dispatch_id, e.token)))
        .flat_map(|e| e.record.output.iter().map(move |chunk| (e, chunk)))
        .collect();
    if chunks.is_empty() {
        return Ok(());
    }
    KeepOutput {
        executions: &chunks.iter().map(|(e, _)| e.record.execution_id.0).collect::<Vec<_>>(),
        streams: &chunks.iter().map(|(_, c)| c.stream).collect::<Vec<_>>(),
        chunks: &chunks.iter().map(|(_, c)| c.chunk).collect::<Vec<_>>(),
        contents: &chunks.iter().map(|(_, c)| c.content.as_str()).collect::<Vec<_>>(),
        dropped: &chunks.iter().map(|(_, c)| c.dropped_bytes).collect::<Vec<_>>(),
        dispatches: &chunks.iter().map(|(e, _)| e.dispatch_id.0).collect::<Vec<_>>(),
        started_at: &chunks.iter().map(|(e, _)| e.record.started_at).collect::<Vec<_>>(),
    }
    .execute(conn)
    .await?;
    Ok(())
}

statement! {
    WasEnded<'a> = "attempts/attempts_was_ended.sql", (executions: &'a [Uuid] as Array<SqlUuid>, since: DateTime<Utc> as Timestamptz) -> SqlUuid
}

/// Which of these attempts are in history, after [`end`] failed with an unknown outcome and then
/// reported a lost claim. `since` is not later than the start of any of them.
pub async fn was_ended(
    conn: &mut Conn,
    executions: &[ExecutionId],
    since: DateTime<Utc>,
) -> DbResult<Vec<ExecutionId>> {
    let executions: Vec<Uuid> = executions.iter().map(|id| id.0).collect();
    Ok(WasEnded { executions: &executions, since }.load(conn).await?)
}

/// A verdict never holds an event that a running run refuses.
pub(crate) fn status_after(event: DispatchEvent) -> DispatchStatus {
    DispatchStatus::InProgress.apply(event).unwrap_or(DispatchStatus::DeadLetter)
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
