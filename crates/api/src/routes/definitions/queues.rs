//! Queues: list, show, write and delete them.
//!
//! A write replaces the whole queue; omitted fields get their defaults. The next claim follows it.
//! Workers are notified, because a pause may have ended or a limit may be wider. A queue with
//! waiting runs is not deleted.

use actix_web::{HttpResponse, web};
use sched_model::definitions::functions::Change;
use sched_model::definitions::queues::{self, Filter, Pause, QueueSettings, SavedQueue};
use sched_model::definitions::resources::version_of;
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::check_name;
use sched_model::identity::audit::{self, AuditEntry};
use sched_model::{Conn, DbResult, connection::notify, events::append};
use sched_wire::{Applied, BASE_PATH, FieldChange, Kind, Page, Queue, QueuesQuery};
use serde_json::json;

use crate::convert::IntoWire as _;
use crate::convert::queue::{read_queue, show};
use crate::convert::spec::LONGEST_NAME;
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::tag;
use crate::routes::named_resource::{can_be_there, event, is_system_queue, may_touch_built_in, refused};
use crate::routes::notes::Notes;
use crate::routes::{Answer, State, operations::auditing};

/// `GET /queues`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<QueuesQuery>,
) -> Answer<Page<Queue>> {
    let tenant = identity.tenant();
    let which = QueuesQuery { limit: None, cursor: None, ..query.clone() };
    let pages = Pages::of(&("queues", which), query.limit, query.cursor.as_deref())?;
    let filter =
        Filter { name_prefix: query.name_prefix.as_deref(), paused: query.paused, after: pages.after() };
    let rows = state
        .read(&identity, "list_queues", async |conn: &mut Conn| {
            Ok(queues::list(conn, tenant, &filter, pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |queue| queue.settings.name.clone(), show)))
}

/// `GET /queues/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    if name.contains('\0') {
        return Err(no_such_queue(&name));
    }
    let found =
        state
            .read(&identity, "show_queue", async |conn: &mut Conn| {
                Ok(queues::by_name(conn, tenant, &name).await?)
            })
            .await?;
    let found = found.ok_or_else(|| no_such_queue(&name))?;
    let tag = tag(found.updated_at);
    Ok(Reply::ok(&show(found))?.etag(tag).into_response())
}

/// `PUT /queues/{name}`
pub(crate) async fn put(call: Call, name: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let tenant = call.tenant();
    if let Err(message) = check_name(&name, LONGEST_NAME) {
        return Err(ApiError::parameter("name", message));
    }
    may_touch_built_in(&call.identity, is_system_queue(tenant, &name))?;
    let condition = call.condition()?;
    let settings = read_queue(&name, body.required()?).map_err(ApiError::Refused)?;
    let written = call
        .write("put_queue", async |conn: &mut Conn| {
            let saved = queues::save(conn, tenant, &settings, Pause::AsSaid).await?;
            let version = saved.changed_before.map(|at| version_of(at).to_string());
            condition.check("queue", version.as_deref())?;
            audit::write(conn, &Vec::from_iter(entry(&saved, &call.by))).await?;
            let kept = queues::by_name(conn, tenant, &name).await?.ok_or_else(|| no_such_queue(&name))?;
            let tag = tag(kept.updated_at);
            let reply = match saved.change {
                Change::Created => {
                    Reply::created(&show(kept))?.location(format!("{BASE_PATH}/queues/{name}"))
                }
                Change::Updated | Change::Unchanged => Reply::ok(&show(kept))?,
            };
            Ok::<_, ApiError>((reply.etag(tag), saved.change))
        })
        .await?;
    if written.extra.is_some_and(|change| change != Change::Unchanged) {
        tracing::info!(queue.name = settings.name, "queue written");
        notify_workers(&call.state, &[settings.name]).await;
    }
    Ok(written.response)
}

/// `DELETE /queues/{name}`
pub(crate) async fn delete(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let (tenant, expected, by) = (call.tenant(), call.expected()?, &call.by);
    can_be_there("queue", &name)?;
    may_touch_built_in(&call.identity, is_system_queue(tenant, &name))?;
    let written = call
        .write("delete_queue", async |conn: &mut Conn| {
            let before = queues::delete(conn, tenant, &name, expected)
                .await
                .map_err(|error| refused(error, "queue", &name))?;
            audit::write(conn, &[auditing::of_deleted_queue(&before, by)]).await?;
            let payload = json!({"name": before.name, "by": by.source});
            append::append(conn, &[event(tenant, None, append::QUEUE_DELETED, payload)]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    if written.extra.is_some() {
        tracing::info!(queue.name = name.as_str(), "queue deleted");
    }
    Ok(written.response)
}

fn entry(saved: &SavedQueue, by: &Actor) -> Option<AuditEntry> {
    let is_changed = saved.change != Change::Unchanged;
    is_changed.then(|| auditing::of_queue(saved.before.as_ref(), &saved.after, by))
}

/// Writes a queue of a manifest, which does not contain its pause.
pub(crate) async fn write(
    conn: &mut Conn,
    settings: &QueueSettings,
    by: &Actor,
    notes: &mut Notes,
) -> DbResult<Applied> {
    let saved = queues::save(conn, by.tenant, settings, Pause::AsItIs).await?;
    notes.entries.extend(entry(&saved, by));
    let change = saved.change.into_wire();
    // Two columns are one field of the manifest.
    let in_file = |field: FieldChange| match field.pointer.strip_prefix("/rate_limit_") {
        Some(part) => FieldChange { pointer: format!("/rate/{part}"), ..field },
        None => field,
    };
    Ok(Applied {
        kind: Kind::Queue,
        name: saved.after.name,
        id: None,
        change,
        version: None,
        changes: notes.fields(change).into_iter().map(in_file).collect(),
    })
}

pub(in crate::routes) async fn shown(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
) -> Result<(Reply, ()), ApiError> {
    let queue = queues::by_name(conn, tenant, name).await?.ok_or_else(|| no_such_queue(name))?;
    let etag = tag(queue.updated_at);
    Ok((Reply::ok(&show(queue))?.etag(etag), ()))
}

/// Notifies the workers of queues that may let more runs through.
pub(crate) async fn notify_workers(state: &State, queues: &[String]) {
    state.hint("workers", async |conn: &mut Conn| notify::dispatches_waiting(conn, queues).await).await;
}

fn no_such_queue(name: &str) -> ApiError {
    ApiError::NotFound { kind: "queue", name: name.to_owned() }
}
