//! Triggers: a job runs now, regardless of its schedule.
//!
//! The run and its audit entry are one transaction, which concurrent triggers share
//! ([`crate::database::trigger_batcher`]). The notification to the workers follows the commit and
//! may be lost, because workers poll. A trigger with an idempotency key gets the answer of the
//! first request again. The run stores the key too, so a job has one run per key as long as the run
//! exists.

use std::sync::Arc;

use actix_web::{HttpResponse, web};
use sched_model::Conn;
use sched_model::connection::notify;
use sched_model::dispatching::quotas::DispatchesUsedUp;
use sched_model::dispatching::trigger::{self, Created, Demands, Fate};
use sched_model::domain::args_schema::Misfit;
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::DispatchId;
use sched_wire::{IDEMPOTENCY_KEY, TriggerRequest};
use serde_json::Value;

use crate::database::trigger_batcher::{BatchedFate, LONGEST_ARGS, Order};
use crate::database::worker_notifier::count_created;
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, NoParameters, Query};
use crate::http::reply::note_replay;
use crate::routes::State;
use crate::routes::jobs::no_such_job;
use crate::routes::runs::retries::accepted;

/// `POST /jobs/{id-or-name}/trigger`
pub(crate) async fn trigger(
    call: Call,
    job: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let (version, by) = (call.if_match()?, &call.by);
    // The answer to a key is stored in the transaction of the trigger, and a version mismatch rolls
    // the transaction back. So neither shares a transaction.
    let goes_with_others = by.once.is_none() && version.is_none() && body.length() <= LONGEST_ARGS;
    let args = body.read_or_default::<TriggerRequest>()?.task_args.map(Value::Object).map(Arc::new);
    if goes_with_others {
        let order = Order::new(&call.identity, by, &job, args.clone());
        let BatchedFate { fate, is_notified } = call.state.triggers.trigger(order).await?;
        match fate {
            Some(Fate::Created(created)) => {
                let response = accepted(created.dispatch, false)?.into_response();
                notify_daemons(&call.state, created, is_notified).await;
                return Ok(response);
            }
            None => {}
            Some(rejected) => return Err(rejection(rejected, &job, args.is_some())),
        }
    }
    alone(&call, &job, version, args.as_deref()).await
}

/// Runs in its own transaction, which waits for the lock on the job.
async fn alone(
    call: &Call,
    job: &str,
    version: Option<i64>,
    args: Option<&Value>,
) -> Result<HttpResponse, ApiError> {
    let (tenant, by) = (call.tenant(), &call.by);
    let traceparent = by.trace.to_string();
    let order = trigger::Order {
        job,
        may_run_built_in: call.identity.operates(),
        triggered_by: by.triggered_by,
        user: &by.source,
        args,
        traceparent: Some(&traceparent),
        actor: &by.actor,
        request: &by.request,
        address: by.address.as_deref(),
    };
    let demands = Demands { idempotency_key: by.key(), version };
    let written = call
        .write("trigger_job", async |conn: &mut Conn| {
            match trigger::trigger(conn, tenant, &order, demands).await? {
                Fate::Created(created) => Ok((accepted(created.dispatch, false)?, Some(created))),
                Fate::Duplicate(dispatch) => Ok((accepted(dispatch, true)?, None)),
                Fate::KeyReused(dispatch) => Err(key_reused(dispatch)),
                Fate::OtherVersion(found) => Err(ApiError::OtherVersion { found }),
                rejected => Err(rejection(rejected, job, args.is_some())),
            }
        })
        .await?;
    let mut response = written.response;
    match written.extra {
        Some(Some(created)) => notify_daemons(&call.state, created, false).await,
        Some(None) => note_replay(&mut response),
        // The answer of an earlier request already has the note.
        None => {}
    }
    Ok(response)
}

fn rejection(fate: Fate, job: &str, is_of_request: bool) -> ApiError {
    match fate {
        Fate::NoSuchJob => no_such_job(job),
        Fate::BuiltIn => ApiError::Forbidden(Permission::SystemOperate),
        Fate::FunctionInactive(function) => inactive(&function),
        Fate::ArgsRefused(misfits) => unfit(misfits, is_of_request),
        Fate::QuotaUsedUp(used_up) => quota(used_up),
        Fate::Created(_) | Fate::Duplicate(_) | Fate::KeyReused(_) | Fate::OtherVersion(_) => {
            ApiError::Broken
        }
    }
}

/// Logs and counts a committed run, and notifies workers unless they are notified already. The
/// leader counts the ends of the job if the run waits for room.
async fn notify_daemons(state: &State, created: Created, is_notified: bool) {
    let Created { job, dispatch, queue, is_queued } = created;
    tracing::debug!(job.id = %job, run.id = %dispatch, "job triggered");
    if is_notified {
        count_created(1);
    } else {
        state.hints.count_created(&[queue]);
    }
    if is_queued {
        state.hint("the leader", async |conn: &mut Conn| notify::jobs_ended(conn).await).await;
    }
}

const fn quota(DispatchesUsedUp { limit, after_seconds }: DispatchesUsedUp) -> ApiError {
    ApiError::QuotaUsedUp { limit, after_seconds }
}

fn key_reused(dispatch: DispatchId) -> ApiError {
    ApiError::Refused(vec![FieldError {
        reason: Reason::KeyReused,
        pointer: IDEMPOTENCY_KEY.to_owned(),
        message: format!("was used for run {dispatch} with other arguments; send a new key for a new run"),
    }])
}

/// Arguments that the function rejects: those of the request, or those of the job, which may be
/// older than the schema.
fn unfit(mut misfits: Vec<Misfit>, is_of_request: bool) -> ApiError {
    if !is_of_request {
        for misfit in &mut misfits {
            misfit.message.push_str("; this value is from the job: change the job, or send task_args");
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
