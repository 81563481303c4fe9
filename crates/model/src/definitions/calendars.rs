//! Calendars: named sets of local times at which the jobs that name them do not fire.
//!
//! A job names calendars by name, and no foreign key watches over that; locks do. Who writes a job holds the calendars it
//! names ([`lock_named`]) to the end of its transaction. Who changes or deletes a calendar locks it against those, and
//! looks for its jobs only then: so every job that counts on a calendar is either seen by the change, or sees it.
//! What a definition means is the domain's; here it is an object that was checked before.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use uuid::Uuid;

use super::functions::Change;
use crate::schema::{calendars, scheduled_jobs};
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::ids::{JobId, TenantId};

/// How many jobs a refusal to delete names.
const MOST_NAMED_JOBS: usize = 10;

/// What a user says about a calendar.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CalendarSettings {
    /// Stable name, unique in the tenant.
    pub name: String,
    /// Free text.
    pub description: String,
    /// What it excludes; an object.
    pub definition: serde_json::Value,
}

/// A calendar as it is kept.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = calendars, check_for_backend(diesel::pg::Pg))]
pub struct CalendarRecord {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    pub definition: serde_json::Value,
    pub version: i64,
    pub created_at: DateTime<Utc>,
    pub created_src: String,
    pub updated_at: DateTime<Utc>,
    pub updated_src: String,
}

impl CalendarRecord {
    /// What a user says about it.
    #[must_use]
    pub fn settings(&self) -> CalendarSettings {
        CalendarSettings {
            name: self.name.clone(),
            description: self.description.clone(),
            definition: self.definition.clone(),
        }
    }
}

/// A calendar that was written.
#[derive(Debug, Clone)]
pub struct SavedCalendar {
    /// The calendar after the write.
    pub calendar: CalendarRecord,
    /// What was said about it before; `None` when it is new.
    pub before: Option<CalendarSettings>,
    /// What the write did.
    pub change: Change,
}

impl SavedCalendar {
    /// Whether jobs that name it may now fire at other times.
    #[must_use]
    pub fn changes_fires(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.definition != self.calendar.definition)
    }
}

/// Why a calendar was not deleted. Nothing was written then.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// Jobs name it.
    #[error("jobs name this calendar: {}{}", .jobs.join(", "), if *.more { " and others" } else { "" })]
    InUse {
        /// Names of the first of them.
        jobs: Vec<String>,
        /// Whether there are more.
        more: bool,
    },
    /// The database said no.
    #[error(transparent)]
    Database(#[from] DbError),
}

impl From<diesel::result::Error> for DeleteError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.into())
    }
}

impl crate::connection::transaction::TransactionError for DeleteError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_retryable())
    }
}

/// The calendar with this name, if the tenant has one.
pub async fn by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<CalendarRecord>> {
    let found = calendars::table
        .filter(calendars::tenant_id.eq(tenant))
        .filter(calendars::name.eq(name))
        .select(CalendarRecord::as_select())
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

/// The calendars with these names that the tenant has, by name.
pub async fn by_names(conn: &mut Conn, tenant: TenantId, names: &[String]) -> DbResult<Vec<CalendarRecord>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    Ok(calendars::table
        .filter(calendars::tenant_id.eq(tenant))
        .filter(calendars::name.eq_any(names))
        .order(calendars::name)
        .select(CalendarRecord::as_select())
        .load(conn)
        .await?)
}

/// Calendars of the tenant whose name sorts after `after`, at most `limit`, by name.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&str>,
    limit: i64,
) -> DbResult<Vec<CalendarRecord>> {
    Ok(calendars::table
        .filter(calendars::tenant_id.eq(tenant))
        .filter(calendars::name.gt(after.unwrap_or_default()))
        .order(calendars::name)
        .limit(limit)
        .select(CalendarRecord::as_select())
        .load(conn)
        .await?)
}

/// The calendars with these names that the tenant has, held until the end of the transaction.
///
/// Nobody changes or deletes them before. Everybody locks in the order of ids. A name that is not in the answer names
/// nothing.
pub async fn lock_named(
    conn: &mut Conn,
    tenant: TenantId,
    names: &[String],
) -> DbResult<Vec<CalendarRecord>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    Ok(calendars::table
        .filter(calendars::tenant_id.eq(tenant))
        .filter(calendars::name.eq_any(names))
        .order(calendars::id)
        .select(CalendarRecord::as_select())
        .for_key_share()
        .load(conn)
        .await?)
}

