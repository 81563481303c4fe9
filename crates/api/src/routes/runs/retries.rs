//! Retries of finished runs.
//!
//! The new run, its event and its audit entry are one transaction. The notification of the workers
//! follows the commit and may be lost. A run is retried once: a repeated request gets the same
//! answer.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use sched_model::dispatching::retries::{self, Retried, RetriedJob, Retry, RetryOrder};
use sched_model::domain::ids::{DispatchId, TenantId};
use sched_model::events::append::{self, NewEvent};
use sched_model::{Conn, identity::audit, running::dead_letters};
use sched_wire::BASE_PATH;
use serde_json::json;

use crate::error::ApiError;
use crate::error::conflict::Conflict;
use crate::http::call::Call;
use crate::http::extract::{Body, NoParameters, id};
use crate::http::reply::Reply;
use crate::routes::{built_in, operations::auditing};

/// `POST /runs/{id}/retry`
pub(crate) async fn dispatch(
    call: Call,
    text: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    body.read_or_default::<NoParameters>()?;
    retry_run(&call, DispatchId(id(&text)?), RetryTarget::Dispatch).await
}

/// `POST /dead-letters/{id}/retry`
pub(crate) async fn dead_letter(
    call: Call,
    text: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    body.read_or_default::<NoParameters>()?;
    retry_run(&call, DispatchId(id(&text)?), RetryTarget::DeadLetter).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetryTarget {
    Dispatch,
    DeadLetter,
}

async fn retry_run(call: &Call, id: DispatchId, of: RetryTarget) -> Result<HttpResponse, ApiError> {
    let (tenant, traceparent) = (call.tenant(), call.by.trace.to_string());
    let order = RetryOrder { tenant, by: &call.by.actor, traceparent: Some(&traceparent) };
    let written = call
        .write("retry_run", async |conn: &mut Conn| {
            if of == RetryTarget::DeadLetter && dead_letters::by_id(conn, tenant, id).await?.is_none() {
                return Err(ApiError::NotFound { kind: "dead letter", name: id.to_string() });
            }
            built_in::dispatches(conn, &call.identity, &[id]).await?;
            match retries::retry(conn, &order, id).await? {
                Retried::Created(retry, job) => {
                    audit::write(conn, &[auditing::of_retry(&retry, &call.by)]).await?;
                    append::append(conn, &[event(tenant, &retry, Some(&job), order.by)]).await?;
                    Ok((accepted(retry.dispatch_id, false)?, Some(retry)))
                }
                Retried::Duplicate(dispatch) => Ok((accepted(dispatch, true)?, None)),
                Retried::NotFinished(status) => Err(ApiError::Conflict(Conflict::NotFinished(status))),
                Retried::Succeeded => Err(ApiError::Conflict(Conflict::Succeeded)),
                Retried::Barred(bar, job) => Err(ApiError::Conflict(Conflict::Barred { job: job.name, bar })),
                Retried::NoSuchDispatch => Err(ApiError::NotFound { kind: "run", name: id.to_string() }),
            }
        })
        .await?;
    if let Some(Some(retry)) = written.extra {
        tracing::info!(run.id = %retry.dispatch_id, run.of = %id, "run retried");
        call.state.hints.count_created(&[retry.queue]);
    }
    Ok(written.response)
}

pub(crate) fn event(tenant: TenantId, retry: &Retry, job: Option<&RetriedJob>, by: &str) -> NewEvent {
    NewEvent {
        tenant_id: Some(tenant),
        project_id: job.and_then(|job| job.project_id),
        job_id: Some(retry.job_id),
        dispatch_id: Some(retry.dispatch_id),
        event_type: append::DISPATCH_RETRIED,
        payload: json!({"job_name": job.map(|job| &job.name), "retry_of": retry.of, "by": by}),
    }
}

/// A repeated request gets `duplicate: true`.
pub(crate) fn accepted(dispatch: DispatchId, duplicate: bool) -> Result<Reply, ApiError> {
    let answer = |duplicate| sched_wire::Triggered { run_id: dispatch.0, duplicate };
    let location = format!("{BASE_PATH}/runs/{dispatch}");
    Ok(Reply::with(StatusCode::ACCEPTED, &answer(duplicate))?.or_again(&answer(true))?.location(location))
}
