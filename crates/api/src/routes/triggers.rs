//! Triggers: running a job now, whatever its schedule says.
//!
//! The dispatch and its entry in the audit log are one transaction; the hint to the workers follows the commit and may be
//! lost, because they look by themselves. With a key, sending a trigger again is answered as the first time, as every change is; the dispatch
//! keeps the key besides, so that there is one for a job and a key for as long as it is there.

use actix_web::{HttpResponse, web};
use sched_model::db::dispatches::{self, NewTrigger, Triggered};
use sched_model::db::quotas::DispatchesUsedUp;
use sched_model::db::{Conn, audit};
use sched_model::domain::dispatch::Trigger;
use sched_model::domain::ids::DispatchId;
use sched_wire::{IDEMPOTENCY_KEY, TriggerRequest};
use serde_json::Value;

use super::jobs::{find, no_such_job};
use super::retries::{accepted, hint};
use super::{Id, State, auditing, built_in};
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query};
use crate::identity::Identity;
use crate::mistake::{Mistake, Reason};
use crate::session::note_replay;

/// `POST /jobs/{id-or-name}/trigger`
pub(crate) async fn trigger(
    state: State,
    identity: Identity,
    request: Id,
    job: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    let key = request.0.key();
    let traceparent = request.0.trace.to_string();
    let args = body.read_or_default::<TriggerRequest>()?.task_args.map(Value::Object);
    let written = state
        .write(&identity, &request.0, "trigger_job", async |conn: &mut Conn| {
            let found = find(conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
            built_in::functions(conn, &identity, &[&found.settings.function]).await?;
            let new = NewTrigger {
                tenant,
                job: found.id,
                triggered_by: Trigger::Api,
                user: &request.0.source,
                args: args.as_ref(),
                idempotency_key: key,
                traceparent: Some(&traceparent),
            };
            match dispatches::trigger(conn, &new).await? {
                Triggered::Created(dispatch, queue) => {
                    audit::write(conn, &[auditing::of_trigger(&new, dispatch, &request.0)]).await?;
                    Ok((accepted(dispatch, false)?, Some((found.id, dispatch, queue))))
                }
                Triggered::Duplicate(dispatch) => Ok((accepted(dispatch, true)?, None)),
                Triggered::KeyReused(dispatch) => Err(key_reused(dispatch)),
                Triggered::QuotaUsedUp(DispatchesUsedUp { limit, after_seconds }) => {
                    Err(ApiError::QuotaUsedUp { limit, after_seconds })
                }
                Triggered::NoSuchJob => Err(no_such_job(&job)),
                Triggered::FunctionInactive => Err(inactive(&found.settings.function)),
            }
        })
        .await?;
    let mut response = written.response;
    match written.extra {
        Some(Some((job, dispatch, queue))) => {
            tracing::info!(job.id = %job, dispatch.id = %dispatch, "Triggered a job.");
            hint(&state, &[queue]).await;
        }
        Some(None) => note_replay(&mut response),
        // Noted where it was found.
        None => {}
    }
    Ok(response)
}

fn key_reused(dispatch: DispatchId) -> ApiError {
    ApiError::Refused(vec![Mistake {
        reason: Reason::KeyReused,
        pointer: IDEMPOTENCY_KEY.to_owned(),
        message: format!(
            "was used for dispatch {dispatch} with other arguments; send a new key for a new run"
        ),
    }])
}

fn inactive(function: &str) -> ApiError {
    ApiError::Refused(vec![Mistake {
        reason: Reason::Inactive,
        pointer: String::new(),
        message: format!("the task function {function:?} of the job is inactive"),
    }])
}
