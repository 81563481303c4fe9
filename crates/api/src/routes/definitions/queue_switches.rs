//! The kill switch of a queue, and its end.
//!
//! Neither changes a run: what waits in a paused queue goes on waiting, and a queue in which something waits is not deleted.

use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::definitions::pauses::{Target, Turn};
use sched_model::definitions::queues::{self, Queue};
use sched_model::domain::ids::TenantId;
use sched_model::{Conn, connection::notify, events::append, identity::audit};
use serde_json::json;

use crate::convert::queue::show;
use crate::error::ApiError;
use crate::http::extract::{Body, NoParameters, Query, expected};
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::{
    Switch, can_be_there, event, is_system_queue, may_touch_built_in, no_such, refused, tag,
};
use crate::routes::runs::cancellations::reason;
use crate::routes::{Id, State, operations::auditing};

/// What it is, in messages.
const KIND: &str = "queue";

/// `POST /queues/{name}/pause`
pub(crate) async fn pause(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let reason = reason(body)?;
    turn(&state, &identity, &request.0, &http, &name, Turn::Pause(reason.as_deref())).await
}

/// `POST /queues/{name}/resume`
pub(crate) async fn resume(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    turn(&state, &identity, &request.0, &http, &name, Turn::Resume).await
}

async fn turn(
    state: &State,
    identity: &Identity,
    by: &Actor,
    http: &HttpRequest,
    name: &str,
    turn: Turn<'_>,
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, name)?;
    let tenant = identity.tenant();
    may_touch_built_in(identity, is_system_queue(tenant, name))?;
    let switch = Switch { tenant, target: Target::Queue(name), expected: expected(http)? };
    let written = state
        .write(identity, by, "turn_queue", async |conn: &mut Conn| {
            let is_change = switch.turn(conn, turn, None, by).await?;
            let after = found(conn, tenant, name).await?;
            let etag = tag(after.updated_at);
            Ok::<_, ApiError>((Reply::ok(&show(after))?.etag(etag), is_change))
        })
        .await?;
    if written.extra == Some(true) {
        let queues = [name.to_owned()];
        state.hint("workers", async |conn: &mut Conn| notify::dispatches_waiting(conn, &queues).await).await;
    }
    Ok(written.response)
}

/// `DELETE /queues/{name}`
pub(crate) async fn delete(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    _: Query<NoParameters>,
) -> Result<HttpResponse, ApiError> {
    let (tenant, expected, by) = (identity.tenant(), expected(&http)?, &request.0);
    can_be_there(KIND, &name)?;
    may_touch_built_in(&identity, is_system_queue(tenant, &name))?;
    let written = state
        .write(&identity, by, "delete_queue", async |conn: &mut Conn| {
            let before = queues::delete(conn, tenant, &name, expected)
                .await
                .map_err(|error| refused(error, KIND, &name))?;
            audit::write(conn, &[auditing::of_deleted_queue(tenant, &before, by)]).await?;
            let payload = json!({"name": before.name, "by": by.source});
            append::append(conn, &[event(tenant, None, append::QUEUE_DELETED, payload)]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    if written.extra.is_some() {
        tracing::info!(queue.name = name.as_str(), "Deleted a queue.");
    }
    Ok(written.response)
}

async fn found(conn: &mut Conn, tenant: TenantId, name: &str) -> Result<Queue, ApiError> {
    queues::by_name(conn, tenant, name).await?.ok_or_else(|| no_such(KIND, name))
}
