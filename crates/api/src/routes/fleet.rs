//! The processes of the installation, and its state at a glance.
//!
//! Asking the leader to step down leaves it a note in the database, with its entries in the audit log and the stream of
//! events in the same transaction. The hint that follows may be lost: the leader finds the note with its next heartbeat.

use actix_web::{HttpResponse, web};
use sched_model::db::events::{self, NewEvent};
use sched_model::db::instances::Instance;
use sched_model::db::{Conn, DbError, audit, clock, instances, notify, overview, transact, workers};
use sched_wire::{Page, SchedulerInstance, Status, Worker};
use serde_json::json;

use super::{Answer, Id, State, auditing};
use crate::dto::show;
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query};
use crate::identity::Identity;
use crate::page::whole;

/// Most jobs that the status names of those the scheduler has disabled; it counts them all.
const SHOWN_QUARANTINED: i64 = 20;

/// `GET /workers`
pub(crate) async fn workers(state: State, _: Query<NoParameters>) -> Answer<Page<Worker>> {
    let mut conn = state.database.conn().await?;
    Ok(web::Json(whole(workers::list(&mut conn).await?, show::worker)))
}

/// `GET /scheduler-instances`
pub(crate) async fn scheduler_instances(
    state: State,
    _: Query<NoParameters>,
) -> Answer<Page<SchedulerInstance>> {
    let mut conn = state.database.conn().await?;
    let found = instances::list(&mut conn).await?;
    let now = clock::now(&mut conn).await?;
    Ok(web::Json(whole(found, |found| show::instance(found, now, state.leader_lease))))
}

/// `POST /scheduler-instances/leader/step-down`
pub(crate) async fn step_down(
    state: State,
    identity: Identity,
    request: Id,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    let NoParameters {} = body.read_or_default()?;
    let mut conn = state.database.conn().await?;
    let asked = transact(&mut conn, "request_step_down", async |conn: &mut Conn| {
        let leader = instances::request_step_down(conn).await?;
        if let Some(leader) = &leader {
            audit::write(conn, &[auditing::of_step_down(tenant, leader, &request.0)]).await?;
            events::append(conn, &[step_down_requested(leader)]).await?;
        }
        Ok::<_, DbError>(leader)
    })
    .await?;
    let leader = asked.ok_or(ApiError::NoLeader)?;
    tracing::info!(instance.id = %leader.id, leader.term = ?leader.term, "The leader was asked to step down.");
    if let Err(error) = notify::step_down_requested(&mut conn).await {
        tracing::warn!(
            error = error.with_causes(),
            "The leader could not be told that it is to step down; it will find out with its next heartbeat."
        );
    }
    let now = clock::now(&mut conn).await?;
    Ok(HttpResponse::Accepted().json(show::instance(leader, now, state.leader_lease)))
}

fn step_down_requested(leader: &Instance) -> NewEvent {
    NewEvent {
        tenant_id: None,
        project_id: None,
        job_id: None,
        dispatch_id: None,
        event_type: events::STEP_DOWN_REQUESTED,
        payload: json!({
            "instance_id": leader.id,
            "hostname": leader.hostname,
            "pid": leader.pid,
            "term": leader.term,
        }),
    }
}

/// `GET /status`
pub(crate) async fn status(state: State, identity: Identity, _: Query<NoParameters>) -> Answer<Status> {
    let tenant = identity.tenant();
    let mut conn = state.database.conn().await?;
    let counts = overview::counts(&mut conn, tenant).await?;
    let waiting = overview::waiting(&mut conn, tenant).await?;
    let quarantined = match counts.jobs_quarantined {
        0 => Vec::new(),
        _ => overview::quarantined(&mut conn, tenant, SHOWN_QUARANTINED).await?,
    };
    Ok(web::Json(show::status(counts, waiting, quarantined, state.leader_lease)))
}
