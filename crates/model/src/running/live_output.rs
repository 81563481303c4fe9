//! What running attempts tell before they end: output as it comes, and progress.
//!
//! Written by workers for all of their attempts at once, read by those who watch. A courtesy and not the record: nothing decides by
//! it, and the tables do not outlive a crash of the database. Every write is fenced by claim tokens, so a worker learns here too that
//! a claim of its was taken away. Each function is one statement; a process that dies around it leaves rows that the leader removes
//! ([`crate::retention::retain::live`]).

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Float, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::schema::live_progress;
use crate::{Conn, DbResult};
use sched_domain::attempt::AttemptOutcome;
use sched_domain::dispatch::DispatchStatus;
use sched_domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId, execution_id, first_of};

/// What one attempt has told since the last time.
#[derive(Debug, Clone, PartialEq)]
pub struct Told {
    /// The dispatch.
    pub dispatch_id: DispatchId,
    /// Token of the claim it runs under.
    pub token: ClaimToken,
    /// Pieces of output, in order.
    pub pieces: Vec<Piece>,
    /// Pieces before this number are let go, so that a talkative attempt keeps its latest output only.
    pub keep_from: i64,
    /// How far it is, if that is news: percent, where it is known, and what it does.
    pub progress: Option<(Option<f32>, String)>,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its place among all pieces of the attempt, from 1.
    pub seq: i64,
    /// `stdout`, `stderr` or `log`.
    pub stream: &'static str,
    /// Bytes of the stream before it.
    pub starts_at: i64,
    /// The text, without NUL.
    pub content: String,
}

statement! {
    Write<'a> = "live_output/live_write.sql", (
        dispatches: &'a [Uuid] as Array<SqlUuid>,
        tokens: &'a [i64] as Array<BigInt>,
        keep_from: &'a [i64] as Array<BigInt>,
        has_progress: &'a [bool] as Array<Bool>,
        percents: &'a [Option<f32>] as Array<Nullable<Float>>,
        messages: &'a [&'a str] as Array<Text>,
        piece_tokens: &'a [i64] as Array<BigInt>,
        seqs: &'a [i64] as Array<BigInt>,
        streams: &'a [&'static str] as Array<Text>,
        starts: &'a [i64] as Array<BigInt>,
        contents: &'a [&'a str] as Array<Text>,
    ) -> BigInt
}

/// Shows what attempts have told; returns the claims that held. Writing the same again changes nothing.
pub async fn write(conn: &mut Conn, told: &[Told]) -> DbResult<Vec<ClaimToken>> {
    let pieces = || told.iter().flat_map(|t| t.pieces.iter().map(move |piece| (t.token.0, piece)));
    let held = Write {
        dispatches: &told.iter().map(|t| t.dispatch_id.0).collect::<Vec<_>>(),
        tokens: &told.iter().map(|t| t.token.0).collect::<Vec<_>>(),
        keep_from: &told.iter().map(|t| t.keep_from).collect::<Vec<_>>(),
        has_progress: &told.iter().map(|t| t.progress.is_some()).collect::<Vec<_>>(),
        percents: &told
            .iter()
            .map(|t| t.progress.as_ref().and_then(|(percent, _)| *percent))
            .collect::<Vec<_>>(),
        messages: &told
            .iter()
            .map(|t| t.progress.as_ref().map_or("", |(_, message)| message.as_str()))
            .collect::<Vec<_>>(),
        piece_tokens: &pieces().map(|(token, _)| token).collect::<Vec<_>>(),
        seqs: &pieces().map(|(_, p)| p.seq).collect::<Vec<_>>(),
        streams: &pieces().map(|(_, p)| p.stream).collect::<Vec<_>>(),
        starts: &pieces().map(|(_, p)| p.starts_at).collect::<Vec<_>>(),
        contents: &pieces().map(|(_, p)| p.content.as_str()).collect::<Vec<_>>(),
    }
    .load(conn)
    .await?;
    Ok(held)
}

statement! {
    Forget<'a> = "live_output/live_forget.sql", (
        dispatches: &'a [Uuid] as Array<SqlUuid>,
        tokens: &'a [i64] as Array<BigInt>,
    ) -> BigInt
}

/// Takes away what attempts that are over have told; returns those of which it is gone. The others' ends are not stored yet.
pub async fn forget(conn: &mut Conn, attempts: &[(DispatchId, ClaimToken)]) -> DbResult<Vec<ClaimToken>> {
    let dispatches: Vec<Uuid> = attempts.iter().map(|(id, _)| id.0).collect();
    let tokens: Vec<i64> = attempts.iter().map(|(_, token)| token.0).collect();
    Ok(Forget { dispatches: &dispatches, tokens: &tokens }.load(conn).await?)
}

