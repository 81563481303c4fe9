//! Maintenance: having the leader look at once at what it would look at by itself, or has to be asked for.
//!
//! A tick is for who changed rows past the API; a reset is for attempts that nobody ends. Nothing is decided or changed here: the leader does it, in
//! its own fenced transactions. A dry run of a reset reads what it would find, asks no leader and needs none. The hint follows the commit of its entry
//! in the audit log and may be lost; then it is asked for again.

use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use sched_model::identity::audit::AuditEntry;
use sched_model::{
    Conn,
    cluster::leadership,
    connection::{database_clock, notify},
    identity::audit,
    recovery::stuck_attempts,
};
use sched_wire::{ResetStuckRequest, SchedulerInstance, StuckAttempts};
use serde_json::json;

use crate::convert::response;
use crate::error::ApiError;
use crate::http::extract::{Body, NoParameters, Query};
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::{Id, State};

/// Most attempts that a dry run tells of.
const MOST_STUCK: i64 = 500;

/// `POST /maintenance/tick`
pub(crate) async fn tick(
    state: State,
    identity: Identity,
    request: Id,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    let (response, is_new) = ask(&state, &identity, &request, "request_tick").await?;
    if is_new {
        state.hint("the leader", async |conn: &mut Conn| notify::jobs_changed(conn).await).await;
    }
    Ok(response)
}

/// `POST /maintenance/reset-stuck`
pub(crate) async fn reset_stuck(
    state: State,
    identity: Identity,
    request: Id,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let ResetStuckRequest { dry_run } = body.read_or_default()?;
    if dry_run {
        return tell_stuck(&state, &identity).await;
    }
    let (response, is_new) = ask(&state, &identity, &request, "request_reset_stuck").await?;
    if is_new {
        state.hint("the leader", async |conn: &mut Conn| notify::recovery_requested(conn).await).await;
    }
    Ok(response)
}

/// What a reset would end, and nothing else.
async fn tell_stuck(state: &State, identity: &Identity) -> Result<HttpResponse, ApiError> {
    let found = state
        .read_installation(identity, "tell_stuck", async |conn: &mut Conn| {
            let found = stuck_attempts::find(conn, state.stuck, MOST_STUCK).await?;
            Ok((found, leader(conn, state.leader_lease).await?.is_some()))
        })
        .await?;
    let (found, has_leader) = found;
    let attempts: Vec<_> = found.into_iter().map(response::stuck_attempt).collect();
    let count = attempts.len();
    let count_is_at_least = i64::try_from(count).is_ok_and(|count| count >= MOST_STUCK);
    Ok(HttpResponse::Ok().json(StuckAttempts {
        dry_run: true,
        count,
        count_is_at_least,
        has_leader: Some(has_leader),
        attempts,
    }))
}

/// The scheduler that leads, if any does.
async fn leader(conn: &mut Conn, lease: Duration) -> Result<Option<SchedulerInstance>, ApiError> {
    let now = database_clock::now(conn).await?;
    let leads = |shown: &SchedulerInstance| shown.is_leader && shown.lease_expired_seconds.is_none();
    let all = leadership::list(conn).await?;
    Ok(all.into_iter().map(|one| response::instance(one, now, lease)).find(leads))
}

/// Notes that somebody asks the leader for something; answers with the leader, and whether it is to be told.
async fn ask(
    state: &State,
    identity: &Identity,
    request: &Id,
    action: &'static str,
) -> Result<(HttpResponse, bool), ApiError> {
    let (by, lease) = (&request.0, state.leader_lease);
    let written = state
        .write_installation(identity, by, action, async |conn: &mut Conn| {
            let leader = leader(conn, lease).await?.ok_or(ApiError::NoLeader)?;
            let entry = AuditEntry {
                tenant_id: None,
                actor: by.actor.clone(),
                action,
                target_type: "scheduler_instance",
                target_id: leader.id.to_string(),
                before: None,
                after: Some(json!({"term": leader.term})),
                request_id: Some(by.request.clone()),
                address: by.address.clone(),
            };
            audit::write(conn, &[entry]).await?;
            Ok::<_, ApiError>((Reply::with(StatusCode::ACCEPTED, &leader)?, leader.id))
        })
        .await?;
    if let Some(leader) = written.extra {
        tracing::info!(instance.id = %leader, action, "The leader was asked to look.");
    }
    Ok((written.response, written.extra.is_some()))
}
