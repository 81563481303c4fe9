//! The history of a job: its versions, runs and attempts.

use actix_web::web;
use sched_model::domain::ids::{JobId, TenantId};
use sched_model::domain::job::JobSettings;
use sched_model::jobs::{self, versions::JobVersion as Kept};
use sched_model::{Conn, DbError, DbResult, PageRequest};
use sched_wire::{
    Attempt, AttemptsQuery, FieldChange, JobAttemptsQuery, JobRunsQuery, JobVersion, Page, PageQuery, Run,
    RunsQuery,
};

use super::{find_with_deleted, no_such_job};
use crate::convert::response;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::http::pagination::Pages;
use crate::identity::Identity;
use crate::routes::notes::field_changes;
use crate::routes::{
    Answer, State,
    runs::{attempt_list as all_executions, run_list as all_dispatches},
};

/// `GET /jobs/{id-or-name}/versions`
pub(crate) async fn versions(
    state: State,
    identity: Identity,
    job: web::Path<String>,
    Query(query): Query<PageQuery>,
) -> Answer<Page<JobVersion>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&("versions", job.as_str()), query.limit, query.cursor.as_deref())?;
    let before = pages.after_as()?;
    let rows = state
        .read(&identity, "list_job_versions", async |conn: &mut Conn| {
            let id = find(conn, tenant, &job).await?;
            let page = PageRequest { after: before, limit: pages.rows() };
            Ok(jobs::versions::list(conn, tenant, id, page).await?)
        })
        .await?;
    let before = rows.iter().skip(1).map(Some).chain(std::iter::once(None));
    let shown = rows.iter().zip(before).map(|(row, before)| show_version(row, before));
    let shown = shown.collect::<Result<Vec<JobVersion>, ApiError>>()?;
    Ok(web::Json(pages.page(shown, |version| version.version.to_string(), |version| version)))
}

/// `GET /jobs/{id-or-name}/versions/{version}`
pub(crate) async fn version(
    state: State,
    identity: Identity,
    path: web::Path<(String, String)>,
) -> Answer<JobVersion> {
    let (tenant, (job, text)) = (identity.tenant(), path.into_inner());
    let number: i64 =
        text.parse().map_err(|error| ApiError::parameter("version", format!("is not a number: {error}")))?;
    let found = state
        .read(&identity, "show_job_version", async |conn: &mut Conn| {
            let id = find(conn, tenant, &job).await?;
            let page = PageRequest { after: number.checked_add(1), limit: 2 };
            Ok(jobs::versions::list(conn, tenant, id, page).await?)
        })
        .await?;
    let mut found = found.into_iter();
    let version = found.next().filter(|version| version.version == number);
    let version = version.ok_or_else(|| ApiError::NotFound { kind: "version", name: text })?;
    Ok(web::Json(show_version(&version, found.next().as_ref())?))
}

/// `GET /jobs/{id-or-name}/runs`
pub(crate) async fn dispatches(
    state: State,
    identity: Identity,
    job: web::Path<String>,
    Query(query): Query<JobRunsQuery>,
) -> Answer<Page<Run>> {
    all_dispatches::page(&state, &identity, &RunsQuery::from(query), Some(&job)).await
}

/// `GET /jobs/{id-or-name}/attempts`
pub(crate) async fn executions(
    state: State,
    identity: Identity,
    job: web::Path<String>,
    Query(query): Query<JobAttemptsQuery>,
) -> Answer<Page<Attempt>> {
    all_executions::page(&state, &identity, &AttemptsQuery::from(query), Some(&job)).await
}

async fn find(conn: &mut Conn, tenant: TenantId, job: &str) -> Result<JobId, ApiError> {
    Ok(find_with_deleted(conn, tenant, job).await?.ok_or_else(|| no_such_job(job))?.id)
}

fn show_version(version: &Kept, before: Option<&Kept>) -> Result<JobVersion, ApiError> {
    let settings = self::settings(version)?;
    let changes = match before {
        Some(before) => spec_changes(&self::settings(before)?, &settings)?,
        None => Vec::new(),
    };
    let corrupt = |word: &str| DbError::Corrupt {
        what: format!("version {}", version.version),
        reason: format!("its change is {word:?}"),
    };
    Ok(JobVersion {
        version: version.version,
        change: version.change.parse().map_err(|_unknown| corrupt(&version.change))?,
        changed_at: version.changed_at,
        changed_by: version.changed_src.clone(),
        pause_reason: version.pause_reason.clone(),
        paused_until: version.paused_until,
        changes,
        settings,
    })
}

fn settings(version: &Kept) -> DbResult<sched_wire::JobSpec> {
    let settings: JobSettings = serde_json::from_value(version.settings.clone()).map_err(|error| {
        DbError::Corrupt { what: format!("version {} of a job", version.version), reason: error.to_string() }
    })?;
    Ok(response::spec(settings))
}

pub(in crate::routes) fn changes(
    before: &JobSettings,
    after: &JobSettings,
) -> Result<Vec<FieldChange>, ApiError> {
    spec_changes(&response::spec(before.clone()), &response::spec(after.clone()))
}

fn spec_changes(
    before: &sched_wire::JobSpec,
    after: &sched_wire::JobSpec,
) -> Result<Vec<FieldChange>, ApiError> {
    let written = |spec| serde_json::to_value(spec).map_err(ApiError::Unwritten);
    Ok(field_changes(&written(before)?, &written(after)?))
}
