//! Executions: finished attempts, and what they wrote.

use actix_web::web;
use sched_model::db::Conn;
use sched_model::db::executions::{self, Execution, Filter};
use sched_model::domain::ids::{DispatchId, ExecutionId, TenantId};
use sched_wire::{ExecutionOutput, ExecutionsQuery, Page};

use super::jobs::filter;
use super::{Answer, State};
use crate::dto::{IntoDomain, show};
use crate::error::ApiError;
use crate::extract::{NoParameters, Query, id};
use crate::identity::Identity;
use crate::page::{Limit, id_cursor};

/// `GET /executions`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<ExecutionsQuery>,
) -> Answer<Page<sched_wire::Execution>> {
    let (tenant, limit) = (identity.tenant(), Limit::new(query.limit)?);
    let before = id_cursor(query.cursor.as_deref())?.map(ExecutionId);
    let mut conn = state.database.conn().await?;
    let job = match &query.job {
        Some(job) => Some(filter(&mut conn, tenant, job).await?),
        None => None,
    };
    let dispatch = query.dispatch.map(DispatchId);
    let filter = Filter { job, dispatch, status: query.status.map(IntoDomain::into_domain), before };
    let rows = executions::list(&mut conn, tenant, &filter, limit.rows()).await?;
    Ok(web::Json(limit.page(rows, |execution| execution.id.to_string(), show::execution)))
}

/// `GET /executions/{id}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    text: web::Path<String>,
    _: Query<NoParameters>,
) -> Answer<sched_wire::Execution> {
    let (tenant, id) = (identity.tenant(), ExecutionId(id(&text)?));
    let mut conn = state.database.conn().await?;
    Ok(web::Json(show::execution(find(&mut conn, tenant, id).await?)))
}

/// `GET /executions/{id}/output`
pub(crate) async fn output(
    state: State,
    identity: Identity,
    text: web::Path<String>,
    _: Query<NoParameters>,
) -> Answer<ExecutionOutput> {
    let (tenant, id) = (identity.tenant(), ExecutionId(id(&text)?));
    let mut conn = state.database.conn().await?;
    // An attempt that wrote nothing is told from one that never was.
    let execution = find(&mut conn, tenant, id).await?;
    let chunks = executions::output(&mut conn, tenant, execution.id).await?;
    Ok(web::Json(show::output(id, chunks)))
}

async fn find(conn: &mut Conn, tenant: TenantId, id: ExecutionId) -> Result<Execution, ApiError> {
    let found = executions::by_id(conn, tenant, id).await?;
    found.ok_or_else(|| ApiError::NotFound { kind: "execution", name: id.to_string() })
}