/// How far a running attempt has come.
#[derive(Debug, Clone, PartialEq, Queryable, Selectable)]
#[diesel(table_name = live_progress, check_for_backend(diesel::pg::Pg))]
pub struct Progress {
    /// From 0 to 100, where it is known.
    pub percent: Option<f32>,
    /// What it does, for people.
    pub message: String,
    /// When it was told, by the database's clock.
    pub updated_at: DateTime<Utc>,
}

/// A dispatch that is watched.
#[derive(Debug, Clone)]
pub struct Watched {
    /// Its job.
    pub job_id: JobId,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// What it has come to.
    pub status: DispatchStatus,
    /// Attempts begun so far.
    pub attempt: i32,
    /// The attempt that runs.
    pub running: Option<(ExecutionId, ClaimToken)>,
    /// How far that is.
    pub progress: Option<Progress>,
}

type LookRow = (
    JobId,
    DateTime<Utc>,
    DispatchStatus,
    i32,
    Option<DateTime<Utc>>,
    Option<ClaimToken>,
    Option<f32>,
    Option<String>,
    Option<DateTime<Utc>>,
);

statement! {
    Look = "live_output/live_look.sql", (tenant: TenantId as SqlUuid, id: DispatchId as SqlUuid) -> (
        SqlUuid, Timestamptz, Text, Int4, Nullable<Timestamptz>, Nullable<BigInt>, Nullable<Float>, Nullable<Text>,
        Nullable<Timestamptz>,
    )
}

/// How a dispatch of the tenant stands at this moment, if there is one with this id.
pub async fn look(conn: &mut Conn, tenant: TenantId, id: DispatchId) -> DbResult<Option<Watched>> {
    let row: Option<LookRow> = Look { tenant, id }.get_result(conn).await.optional()?;
    Ok(row.map(|(job_id, created_at, status, attempt, claimed_at, token, percent, message, updated_at)| {
        let claim = claimed_at.zip(token).filter(|_| status == DispatchStatus::InProgress);
        Watched {
            job_id,
            created_at,
            status,
            attempt,
            running: claim.map(|(at, token)| (execution_id(at, id, token), token)),
            progress: message.zip(updated_at).map(|(message, updated_at)| Progress {
                percent,
                message,
                updated_at,
            }),
        }
    }))
}

/// A piece of output as it was told.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct LivePiece {
    /// Its place among all pieces of the attempt.
    pub seq: i64,
    /// `stdout`, `stderr` or `log`.
    pub stream: String,
    /// Bytes of the stream before it.
    pub starts_at: i64,
    /// The text.
    pub content: String,
}

/// How many pieces [`pieces`] gives at most; it stands in its text.
pub const PIECES_AT_ONCE: usize = 200;

statement! {
    Pieces = "live_output/live_pieces.sql", (
        tenant: TenantId as SqlUuid,
        dispatch: DispatchId as SqlUuid,
        token: ClaimToken as BigInt,
        after: i64 as BigInt,
    ) -> (BigInt, Text, BigInt, Text)
}

/// What the attempt under this claim has written after the piece `after` (0 for all that is there), a page of it.
pub async fn pieces(
    conn: &mut Conn,
    tenant: TenantId,
    dispatch: DispatchId,
    token: ClaimToken,
    after: i64,
) -> DbResult<Vec<LivePiece>> {
    Ok(Pieces { tenant, dispatch, token, after }.load(conn).await?)
}

/// A finished attempt of a dispatch that is watched.
#[derive(Debug, Clone, Queryable)]
pub struct Finished {
    /// The attempt.
    pub id: ExecutionId,
    /// Its number.
    pub attempt: i32,
    /// How it ended.
    pub status: AttemptOutcome,
    /// What went wrong.
    pub error_message: Option<String>,
}

statement! {
    Attempts = "live_output/live_attempts.sql", (
        tenant: TenantId as SqlUuid,
        job: JobId as SqlUuid,
        dispatch: DispatchId as SqlUuid,
        from: Uuid as SqlUuid,
        since: DateTime<Utc> as Timestamptz,
    ) -> (SqlUuid, Int4, Text, Nullable<Text>)
}

/// Finished attempts of a dispatch, oldest first, from `from` on, at most a hundred.
pub async fn finished(
    conn: &mut Conn,
    tenant: TenantId,
    dispatch: DispatchId,
    watched: &Watched,
    from: Option<ExecutionId>,
) -> DbResult<Vec<Finished>> {
    // A worker's start lies a little after the claim, and that after the creation; a minute covers every rounding.
    let since = watched.created_at - chrono::TimeDelta::minutes(1);
    let from = from.map_or_else(|| first_of(since), |id| id.0);
    Ok(Attempts { tenant, job: watched.job_id, dispatch, from, since }.load(conn).await?)
}
