//! Stored templates of jobs.
//!
//! A job created from a template names it and works without it. The domain evaluates templates
//! ([`sched_domain::template`]); here a template is two validated objects. Every change locks the
//! row.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use uuid::Uuid;

use super::saved::Change;
use crate::schema::{job_templates, scheduled_jobs};
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::ids::{JobId, TenantId};
use sched_domain::template::{MadeFrom, Template};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TemplateSettings {
    pub name: String,
    pub description: String,
    /// Parameters of the template; an object.
    pub parameters: serde_json::Value,
    /// Fields of a job, with placeholders; an object.
    pub job: serde_json::Value,
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = job_templates, check_for_backend(diesel::pg::Pg))]
pub struct TemplateRecord {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    pub parameters: serde_json::Value,
    pub job: serde_json::Value,
    pub version: i64,
    pub created_at: DateTime<Utc>,
    pub created_src: String,
    pub updated_at: DateTime<Utc>,
    pub updated_src: String,
}

impl TemplateRecord {
    #[must_use]
    pub fn settings(&self) -> TemplateSettings {
        TemplateSettings {
            name: self.name.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
            job: self.job.clone(),
        }
    }

    /// Parses the template.
    ///
    /// # Errors
    /// [`DbError::Corrupt`] if it is invalid, for example because a later release wrote it.
    pub fn template(&self) -> DbResult<Template> {
        let corrupt = |reason: String| DbError::Corrupt { what: format!("template {}", self.name), reason };
        let parameters =
            serde_json::from_value(self.parameters.clone()).map_err(|error| corrupt(error.to_string()))?;
        match &self.job {
            serde_json::Value::Object(job) => Ok(Template { parameters, job: job.clone() }),
            _ => Err(corrupt("its job is not an object".to_owned())),
        }
    }
}

#[derive(Debug, Clone)]
pub struct SavedTemplate {
    pub template: TemplateRecord,
    /// `None` for a new template.
    pub before: Option<TemplateSettings>,
    pub change: Change,
}

impl SavedTemplate {
    /// `None` for a new template.
    #[must_use]
    pub const fn version_before(&self) -> Option<i64> {
        match self.change {
            Change::Created => None,
            Change::Updated => Some(self.template.version - 1),
            Change::Unchanged => Some(self.template.version),
        }
    }
}

/// Templates of the tenant after the name `after`, at most `limit`, by name.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&str>,
    limit: i64,
) -> DbResult<Vec<TemplateRecord>> {
    Ok(job_templates::table
        .filter(job_templates::tenant_id.eq(tenant))
        .filter(job_templates::name.gt(after.unwrap_or_default()))
        .order(job_templates::name)
        .limit(limit)
        .select(TemplateRecord::as_select())
        .load(conn)
        .await?)
}

pub async fn by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<TemplateRecord>> {
    let found = job_templates::table
        .filter(job_templates::tenant_id.eq(tenant))
        .filter(job_templates::name.eq(name))
        .select(TemplateRecord::as_select())
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

async fn lock(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<TemplateRecord>> {
    let found = job_templates::table
        .filter(job_templates::tenant_id.eq(tenant))
        .filter(job_templates::name.eq(name))
        .select(TemplateRecord::as_select())
        .for_update()
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

#[derive(Insertable, AsChangeset)]
#[diesel(table_name = job_templates, check_for_backend(diesel::pg::Pg))]
struct Write<'a> {
    tenant_id: TenantId,
    name: &'a str,
    description: &'a str,
    parameters: &'a serde_json::Value,
    job: &'a serde_json::Value,
    version: i64,
    updated_src: &'a str,
}

/// Inserts or overwrites a template. `source` is the component, or the user's e-mail address.
///
/// The settings must be validated. Call it in a transaction.
pub async fn save(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &TemplateSettings,
    source: &str,
) -> DbResult<SavedTemplate> {
    use job_templates as t;
    let existing = lock(conn, tenant, &settings.name).await?;
    let before = existing.as_ref().map(TemplateRecord::settings);
    let mut write = Write {
        tenant_id: tenant,
        name: &settings.name,
        description: &settings.description,
        parameters: &settings.parameters,
        job: &settings.job,
        version: 1,
        updated_src: source,
    };
    let Some(existing) = existing else {
        let created = diesel::insert_into(t::table)
            .values((&write, t::created_src.eq(source)))
            .returning(TemplateRecord::as_returning())
            .get_result(conn)
            .await;
        let template = created.map_err(|error| match DbError::from(error) {
            // Created after the lookup: this transaction runs again and finds it.
            DbError::Constraint { name, source, .. } if name == "job_templates_name_key" => {
                DbError::Collision(source)
            }
            error => error,
        })?;
        return Ok(SavedTemplate { template, before, change: Change::Created });
    };
    if before.as_ref() == Some(settings) {
        return Ok(SavedTemplate { template: existing, before, change: Change::Unchanged });
    }
    write.version = existing.version + 1;
    let template = diesel::update(t::table.find((tenant, existing.id)))
        .set((&write, t::updated_at.eq(database_clock::clock_timestamp())))
        .returning(TemplateRecord::as_returning())
        .get_result(conn)
        .await?;
    Ok(SavedTemplate { template, before, change: Change::Updated })
}

/// Deletes a template and returns it. Jobs created from it stay unchanged.
pub async fn delete(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<TemplateRecord>> {
    let deleted = diesel::delete(
        job_templates::table.filter(job_templates::tenant_id.eq(tenant)).filter(job_templates::name.eq(name)),
    )
    .returning(TemplateRecord::as_returning())
    .get_result(conn)
    .await;
    Ok(deleted.optional()?)
}

/// Stores the template of a job; returns whether it changed. It creates no version of the job. Call
/// it in the transaction that writes the job, which locks its row.
pub async fn store_origin(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    made_from: &MadeFrom,
) -> DbResult<bool> {
    let origin = serde_json::to_value(made_from).map_err(|error| DbError::Corrupt {
        what: format!("the template of job {job}"),
        reason: error.to_string(),
    })?;
    let column = scheduled_jobs::made_from;
    let changed = diesel::update(scheduled_jobs::table.find((tenant, job)))
        .filter(column.is_distinct_from(Some(origin.clone())))
        .set(column.eq(Some(origin)))
        .execute(conn)
        .await?;
    Ok(changed > 0)
}
