//! Tenants and their projects.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::schema::{projects, queues, tenants};
use super::{Conn, DbResult};
use crate::domain::ids::{ProjectId, TenantId};

/// Slug of the tenant that every installation has.
pub const DEFAULT_TENANT: &str = "default";
/// Name of the queue that every tenant has.
const DEFAULT_QUEUE: &str = "default";
/// Name of the project that every tenant has.
const DEFAULT_PROJECT: &str = "default";

/// The tenant with this slug.
///
/// # Errors
/// [`super::DbError::NotFound`] when there is none.
pub async fn by_slug(conn: &mut Conn, slug: &str) -> DbResult<TenantId> {
    Ok(tenants::table.filter(tenants::slug.eq(slug)).select(tenants::id).get_result(conn).await?)
}

/// The project with this name, if the tenant has one.
///
/// # Errors
/// When the database cannot be asked.
pub async fn project_by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<ProjectId>> {
    let project = projects::table.filter(projects::tenant_id.eq(tenant)).filter(projects::name.eq(name));
    Ok(project.select(projects::id).get_result(conn).await.optional()?)
}

/// What is told of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = tenants, check_for_backend(diesel::pg::Pg))]
#[expect(missing_docs, reason = "the columns are documented in the schema")]
pub struct TenantRecord {
    pub id: TenantId,
    pub slug: String,
    pub name: String,
    pub is_paused: bool,
    pub created_at: DateTime<Utc>,
}

/// Makes a tenant, with the queue and the project of functions and jobs that name none. Call it in a transaction.
///
/// # Errors
/// A constraint when the slug is taken (`tenants_slug_key`).
pub async fn create(conn: &mut Conn, slug: &str, name: &str) -> DbResult<TenantRecord> {
    let tenant: TenantRecord = diesel::insert_into(tenants::table)
        .values((tenants::slug.eq(slug), tenants::name.eq(name)))
        .returning(TenantRecord::as_returning())
        .get_result(conn)
        .await?;
    let queue = (queues::tenant_id.eq(tenant.id), queues::name.eq(DEFAULT_QUEUE));
    diesel::insert_into(queues::table).values(queue).execute(conn).await?;
    let project = (
        projects::tenant_id.eq(tenant.id),
        projects::name.eq(DEFAULT_PROJECT),
        projects::display_name.eq("Default"),
    );
    diesel::insert_into(projects::table).values(project).execute(conn).await?;
    Ok(tenant)
}

/// What is told of the tenant with this id.
///
/// # Errors
/// [`super::DbError::NotFound`] when there is none.
pub async fn by_id(conn: &mut Conn, id: TenantId) -> DbResult<TenantRecord> {
    Ok(tenants::table.find(id).select(TenantRecord::as_select()).get_result(conn).await?)
}

/// Tenants after the slug, at most `limit`, by slug.
///
/// # Errors
/// When the database cannot be asked.
pub async fn list(conn: &mut Conn, after: Option<&str>, limit: i64) -> DbResult<Vec<TenantRecord>> {
    let rows = tenants::table.filter(tenants::slug.gt(after.unwrap_or_default())).order(tenants::slug);
    Ok(rows.limit(limit).select(TenantRecord::as_select()).load(conn).await?)
}
