//! Projects: groups of jobs within a tenant.
//!
//! A project that is deleted takes its jobs along and keeps its row, since they keep theirs with their history; its secrets go. Its name
//! may then be given to another. Writers hold the row of the project until the end of the caller's transaction; who puts a job into
//! one holds it too ([`super::jobs::save`]), so none is put into a project that is being deleted.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::functions::Change;
use super::resources::{ChangeError, Expected, MOST_NAMED, Users};
use super::schema::{projects, scheduled_jobs, secrets};
use super::tenants::DEFAULT_PROJECT;
use super::{Conn, DbError, DbResult, clock};
use crate::domain::ids::{ProjectId, TenantId};

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
///
/// # Errors
/// When the database cannot be asked.
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
///
/// # Errors
/// When the database cannot be asked.
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
pub(super) async fn hold(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<ProjectId>> {
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
        .set((settings, p::updated_at.eq(clock::clock_timestamp())))
        .returning(Project::as_returning())
        .get_result(conn)
        .await?;
    Ok(SavedProject { project, before, change: Change::Updated })
}

/// Deletes a project that has no jobs, with its secrets, and returns what it was. Call it in a transaction.
///
/// # Errors
/// [`ChangeError::InUse`] while there are jobs in it, [`ChangeError::BuiltIn`] of the one that every tenant has.
pub async fn delete(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
    expected: Expected,
) -> Result<Project, ChangeError> {
    let project = lock(conn, tenant, name).await?.ok_or(ChangeError::NotFound)?;
    expected.of_present(project.updated_at)?;
    if name == DEFAULT_PROJECT {
        return Err(ChangeError::BuiltIn);
    }
    let jobs = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::project_id.eq(project.id))
        .filter(scheduled_jobs::deleted_at.is_null())
        .order(scheduled_jobs::name)
        .limit(MOST_NAMED + 1)
        .select(scheduled_jobs::name)
        .load(conn)
        .await?;
    if let Some(users) = Users::of("jobs", jobs) {
        return Err(ChangeError::InUse(users));
    }
    let own_secrets = secrets::table
        .filter(secrets::tenant_id.eq(tenant))
        .filter(secrets::project_id.is_not_distinct_from(Some(project.id)));
    diesel::delete(own_secrets).execute(conn).await?;
    diesel::update(projects::table.find((tenant, project.id)))
        .set((
            projects::deleted_at.eq(clock::clock_timestamp().nullable()),
            projects::updated_at.eq(clock::clock_timestamp()),
            projects::is_paused.eq(false),
            projects::pause_reason.eq(None::<String>),
        ))
        .execute(conn)
        .await?;
    Ok(project)
}
