//! Projects: groups of jobs within a tenant.
//!
//! Deleting a project deletes its jobs and secrets. The rows of the project and its jobs stay, and
//! the name can be used again. Writers lock the project's row until the end of the transaction, and
//! so does a write that puts a job into it ([`crate::jobs::save`]). So no job gets into a project
//! that is being deleted.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::dependencies;
use super::resources::{ChangeError, Expected, MOST_NAMED, Users};
use super::saved::Change;
use crate::dispatching::cancellations::Order;
use crate::identity::tenants::DEFAULT_PROJECT;
use crate::jobs::{self, DeletedJob, Deletion, Job, SaveError};
use crate::schema::{projects, scheduled_jobs, secrets};
use crate::{
    Conn, DbError, DbResult,
    connection::{database_clock, transaction},
};
use sched_domain::ids::{JobId, ProjectId, TenantId};

/// Maximum number of jobs deleted with their project: the transaction stays short.
pub const MOST_JOBS: i64 = 1000;

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = projects, check_for_backend(diesel::pg::Pg))]
pub struct ProjectSettings {
    pub name: String,
    pub display_name: String,
    pub description: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = projects, check_for_backend(diesel::pg::Pg))]
pub struct Project {
    pub id: ProjectId,
    #[diesel(embed)]
    pub settings: ProjectSettings,
    /// None of its jobs is dispatched or claimed.
    pub is_paused: bool,
    pub pause_reason: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

#[derive(Debug, Clone)]
pub struct SavedProject {
    pub project: Project,
    /// `None` for a new project.
    pub before: Option<ProjectSettings>,
    pub change: Change,
}

/// The settings of the default project of a new tenant.
#[must_use]
pub fn untouched_default() -> ProjectSettings {
    ProjectSettings {
        name: DEFAULT_PROJECT.to_owned(),
        display_name: "Default".to_owned(),
        description: String::new(),
    }
}

/// Projects of the tenant after the name `after`, at most `limit`, by name.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&str>,
    limit: i64,
) -> DbResult<Vec<Project>> {
    let found = projects::table
        .filter(projects::tenant_id.eq(tenant))
        .filter(projects::deleted_at.is_null())
        .filter(projects::name.gt(after.unwrap_or_default()))
        .order(projects::name)
        .limit(limit)
        .select(Project::as_select())
        .load(conn)
        .await?;
    Ok(found)
}

pub async fn by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<Project>> {
    let found = projects::table
        .filter(projects::tenant_id.eq(tenant))
        .filter(projects::name.eq(name))
        .filter(projects::deleted_at.is_null())
        .select(Project::as_select())
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

/// Locks a project against changes and against new jobs.
async fn lock(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<Project>> {
    let found = projects::table
        .filter(projects::tenant_id.eq(tenant))
        .filter(projects::name.eq(name))
        .filter(projects::deleted_at.is_null())
        .select(Project::as_select())
        .for_update()
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

/// The project with this name, locked against deletion until the end of the transaction.
pub(crate) async fn lock_for_use(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
) -> DbResult<Option<ProjectId>> {
    let found = projects::table
        .filter(projects::tenant_id.eq(tenant))
        .filter(projects::name.eq(name))
        .filter(projects::deleted_at.is_null())
        .select(projects::id)
        .for_key_share()
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

/// Inserts or overwrites a project. Call it in a transaction.
///
/// # Errors
/// The project is not in the expected state.
pub async fn save(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &ProjectSettings,
    expected: Expected,
) -> Result<SavedProject, ChangeError> {
    use projects as p;
    let Some(existing) = lock(conn, tenant, &settings.name).await? else {
        expected.of_absent()?;
        let created = diesel::insert_into(p::table)
            .values((p::tenant_id.eq(tenant), settings))
            .returning(Project::as_returning())
            .get_result(conn)
            .await;
        let project = created.map_err(|error| match DbError::from(error) {
            // Created after the lookup: this transaction runs again and finds it.
            DbError::Constraint { name, source, .. } if name == "projects_name_key" => {
                DbError::Collision(source)
            }
            error => error,
        })?;
        return Ok(SavedProject { project, before: None, change: Change::Created });
    };
    expected.of_present(existing.updated_at)?;
    let before = Some(existing.settings.clone());
    if existing.settings == *settings {
        return Ok(SavedProject { project: existing, before, change: Change::Unchanged });
    }
    let project = diesel::update(p::table.find((tenant, existing.id)))
        .set((settings, p::updated_at.eq(database_clock::clock_timestamp())))
        .returning(Project::as_returning())
        .get_result(conn)
        .await?;
    Ok(SavedProject { project, before, change: Change::Updated })
}

/// Inserts or overwrites a project in any state. Call it in a transaction. An equal project is
/// not locked, so changes of its jobs do not wait.
pub async fn put(conn: &mut Conn, tenant: TenantId, settings: &ProjectSettings) -> DbResult<SavedProject> {
    let existing = by_name(conn, tenant, &settings.name).await?;
    if let Some(project) = existing.filter(|existing| existing.settings == *settings) {
        let before = Some(project.settings.clone());
        return Ok(SavedProject { project, before, change: Change::Unchanged });
    }
    match save(conn, tenant, settings, Expected::Any).await {
        Ok(saved) => Ok(saved),
        Err(ChangeError::Database(error)) => Err(error),
        // `Any` accepts every state.
        Err(_) => Err(DbError::outdated()),
    }
}

#[derive(Debug, Clone, Copy)]
pub struct DeleteRequest<'a> {
    pub tenant: TenantId,
    pub name: &'a str,
    pub expected: Expected,
    /// Whether to delete its jobs too; otherwise a project with jobs is not deleted.
    pub with_jobs: bool,
    /// Component or user e-mail address.
    pub source: &'a str,
    /// Requester and reason for the cancelled runs.
    pub order: Order<'a>,
}

#[derive(Debug, Clone)]
pub struct DeletedProject {
    pub project: Project,
    /// The deleted jobs, by id.
    pub jobs: Vec<DeletedJob>,
}

#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error("the project has more than {MOST_JOBS} jobs; delete some of them first")]
    TooManyJobs,
    /// Those jobs would wait forever.
    #[error("jobs of other projects run after jobs of this project: {0}")]
    Followed(Users),
    #[error(transparent)]
    Job(#[from] SaveError),
}

impl From<DbError> for DeleteError {
    fn from(error: DbError) -> Self {
        Self::Change(error.into())
    }
}

impl From<diesel::result::Error> for DeleteError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Change(error.into())
    }
}

impl transaction::TransactionError for DeleteError {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Change(error) => error.is_retryable(),
            Self::Job(error) => error.is_retryable(),
            Self::TooManyJobs | Self::Followed(_) => false,
        }
    }
}

