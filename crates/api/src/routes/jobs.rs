//! Jobs: creating, listing, showing.

use actix_web::{HttpResponse, web};
use sched_model::db::jobs::{self, Job, SaveMode, Shown};
use sched_model::db::{Conn, DbResult, audit, dependencies};
use sched_model::domain::ids::{JobId, TenantId};
use sched_wire::{BASE_PATH, Include, JobsQuery, Page};

use super::{Answer, Id, State, auditing, built_in};
use crate::dto::{show, spec};
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query};
use crate::identity::Identity;
use crate::mistake;
use crate::page::Limit;
use crate::session::Reply;

/// `POST /jobs`
pub(crate) async fn create(
    state: State,
    identity: Identity,
    request: Id,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    let settings = spec::job(body.required()?, "", &state.default_timezone).map_err(ApiError::Refused)?;
    let written = state
        .write(&identity, &request.0, "create_job", async |conn: &mut Conn| {
            built_in::functions(conn, &identity, &[&settings.function]).await?;
            let saved = jobs::save(conn, tenant, &settings, SaveMode::Create, &request.0.source)
                .await
                .map_err(|error| mistake::save_refused(error, ""))?;
            audit::write(conn, &[auditing::of_job(tenant, &saved, &request.0)]).await?;
            let id = saved.job.id;
            let (tag, location) = (entity_tag(&saved.job), format!("{BASE_PATH}/jobs/{id}"));
            let shown = show::job(saved.job, Vec::new());
            Ok::<_, ApiError>((Reply::created(&shown)?.location(location).etag(tag), id))
        })
        .await?;
    if let Some(id) = written.extra {
        tracing::info!(job.id = %id, job.name = settings.name, "Created a job.");
    }
    Ok(written.response)
}

/// `GET /jobs`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<JobsQuery>,
) -> Answer<Page<sched_wire::Job>> {
    let (tenant, limit) = (identity.tenant(), Limit::new(query.limit)?);
    let which = match query.include {
        Some(Include::System) => Shown::All,
        None => Shown::Own,
    };
    let (rows, followers) = state
        .read(&identity, "list_jobs", async |conn: &mut Conn| {
            let rows = jobs::list(conn, tenant, which, query.cursor.as_deref(), limit.rows()).await?;
            let ids: Vec<JobId> = rows.iter().map(|job| job.id).collect();
            let followers = dependencies::followers(conn, tenant, &ids).await?;
            Ok((rows, followers))
        })
        .await?;
    let shown = |job: Job| {
        let followed_by = followers.get(&job.id).cloned().unwrap_or_default();
        show::job(job, followed_by)
    };
    Ok(web::Json(limit.page(rows, |job| job.settings.name.clone(), shown)))
}

/// `GET /jobs/{id-or-name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    job: web::Path<String>,
    _: Query<NoParameters>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    let reply = state
        .read(&identity, "show_job", async |conn: &mut Conn| {
            let found = find(conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
            shown(conn, tenant, found).await
        })
        .await?;
    Ok(reply.into_response())
}

/// The answer that shows a job, with its version for a later `If-Match`.
pub(super) async fn shown(conn: &mut Conn, tenant: TenantId, job: Job) -> Result<Reply, ApiError> {
    let followed_by = dependencies::followers(conn, tenant, &[job.id]).await?.remove(&job.id);
    let tag = entity_tag(&job);
    Ok(Reply::ok(&show::job(job, followed_by.unwrap_or_default()))?.etag(tag))
}

fn entity_tag(job: &Job) -> String {
    format!("\"{}\"", job.state.version)
}

/// The job with this id or name. A name can look like an id; then the id counts.
pub(super) async fn find(conn: &mut Conn, tenant: TenantId, text: &str) -> DbResult<Option<Job>> {
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

/// The id of the job that a list is restricted to. The history of a deleted job is still there under its id.
pub(super) async fn filter(conn: &mut Conn, tenant: TenantId, text: &str) -> Result<JobId, ApiError> {
    match find(conn, tenant, text).await? {
        Some(job) => Ok(job.id),
        None => text.parse().map_err(|_not_an_id| no_such_job(text)),
    }
}

/// The refusal for a job that is not there.
pub(super) fn no_such_job(text: &str) -> ApiError {
    ApiError::NotFound { kind: "job", name: text.to_owned() }
}
