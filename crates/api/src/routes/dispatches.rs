//! Dispatches: what waits, runs and has finished.

use actix_web::web;
use sched_model::db::Conn;
use sched_model::db::dispatches::{self, Filter};
use sched_model::domain::ids::DispatchId;
use sched_wire::{Dispatch, DispatchesQuery, Page};

use super::jobs::listed_of;
use super::{Answer, State, window};
use crate::dto::{IntoDomain, show};
use crate::error::ApiError;
use crate::extract::{NoParameters, Query, id};
use crate::identity::Identity;
use crate::page::{Limit, ROWS_COUNTED, id_cursor, with_total};

/// `GET /dispatches`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<DispatchesQuery>,
) -> Answer<Page<Dispatch>> {
    page(&state, &identity, &query, None).await
}

/// A page of dispatches; of this job, which must be there, deleted or not.
pub(super) async fn page(
    state: &State,
    identity: &Identity,
    query: &DispatchesQuery,
    of: Option<&str>,
) -> Answer<Page<Dispatch>> {
    let (tenant, limit) = (identity.tenant(), Limit::new(query.limit)?);
    let before = id_cursor(query.cursor.as_deref())?.map(DispatchId);
    let (rows, counted) = state
        .read(identity, "list_dispatches", async |conn: &mut Conn| {
            let job = listed_of(conn, tenant, of, query.job.as_deref()).await?;
            let (since, until) = window(conn, query.since.as_deref(), query.until.as_deref()).await?;
            let status = query.status.map(IntoDomain::into_domain);
            let filter = Filter { job, status, since, until, before };
            let counted = match query.total {
                Some(true) => Some(dispatches::count(conn, tenant, &filter, ROWS_COUNTED).await?),
                Some(false) | None => None,
            };
            Ok((dispatches::list(conn, tenant, &filter, limit.rows()).await?, counted))
        })
        .await?;
    let page = limit.page(rows, |dispatch| dispatch.row.id.to_string(), show::dispatch);
    Ok(web::Json(with_total(page, counted)))
}

/// `GET /dispatches/{id}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    text: web::Path<String>,
    _: Query<NoParameters>,
) -> Answer<Dispatch> {
    let (tenant, id) = (identity.tenant(), DispatchId(id(&text)?));
    let found = state
        .read(&identity, "show_dispatch", async |conn: &mut Conn| {
            Ok(dispatches::by_id(conn, tenant, id).await?)
        })
        .await?;
    let found = found.ok_or_else(|| ApiError::NotFound { kind: "dispatch", name: id.to_string() })?;
    Ok(web::Json(show::dispatch(found)))
}
