//! Running finished dispatches again.
//!
//! The new dispatch, its event and its entry in the audit log are one transaction; the hint to the workers follows the commit and may be
//! lost. A dispatch is run again once: asking again gives the same answer.

use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::db::events::{self, NewEvent};
use sched_model::db::retries::{self, Retried, RetriedJob, Retry, RetryOrder};
use sched_model::db::{Conn, DbError, audit, dead_letters, notify, transact};
use sched_model::domain::ids::{DispatchId, TenantId};
use sched_wire::BASE_PATH;
use serde_json::json;

use super::{Id, State, auditing};
use crate::conflict::Conflict;
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query, id, traceparent};
use crate::identity::{By, Identity};

/// `POST /dispatches/{id}/retry`
pub(crate) async fn dispatch(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    text: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    body.read_or_default::<NoParameters>()?;
    let mut conn = state.database.conn().await?;
    again(&mut conn, identity.tenant(), DispatchId(id(&text)?), &http, &request.0).await
}

/// `POST /dead-letters/{id}/retry`
pub(crate) async fn dead_letter(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    text: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    body.read_or_default::<NoParameters>()?;
    let (tenant, id) = (identity.tenant(), DispatchId(id(&text)?));
    let mut conn = state.database.conn().await?;
    if dead_letters::by_id(&mut conn, tenant, id).await?.is_none() {
        return Err(ApiError::NotFound { kind: "dead letter", name: id.to_string() });
    }
    again(&mut conn, tenant, id, &http, &request.0).await
}

async fn again(
    conn: &mut Conn,
    tenant: TenantId,
    id: DispatchId,
    http: &HttpRequest,
    request: &By,
) -> Result<HttpResponse, ApiError> {
    let traceparent = traceparent(http);
    let order = RetryOrder { tenant, by: &request.actor, traceparent: traceparent.as_deref() };
    let retried = transact(conn, "retry_dispatch", async |conn: &mut Conn| {
        let retried = retries::retry(conn, &order, id).await?;
        if let Retried::Made(retry, job) = &retried {
            audit::write(conn, &[auditing::of_retry(tenant, retry, request)]).await?;
            events::append(conn, &[event(tenant, retry, Some(job), order.by)]).await?;
        }
        Ok::<_, DbError>(retried)
    })
    .await?;
    match retried {
        Retried::Made(retry, _) => {
            tracing::info!(dispatch.id = %retry.dispatch_id, dispatch.of = %id, "A dispatch is run again.");
            hint(conn, &[retry.queue]).await;
            Ok(accepted(retry.dispatch_id, false))
        }
        Retried::Duplicate(dispatch) => Ok(accepted(dispatch, true)),
        Retried::NotFinished(status) => Err(ApiError::Conflict(Conflict::NotFinished(status))),
        Retried::Succeeded => Err(ApiError::Conflict(Conflict::Succeeded)),
        Retried::Barred(bar, job) => Err(ApiError::Conflict(Conflict::Barred { job: job.name, bar })),
        Retried::NoSuchDispatch => Err(ApiError::NotFound { kind: "dispatch", name: id.to_string() }),
    }
}

/// What is told of a dispatch that runs another one again.
pub(super) fn event(tenant: TenantId, retry: &Retry, job: Option<&RetriedJob>, by: &str) -> NewEvent {
    NewEvent {
        tenant_id: Some(tenant),
        project_id: job.and_then(|job| job.project_id),
        job_id: Some(retry.job_id),
        dispatch_id: Some(retry.dispatch_id),
        event_type: events::DISPATCH_RETRIED,
        payload: json!({"job_name": job.map(|job| &job.name), "retry_of": retry.of, "by": by}),
    }
}

/// Tells workers that something waits in these queues.
pub(super) async fn hint(conn: &mut Conn, queues: &[String]) {
    if let Err(error) = notify::dispatches_waiting(conn, queues).await {
        tracing::warn!(
            error = error.with_causes(),
            "Workers could not be told of a dispatch; they will find it at their next look."
        );
    }
}

fn accepted(dispatch: DispatchId, duplicate: bool) -> HttpResponse {
    HttpResponse::Accepted()
        .insert_header((LOCATION, format!("{BASE_PATH}/dispatches/{dispatch}")))
        .json(sched_wire::Triggered { dispatch_id: dispatch.0, duplicate })
}
