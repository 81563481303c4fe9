//! Maintenance: having the leader look at the schedules at once.
//!
//! The leader looks by itself at every change and when a job comes due; this is for who changed rows past the API. The hint follows the commit of
//! its entry in the audit log and may be lost.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use sched_model::db::audit::AuditEntry;
use sched_model::db::{Conn, audit, clock, instances, notify};
use serde_json::json;

use super::{Id, State};
use crate::dto::show;
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query};
use crate::identity::Identity;
use crate::session::Reply;

/// `POST /maintenance/tick`
pub(crate) async fn tick(
    state: State,
    identity: Identity,
    request: Id,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    let (by, lease) = (&request.0, state.leader_lease);
    let written = state
        .write_installation(&identity, by, "request_tick", async |conn: &mut Conn| {
            let now = clock::now(conn).await?;
            let leads = |shown: &sched_wire::SchedulerInstance| {
                shown.is_leader && shown.lease_expired_seconds.is_none()
            };
            let all = instances::list(conn).await?;
            let leader = all.into_iter().map(|one| show::instance(one, now, lease)).find(leads);
            let leader = leader.ok_or(ApiError::NoLeader)?;
            let entry = AuditEntry {
                tenant_id: None,
                actor: by.actor.clone(),
                action: "request_tick",
                target_type: "scheduler_instance",
                target_id: leader.id.to_string(),
                before: None,
                after: Some(json!({"term": leader.term})),
                request_id: Some(by.request.clone()),
            };
            audit::write(conn, &[entry]).await?;
            Ok::<_, ApiError>((Reply::with(StatusCode::ACCEPTED, &leader)?, leader.id))
        })
        .await?;
    if let Some(leader) = written.extra {
        tracing::info!(instance.id = %leader, "The leader was asked to look.");
        state.hint("the leader", async |conn: &mut Conn| notify::jobs_changed(conn).await).await;
    }
    Ok(written.response)
}
