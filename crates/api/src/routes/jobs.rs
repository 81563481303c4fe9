//! Jobs: create, list and show them. Other operations are in the modules below.

pub(crate) mod apply;
mod change;
pub(crate) mod explanations;
pub(crate) mod export;
mod history;
mod job_events;
pub(crate) mod job_types;
mod life;
mod pauses;
pub(crate) mod previews;
pub(crate) mod switches;
pub(crate) mod trigger;

use actix_web::{HttpResponse, web};
use chrono::{DateTime, Utc};
use sched_model::domain::dependency::After;
use sched_model::domain::ids::{JobId, TenantId};
use sched_model::jobs::{self, Job, List, Order, Position, SaveMode, Shown, SortBy, Writing};
use sched_model::{Conn, DbResult, definitions::dependencies, events::append, identity::audit};
use sched_wire::{BASE_PATH, Include, JobSort, JobsQuery, Page};

use super::{Answer, State, built_in};
use crate::convert::effective::InstallationDefaults;
use crate::convert::{IntoDomain, response, spec};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::pagination::{Limit, ROWS_COUNTED, with_total};
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::etag::version_tag;
use crate::routes::operations::auditing;
use crate::{error::field_error, http::cursor};

use self::pauses::Pauses;
pub(crate) use change::{patch, put, rollback};
pub(super) use history::changes;
pub(crate) use history::{dispatches, executions, version, versions};
pub(super) use job_events::{
    Cancellation, JobEvent, append_cancelled_runs, append_job_events, append_project_job_events,
};
pub(crate) use life::{delete, restore};

/// `POST /jobs`
pub(crate) async fn create(call: Call, body: Body) -> Result<HttpResponse, ApiError> {
    let tenant = call.tenant();
    let settings =
        spec::job(body.required()?, "", &call.state.default_timezone).map_err(ApiError::Refused)?;
    let written = call
        .write("create_job", async |conn: &mut Conn| {
            built_in::functions(conn, &call.identity, &[&settings.function]).await?;
            let saved = jobs::save(conn, tenant, &settings, Writing::new(SaveMode::Create, &call.by.source))
                .await
                .map_err(|error| field_error::save_refused(error, ""))?;
            audit::write(conn, &[auditing::of_job(&saved, &call.by)]).await?;
            append_job_events(
                conn,
                &[JobEvent { event_type: append::JOB_CREATED, job: &saved.job }],
                &call.by,
            )
            .await?;
            let id = saved.job.id;
            Ok::<_, ApiError>((created(saved.job, call.state.defaults())?, id))
        })
        .await?;
    if let Some(id) = written.extra {
        tracing::info!(job.id = %id, job.name = settings.name, "job created");
    }
    Ok(written.response)
}

pub(super) fn created(job: Job, installation: InstallationDefaults) -> Result<Reply, ApiError> {
    let (tag, location) = (entity_tag(&job), format!("{BASE_PATH}/jobs/{}", job.id));
    Ok(Reply::created(&response::job(job, Vec::new(), installation))?.location(location).etag(tag))
}

/// `GET /jobs`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<JobsQuery>,
) -> Answer<Page<sched_wire::Job>> {
    let (tenant, limit) = (identity.tenant(), Limit::new(query.limit)?);
    let is_counted = query.total == Some(true);
    let (list, which) = list_of_query(query)?;
    let (rows, followers, pauses, counted) = state
        .read(&identity, "list_jobs", async |conn: &mut Conn| {
            let rows = jobs::list(conn, tenant, &list, limit.rows()).await?;
            let pauses = Pauses::read(conn, tenant, &rows).await?;
            let ids: Vec<JobId> = rows.iter().map(|job| job.id).collect();
            let followers = dependencies::followers(conn, tenant, &ids).await?;
            let counted = match is_counted {
                true => Some(jobs::count(conn, tenant, &list, ROWS_COUNTED).await?),
                false => None,
            };
            Ok((rows, followers, pauses, counted))
        })
        .await?;
    let shown = |job: Job| {
        let followed_by = followers.get(&job.id).cloned().unwrap_or_default();
        let next_run_at = pauses.next_fire(tenant, &job);
        sched_wire::Job { next_run_at, ..response::job(job, followed_by, state.defaults()) }
    };
    let by = list.order.by;
    let cursor = |job: &Job| match Position::of(job, by) {
        Position::Name(name, id) => cursor::seal(&which, Some(name), id.0),
        Position::At(at, id) => cursor::seal(&which, at.map(|at| at.to_rfc3339()), id.0),
    };
    Ok(web::Json(with_total(limit.page(rows, cursor, shown), counted)))
}

/// Also returns the query that identifies the list in cursors.
fn list_of_query(query: JobsQuery) -> Result<(List, JobsQuery), ApiError> {
    let which = JobsQuery { limit: None, cursor: None, total: None, ..query.clone() };
    let order = order(query.sort.unwrap_or(JobSort::Name));
    let after = match query.cursor.as_deref() {
        Some(text) => Some(position(&which, order.by, text)?),
        None => None,
    };
    let (with_system, with_deleted) = match query.include {
        None => (false, false),
        Some(Include::System) => (true, false),
        Some(Include::Deleted) => (false, true),
        Some(Include::All) => (true, true),
    };
    let list = List {
        shown: if with_system { Shown::All } else { Shown::Own },
        with_deleted,
        status: query.status.map(IntoDomain::into_domain),
        text: query.q,
        name_prefix: query.name_prefix,
        function: query.function,
        project: query.project,
        queue: query.queue,
        job_type: query.job_type.map(IntoDomain::into_domain),
        last_status: query.last_status.map(IntoDomain::into_domain).unwrap_or_default(),
        template: query.template,
        order,
        after,
    };
    Ok((list, which))
}

