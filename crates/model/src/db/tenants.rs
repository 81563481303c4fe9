//! Tenants and their projects.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::schema::{projects, tenants};
use super::{Conn, DbResult};
use crate::domain::ids::{ProjectId, TenantId};

/// Slug of the tenant that every installation has.
pub const DEFAULT_TENANT: &str = "default";

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
