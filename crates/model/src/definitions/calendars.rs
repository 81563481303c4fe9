//! Calendars: named sets of local times at which the jobs that name them do not fire.
//!
//! A job names calendars without a foreign key, so locks protect them. A write of a job locks its
//! calendars ([`lock_named`]) until its transaction ends. A change or deletion of a calendar takes
//! a conflicting lock, and only then reads its jobs. So each job either is visible to the change,
//! or sees it. The domain evaluates definitions; here a definition is a validated object.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use uuid::Uuid;

use super::saved::Change;
use crate::schema::{calendars, scheduled_jobs};
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::ids::{JobId, TenantId};

const MOST_NAMED_JOBS: usize = 10;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CalendarSettings {
    pub name: String,
    pub description: String,
    /// The excluded times; an object.
    pub definition: serde_json::Value,
}

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
    #[must_use]
    pub fn settings(&self) -> CalendarSettings {
        CalendarSettings {
            name: self.name.clone(),
            description: self.description.clone(),
            definition: self.definition.clone(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct SavedCalendar {
    pub calendar: CalendarRecord,
    /// `None` for a new calendar.
    pub before: Option<CalendarSettings>,
    pub change: Change,
}

impl SavedCalendar {
    /// Whether its jobs may now fire at other times.
    #[must_use]
    pub fn changes_fires(&self) -> bool {
        self.before.as_ref().is_some_and(|before| before.definition != self.calendar.definition)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    #[error("jobs name this calendar: {}{}", .jobs.join(", "), if *.more { " and more" } else { "" })]
    InUse {
        /// Names of the first jobs.
        jobs: Vec<String>,
        more: bool,
    },
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

pub async fn by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<CalendarRecord>> {
    let found = calendars::table
        .filter(calendars::tenant_id.eq(tenant))
        .filter(calendars::name.eq(name))
        .select(CalendarRecord::as_select())
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

pub async fn by_names(conn: &Conn, tenant: TenantId, names: &[String]) -> DbResult<Vec<CalendarRecord>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    Ok(calendars::table
        .filter(calendars::tenant_id.eq(tenant))
        .filter(calendars::name.eq_any(names))
        .order(calendars::name)
        .select(CalendarRecord::as_select())
        .load(&mut { conn })
        .await?)
}

/// Calendars of the tenant after the name `after`, at most `limit`, by name.
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

/// The tenant's calendars with these names, locked against changes and deletion until the end of
/// the transaction.
///
/// Every transaction locks in the order of ids. Unknown names are missing in the result.
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

/// Jobs that name a calendar, without deleted ones, by id.
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

/// Inserts or overwrites a calendar. `source` is the component, or the user's e-mail address.
///
/// The settings must be validated. Reschedule its jobs in the same transaction if the write
/// [changes their fires](SavedCalendar::changes_fires).
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
            // Created after the lookup: this transaction runs again and finds it.
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

/// Deletes a calendar that no job names, and returns it. Call it in a transaction.
///
/// # Errors
/// [`DeleteError::InUse`] if jobs name it.
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

/// Locks a calendar for a change or a deletion, and reads it.
///
/// The lock conflicts with [`lock_named`]. With the weaker lock of an update, a concurrent
/// transaction could write a job with the old definition, and the change would miss that job.
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
