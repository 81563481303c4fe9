//! Maintenance: requests to the leader to check the database now.
//!
//! A tick is for rows that an operator changed outside the API, a reset for attempts that no
//! process ends. The leader decides and changes, in its own fenced transactions. A dry run of a
//! reset reads the affected attempts, without the leader. The hint follows the commit of the audit
//! entry and may be lost; then the operator repeats the request.

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

use crate::convert::fleet;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::extract::{Body, NoParameters};
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::State;

const MOST_STUCK: i64 = 500;

/// `POST /maintenance/tick`
pub(crate) async fn tick(call: Call, body: Body) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    let (response, is_new) = request_task(&call, "request_tick").await?;
    if is_new {
        call.state.hint("the leader", async |conn: &mut Conn| notify::jobs_changed(conn).await).await;
    }
    Ok(response)
}

/// `POST /maintenance/reset-stuck`
pub(crate) async fn reset_stuck(call: Call, body: Body) -> Result<HttpResponse, ApiError> {
    let ResetStuckRequest { dry_run } = body.read_or_default()?;
    if dry_run {
        return list_stuck(&call.state, &call.identity).await;
    }
    let (response, is_new) = request_task(&call, "request_reset_stuck").await?;
    if is_new {
        call.state.hint("the leader", async |conn: &mut Conn| notify::recovery_requested(conn).await).await;
    }
    Ok(response)
}

async fn list_stuck(state: &State, identity: &Identity) -> Result<HttpResponse, ApiError> {
    let found = state
        .read_installation(identity, "tell_stuck", async |conn: &mut Conn| {
            let found = stuck_attempts::find(conn, state.stuck, MOST_STUCK).await?;
            Ok((found, leader(conn, state.leader_lease).await?.is_some()))
        })
        .await?;
    let (found, has_leader) = found;
    let attempts: Vec<_> = found.into_iter().map(fleet::stuck_attempt).collect();
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

async fn leader(conn: &mut Conn, lease: Duration) -> Result<Option<SchedulerInstance>, ApiError> {
    let now = database_clock::now(conn).await?;
    let leads = |shown: &SchedulerInstance| shown.is_leader && shown.lease_expired_seconds.is_none();
    let all = leadership::list(conn).await?;
    Ok(all.into_iter().map(|one| fleet::instance(one, now, lease)).find(leads))
}

/// Returns the leader, and whether to notify it.
async fn request_task(call: &Call, action: &'static str) -> Result<(HttpResponse, bool), ApiError> {
    let (by, lease) = (&call.by, call.state.leader_lease);
    let written = call
        .write_installation(action, async |conn: &mut Conn| {
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
        tracing::info!(instance.id = %leader, action, "leader check requested");
    }
    Ok((written.response, written.extra.is_some()))
}
