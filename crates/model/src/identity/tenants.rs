//! Tenants and their projects.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::definitions::resources::{ChangeError, Expected};
use crate::dispatching::quotas::Quotas;
use crate::schema::{projects, queues, tenants};
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::ids::{ProjectId, TenantId};

pub const DEFAULT_TENANT: &str = "default";
pub const DEFAULT_QUEUE: &str = "default";
pub(crate) const DEFAULT_PROJECT: &str = "default";

/// Fails with [`crate::DbError::NotFound`] if there is none.
pub async fn by_slug(conn: &mut Conn, slug: &str) -> DbResult<TenantId> {
    Ok(tenants::table.filter(tenants::slug.eq(slug)).select(tenants::id).get_result(conn).await?)
}

pub async fn project_by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<ProjectId>> {
    let project = projects::table.filter(projects::tenant_id.eq(tenant)).filter(projects::name.eq(name));
    Ok(project
        .filter(projects::deleted_at.is_null())
        .select(projects::id)
        .get_result(conn)
        .await
        .optional()?)
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = tenants, check_for_backend(diesel::pg::Pg))]
pub struct TenantRecord {
    pub id: TenantId,
    pub slug: String,
    pub name: String,
    pub is_paused: bool,
    pub pause_reason: Option<String>,
    pub quotas: serde_json::Value,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

impl TenantRecord {
    /// Fails if the stored quotas bypassed the constraint that checks them.
    pub fn quotas(&self) -> DbResult<Quotas> {
        Quotas::stored(self.quotas.clone())
    }
}

/// Creates a tenant with the default queue and project. Call it in a transaction.
///
/// # Errors
/// A constraint error if the slug is taken (`tenants_slug_key`).
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

/// Fails with [`crate::DbError::NotFound`] if there is none.
pub async fn by_id(conn: &mut Conn, id: TenantId) -> DbResult<TenantRecord> {
    Ok(tenants::table.find(id).select(TenantRecord::as_select()).get_result(conn).await?)
}

pub async fn list(conn: &mut Conn, after: Option<&str>, limit: i64) -> DbResult<Vec<TenantRecord>> {
    let rows = tenants::table.filter(tenants::slug.gt(after.unwrap_or_default())).order(tenants::slug);
    Ok(rows.limit(limit).select(TenantRecord::as_select()).load(conn).await?)
}

pub async fn find(conn: &mut Conn, slug: &str) -> DbResult<Option<TenantRecord>> {
    let found = tenants::table.filter(tenants::slug.eq(slug)).select(TenantRecord::as_select());
    Ok(found.get_result(conn).await.optional()?)
}

/// A change of a tenant; missing fields stay unchanged.
#[derive(Debug, Clone, Default)]
pub struct TenantPatch<'a> {
    pub name: Option<&'a str>,
    /// Quotas by name; `None` for no limit.
    pub quotas: &'a [(&'static str, Option<i64>)],
}

/// Changes a tenant; returns the tenant before and after. Call it in a transaction.
///
/// # Errors
/// The tenant does not exist or has another version, or a quota is out of bounds
/// (`tenants_known_quotas_check`).
pub async fn patch(
    conn: &mut Conn,
    slug: &str,
    patch: &TenantPatch<'_>,
    expected: Expected,
) -> Result<(TenantRecord, TenantRecord), ChangeError> {
    let found: Option<TenantRecord> = tenants::table
        .filter(tenants::slug.eq(slug))
        .select(TenantRecord::as_select())
        .for_no_key_update()
        .get_result(conn)
        .await
        .optional()?;
    let before = found.ok_or(ChangeError::NotFound)?;
    expected.of_present(before.updated_at)?;
    let mut after = before.clone();
    if let Some(name) = patch.name {
        name.clone_into(&mut after.name);
    }
    if let serde_json::Value::Object(quotas) = &mut after.quotas {
        for (name, limit) in patch.quotas {
            match limit {
                Some(limit) => quotas.insert((*name).to_owned(), (*limit).into()),
                None => quotas.remove(*name),
            };
        }
    }
    if after == before {
        return Ok((before, after));
    }
    let after = diesel::update(tenants::table.find(before.id))
        .set((
            tenants::name.eq(&after.name),
            tenants::quotas.eq(&after.quotas),
            tenants::updated_at.eq(database_clock::clock_timestamp()),
        ))
        .returning(TenantRecord::as_returning())
        .get_result(conn)
        .await?;
    Ok((before, after))
}

/// Finished runs deleted with a tenant: more would block other transactions for too long. Retention
/// deletes them in time.
const MOST_DISPATCHES: i64 = 10_000;

statement! {
    Delete = "tenants/tenants_delete.sql", (tenant: TenantId as SqlUuid, most: i64 as BigInt) -> Text
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deletion {
    Done(TenantRecord),
    HasJobs,
    /// Runs of deleted jobs wait or run.
    HasWork,
    HasHistory {
        most: i64,
    },
}

/// Deletes a tenant without jobs, with all its definitions, members and keys. Its history stays as
/// long as that of other tenants. Call it in a transaction.
///
/// # Errors
/// No such tenant, another version, or the default tenant.
pub async fn delete(conn: &mut Conn, slug: &str, expected: Expected) -> Result<Deletion, ChangeError> {
    let found = find(conn, slug).await?.ok_or(ChangeError::NotFound)?;
    expected.of_present(found.updated_at)?;
    if found.slug == DEFAULT_TENANT {
        return Err(ChangeError::BuiltIn);
    }
    let verdict: String = Delete { tenant: found.id, most: MOST_DISPATCHES }.get_result(conn).await?;
    match verdict.as_str() {
        "deleted" => Ok(Deletion::Done(found)),
        "has_jobs" => Ok(Deletion::HasJobs),
        "has_work" => Ok(Deletion::HasWork),
        "has_history" => Ok(Deletion::HasHistory { most: MOST_DISPATCHES }),
        other => {
            let what = "deletion of a tenant".to_owned();
            Err(DbError::Corrupt { what, reason: format!("unknown outcome {other:?}") }.into())
        }
    }
}
