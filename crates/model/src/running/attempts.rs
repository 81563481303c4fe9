//! Ends attempts: one transaction writes the state of the run, its history, its output and its
//! events.
//!
//! The statements are set-based and end any number of attempts at once. The claim token fences each
//! attempt: an attempt that lost its claim changes nothing, and its caller learns so. The job is not
//! locked; [`super::job_counters`] counts the ends later. If the process dies in between, the next
//! count includes them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use diesel::sql_types::{Array, BigInt, Bool, Int4, Jsonb, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::running::job_counters;
use crate::{
    Conn, DbError, DbResult,
    connection::{notify, transaction},
};
use sched_domain::attempt::{AttemptDecision, AttemptOutcome};
use sched_domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, ProjectId, TenantId};
use sched_domain::run_state::{DispatchEvent, DispatchStatus};

/// The columns of a job that history and events of an attempt contain, as of the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobColumns {
    pub name: String,
    pub project_id: Option<ProjectId>,
    /// Its history is in schema `maintenance`.
    pub is_apart: bool,
}

#[derive(Debug, Clone)]
pub struct Ended {
    pub dispatch_id: DispatchId,
    pub tenant_id: TenantId,
    pub job_id: JobId,
    pub job: Arc<JobColumns>,
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
    /// Exit code of a process, or HTTP status.
    pub exit_code: Option<i32>,
    pub result: Option<serde_json::Value>,
    /// Class of the error; stable for programs.
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    pub traceback: Option<String>,
    /// A JSON object of the numbers that the handler reported.
    pub metrics: Option<serde_json::Value>,
    pub output: Vec<OutputChunk>,
    /// All bytes that the attempt wrote, kept or not.
    pub output_bytes: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// `stdout`, `stderr` or `log`.
    pub stream: &'static str,
    /// Position in the stream, from 0.
    pub chunk: i32,
    /// Contains no NUL.
    pub content: String,
    /// Bytes between the previous chunk and this one that were not kept.
    pub dropped_bytes: i64,
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
        has_started: &'a [bool] as Array<Bool>,
        job_names: &'a [&'a str] as Array<Text>,
        tracebacks: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        metrics: &'a [Option<&'a serde_json::Value>] as Array<Nullable<Jsonb>>,
    ) -> (SqlUuid, BigInt, Text, Bool, Bool)
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
    if written.has_dependents
        && let Err(error) = notify::jobs_ended(conn).await
    {
        tracing::debug!(
            error = error.with_causes(),
            "notifying the leader failed; it finds the ended jobs at its next poll"
        );
    }
    if written.has_overlap_queue
        && let Err(error) = job_counters::count_and_notify(conn).await
    {
        tracing::debug!(error = error.with_causes(), "counting ends failed; the leader counts them");
    }
    Ok(written.held)
}

/// Deletes claims whose runs have all ended.
pub async fn release_claims(conn: &mut Conn, claims: &[i64]) -> DbResult<()> {
    ReleaseClaims { claims }.execute(conn).await?;
    Ok(())
}

#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Runs whose claim held.
    pub(crate) held: Vec<DispatchId>,
    /// New states of these runs; a requested cancellation may have changed them.
    pub(crate) states: Vec<(DispatchId, DispatchStatus)>,
    /// Count the ends after the commit, which releases queued runs of their jobs.
    pub(crate) has_overlap_queue: bool,
    pub(crate) has_dependents: bool,
}

/// [`end`] within the caller's transaction.
pub(crate) async fn end_in_transaction(conn: &mut Conn, ended: &[Ended]) -> DbResult<Written> {
    if ended.is_empty() {
        return Ok(Written::default());
    }
    let rows = write_ends(conn, ended).await?;
    let held: HashSet<(DispatchId, ClaimToken)> = rows.iter().map(|row| (row.0, row.1)).collect();
    store_output(conn, ended, &held).await?;
    Ok(Written {
        states: rows.iter().map(|row| (row.0, row.2)).collect(),
        held: held.into_iter().map(|(id, _)| id).collect(),
        has_dependents: rows.iter().any(|row| row.3),
        has_overlap_queue: rows.iter().any(|row| row.4),
    })
}

/// Run, claim token and new state of an ended attempt; whether any ended run has dependents, and
/// whether its job has queued runs.
type EndedRow = (DispatchId, ClaimToken, DispatchStatus, bool, bool);

/// The runs of a deleted job are gone: nothing is written for them.
async fn write_ends(conn: &mut Conn, ended: &[Ended]) -> DbResult<Vec<EndedRow>> {
    let records = || ended.iter().map(|e| &e.record);
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
        projects: &ended.iter().map(|e| e.job.project_id.map(|id| id.0)).collect::<Vec<_>>(),
        is_apart: &ended.iter().map(|e| e.job.is_apart).collect::<Vec<_>>(),
        has_started: &ended.iter().map(Ended::has_started).collect::<Vec<_>>(),
        job_names: &ended.iter().map(|e| e.job.name.as_str()).collect::<Vec<_>>(),
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

/// State of a running run after an event. A decision never holds an event that a running run
/// refuses.
pub(crate) fn status_after(event: DispatchEvent) -> DispatchStatus {
    DispatchStatus::InProgress.apply(event).unwrap_or(DispatchStatus::DeadLetter)
}

fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
