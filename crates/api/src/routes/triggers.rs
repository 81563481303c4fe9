//! Triggers: running a job now, whatever its schedule says.
//!
//! The dispatch and its entry in the audit log are one transaction; the hint to the workers follows the commit and may be
//! lost, because they look by themselves. With a key, sending a trigger again returns the dispatch that it made.

use actix_web::http::header::LOCATION;
use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::db::dispatches::{self, NewTrigger, Triggered};
use sched_model::db::{Conn, DbError, audit, notify, transact};
use sched_model::domain::dispatch::Trigger;
use sched_model::domain::ids::DispatchId;
use sched_wire::{BASE_PATH, IDEMPOTENCY_KEY, TriggerRequest};
use serde_json::Value;

use super::jobs::{find, no_such_job};
use super::{Id, State, auditing};
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query, traceparent};
use crate::identity::Identity;
use crate::mistake::{Mistake, Reason};

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
    let tenant = identity.tenant();
    let key = request.0.key().map(str::to_owned);
    let traceparent = traceparent(&http);
    let args = body.read_or_default::<TriggerRequest>()?.task_args.map(Value::Object);
    let mut conn = state.database.conn().await?;
    let found = find(&mut conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
    let new = NewTrigger {
        tenant,
        job: found.id,
        triggered_by: Trigger::Api,
        user: &request.0.source,
        args: args.as_ref(),
        idempotency_key: key.as_deref(),
        traceparent: traceparent.as_deref(),
    };
    let triggered = transact(&mut conn, "trigger_job", async |conn: &mut Conn| {
        let triggered = dispatches::trigger(conn, &new).await?;
        if let Triggered::Created(dispatch, _) = &triggered {
            audit::write(conn, &[auditing::of_trigger(&new, *dispatch, &request.0)]).await?;
        }
        Ok::<_, DbError>(triggered)
    })
    .await?;
    match triggered {
        Triggered::Created(dispatch, queue) => {
            tracing::info!(job.id = %found.id, dispatch.id = %dispatch, "Triggered a job.");
            hint(&mut conn, queue).await;
            Ok(accepted(dispatch, false))
        }
        Triggered::Duplicate(dispatch) => Ok(accepted(dispatch, true)),
        Triggered::KeyReused(dispatch) => Err(ApiError::Refused(vec![Mistake {
            reason: Reason::KeyReused,
            pointer: IDEMPOTENCY_KEY.to_owned(),
            message: format!(
                "was used for dispatch {dispatch} with other arguments; send a new key for a new run"
            ),
        }])),
        Triggered::NoSuchJob => Err(no_such_job(&job)),
        Triggered::FunctionInactive => Err(ApiError::Refused(vec![Mistake {
            reason: Reason::Inactive,
            pointer: String::new(),
            message: format!("the task function {:?} of the job is inactive", found.settings.function),
        }])),
    }
}

async fn hint(conn: &mut Conn, queue: String) {
    if let Err(error) = notify::dispatches_waiting(conn, &[queue]).await {
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
