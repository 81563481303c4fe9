//! Stored rules, with ids of their objects; displayed with names. Every change locks the rule's
//! row.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, BigInt, Bool, Int4, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde::Serialize;
use uuid::Uuid;

use crate::definitions::saved::Change;
use crate::schema::{notification_channels, notification_rules, projects, scheduled_jobs};
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::ids::{JobId, ProjectId, TenantId};
use sched_domain::notification::Occasion;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleSettings {
    pub name: String,
    pub description: String,
    pub channel: String,
    /// In the order of declaration, each once.
    pub on: Vec<Occasion>,
    pub project: Option<String>,
    pub job: Option<String>,
    /// Between two deliveries of one kind for one job.
    pub min_interval_seconds: i32,
    pub is_active: bool,
}

#[derive(Debug, Clone)]
pub struct RuleRecord {
    pub id: Uuid,
    pub settings: RuleSettings,
    pub version: i64,
    pub created_at: DateTime<Utc>,
    /// Component or user e-mail address.
    pub created_src: String,
    pub updated_at: DateTime<Utc>,
    /// Component or user e-mail address.
    pub updated_src: String,
}

#[rustfmt::skip]
type Columns = (
    SqlUuid, Text, Text, Text, Array<Text>, Nullable<Text>, Nullable<Text>, Int4, Bool, BigInt, Timestamptz, Text, Timestamptz, Text,
);

statement! {
    Rules<'a> = "rules/notifications_rules.sql", (
        tenant: TenantId as SqlUuid,
        after: &'a str as Text,
        exact: Option<&'a str> as Nullable<Text>,
        limit: i64 as BigInt,
    ) -> Columns
}

#[derive(Queryable)]
struct Row {
    id: Uuid,
    name: String,
    description: String,
    channel: String,
    kinds: Vec<Occasion>,
    project: Option<String>,
    job: Option<String>,
    min_interval_seconds: i32,
    is_active: bool,
    version: i64,
    created_at: DateTime<Utc>,
    created_src: String,
    updated_at: DateTime<Utc>,
    updated_src: String,
}

impl From<Row> for RuleRecord {
    fn from(row: Row) -> Self {
        let settings = RuleSettings {
            name: row.name,
            description: row.description,
            channel: row.channel,
            on: row.kinds,
            project: row.project,
            job: row.job,
            min_interval_seconds: row.min_interval_seconds,
            is_active: row.is_active,
        };
        Self {
            id: row.id,
            settings,
            version: row.version,
            created_at: row.created_at,
            created_src: row.created_src,
            updated_at: row.updated_at,
            updated_src: row.updated_src,
        }
    }
}

/// Rules after the name `after`, by name.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&str>,
    limit: i64,
) -> DbResult<Vec<RuleRecord>> {
    let rules = Rules { tenant, after: after.unwrap_or_default(), exact: None, limit };
    let rows: Vec<Row> = rules.load(conn).await?;
    Ok(rows.into_iter().map(RuleRecord::from).collect())
}

pub async fn by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<RuleRecord>> {
    let rules = Rules { tenant, after: "", exact: Some(name), limit: 1 };
    let rows: Vec<Row> = rules.load(conn).await?;
    Ok(rows.into_iter().next().map(RuleRecord::from))
}

#[derive(Debug, Clone, Copy)]
pub struct Subject {
    channel: Uuid,
    project: Option<ProjectId>,
    job: Option<JobId>,
}

/// Locks the named objects against deletion until the end of the transaction; else returns the
/// fields without an object.
pub async fn subject(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &RuleSettings,
) -> DbResult<Result<Subject, Vec<(&'static str, String)>>> {
    use notification_channels as c;
    let channel: Option<Uuid> = c::table
        .filter(c::tenant_id.eq(tenant).and(c::name.eq(&settings.channel)))
        .select(c::id)
        .for_key_share()
        .get_result(conn)
        .await
        .optional()?;
    found(conn, tenant, settings, channel).await
}

/// The fields without an object, with error texts. Locks nothing.
pub async fn missing(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &RuleSettings,
) -> DbResult<Vec<(&'static str, String)>> {
    use notification_channels as c;
    let channel: Option<Uuid> = c::table
        .filter(c::tenant_id.eq(tenant).and(c::name.eq(&settings.channel)))
        .select(c::id)
        .get_result(conn)
        .await
        .optional()?;
    Ok(found(conn, tenant, settings, channel).await?.err().unwrap_or_default())
}

