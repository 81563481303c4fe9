//! Projects: groups of jobs within a tenant.
//!
//! A project that is deleted takes its jobs along and keeps its row, since they keep theirs with their history; its secrets go. Its name
//! may then be given to another. Writers hold the row of the project until the end of the caller's transaction; who puts a job into
//! one holds it too ([`crate::jobs::save`]), so none is put into a project that is being deleted.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::dependencies;
use super::functions::Change;
use super::resources::{ChangeError, Expected, MOST_NAMED, Users};
use crate::dispatching::cancellations::Order;
use crate::identity::tenants::DEFAULT_PROJECT;
use crate::jobs::{self, DeletedJob, Job, SaveError};
use crate::schema::{projects, scheduled_jobs, secrets};
use crate::{
    Conn, DbError, DbResult,
    connection::{database_clock, transaction},
};
use sched_domain::ids::{JobId, ProjectId, TenantId};

/// Most jobs that are deleted with their project at once, so that it stays one short transaction.
pub const MOST_JOBS: i64 = 1000;

/// What a user says about a project.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = projects, check_for_backend(diesel::pg::Pg))]
pub struct ProjectSettings {
    /// Stable name, unique in the tenant.
    pub name: String,
    /// Name shown to people.
    pub display_name: String,
    /// Free text.
    pub description: String,
}

/// A project as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = projects, check_for_backend(diesel::pg::Pg))]
pub struct Project {
    /// Identifier.
    pub id: ProjectId,
    /// What a user says about it.
    #[diesel(embed)]
    pub settings: ProjectSettings,
    /// Whether nothing of it is dispatched or claimed.
    pub is_paused: bool,
    /// Why it is paused; only while it is.
    pub pause_reason: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// A project that was written.
#[derive(Debug, Clone)]
pub struct SavedProject {
    /// As it is now.
    pub project: Project,
    /// What was said about it before; `None` when it is new.
    pub before: Option<ProjectSettings>,
    /// What the write did.
    pub change: Change,
}

/// Projects of the tenant whose name sorts after `after`, at most `limit`, by name.
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

/// The project of that name, if the tenant has one.
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

/// Locks a project against changes and against jobs that are put into it.
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

/// The project of that name, held so that it is not deleted before the end of the transaction.
pub(crate) async fn hold(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<ProjectId>> {
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

/// Writes a project under its name: a new one, or over the old. Call it in a transaction.
///
/// # Errors
/// When the project is not as expected, or the database cannot be asked.
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
            // Somebody created it since we looked: the transaction, run again, finds it and changes it.
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

/// Which project to delete, and by whose word.
#[derive(Debug, Clone, Copy)]
pub struct DeleteRequest<'a> {
    /// Owner.
    pub tenant: TenantId,
    /// Its name.
    pub name: &'a str,
    /// In which state it must be.
    pub expected: Expected,
    /// Whether its jobs go with it; otherwise it is not deleted while it has some.
    pub with_jobs: bool,
    /// Which component or whose e-mail asks.
    pub source: &'a str,
    /// Who asks, and why, for what is cancelled.
    pub order: Order<'a>,
}

/// A project that was deleted.
#[derive(Debug, Clone)]
pub struct DeletedProject {
    /// As it was.
    pub project: Project,
    /// Its jobs, which were deleted with it, by id.
    pub jobs: Vec<DeletedJob>,
}

/// Why a project was not deleted. Nothing was written then.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// As of every resource.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// It has more jobs than go with it at once.
    #[error("it has more than {MOST_JOBS} jobs")]
    TooManyJobs,
    /// Jobs of other projects run after jobs of it, which would leave them waiting for ever.
    #[error("jobs of other projects run after its own: {0}")]
    Followed(Users),
    /// A job of it could not be deleted.
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

/// Deletes a project, with its secrets and, if that is asked for, its jobs, and returns what it was. Call it in a transaction that
/// holds no lock yet.
///
/// Each of its jobs ends as one that is deleted alone: its history stays, what waits is cancelled, what runs goes on.
///
/// # Errors
/// [`ChangeError::InUse`] of jobs that are not to go with it, [`ChangeError::BuiltIn`] of the project that every tenant has.
pub async fn delete(conn: &mut Conn, request: &DeleteRequest<'_>) -> Result<DeletedProject, DeleteError> {
    let DeleteRequest { tenant, name, expected, with_jobs, .. } = *request;
    let seen = by_name(conn, tenant, name).await?.ok_or(ChangeError::NotFound)?;
    if name == DEFAULT_PROJECT {
        expected.of_present(seen.updated_at)?;
        return Err(ChangeError::BuiltIn.into());
    }
    // Who writes jobs takes the lock on edges before that on the project.
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

/// Deletes the jobs of a project that is locked, so that no more are put into it.
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
    // Read again, now that nobody else changes them; some may have been taken out of the project, or deleted.
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
    for job in there {
        deleted.push(jobs::end(conn, tenant, job, request.source, &request.order).await?);
    }
    Ok(deleted)
}
