//! Queues: listing, showing and writing them.
//!
//! A write says what the queue should be, so repeating one is harmless; what it leaves out is as for a new queue. Claims follow it from the
//! next one on, and workers are told, since a pause may be over or a limit wider.

use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::db::functions::Change;
use sched_model::db::resources::version_of;
use sched_model::db::{Conn, audit, notify, queues};
use sched_model::domain::job::check_name;
use sched_wire::{BASE_PATH, Page, PageQuery, Queue};

use super::resources::{is_system_queue, may_touch_built_in, tag};
use super::{Answer, Id, State, auditing};
use crate::dto::queue::{read_queue, show};
use crate::dto::spec::LONGEST_NAME;
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query, condition};
use crate::identity::Identity;
use crate::page::Pages;
use crate::reply::Reply;

/// `GET /queues`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Queue>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"queues", query.limit, query.cursor.as_deref())?;
    let rows = state
        .read(&identity, "list_queues", async |conn: &mut Conn| {
            Ok(queues::list(conn, tenant, pages.after(), pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |queue| queue.settings.name.clone(), show)))
}

/// `GET /queues/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
    _: Query<NoParameters>,
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
pub(crate) async fn put(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    if let Err(message) = check_name(&name, LONGEST_NAME) {
        return Err(ApiError::parameter("name", message));
    }
    may_touch_built_in(&identity, is_system_queue(tenant, &name))?;
    let condition = condition(&http)?;
    let settings = read_queue(&name, body.required()?).map_err(ApiError::Refused)?;
    let written = state
        .write(&identity, &request.0, "put_queue", async |conn: &mut Conn| {
            let saved = queues::save(conn, tenant, &settings).await?;
            let version = saved.changed_before.map(|at| version_of(at).to_string());
            condition.check("queue", version.as_deref())?;
            if saved.change != Change::Unchanged {
                let entry = auditing::of_queue(tenant, saved.before.as_ref(), &settings, &request.0);
                audit::write(conn, &[entry]).await?;
            }
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
        tracing::info!(queue.name = settings.name, "Wrote a queue.");
        let queues = [settings.name];
        state.hint("workers", async |conn: &mut Conn| notify::dispatches_waiting(conn, &queues).await).await;
    }
    Ok(written.response)
}

fn no_such_queue(name: &str) -> ApiError {
    ApiError::NotFound { kind: "queue", name: name.to_owned() }
}
