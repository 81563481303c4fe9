//! Draining workers: they claim no new runs and finish the running ones.
//!
//! The request is a note in the worker's registration. Claims obey it at once, the worker with its
//! next heartbeat, which a notification triggers. The worker continues when the request is
//! withdrawn. A worker that loses its lease registers again and keeps the note. A stopped worker
//! starts without it.

use actix_web::{HttpResponse, web};
use sched_model::connection::{database_clock, notify};
use sched_model::domain::ids::WorkerId;
use sched_model::events::append::NewEvent;
use sched_model::identity::audit::AuditEntry;
use sched_model::{Conn, events::append, identity::audit, running::workers};
use serde_json::json;

use crate::convert::fleet;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::extract::{self, Body, NoParameters};
use crate::http::reply::Reply;
use crate::routes::named_resource::no_such;

/// `POST /workers/{id}/drain`
pub(crate) async fn drain(call: Call, id: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    set(&call, &id, true).await
}

/// `POST /workers/{id}/undrain`
pub(crate) async fn undrain(call: Call, id: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    set(&call, &id, false).await
}

async fn set(call: &Call, id: &str, is_wanted: bool) -> Result<HttpResponse, ApiError> {
    let by = &call.by;
    let worker = WorkerId(extract::id(id)?);
    let (action, event_type) = match is_wanted {
        true => ("drain_worker", append::WORKER_DRAIN_REQUESTED),
        false => ("undrain_worker", append::WORKER_DRAIN_ENDED),
    };
    let written = call.write_installation(action, async |conn: &mut Conn| {
            let (was_wanted, worker) = workers::set_drain(conn, worker, is_wanted)
                .await?
                .ok_or_else(|| no_such("living worker", id))?;
            if was_wanted != is_wanted {
                let entry = AuditEntry {
                    tenant_id: None,
                    actor: by.actor.clone(),
                    action,
                    target_type: "worker",
                    target_id: worker.worker_id.to_string(),
                    before: Some(json!({"drain_requested": was_wanted})),
                    after: Some(json!({"drain_requested": is_wanted})),
                    request_id: Some(by.request.clone()),
                    address: by.address.clone(),
                };
                audit::write(conn, &[entry]).await?;
                let event = NewEvent {
                    tenant_id: None,
                    project_id: None,
                    job_id: None,
                    dispatch_id: None,
                    event_type,
                    payload: json!({"worker_id": worker.worker_id, "hostname": worker.hostname, "by": by.source}),
                };
                append::append(conn, &[event]).await?;
                tracing::info!(worker.id = %worker.worker_id, action, "worker drain changed");
            }
            let shown = fleet::worker(worker, database_clock::now(conn).await?);
            Ok::<_, ApiError>((Reply::with(actix_web::http::StatusCode::ACCEPTED, &shown)?, ()))
        })
        .await?;
    call.state.hint("the worker", async |conn: &mut Conn| notify::drain_changed(conn, worker).await).await;
    Ok(written.response)
}
