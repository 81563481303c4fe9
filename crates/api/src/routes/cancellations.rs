//! Cancelling dispatches.
//!
//! What waits is closed in the transaction that also holds the events and the entry in the audit log. What runs is marked in it, and its worker
//! told after the commit; that hint may be lost, because the worker looks for the mark by itself. Repeating a command is harmless.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use sched_model::db::cancellations::{self, Cancelled, Order, Stopped, Stricken};
use sched_model::db::events::{self, NewEvent};
use sched_model::db::{Conn, DbError, DbResult, audit, notify, transact};
use sched_model::domain::dispatch::DispatchStatus;
use sched_model::domain::ids::{DispatchId, TenantId};
use sched_wire::{CancelState, JobCancelled, ReasonRequest};
use serde_json::json;

use super::jobs::{find, no_such_job};
use super::{Answer, Id, State, auditing};
use crate::conflict::Conflict;
use crate::dto::IntoWire;
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query, id};
use crate::identity::Identity;
use crate::mistake::Mistake;

/// Longest reason of a command, in characters.
const LONGEST_REASON: usize = 500;

/// The reason in a body that says nothing else.
pub(super) fn reason(body: Body) -> Result<Option<String>, ApiError> {
    checked_reason(body.read_or_default::<ReasonRequest>()?.reason)
}

/// A reason that is not too long.
pub(super) fn checked_reason(reason: Option<String>) -> Result<Option<String>, ApiError> {
    if reason.as_ref().is_some_and(|reason| reason.chars().count() > LONGEST_REASON) {
        let message = format!("must be no longer than {LONGEST_REASON} characters");
        return Err(ApiError::Refused(vec![Mistake::invalid("/reason", message)]));
    }
    Ok(reason)
}

/// `POST /dispatches/{id}/cancel`
pub(crate) async fn dispatch(
    state: State,
    identity: Identity,
    request: Id,
    text: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let (tenant, id) = (identity.tenant(), DispatchId(id(&text)?));
    let reason = reason(body)?;
    let order = Order { by: &request.0.actor, reason: reason.as_deref() };
    let mut conn = state.database.conn().await?;
    let cancelled = transact(&mut conn, "cancel_dispatch", async |conn: &mut Conn| {
        let cancelled = cancellations::cancel(conn, tenant, id, &order).await?;
        if let Cancelled::Stopped(stricken, stopped) = &cancelled {
            let entry = auditing::of_cancelled_dispatch(tenant, id, stopped, &order, &request.0);
            audit::write(conn, &[entry]).await?;
            tell(conn, tenant, stricken, stopped, &order).await?;
        }
        Ok::<_, DbError>(cancelled)
    })
    .await?;
    let (shown, status) = match &cancelled {
        Cancelled::Stopped(stricken, stopped) => {
            tracing::info!(dispatch.id = %id, job.name = stricken.job_name, "Cancelled a dispatch.");
            hint(&mut conn, stopped).await;
            match stopped.closed.is_empty() {
                true => (CancelState::Requested, DispatchStatus::InProgress),
                false => (CancelState::Cancelled, DispatchStatus::Cancelled),
            }
        }
        Cancelled::AlreadyRequested(worker) => {
            // The first hint may have been lost.
            let again = Stopped { workers: worker.iter().copied().collect(), ..Stopped::default() };
            hint(&mut conn, &again).await;
            (CancelState::Requested, DispatchStatus::InProgress)
        }
        Cancelled::AlreadyCancelled => (CancelState::Cancelled, DispatchStatus::Cancelled),
        Cancelled::Finished(status) => return Err(ApiError::Conflict(Conflict::Finished(*status))),
        Cancelled::NoSuchDispatch => {
            return Err(ApiError::NotFound { kind: "dispatch", name: id.to_string() });
        }
    };
    let code = if shown == CancelState::Cancelled { StatusCode::OK } else { StatusCode::ACCEPTED };
    let answer = sched_wire::Cancelled { dispatch_id: id.0, state: shown, status: status.into_wire() };
    Ok(HttpResponse::build(code).json(answer))
}

/// `POST /jobs/{id-or-name}/cancel`
pub(crate) async fn of_job(
    state: State,
    identity: Identity,
    request: Id,
    job: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Answer<JobCancelled> {
    let tenant = identity.tenant();
    let reason = reason(body)?;
    let order = Order { by: &request.0.actor, reason: reason.as_deref() };
    let mut conn = state.database.conn().await?;
    let found = find(&mut conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
    let cancelled = transact(&mut conn, "cancel_job", async |conn: &mut Conn| {
        let cancelled = cancellations::cancel_of_job(conn, tenant, found.id, &order).await?;
        if let Some((stricken, stopped, _)) = &cancelled {
            let entry = auditing::of_cancelled_job(tenant, stricken, stopped, &order, &request.0);
            audit::write(conn, &[entry]).await?;
            tell(conn, tenant, stricken, stopped, &order).await?;
        }
        Ok::<_, DbError>(cancelled)
    })
    .await?;
    let (_, stopped, has_more) = cancelled.ok_or_else(|| no_such_job(&job))?;
    let (cancelled, requested) = (stopped.closed.len(), stopped.requested.len());
    tracing::info!(job.id = %found.id, cancelled, requested, "Cancelled dispatches of a job.");
    hint(&mut conn, &stopped).await;
    Ok(web::Json(JobCancelled { cancelled, requested, has_more }))
}

/// Writes an event for each dispatch.
async fn tell(
    conn: &mut Conn,
    tenant: TenantId,
    stricken: &Stricken,
    stopped: &Stopped,
    order: &Order<'_>,
) -> DbResult<()> {
    let event = |id: &DispatchId, event_type| NewEvent {
        tenant_id: Some(tenant),
        project_id: stricken.project_id,
        job_id: Some(stricken.job_id),
        dispatch_id: Some(*id),
        event_type,
        payload: json!({"job_name": stricken.job_name, "reason": order.reason, "by": order.by}),
    };
    let closed = stopped.closed.iter().map(|id| event(id, events::DISPATCH_CANCELLED));
    let requested = stopped.requested.iter().map(|id| event(id, events::DISPATCH_CANCEL_REQUESTED));
    events::append(conn, &closed.chain(requested).collect::<Vec<_>>()).await
}

/// Tells workers what to stop, and where something waits now.
async fn hint(conn: &mut Conn, stopped: &Stopped) {
    if let Err(error) = notify::cancellations(conn, &stopped.workers).await {
        tracing::warn!(
            error = error.with_causes(),
            "Workers could not be told of a cancellation; they will learn of it at their next heartbeat."
        );
    }
    if let Err(error) = notify::dispatches_waiting(conn, &stopped.released_queues).await {
        tracing::warn!(
            error = error.with_causes(),
            "Workers could not be told of a dispatch; they will find it at their next look."
        );
    }
}
