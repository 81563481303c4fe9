//! Triggers: running a job now, whatever its schedule says.
//!
//! The run and its entry in the audit log are one transaction, which those who trigger at the same moment share ([`crate::database::trigger_batcher`]); the
//! hint to the workers follows the commit and may be lost, because they look by themselves. With a key, sending a trigger again is answered as
//! the first time, as every change is; the run keeps the key besides, so that there is one for a job and a key for as long as it is there.

use std::sync::Arc;

use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::dispatching::dispatches::{self, NewTrigger, Triggered};
use sched_model::dispatching::quotas::DispatchesUsedUp;
use sched_model::dispatching::trigger::{Created, Fate};
use sched_model::domain::args_schema::Misfit;
use sched_model::domain::dispatch::Trigger;
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::{DispatchId, JobId, TenantId};
use sched_model::{Conn, identity::audit, jobs};
use sched_wire::{IDEMPOTENCY_KEY, TriggerRequest};
use serde_json::Value;

use crate::database::trigger_batcher::{self, LONGEST_ARGS, Order};
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::extract::{Body, NoParameters, Query, if_match};
use crate::http::reply::note_replay;
use crate::identity::{Actor, Identity};
use crate::routes::jobs::{find, no_such_job};
use crate::routes::runs::retries::accepted;
use crate::routes::{Id, State, built_in};

/// `POST /jobs/{id-or-name}/trigger`
pub(crate) async fn trigger(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    job: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let (version, by) = (if_match(&http)?, &request.0);
    // With a key the answer is kept in the transaction of the trigger, which is then its own; so is that of one version.
    let goes_with_others = by.once.is_none() && version.is_none() && body.length() <= LONGEST_ARGS;
    let args = body.read_or_default::<TriggerRequest>()?.task_args.map(Value::Object).map(Arc::new);
    if goes_with_others {
        let fate = state.gathering.trigger(Order::new(&identity, by, &job, args.clone())).await?;
        match fate {
            Fate::Created(Created { job, dispatch, queue }) => {
                let response = accepted(dispatch, false)?.into_response();
                tell(&state, job, dispatch, queue);
                return Ok(response);
            }
            Fate::NoSuchJob => return Err(no_such_job(&job)),
            Fate::BuiltIn => return Err(ApiError::Forbidden(Permission::SystemOperate)),
            Fate::FunctionInactive(function) => return Err(inactive(&function)),
            Fate::QuotaUsedUp(used_up) => return Err(quota(used_up)),
            Fate::Busy => {}
        }
    }
    alone(&state, &identity, by, &job, version, args.as_deref()).await
}

/// A trigger in a transaction of its own, which waits for whoever holds the job.
async fn alone(
    state: &State,
    identity: &Identity,
    by: &Actor,
    job: &str,
    version: Option<i64>,
    args: Option<&Value>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    let traceparent = by.trace.to_string();
    let written = state
        .write(identity, by, "trigger_job", async |conn: &mut Conn| {
            let found = find(conn, tenant, job).await?.ok_or_else(|| no_such_job(job))?;
            built_in::functions(conn, identity, &[&found.settings.function]).await?;
            let new = NewTrigger {
                tenant,
                job: found.id,
                triggered_by: Trigger::Api,
                user: &by.source,
                args,
                idempotency_key: by.key(),
                traceparent: Some(&traceparent),
            };
            match dispatches::trigger(conn, &new).await? {
                Triggered::Created(dispatch, queue) => {
                    if let Some(version) = version {
                        still_is(conn, tenant, found.id, version).await?;
                    }
                    let entry = trigger_batcher::entry(tenant, found.id, dispatch, args.is_some(), by);
                    audit::write(conn, &[entry]).await?;
                    Ok((accepted(dispatch, false)?, Some((found.id, dispatch, queue))))
                }
                Triggered::Duplicate(dispatch) => Ok((accepted(dispatch, true)?, None)),
                Triggered::KeyReused(dispatch) => Err(key_reused(dispatch)),
                Triggered::QuotaUsedUp(used_up) => Err(quota(used_up)),
                Triggered::NoSuchJob => Err(no_such_job(job)),
                Triggered::ArgsRefused(misfits) => Err(unfit(misfits, args.is_some())),
                Triggered::FunctionInactive => Err(inactive(&found.settings.function)),
            }
        })
        .await?;
    let mut response = written.response;
    match written.extra {
        Some(Some((job, dispatch, queue))) => tell(state, job, dispatch, queue),
        Some(None) => note_replay(&mut response),
        // Noted where it was found.
        None => {}
    }
    Ok(response)
}

/// Whether this is the version of a job, now that the trigger holds it and nobody changes it any more.
async fn still_is(conn: &mut Conn, tenant: TenantId, id: JobId, version: i64) -> Result<(), ApiError> {
    match jobs::by_id(conn, tenant, id).await? {
        Some(job) if job.state.version != version => Err(ApiError::OtherVersion { found: job.state.version }),
        _ => Ok(()),
    }
}

/// Tells of a run that is committed.
fn tell(state: &State, job: JobId, dispatch: DispatchId, queue: String) {
    tracing::debug!(job.id = %job, dispatch.id = %dispatch, "Triggered a job.");
    state.hints.made_in(&[queue]);
}

const fn quota(DispatchesUsedUp { limit, after_seconds }: DispatchesUsedUp) -> ApiError {
    ApiError::QuotaUsedUp { limit, after_seconds }
}

fn key_reused(dispatch: DispatchId) -> ApiError {
    ApiError::Refused(vec![FieldError {
        reason: Reason::KeyReused,
        pointer: IDEMPOTENCY_KEY.to_owned(),
        message: format!(
            "was used for dispatch {dispatch} with other arguments; send a new key for a new run"
        ),
    }])
}

/// Arguments that the function does not take: those of the request, or those that the job has, perhaps since before the function said so.
fn unfit(mut misfits: Vec<Misfit>, is_of_request: bool) -> ApiError {
    if !is_of_request {
        for misfit in &mut misfits {
            misfit.message.push_str("; the job has it so: change the job, or send task_args");
        }
    }
    field_error::args_refused(misfits, "")
}

fn inactive(function: &str) -> ApiError {
    ApiError::Refused(vec![FieldError {
        reason: Reason::Inactive,
        pointer: String::new(),
        message: format!("the task function {function:?} of the job is inactive"),
    }])
}