const fn order(sort: JobSort) -> Order {
    let (by, is_descending) = match sort {
        JobSort::Name => (SortBy::Name, false),
        JobSort::NameDown => (SortBy::Name, true),
        JobSort::NextRunAt => (SortBy::NextRun, false),
        JobSort::NextRunAtDown => (SortBy::NextRun, true),
        JobSort::LastRunAt => (SortBy::LastRun, false),
        JobSort::LastRunAtDown => (SortBy::LastRun, true),
        JobSort::UpdatedAt => (SortBy::Updated, false),
        JobSort::UpdatedAtDown => (SortBy::Updated, true),
    };
    Order { by, is_descending }
}

fn position(which: &JobsQuery, by: SortBy, text: &str) -> Result<Position, ApiError> {
    let (key, id) = cursor::open(which, text)?;
    let id = JobId(id);
    let broken = || ApiError::parameter("cursor", "must be the next_cursor of the page before");
    let at = |text: String| DateTime::parse_from_rfc3339(&text).map(|at| at.with_timezone(&Utc));
    match (by, key) {
        (SortBy::Name, Some(name)) if !name.contains('\0') => Ok(Position::Name(name, id)),
        (SortBy::Name, _) => Err(broken()),
        (_, key) => key.map(at).transpose().map(|at| Position::At(at, id)).map_err(|_not_ours| broken()),
    }
}

/// `GET /jobs/{id-or-name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    job: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let (tenant, installation) = (identity.tenant(), state.defaults());
    let reply = state
        .read_prepared(&identity, "show_job", async |conn: &Conn| {
            if let Ok(id) = job.parse()
                && let Some((found, is_followed)) =
                    jobs::by_id_and_whether_followed(conn, tenant, JobId(id)).await?
            {
                // Most jobs have no followers, so the query is skipped.
                return if is_followed {
                    shown(conn, tenant, found, installation).await
                } else {
                    shown_with(conn, tenant, (found, Vec::new()), installation).await
                };
            }
            let found = find(conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
            shown(conn, tenant, found, installation).await
        })
        .await?;
    Ok(reply.into_response())
}

pub(super) async fn shown(
    conn: &Conn,
    tenant: TenantId,
    job: Job,
    installation: InstallationDefaults,
) -> Result<Reply, ApiError> {
    let followed_by = dependencies::followers(conn, tenant, &[job.id]).await?.remove(&job.id);
    shown_with(conn, tenant, (job, followed_by.unwrap_or_default()), installation).await
}

async fn shown_with(
    conn: &Conn,
    tenant: TenantId,
    (job, followed_by): (Job, Vec<After>),
    installation: InstallationDefaults,
) -> Result<Reply, ApiError> {
    let tag = entity_tag(&job);
    let next_run_at = Pauses::read(conn, tenant, std::slice::from_ref(&job)).await?.next_fire(tenant, &job);
    let shown = sched_wire::Job { next_run_at, ..response::job(job, followed_by, installation) };
    Ok(Reply::ok(&shown)?.etag(tag))
}

fn entity_tag(job: &Job) -> String {
    version_tag(job.state.version)
}

/// For a name that is also an id, the id wins.
pub(super) async fn find(conn: &Conn, tenant: TenantId, text: &str) -> DbResult<Option<Job>> {
    if text.contains('\0') {
        return Ok(None);
    }
    if let Ok(id) = text.parse()
        && let Some(job) = jobs::by_id(conn, tenant, JobId(id)).await?
    {
        return Ok(Some(job));
    }
    jobs::by_name(conn, tenant, text).await
}

/// The job with this id, deleted or not, or the existing job with this name.
async fn find_with_deleted(conn: &Conn, tenant: TenantId, text: &str) -> DbResult<Option<Job>> {
    if let Ok(id) = text.parse()
        && let Some(job) = jobs::by_id_with_deleted(conn, tenant, JobId(id)).await?
    {
        return Ok(Some(job));
    }
    find(conn, tenant, text).await
}

/// `of` must exist, deleted or not; `filter` may be purged, see [`self::filter`].
pub(super) async fn listed_of(
    conn: &Conn,
    tenant: TenantId,
    of: Option<&str>,
    filter: Option<&str>,
) -> Result<Option<JobId>, ApiError> {
    match (of, filter) {
        (Some(job), _) => id_with_deleted(conn, tenant, job).await.map(Some),
        (None, Some(job)) => self::filter(conn, tenant, job).await.map(Some),
        (None, None) => Ok(None),
    }
}

async fn id_with_deleted(conn: &Conn, tenant: TenantId, text: &str) -> Result<JobId, ApiError> {
    if let Ok(id) = text.parse()
        && jobs::is_there(conn, tenant, JobId(id)).await?
    {
        return Ok(JobId(id));
    }
    Ok(find(conn, tenant, text).await?.ok_or_else(|| no_such_job(text))?.id)
}

/// A deleted job keeps its history under its id.
pub(super) async fn filter(conn: &Conn, tenant: TenantId, text: &str) -> Result<JobId, ApiError> {
    match find(conn, tenant, text).await? {
        Some(job) => Ok(job.id),
        None => text.parse().map_err(|_not_an_id| no_such_job(text)),
    }
}

pub(super) fn no_such_job(text: &str) -> ApiError {
    ApiError::NotFound { kind: "job", name: text.to_owned() }
}
