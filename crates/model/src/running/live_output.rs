//! Live output: output and progress of running attempts.
//!
//! A worker writes for all its attempts at once; clients that follow a run read it. No decision
//! depends on it, and the tables do not survive a crash of the database (unlogged). Claim tokens
//! fence every write, so a worker also learns here that it lost a claim. Each function is one
//! statement. A process that dies around it leaves rows that the leader removes
//! ([`crate::retention::retain::live`]).

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Float, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::schema::live_progress;
use crate::{Conn, DbResult};
use sched_domain::attempt::AttemptOutcome;
use sched_domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId, execution_id, first_of};
use sched_domain::run_state::DispatchStatus;

#[derive(Debug, Clone, PartialEq)]
pub struct LiveUpdate {
    pub dispatch_id: DispatchId,
    pub token: ClaimToken,
    pub pieces: Vec<Piece>,
    /// Pieces before this number are deleted, so that only the latest output stays.
    pub keep_from: i64,
    /// New progress: the percentage, if known, and a message.
    pub progress: Option<(Option<f32>, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Position among all pieces of the attempt, from 1.
    pub seq: i64,
    pub stream: &'static str,
    /// Bytes of the stream before this piece.
    pub starts_at: i64,
    /// Contains no NUL.
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

/// Writes output and progress; returns the claims that held. Writing the same again changes
/// nothing.
pub async fn write(conn: &mut Conn, updates: &[LiveUpdate]) -> DbResult<Vec<ClaimToken>> {
    let pieces = || updates.iter().flat_map(|t| t.pieces.iter().map(move |piece| (t.token.0, piece)));
    let held = Write {
        dispatches: &updates.iter().map(|t| t.dispatch_id.0).collect::<Vec<_>>(),
        tokens: &updates.iter().map(|t| t.token.0).collect::<Vec<_>>(),
        keep_from: &updates.iter().map(|t| t.keep_from).collect::<Vec<_>>(),
        has_progress: &updates.iter().map(|t| t.progress.is_some()).collect::<Vec<_>>(),
        percents: &updates
            .iter()
            .map(|t| t.progress.as_ref().and_then(|(percent, _)| *percent))
            .collect::<Vec<_>>(),
        messages: &updates
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

/// Deletes the live output of ended attempts; returns the tokens of deleted ones. The ends of the
/// rest are not stored yet.
pub async fn forget(conn: &mut Conn, attempts: &[(DispatchId, ClaimToken)]) -> DbResult<Vec<ClaimToken>> {
    let dispatches: Vec<Uuid> = attempts.iter().map(|(id, _)| id.0).collect();
    let tokens: Vec<i64> = attempts.iter().map(|(_, token)| token.0).collect();
    Ok(Forget { dispatches: &dispatches, tokens: &tokens }.load(conn).await?)
}

#[derive(Debug, Clone, PartialEq, Queryable, Selectable)]
#[diesel(table_name = live_progress, check_for_backend(diesel::pg::Pg))]
pub struct Progress {
    /// From 0 to 100, if known.
    pub percent: Option<f32>,
    pub message: String,
    /// By the database's clock.
    pub updated_at: DateTime<Utc>,
}

/// A run that a client follows.
#[derive(Debug, Clone)]
pub struct FollowedRun {
    pub id: DispatchId,
    pub job_id: JobId,
    pub created_at: DateTime<Utc>,
    pub status: DispatchStatus,
    pub attempt: i32,
    pub running: Option<(ExecutionId, ClaimToken)>,
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

/// The present state of a run of the tenant, if the run exists.
pub async fn followed_run(
    conn: &mut Conn,
    tenant: TenantId,
    id: DispatchId,
) -> DbResult<Option<FollowedRun>> {
    let row: Option<LookRow> = Look { tenant, id }.get_result(conn).await.optional()?;
    Ok(row.map(|(job_id, created_at, status, attempt, claimed_at, token, percent, message, updated_at)| {
        let claim = claimed_at.zip(token).filter(|_| status == DispatchStatus::InProgress);
        FollowedRun {
            id,
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

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct LivePiece {
    pub seq: i64,
    pub stream: String,
    /// Bytes of the stream before this piece.
    pub starts_at: i64,
    pub content: String,
}

/// Maximum number of pieces that [`pieces`] returns; the SQL text contains the same number.
pub const PIECES_AT_ONCE: usize = 200;

statement! {
    Pieces = "live_output/live_pieces.sql", (
        tenant: TenantId as SqlUuid,
        dispatch: DispatchId as SqlUuid,
        token: ClaimToken as BigInt,
        after: i64 as BigInt,
    ) -> (BigInt, Text, BigInt, Text)
}

/// A page of the output that the attempt of this claim has written after the piece `after` (0 for
/// all).
pub async fn pieces(
    conn: &mut Conn,
    tenant: TenantId,
    (dispatch, token): (DispatchId, ClaimToken),
    after: i64,
) -> DbResult<Vec<LivePiece>> {
    Ok(Pieces { tenant, dispatch, token, after }.load(conn).await?)
}

#[derive(Debug, Clone, Queryable)]
pub struct Finished {
    pub id: ExecutionId,
    pub attempt: i32,
    pub status: AttemptOutcome,
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

/// Finished attempts of a run from `from` on, oldest first, at most a hundred.
pub async fn finished(
    conn: &mut Conn,
    tenant: TenantId,
    watched: &FollowedRun,
    from: Option<ExecutionId>,
) -> DbResult<Vec<Finished>> {
    // The attempt starts shortly after the claim, which follows the creation; a minute covers every
    // rounding.
    let since = watched.created_at - chrono::TimeDelta::minutes(1);
    let from = from.map_or_else(|| first_of(since), |id| id.0);
    Ok(Attempts { tenant, job: watched.job_id, dispatch: watched.id, from, since }.load(conn).await?)
}
