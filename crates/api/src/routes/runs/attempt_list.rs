//! Finished attempts and their output.

use std::time::Duration;

use actix_web::web;
use sched_model::Conn;
use sched_model::domain::ids::{
    DispatchId, ExecutionId, FunctionId, JobId, ProjectId, TenantId, WorkerId, instant_of,
};
use sched_model::running::executions::{self, Execution, Filter};
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{AttemptFilter, AttemptOutput, AttemptsQuery, Page, TimeSort};

use crate::convert::{IntoDomain, response};
use crate::error::ApiError;
use crate::http::extract::{Query, id};
use crate::http::pagination::{Pages, ROWS_COUNTED, searched_until, with_total};
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
        let mut found = Found::default();
        if id.is_some() {
            found = find_page(conn, tenant, &filter, pages.rows()).await?;
            // A job with a known name exists, so it need not be looked up.
            if !counts && found.rows.first().is_some_and(|first| first.job_name.is_some()) {
                return Ok((found, None));
            }
        }
        let job = listed_of(conn, tenant, of, query.job.as_deref()).await?;
        if id.is_none() || job != id {
            found = find_page(conn, tenant, &Filter { job, ..filter }, pages.rows()).await?;
        }
        let counted = match counts {
            true => Some(executions::count(conn, tenant, &Filter { job, ..filter }, ROWS_COUNTED).await?),
            false => None,
        };
        Ok((found, counted))
    };
    // With these filters, a match may need a read of much history.
    let is_rare = query.run.is_some()
        || query.worker.is_some()
        || query.function.is_some()
        || query.project.is_some()
        || query.status.is_some_and(|status| status == AttemptFilter::Succeeded)
        || triggered_by.is_some();
    let (found, counted) = if is_rare {
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
    let Found { rows, searched_to } = found;
    let page = pages.page(rows, |execution| execution.id.to_string(), response::execution);
    let page = match searched_to {
        Some(end) => searched_until(page, pages.cursor(end.to_string()), instant_of(end.0)),
        None => page,
    };
    Ok(web::Json(with_total(page, counted)))
}

/// Time after which a search of rare attempts returns its matches so far.
const SEARCH_WITHIN: Duration = Duration::from_secs(3);
/// Attempts in the first section of a search, and in the longest one. A section is short enough that
/// its end is soon after the time limit.
const FIRST_SECTION: i64 = 2_000;
const LONGEST_SECTION: i64 = 64_000;

#[derive(Default)]
struct Found {
    rows: Vec<Execution>,
    /// The last attempt of an incomplete search.
    searched_to: Option<ExecutionId>,
}

async fn find_page(conn: &Conn, tenant: TenantId, filter: &Filter, limit: i64) -> Result<Found, ApiError> {
    let filter = executions::with_job(conn, tenant, filter).await?;
    if !filter.is_rare() {
        let rows = executions::list(conn, tenant, &filter, limit).await?;
        return Ok(Found { rows, searched_to: None });
    }
    search(conn, tenant, filter, limit).await
}

/// Reads section after section, each twice as long, until it has a page, the end or no time.
async fn search(conn: &Conn, tenant: TenantId, mut filter: Filter, limit: i64) -> Result<Found, ApiError> {
    let started = monotonic();
    let mut found = Found::default();
    let mut length = FIRST_SECTION;
    loop {
        let end = executions::section_end(conn, tenant, &filter, length).await?;
        let wanted = limit - i64::try_from(found.rows.len()).unwrap_or(limit);
        found.rows.extend(executions::list_section(conn, tenant, &filter, (end, wanted)).await?);
        let is_full = i64::try_from(found.rows.len()).is_ok_and(|rows| rows >= limit);
        let Some(end) = end.filter(|_| !is_full) else { return Ok(found) };
        if monotonic().saturating_duration_since(started) >= SEARCH_WITHIN {
            return Ok(Found { searched_to: Some(end), ..found });
        }
        filter.after = Some(end);
        length = (length * 2).min(LONGEST_SECTION);
    }
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
    let (execution, chunks) = state
        .read(&identity, "show_output", async |conn: &mut Conn| {
            // Distinguishes an attempt without output from a missing attempt.
            let execution = find(conn, tenant, id).await?;
            let chunks = executions::output(conn, tenant, execution.id).await?;
            Ok((execution, chunks))
        })
        .await?;
    Ok(web::Json(response::output(&execution, chunks)))
}

async fn find(conn: &Conn, tenant: TenantId, id: ExecutionId) -> Result<Execution, ApiError> {
    let found = executions::by_id(conn, tenant, id).await?;
    found.ok_or_else(|| ApiError::NotFound { kind: "attempt", name: id.to_string() })
}
