//! Runs: list and show them.

use actix_web::web;
use sched_model::dispatching::dispatches::{self, Filter};
use sched_model::domain::UnknownWord;
use sched_model::domain::ids::{DispatchId, FunctionId, ProjectId, TenantId, WorkerId};
use sched_model::domain::run_state::Trigger;
use sched_model::{Conn, definitions::functions, identity::tenants};
use sched_wire::{Page, Run, RunsQuery, TimeSort};

use crate::convert::{IntoDomain, response};
use crate::error::ApiError;
use crate::http::extract::{Query, id};
use crate::http::pagination::{Pages, ROWS_COUNTED, with_total};
use crate::identity::Identity;
use crate::routes::jobs::listed_of;
use crate::routes::{Answer, State, window};

/// `GET /runs`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<RunsQuery>,
) -> Answer<Page<Run>> {
    page(&state, &identity, &query, None).await
}

/// `of` is a job that must exist, deleted or not.
pub(crate) async fn page(
    state: &State,
    identity: &Identity,
    query: &RunsQuery,
    of: Option<&str>,
) -> Answer<Page<Run>> {
    let tenant = identity.tenant();
    let which = RunsQuery { limit: None, cursor: None, total: None, ..query.clone() };
    let pages = Pages::of(&("dispatches", of, which), query.limit, query.cursor.as_deref())?;
    let after = pages.after_as()?.map(DispatchId);
    let triggered_by = maker(query.triggered_by.as_deref())?;
    let (rows, counted) = state
        .read(identity, "list_dispatches", async |conn: &mut Conn| {
            let job = listed_of(conn, tenant, of, query.job.as_deref()).await?;
            let (since, until) = window(conn, query.since.as_deref(), query.until.as_deref()).await?;
            let status = query.status.map(IntoDomain::into_domain).unwrap_or_default();
            let filter = Filter {
                job,
                status,
                since,
                until,
                function: function(conn, tenant, query.function.as_deref()).await?,
                project: project(conn, tenant, query.project.as_deref()).await?,
                queue: query.queue.clone(),
                worker: query.worker.map(WorkerId),
                triggered_by,
                after,
                oldest_first: query.sort == Some(TimeSort::CreatedAt),
            };
            let counted = match query.total {
                Some(true) => Some(dispatches::count(conn, tenant, &filter, ROWS_COUNTED).await?),
                Some(false) | None => None,
            };
            Ok((dispatches::list(conn, tenant, &filter, pages.rows()).await?, counted))
        })
        .await?;
    let page = pages.page(rows, |dispatch| dispatch.row.id.to_string(), response::dispatch);
    Ok(web::Json(with_total(page, counted)))
}

pub(crate) fn maker(word: Option<&str>) -> Result<Option<Trigger>, ApiError> {
    let refused = |error: UnknownWord| ApiError::parameter("triggered_by", error.to_string());
    word.map(|word| word.to_ascii_lowercase().parse()).transpose().map_err(refused)
}

pub(crate) async fn function(
    conn: &mut Conn,
    tenant: TenantId,
    name: Option<&str>,
) -> Result<Option<FunctionId>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let found = functions::by_name(conn, tenant, name).await?;
    let found = found.ok_or_else(|| ApiError::NotFound { kind: "task function", name: name.to_owned() })?;
    Ok(Some(found.id))
}

pub(crate) async fn project(
    conn: &mut Conn,
    tenant: TenantId,
    name: Option<&str>,
) -> Result<Option<ProjectId>, ApiError> {
    let Some(name) = name else { return Ok(None) };
    let found = tenants::project_by_name(conn, tenant, name).await?;
    Ok(Some(found.ok_or_else(|| ApiError::NotFound { kind: "project", name: name.to_owned() })?))
}

/// `GET /runs/{id}`
pub(crate) async fn get(state: State, identity: Identity, text: web::Path<String>) -> Answer<Run> {
    let (tenant, id) = (identity.tenant(), DispatchId(id(&text)?));
    let found = state
        .read(&identity, "show_dispatch", async |conn: &mut Conn| {
            Ok(dispatches::by_id(conn, tenant, id).await?)
        })
        .await?;
    let found = found.ok_or_else(|| ApiError::NotFound { kind: "run", name: id.to_string() })?;
    Ok(web::Json(response::dispatch(found)))
}