/// Deletes and returns a project with its secrets and optionally its jobs. Call it in a transaction
/// that holds no lock yet.
///
/// Each job's history stays; waiting runs are cancelled, running ones continue.
///
/// # Errors
/// [`ChangeError::InUse`] if it has jobs and the request excludes them, [`ChangeError::BuiltIn`]
/// for the default project.
pub async fn delete(conn: &mut Conn, request: &DeleteRequest<'_>) -> Result<DeletedProject, DeleteError> {
    let DeleteRequest { tenant, name, expected, with_jobs, .. } = *request;
    let seen = by_name(conn, tenant, name).await?.ok_or(ChangeError::NotFound)?;
    if name == DEFAULT_PROJECT {
        expected.of_present(seen.updated_at)?;
        return Err(ChangeError::BuiltIn.into());
    }
    // Writers of jobs lock dependencies before the project.
    let waiting =
        if with_jobs { jobs::of_project(conn, tenant, seen.id, MOST_JOBS + 1).await? } else { Vec::new() };
    dependencies::serialise(conn, tenant, waiting.iter().map(|job| &job.settings)).await?;
    let project = lock(conn, tenant, name).await?.ok_or(ChangeError::NotFound)?;
    expected.of_present(project.updated_at)?;
    let jobs = match with_jobs {
        true => delete_jobs(conn, request, project.id, &waiting).await?,
        false => refuse_jobs(conn, tenant, project.id).await.map(|()| Vec::new())?,
    };
    let own_secrets = secrets::table
        .filter(secrets::tenant_id.eq(tenant))
        .filter(secrets::project_id.is_not_distinct_from(Some(project.id)));
    diesel::delete(own_secrets).execute(conn).await?;
    diesel::update(projects::table.find((tenant, project.id)))
        .set((
            projects::deleted_at.eq(database_clock::clock_timestamp().nullable()),
            projects::updated_at.eq(database_clock::clock_timestamp()),
            projects::is_paused.eq(false),
            projects::pause_reason.eq(None::<String>),
        ))
        .execute(conn)
        .await?;
    Ok(DeletedProject { project, jobs })
}

async fn refuse_jobs(conn: &mut Conn, tenant: TenantId, project: ProjectId) -> Result<(), ChangeError> {
    let named = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::project_id.eq(project))
        .filter(scheduled_jobs::deleted_at.is_null())
        .order(scheduled_jobs::name)
        .limit(MOST_NAMED + 1)
        .select(scheduled_jobs::name)
        .load(conn)
        .await?;
    match Users::of("jobs", named) {
        Some(users) => Err(ChangeError::InUse(users)),
        None => Ok(()),
    }
}

/// Deletes the jobs of a project. The caller has locked the project, so it gets no more jobs.
async fn delete_jobs(
    conn: &mut Conn,
    request: &DeleteRequest<'_>,
    project: ProjectId,
    seen: &[Job],
) -> Result<Vec<DeletedJob>, DeleteError> {
    let tenant = request.tenant;
    let there = jobs::of_project(conn, tenant, project, MOST_JOBS + 1).await?;
    if i64::try_from(there.len()).unwrap_or(i64::MAX) > MOST_JOBS {
        return Err(DeleteError::TooManyJobs);
    }
    let ids: BTreeSet<JobId> = there.iter().map(|job| job.id).collect();
    dependencies::lock_with_upstream(conn, tenant, &ids).await?;
    // Read again under the locks: jobs may have left the project or have been deleted.
    let there = jobs::of_project(conn, tenant, project, MOST_JOBS + 1).await?;
    let has_edges = |jobs: &[Job]| jobs.iter().any(|job| !job.settings.after.is_empty());
    if there.iter().any(|job| !ids.contains(&job.id)) || (has_edges(&there) && !has_edges(seen)) {
        return Err(DbError::outdated().into());
    }
    let leaving: BTreeSet<&str> = there.iter().map(|job| job.settings.name.as_str()).collect();
    let all: Vec<JobId> = there.iter().map(|job| job.id).collect();
    let followers = dependencies::followers(conn, tenant, &all).await?;
    let others = followers.into_values().flatten().map(|follower| follower.job);
    let others: BTreeSet<String> = others.filter(|name| !leaving.contains(name.as_str())).collect();
    if let Some(users) = Users::of("jobs", others.into_iter().collect()) {
        return Err(DeleteError::Followed(users));
    }
    let mut deleted = Vec::with_capacity(there.len());
    let deletion = Deletion { source: request.source, order: request.order };
    for job in there {
        deleted.push(jobs::end(conn, tenant, job, &deletion).await?);
    }
    Ok(deleted)
}
