//! Dispatches: what waits, runs and has finished.

use actix_web::web;
use sched_model::db::Conn;
use sched_model::db::dispatches::{self, Filter};
use sched_model::domain::ids::DispatchId;
use sched_wire::{Dispatch, DispatchesQuery, Page};

use super::jobs::filter;
use super::{Answer, State};
use crate::dto::{IntoDomain, show};
use crate::error::ApiError;
use crate::extract::{NoParameters, Query, id};
use crate::identity::Identity;
use crate::page::{Limit, id_cursor};

/// `GET /dispatches`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<DispatchesQuery>,
) -> Answer<Page<Dispatch>> {
    let (tenant, limit) = (identity.tenant(), Limit::new(query.limit)?);
    let before = id_cursor(query.cursor.as_deref())?.map(DispatchId);
    let rows = state
        .read(&identity, "list_dispatches", async |conn: &mut Conn| {
            let job = match &query.job {
                Some(job) => Some(filter(conn, tenant, job).await?),
                None => None,
            };
            let filter = Filter { job, status: query.status.map(IntoDomain::into_domain), before };
            Ok(dispatches::list(conn, tenant, &filter, limit.rows()).await?)
        })
        .await?;
    Ok(web::Json(limit.page(rows, |dispatch| dispatch.row.id.to_string(), show::dispatch)))
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