/// The objects other than the channel, which the caller has looked up.
async fn found(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &RuleSettings,
    channel: Option<Uuid>,
) -> DbResult<Result<Subject, Vec<(&'static str, String)>>> {
    use {projects as p, scheduled_jobs as j};
    let mut missing = Vec::new();
    let mut project = None;
    if let Some(name) = &settings.project {
        project = p::table
            .filter(p::tenant_id.eq(tenant).and(p::name.eq(name)).and(p::deleted_at.is_null()))
            .select(p::id)
            .get_result(conn)
            .await
            .optional()?;
        if project.is_none() {
            missing.push(("project", format!("there is no project named {name:?}")));
        }
    }
    let mut job = None;
    if let Some(name) = &settings.job {
        job = j::table
            .filter(j::tenant_id.eq(tenant).and(j::name.eq(name)).and(j::deleted_at.is_null()))
            .select(j::id)
            .get_result(conn)
            .await
            .optional()?;
        if job.is_none() {
            missing.push(("job", format!("there is no job named {name:?}")));
        }
    }
    match channel {
        Some(channel) if missing.is_empty() => Ok(Ok(Subject { channel, project, job })),
        Some(_) => Ok(Err(missing)),
        None => {
            let name = &settings.channel;
            missing.insert(0, ("channel", format!("there is no notification channel named {name:?}")));
            Ok(Err(missing))
        }
    }
}

#[derive(Debug, Clone)]
pub struct SavedRule {
    pub rule: RuleRecord,
    pub before: Option<(RuleSettings, i64)>,
    pub change: Change,
}

#[derive(Insertable, AsChangeset)]
#[diesel(table_name = notification_rules, check_for_backend(diesel::pg::Pg), treat_none_as_null = true)]
struct Write<'a> {
    tenant_id: TenantId,
    name: &'a str,
    description: &'a str,
    channel_id: Uuid,
    kinds: &'a [Occasion],
    project_id: Option<ProjectId>,
    job_id: Option<JobId>,
    min_interval_seconds: i32,
    is_active: bool,
    version: i64,
    updated_src: &'a str,
}

/// A rule to write.
#[derive(Debug, Clone, Copy)]
pub struct NewRule<'a> {
    /// The settings, which must be validated.
    pub settings: &'a RuleSettings,
    /// The ids of the objects in the settings.
    pub subject: Subject,
    /// Component or user e-mail address.
    pub source: &'a str,
}

/// Writes a rule under its name: inserts or overwrites it. A rule that becomes active matches events
/// from now on. Call it in a transaction.
pub async fn save(conn: &mut Conn, tenant: TenantId, rule: NewRule<'_>) -> DbResult<SavedRule> {
    use notification_rules as r;
    let NewRule { settings, subject, source } = rule;
    let locked: Option<Uuid> = r::table
        .filter(r::tenant_id.eq(tenant).and(r::name.eq(&settings.name)))
        .select(r::id)
        .for_no_key_update()
        .get_result(conn)
        .await
        .optional()?;
    let existing = if locked.is_some() { by_name(conn, tenant, &settings.name).await? } else { None };
    let before = existing.as_ref().map(|existing| (existing.settings.clone(), existing.version));
    let write = Write {
        tenant_id: tenant,
        name: &settings.name,
        description: &settings.description,
        channel_id: subject.channel,
        kinds: &settings.on,
        project_id: subject.project,
        job_id: subject.job,
        min_interval_seconds: settings.min_interval_seconds,
        is_active: settings.is_active,
        version: existing.as_ref().map_or(1, |existing| existing.version + 1),
        updated_src: source,
    };
    let change = match &existing {
        Some(existing) if existing.settings == *settings => {
            return Ok(SavedRule { rule: existing.clone(), before, change: Change::Unchanged });
        }
        Some(existing) => {
            let row = r::table.find((tenant, existing.id));
            diesel::update(row)
                .set((&write, r::updated_at.eq(database_clock::clock_timestamp())))
                .execute(conn)
                .await?;
            if settings.is_active && !existing.settings.is_active {
                diesel::update(row)
                    .set(r::active_since.eq(database_clock::clock_timestamp()))
                    .execute(conn)
                    .await?;
            }
            Change::Updated
        }
        None => {
            let created =
                diesel::insert_into(r::table).values((&write, r::created_src.eq(source))).execute(conn).await;
            created.map_err(|error| match DbError::from(error) {
                // A concurrent transaction created the rule: this transaction runs again and
                // changes it.
                DbError::Constraint { name, source, .. } if name == "notification_rules_name_key" => {
                    DbError::Collision(source)
                }
                error => error,
            })?;
            Change::Created
        }
    };
    let rule = by_name(conn, tenant, &settings.name).await?.ok_or(DbError::NotFound)?;
    Ok(SavedRule { rule, before, change })
}

/// Returns the deleted rule. Its existing deliveries are still sent.
pub async fn delete(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<RuleRecord>> {
    use notification_rules as r;
    let rule = by_name(conn, tenant, name).await?;
    let Some(rule) = rule else { return Ok(None) };
    let gone = diesel::delete(r::table.find((tenant, rule.id))).execute(conn).await?;
    Ok((gone > 0).then_some(rule))
}
