//! Queues: listing, showing and writing them.
//!
//! A write says what the queue should be, so repeating one is harmless; what it leaves out is as for a new queue. Claims follow it from the
//! next one on, and workers are told, since a pause may be over or a limit wider.

use actix_web::http::header::LOCATION;
use actix_web::{HttpResponse, web};
use sched_model::db::functions::Change;
use sched_model::db::{Conn, DbError, audit, notify, queues, transact};
use sched_model::domain::job::check_name;
use sched_wire::{BASE_PATH, Page, PageQuery, Queue};

use super::{Answer, Id, State, auditing};
use crate::dto::queue::{read_queue, show};
use crate::dto::spec::LONGEST_NAME;
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query};
use crate::identity::Identity;
use crate::page::Limit;

/// `GET /queues`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Queue>> {
    let (tenant, limit) = (identity.tenant(), Limit::new(query.limit)?);
    let mut conn = state.database.conn().await?;
    let rows = queues::list(&mut conn, tenant, query.cursor.as_deref(), limit.rows()).await?;
    Ok(web::Json(limit.page(rows, |queue| queue.settings.name.clone(), show)))
}

/// `GET /queues/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
    _: Query<NoParameters>,
) -> Answer<Queue> {
    let tenant = identity.tenant();
    if name.contains('\0') {
        return Err(no_such_queue(&name));
    }
    let mut conn = state.database.conn().await?;
    let found = queues::by_name(&mut conn, tenant, &name).await?;
    Ok(web::Json(show(found.ok_or_else(|| no_such_queue(&name))?)))
}

/// `PUT /queues/{name}`
pub(crate) async fn put(
    state: State,
    identity: Identity,
    request: Id,
    name: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    if let Err(message) = check_name(&name, LONGEST_NAME) {
        return Err(ApiError::parameter("name", message));
    }
    let settings = read_queue(&name, body.required()?).map_err(ApiError::Refused)?;
    let mut conn = state.database.conn().await?;
    let change = transact(&mut conn, "put_queue", async |conn: &mut Conn| {
        let saved = queues::save(conn, tenant, &settings).await?;
        if saved.change != Change::Unchanged {
            let entry = auditing::of_queue(tenant, saved.before.as_ref(), &settings, &request.0);
            audit::write(conn, &[entry]).await?;
        }
        Ok::<_, DbError>(saved.change)
    })
    .await?;
    if change != Change::Unchanged {
        tracing::info!(queue.name = settings.name, "Wrote a queue.");
        if let Err(error) = notify::dispatches_waiting(&mut conn, std::slice::from_ref(&settings.name)).await
        {
            tracing::debug!(
                error = error.with_causes(),
                "Notifying the workers failed; they look by themselves."
            );
        }
    }
    let kept = queues::by_name(&mut conn, tenant, &name).await?.ok_or_else(|| no_such_queue(&name))?;
    let mut response = match change {
        Change::Created => {
            let mut response = HttpResponse::Created();
            response.insert_header((LOCATION, format!("{BASE_PATH}/queues/{name}")));
            response
        }
        Change::Updated | Change::Unchanged => HttpResponse::Ok(),
    };
    Ok(response.json(show(kept)))
}

fn no_such_queue(name: &str) -> ApiError {
    ApiError::NotFound { kind: "queue", name: name.to_owned() }
}
