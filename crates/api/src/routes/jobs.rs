//! Jobs: creating, listing, showing.

use actix_web::http::header::{ETAG, HeaderName, LOCATION};
use actix_web::{HttpResponse, web};
use sched_model::db::jobs::{self, Job, SaveError, SaveMode, Shown};
use sched_model::db::{Conn, DbResult, audit, dependencies, transact};
use sched_model::domain::ids::{JobId, TenantId};
use sched_wire::{BASE_PATH, Include, JobsQuery, Page};

use super::{Answer, Id, State, auditing};
use crate::dto::{show, spec};
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query};
use crate::identity::Identity;
use crate::mistake;
use crate::page::Limit;

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
    let mut conn = state.database.conn().await?;
    let saved = transact(&mut conn, "create_job", async |conn: &mut Conn| {
        let saved = jobs::save(conn, tenant, &settings, SaveMode::Create, &request.0.source).await?;
        audit::write(conn, &[auditing::of_job(tenant, &saved, &request.0)]).await?;
        Ok::<_, SaveError>(saved)
    })
    .await
    .map_err(|error| mistake::save_refused(error, ""))?;
    tracing::info!(job.id = %saved.job.id, job.name = saved.job.settings.name, "Created a job.");
    let location = format!("{BASE_PATH}/jobs/{}", saved.job.id);
    let tag = entity_tag(&saved.job);
    let mut created = HttpResponse::Created();
    let shown = show::job(saved.job, Vec::new());
    Ok(created.insert_header((LOCATION, location)).insert_header(tag).json(shown))
}

/// `GET /jobs`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<JobsQuery>,
) -> Answer<Page<sched_wire::Job>> {
    let (tenant, limit) = (identity.tenant(), Limit::new(query.limit)?);
    let mut conn = state.database.conn().await?;
    let which = match query.include {
        Some(Include::System) => Shown::All,
        None => Shown::Own,
    };
    let rows = jobs::list(&mut conn, tenant, which, query.cursor.as_deref(), limit.rows()).await?;
    let ids: Vec<JobId> = rows.iter().map(|job| job.id).collect();
    let followers = dependencies::followers(&mut conn, tenant, &ids).await?;
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
    let mut conn = state.database.conn().await?;
    let found = find(&mut conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
    Ok(shown(&mut conn, tenant, found).await?)
}

/// The answer that shows a job, with its version for a later `If-Match`.
pub(super) async fn shown(conn: &mut Conn, tenant: TenantId, job: Job) -> DbResult<HttpResponse> {
    let followed_by = dependencies::followers(conn, tenant, &[job.id]).await?.remove(&job.id);
    let tag = entity_tag(&job);
    Ok(HttpResponse::Ok().insert_header(tag).json(show::job(job, followed_by.unwrap_or_default())))
}

fn entity_tag(job: &Job) -> (HeaderName, String) {
    (ETAG, format!("\"{}\"", job.state.version))
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