/// The jobs that name a calendar and are not deleted, by id.
pub async fn jobs_using(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Vec<JobId>> {
    Ok(scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::deleted_at.is_null())
        .filter(scheduled_jobs::calendars.contains(vec![name]))
        .order(scheduled_jobs::id)
        .select(scheduled_jobs::id)
        .load(conn)
        .await?)
}

#[derive(Insertable, AsChangeset)]
#[diesel(table_name = calendars, check_for_backend(diesel::pg::Pg))]
struct Write<'a> {
    tenant_id: TenantId,
    name: &'a str,
    description: &'a str,
    definition: &'a serde_json::Value,
    version: i64,
    updated_src: &'a str,
}

/// Writes a calendar under its name: a new one, or over the old. `source` says which component or whose e-mail writes.
///
/// The settings have been checked. Call it in a transaction, and reschedule the jobs that name it in the same one if
/// that [changes their fires](SavedCalendar::changes_fires).
pub async fn save(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &CalendarSettings,
    source: &str,
) -> DbResult<SavedCalendar> {
    use calendars as c;
    let existing = lock(conn, tenant, &settings.name).await?;
    let before = existing.as_ref().map(CalendarRecord::settings);
    let mut write = Write {
        tenant_id: tenant,
        name: &settings.name,
        description: &settings.description,
        definition: &settings.definition,
        version: 1,
        updated_src: source,
    };
    let Some(existing) = existing else {
        let created = diesel::insert_into(c::table)
            .values((&write, c::created_src.eq(source)))
            .returning(CalendarRecord::as_returning())
            .get_result(conn)
            .await;
        let calendar = created.map_err(|error| match DbError::from(error) {
            // Somebody created it since we looked: the transaction, run again, finds it and changes it.
            DbError::Constraint { name, source, .. } if name == "calendars_name_key" => {
                DbError::Collision(source)
            }
            error => error,
        })?;
        return Ok(SavedCalendar { calendar, before, change: Change::Created });
    };
    if before.as_ref() == Some(settings) {
        return Ok(SavedCalendar { calendar: existing, before, change: Change::Unchanged });
    }
    write.version = existing.version + 1;
    let calendar = diesel::update(c::table.find((tenant, existing.id)))
        .set((&write, c::updated_at.eq(database_clock::clock_timestamp())))
        .returning(CalendarRecord::as_returning())
        .get_result(conn)
        .await?;
    Ok(SavedCalendar { calendar, before, change: Change::Updated })
}

/// Deletes a calendar that no job names, and returns what it was; `None` when the tenant has none of that name.
///
/// Call it in a transaction.
///
/// # Errors
/// [`DeleteError::InUse`] when jobs name it.
pub async fn delete(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
) -> Result<Option<CalendarRecord>, DeleteError> {
    let Some(calendar) = lock(conn, tenant, name).await? else { return Ok(None) };
    let mut jobs: Vec<String> = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::deleted_at.is_null())
        .filter(scheduled_jobs::calendars.contains(vec![name]))
        .order(scheduled_jobs::name)
        .limit(i64::try_from(MOST_NAMED_JOBS).unwrap_or(i64::MAX).saturating_add(1))
        .select(scheduled_jobs::name)
        .load(conn)
        .await?;
    if !jobs.is_empty() {
        let more = jobs.len() > MOST_NAMED_JOBS;
        jobs.truncate(MOST_NAMED_JOBS);
        return Err(DeleteError::InUse { jobs, more });
    }
    diesel::delete(calendars::table.find((tenant, calendar.id))).execute(conn).await?;
    Ok(Some(calendar))
}

/// Locks a calendar for a change or its end, and reads it.
///
/// A change takes the same lock as a deletion, the one that [`lock_named`] yields to. With the weaker lock of an ordinary
/// update, a job could be written by the old definition while the change, which cannot see the job yet, passes it by.
async fn lock(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<CalendarRecord>> {
    let found = calendars::table
        .filter(calendars::tenant_id.eq(tenant))
        .filter(calendars::name.eq(name))
        .select(CalendarRecord::as_select())
        .for_update()
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}
