//! Finished attempts and their output.

use actix_web::web;
use sched_model::Conn;
use sched_model::domain::ids::{DispatchId, ExecutionId, FunctionId, JobId, ProjectId, TenantId, WorkerId};
use sched_model::running::executions::{self, Execution, Filter};
use sched_wire::{AttemptOutput, AttemptsQuery, Page, TimeSort};

use crate::convert::{IntoDomain, response};
use crate::error::ApiError;
use crate::http::extract::{Query, id};
use crate::http::pagination::{Pages, ROWS_COUNTED, with_total};
use crate::identity::Identity;
use crate::routes::jobs::listed_of;
use crate::routes::runs::run_list::{function, maker, project};
use crate::routes::{Answer, State, window};

/// `GET /attempts`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<AttemptsQuery>,
) -> Answer<Page<sched_wire::Attempt>> {
    page(&state, &identity, &query, None).await
}

/// `of` is a job that must exist, deleted or not.
pub(crate) async fn page(
    state: &State,
    identity: &Identity,
    query: &AttemptsQuery,
    of: Option<&str>,
) -> Answer<Page<sched_wire::Attempt>> {
    let tenant = identity.tenant();
    let which = AttemptsQuery { limit: None, cursor: None, total: None, ..query.clone() };
    let pages = Pages::of(&("executions", of, which), query.limit, query.cursor.as_deref())?;
    let after = pages.after_as()?.map(ExecutionId);
    let oldest_first = query.sort == Some(TimeSort::CreatedAt);
    let id = of.and_then(|text| text.parse().ok()).map(JobId);
    let counts = query.total == Some(true);
    let triggered_by = maker(query.triggered_by.as_deref())?;
    let read = async |conn: &Conn, function: Option<FunctionId>, project: Option<ProjectId>| {
        let (since, until) = window(conn, query.since.as_deref(), query.until.as_deref()).await?;
        let dispatch = query.run.map(DispatchId);
        let status = query.status.map(IntoDomain::into_domain).unwrap_or_default();
        let worker = query.worker.map(WorkerId);
        let filter = Filter {
            job: id,
            dispatch,
            status,
            worker,
            project,
            function,
            triggered_by,
            since,
            until,
            after,
            oldest_first,
        };
        let mut rows = Vec::new();
        if id.is_some() {
            rows = executions::list(conn, tenant, &filter, pages.rows()).await?;
            // A job with a known name exists, so it need not be looked up.
            if !counts && rows.first().is_some_and(|first| first.job_name.is_some()) {
                return Ok((rows, None));
            }
        }
        let job = listed_of(conn, tenant, of, query.job.as_deref()).await?;
        if id.is_none() || job != id {
            rows = executions::list(conn, tenant, &Filter { job, ..filter }, pages.rows()).await?;
        }
        let counted = match counts {
            true => Some(executions::count(conn, tenant, &Filter { job, ..filter }, ROWS_COUNTED).await?),
            false => None,
        };
        Ok((rows, counted))
    };
    // With these filters, a match may need a read of much history.
    let is_rare = query.run.is_some()
        || query.worker.is_some()
        || query.function.is_some()
        || query.project.is_some()
        || triggered_by.is_some();
    let (rows, counted) = if is_rare {
        let read = async |conn: &mut Conn| {
            let function = function(conn, tenant, query.function.as_deref()).await?;
            let project = project(conn, tenant, query.project.as_deref()).await?;
            read(conn, function, project).await
        };
        state.read_totals(identity, "list_executions", read).await?
    } else if counts {
        // The plan of a count depends on its parameters.
        state.read(identity, "list_executions", async |conn: &mut Conn| read(conn, None, None).await).await?
    } else {
        state
            .read_prepared(identity, "list_executions", async |conn: &Conn| read(conn, None, None).await)
            .await?
    };
    let page = pages.page(rows, |execution| execution.id.to_string(), response::execution);
    Ok(web::Json(with_total(page, counted)))
}

/// `GET /attempts/{id}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    text: web::Path<String>,
) -> Answer<sched_wire::Attempt> {
    let (tenant, id) = (identity.tenant(), ExecutionId(id(&text)?));
    let found = state
        .read_prepared(&identity, "show_execution", async |conn: &Conn| find(conn, tenant, id).await)
        .await?;
    Ok(web::Json(response::execution(found)))
}

/// `GET /attempts/{id}/output`
pub(crate) async fn output(
    state: State,
    identity: Identity,
    text: web::Path<String>,
) -> Answer<AttemptOutput> {
    let (tenant, id) = (identity.tenant(), ExecutionId(id(&text)?));
    let chunks = state
        .read(&identity, "show_output", async |conn: &mut Conn| {
            // Distinguishes an attempt without output from a missing attempt.
            let execution = find(conn, tenant, id).await?;
            Ok(executions::output(conn, tenant, execution.id).await?)
        })
        .await?;
    Ok(web::Json(response::output(id, chunks)))
}

async fn find(conn: &Conn, tenant: TenantId, id: ExecutionId) -> Result<Execution, ApiError> {
    let found = executions::by_id(conn, tenant, id).await?;
    found.ok_or_else(|| ApiError::NotFound { kind: "attempt", name: id.to_string() })
}
