//! Cancellation of runs.
//!
//! One transaction closes waiting runs and marks running ones, with their events and audit entry.
//! The workers of the running ones are notified after the commit. That notification may be lost,
//! because the worker also polls for the mark. A repetition is harmless.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use sched_model::dispatching::cancellations::{self, Cancelled, CancelledRuns, JobRef, Order};
use sched_model::domain::ids::{DispatchId, TenantId};
use sched_model::domain::run_state::DispatchStatus;
use sched_model::events::append::{self, NewEvent};
use sched_model::{Conn, connection::notify, identity::audit};
use sched_wire::{CancelState, JobCancelled, ReasonRequest};
use serde_json::json;

use crate::convert::IntoWire;
use crate::error::ApiError;
use crate::error::conflict::Conflict;
use crate::error::field_error::FieldError;
use crate::http::call::Call;
use crate::http::extract::{Body, id};
use crate::http::reply::Reply;
use crate::routes::jobs::{find, no_such_job};
use crate::routes::{State, built_in, operations::auditing};

/// In characters.
const LONGEST_REASON: usize = 500;

pub(crate) fn reason(body: Body) -> Result<Option<String>, ApiError> {
    checked_reason(body.read_or_default::<ReasonRequest>()?.reason)
}

pub(crate) fn checked_reason(reason: Option<String>) -> Result<Option<String>, ApiError> {
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > LONGEST_REASON) {
        let message = format!("must be no longer than {LONGEST_REASON} characters");
        return Err(ApiError::Refused(vec![FieldError::invalid("/reason", message)]));
    }
    Ok(reason)
}

/// `POST /runs/{id}/cancel`
pub(crate) async fn dispatch(
    call: Call,
    text: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let (tenant, id) = (call.tenant(), DispatchId(id(&text)?));
    let reason = reason(body)?;
    let order = Order { by: &call.by.actor, reason: reason.as_deref() };
    let written = call
        .write("cancel_run", async |conn: &mut Conn| {
            built_in::dispatches(conn, &call.identity, &[id]).await?;
            let (stopped, shown, status) = match cancellations::cancel(conn, tenant, id, &order).await? {
                Cancelled::Stopped(stricken, stopped) => {
                    let entry = auditing::of_cancelled_dispatch(id, &stopped, &order, &call.by);
                    audit::write(conn, &[entry]).await?;
                    append::append(conn, &events(tenant, &stricken, &stopped, &order)).await?;
                    match stopped.closed.is_empty() {
                        true => (stopped, CancelState::Requested, DispatchStatus::InProgress),
                        false => (stopped, CancelState::Cancelled, DispatchStatus::Cancelled),
                    }
                }
                Cancelled::AlreadyRequested(worker) => {
                    // The first notification may have been lost.
                    let again =
                        CancelledRuns { workers: worker.into_iter().collect(), ..CancelledRuns::default() };
                    (again, CancelState::Requested, DispatchStatus::InProgress)
                }
                Cancelled::AlreadyCancelled => {
                    (CancelledRuns::default(), CancelState::Cancelled, DispatchStatus::Cancelled)
                }
                Cancelled::Finished(status) => return Err(ApiError::Conflict(Conflict::Finished(status))),
                Cancelled::NoSuchDispatch => {
                    return Err(ApiError::NotFound { kind: "run", name: id.to_string() });
                }
            };
            let code = if shown == CancelState::Cancelled { StatusCode::OK } else { StatusCode::ACCEPTED };
            let status = status.into_wire();
            let answer = sched_wire::Cancelled { run_id: id.0, state: shown, status };
            Ok::<_, ApiError>((Reply::with(code, &answer)?, stopped))
        })
        .await?;
    if let Some(stopped) = written.extra {
        tracing::info!(run.id = %id, "run cancelled");
        hint(&call.state, &stopped).await;
    }
    Ok(written.response)
}

/// `POST /jobs/{id-or-name}/cancel`
pub(crate) async fn of_job(call: Call, job: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let tenant = call.tenant();
    let reason = reason(body)?;
    let order = Order { by: &call.by.actor, reason: reason.as_deref() };
    let written = call
        .write("cancel_job", async |conn: &mut Conn| {
            let found = find(conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
            built_in::functions(conn, &call.identity, &[&found.settings.function]).await?;
            let cancelled = cancellations::cancel_of_job(conn, tenant, found.id, &order).await?;
            let (stricken, stopped, has_more) = cancelled.ok_or_else(|| no_such_job(&job))?;
            let entry = auditing::of_cancelled_job(&stricken, &stopped, &order, &call.by);
            audit::write(conn, &[entry]).await?;
            append::append(conn, &events(tenant, &stricken, &stopped, &order)).await?;
            let (cancelled, requested) = (stopped.closed.len(), stopped.requested.len());
            let answer = JobCancelled { cancelled, requested, has_more };
            Ok::<_, ApiError>((Reply::ok(&answer)?, (found.id, stopped)))
        })
        .await?;
    if let Some((id, stopped)) = written.extra {
        let (cancelled, requested) = (stopped.closed.len(), stopped.requested.len());
        tracing::info!(job.id = %id, cancelled, requested, "runs of a job cancelled");
        hint(&call.state, &stopped).await;
    }
    Ok(written.response)
}

/// An event for each run.
fn events(tenant: TenantId, stricken: &JobRef, stopped: &CancelledRuns, order: &Order<'_>) -> Vec<NewEvent> {
    let event = |id: &DispatchId, event_type| NewEvent {
        tenant_id: Some(tenant),
        project_id: stricken.project_id,
        job_id: Some(stricken.job_id),
        dispatch_id: Some(*id),
        event_type,
        payload: json!({"job_name": stricken.job_name, "reason": order.reason, "by": order.by}),
    };
    let closed = stopped.closed.iter().map(|id| event(id, append::DISPATCH_CANCELLED));
    let requested = stopped.requested.iter().map(|id| event(id, append::DISPATCH_CANCEL_REQUESTED));
    closed.chain(requested).collect()
}

/// Notifies workers of runs to stop, and of queues with released runs.
async fn hint(state: &State, stopped: &CancelledRuns) {
    if !stopped.workers.is_empty() || !stopped.released_queues.is_empty() {
        state
            .hint("workers", async |conn: &mut Conn| {
                notify::cancellations(conn, &stopped.workers).await?;
                notify::dispatches_waiting(conn, &stopped.released_queues).await
            })
            .await;
    }
}
