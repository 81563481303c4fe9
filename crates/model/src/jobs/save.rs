//! Writes jobs: settings, the new version, and the new cursor.
//!
//! A write locks the calendars of the new settings and then the job's row, and compares. On a
//! difference it stores the settings, a version and, if the timetable changes, a new cursor with
//! the skips. All of it is one transaction of the caller: a process that dies in between leaves the
//! job unchanged.

mod names;
mod version;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;

use super::super::schema::scheduled_jobs;
use super::super::{Conn, DbError, DbResult};
use super::cursor::{self, Cursor, NewTimetable};
use super::parsed_calendars::ParsedCalendars;
use super::refusal::{SaveError, refused};
use super::reschedule::stored_timetable;
use super::save_mode::SaveMode;
use super::{Job, by_id};
use crate::definitions::calendars;
use crate::definitions::dependencies::{self, Dependent};
use crate::definitions::saved::Change;
use crate::{connection::database_clock, dispatching::quotas, running::job_counters};
use sched_domain::dependency::AfterMode;
use sched_domain::ids::{FunctionId, JobId, ProjectId, TenantId, time_ordered};
use sched_domain::job::{JobSettings, MisfireKind, OverlapPolicy, Scope};
use sched_timetable::{Calendar, CalendarRoll, DstGap, DstOverlap, JobType};

use self::names::resolve_names;
pub(super) use self::version::NewVersion;

#[derive(Debug, Clone)]
pub struct SavedJob {
    pub job: Job,
    /// The settings before the write; `None` for a new job.
    pub before: Option<JobSettings>,
    pub change: Change,
}

impl SavedJob {
    /// The job, if its dependencies changed: the caller must write them
    /// ([`dependencies::replace`]).
    #[must_use]
    pub fn new_dependent(&self) -> Option<Dependent<'_>> {
        let settings = &self.job.settings;
        let is_new = match &self.before {
            Some(before) => before.after != settings.after || before.after_mode != settings.after_mode,
            None => !settings.after.is_empty(),
        };
        is_new.then_some(Dependent { job: self.job.id, settings })
    }
}

#[derive(Insertable, AsChangeset)]
#[diesel(table_name = scheduled_jobs, check_for_backend(diesel::pg::Pg), treat_none_as_null = true)]
struct Write<'a> {
    tenant_id: TenantId,
    scope: Scope,
    project_id: Option<ProjectId>,
    name: &'a str,
    description: &'a str,
    task_function_id: FunctionId,
    task_args: &'a serde_json::Value,
    job_type: JobType,
    schedule_config: &'a serde_json::Value,
    timezone: &'a str,
    dst_gap: Option<DstGap>,
    dst_overlap: Option<DstOverlap>,
    start_at: Option<DateTime<Utc>>,
    end_at: Option<DateTime<Utc>>,
    max_runs: Option<i64>,
    jitter_seconds: i32,
    calendars: &'a [String],
    calendar_roll: CalendarRoll,
    expected_duration_seconds: Option<i32>,
    after: serde_json::Value,
    after_mode: AfterMode,
    misfire_policy: MisfireKind,
    misfire_grace_seconds: Option<i32>,
    misfire_cap: i32,
    max_instances: i32,
    overlap_policy: OverlapPolicy,
    queue: Option<&'a str>,
    priority: Option<i16>,
    timeout_seconds: Option<i32>,
    start_within_seconds: Option<i32>,
    retry_policy: Option<serde_json::Value>,
    is_enabled: bool,
    disabled_reason: Option<&'a str>,
    next_run_at: Option<DateTime<Utc>>,
    settled_until: DateTime<Utc>,
    tzdata_version: Option<&'a str>,
    version: i64,
    updated_src: &'a str,
}

/// Writes a job under its name, with its dependencies and a version.
///
/// The settings must be validated ([`JobSettings::check`]). Call it in a transaction.
///
/// # Errors
/// An object in the settings does not exist, or the job may not be written; nothing is written
/// then.
pub async fn save(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &JobSettings,
    writing: Writing<'_>,
) -> Result<SavedJob, SaveError> {
    let quota = quotas::hold_jobs(conn, tenant).await?;
    dependencies::serialise(conn, tenant, [settings]).await?;
    dependencies::lock_jobs(conn, tenant, &[settings]).await?;
    let parsed = ParsedCalendars::default();
    let saved = Saving { tenant, settings, parsed: &parsed, writing }.save(conn).await?;
    dependencies::replace(conn, tenant, saved.new_dependent().as_slice()).await?;
    quota.check(conn, usize::from(saved.change == Change::Created)).await?;
    Ok(saved)
}

/// [`save`](fn@save) with earlier settings: the version records a rollback.
pub async fn roll_back(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &JobSettings,
    source: &str,
) -> Result<SavedJob, SaveError> {
    dependencies::serialise(conn, tenant, [settings]).await?;
    dependencies::lock_jobs(conn, tenant, &[settings]).await?;
    let parsed = ParsedCalendars::default();
    let writing = Writing { mode: SaveMode::Upsert, source, change: Some("rolled_back") };
    let saved = Saving { tenant, settings, parsed: &parsed, writing }.save(conn).await?;
    dependencies::replace(conn, tenant, saved.new_dependent().as_slice()).await?;
    Ok(saved)
}

/// How settings are written.
#[derive(Debug, Clone, Copy)]
pub struct Writing<'a> {
    pub mode: SaveMode,
    /// Component or user e-mail address.
    pub source: &'a str,
    /// Kind of the change for the version; `None` derives it from the settings.
    pub(super) change: Option<&'static str>,
}

impl<'a> Writing<'a> {
    #[must_use]
    pub fn new(mode: SaveMode, source: &'a str) -> Self {
        Self { mode, source, change: None }
    }
}

async fn lock_by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<Job>> {
    // Two statements, because an outer join cannot be locked. The lock keeps the row unchanged for
    // the second. It is the strongest one from the beginning: see `count_openings`.
    let id: Option<JobId> = scheduled_jobs::table
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::name.eq(name))
        .filter(scheduled_jobs::deleted_at.is_null())
        .select(scheduled_jobs::id)
        .for_update()
        .get_result(conn)
        .await
        .optional()?;
    match id {
        Some(id) => by_id(conn, tenant, id).await,
        None => Ok(None),
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Saving<'a> {
    pub tenant: TenantId,
    /// The settings, which must be validated ([`JobSettings::check`]).
    pub settings: &'a JobSettings,
    /// A cache of calendars.
    pub parsed: &'a ParsedCalendars,
    pub writing: Writing<'a>,
}

impl Saving<'_> {
    /// As the function [`save`](fn@save), for writing many jobs that share calendars or depend on
    /// each other.
    ///
    /// The caller takes the locks before ([`quotas::hold_jobs`], [`dependencies::serialise`],
    /// [`dependencies::lock_jobs`]). After all jobs are written, it writes the dependencies
    /// ([`dependencies::replace`]) and checks the quota.
    ///
    /// # Errors
    /// As [`save`](fn@save).
    pub async fn save(&self, conn: &mut Conn) -> Result<SavedJob, SaveError> {
        let Self { tenant, settings, parsed, writing } = *self;
        // Calendars before jobs, as in a change of a calendar.
        let calendars = calendars_of(conn, tenant, settings, parsed).await?;
        let existing = lock_by_name(conn, tenant, &settings.name).await?;
        match existing {
            Some(_) if writing.mode == SaveMode::Create => Err(SaveError::Exists(settings.name.clone())),
            Some(job) if job.settings == *settings => {
                Ok(SavedJob { before: Some(job.settings.clone()), job, change: Change::Unchanged })
            }
            existing => self.write(conn, &calendars, existing).await,
        }
    }

    /// Overwrites a locked job, or inserts a new one, with the calendars in the settings.
    pub(super) async fn write(
        &self,
        conn: &mut Conn,
        calendars: &[Calendar],
        existing: Option<Job>,
    ) -> Result<SavedJob, SaveError> {
        let Self { tenant, settings, writing: Writing { mode, source, change }, .. } = *self;
        let named = resolve_names(conn, tenant, settings, existing.as_ref()).await?;
        if let Some(job) = &existing
            && job.settings.overlap_policy != settings.overlap_policy
        {
            job_counters::count_openings(conn, tenant, job.id).await?;
        }
        let now = database_clock::now(conn).await?;
        let created_at = existing.as_ref().map_or(now, |job| job.state.created_at);
        let timetable = settings.timetable(tenant, created_at, calendars)?;
        let new = NewTimetable { settings, timetable: &timetable, now };
        let cursor = match &existing {
            None => cursor::of_new(new)?,
            Some(job) => self.changed_cursor(conn, job, new).await?,
        };
        let version = existing.as_ref().map_or(1, |job| job.state.version + 1);
        let row = Write {
            tenant_id: tenant,
            scope: settings.scope,
            project_id: named.project,
            name: &settings.name,
            description: &settings.description,
            task_function_id: named.function,
            task_args: &settings.task_args,
            job_type: settings.job_type,
            schedule_config: &settings.schedule_config,
            timezone: &settings.timezone,
            dst_gap: settings.dst_gap,
            dst_overlap: settings.dst_overlap,
            start_at: settings.start_at,
            end_at: settings.end_at,
            max_runs: settings.max_runs,
            jitter_seconds: settings.jitter_seconds,
            calendars: &settings.calendars,
            calendar_roll: settings.calendar_roll,
            expected_duration_seconds: settings.expected_duration_seconds,
            after: json_of(&settings.after)?,
            after_mode: settings.after_mode,
            misfire_policy: settings.misfire_policy,
            misfire_grace_seconds: settings.misfire_grace_seconds,
            misfire_cap: settings.misfire_cap,
            max_instances: settings.max_instances,
            overlap_policy: settings.overlap_policy,
            queue: settings.queue.as_deref(),
            priority: settings.priority,
            timeout_seconds: settings.timeout_seconds,
            start_within_seconds: settings.start_within_seconds,
            retry_policy: settings.retry_policy.as_ref().and_then(|policy| serde_json::to_value(policy).ok()),
            is_enabled: settings.is_enabled,
            disabled_reason: match &existing {
                Some(job) if !settings.is_enabled => job.state.disabled_reason.as_deref(),
                _ => None,
            },
            next_run_at: cursor.next_run_at,
            settled_until: cursor.settled_until,
            tzdata_version: match &existing {
                Some(job) if !cursor.is_computed => job.state.tzdata_version.as_deref(),
                _ => timetable.schedule().tzdata_version(),
            },
            version,
            updated_src: source,
        };
        let id = match &existing {
            Some(job) => {
                diesel::update(scheduled_jobs::table.find((tenant, job.id)))
                    .set((&row, scheduled_jobs::updated_at.eq(now)))
                    .execute(conn)
                    .await
                    .map_err(|error| refused(error, settings, mode))?;
                job.id
            }
            None => {
                let id = JobId(time_ordered(now));
                diesel::insert_into(scheduled_jobs::table)
                    .values((
                        &row,
                        scheduled_jobs::id.eq(id),
                        scheduled_jobs::created_at.eq(now),
                        scheduled_jobs::updated_at.eq(now),
                        scheduled_jobs::created_src.eq(source),
                    ))
                    .execute(conn)
                    .await
                    .map_err(|error| refused(error, settings, mode))?;
                id
            }
        };
        cursor.record(conn, tenant, id).await?;
        let before = existing.map(|job| job.settings);
        let version = NewVersion {
            version,
            change: change.unwrap_or_else(|| change_of(before.as_ref(), settings)),
            settings,
            changed_at: now,
            source,
            pause: None,
        };
        version.store(conn, tenant, id).await?;
        let job = by_id(conn, tenant, id).await?.ok_or(DbError::NotFound)?;
        let change = if before.is_some() { Change::Updated } else { Change::Created };
        Ok(SavedJob { job, before, change })
    }

    /// The cursor after a job gets the settings; unchanged if they do not affect its fires.
    async fn changed_cursor(
        &self,
        conn: &mut Conn,
        job: &Job,
        new: NewTimetable<'_>,
    ) -> Result<Cursor, SaveError> {
        let Self { tenant, settings, parsed, .. } = *self;
        if settings.is_enabled && job.settings.is_enabled && job.settings.has_same_timetable(settings) {
            return Ok(Cursor::unchanged(job));
        }
        let calendars = calendars::by_names(conn, tenant, &job.settings.calendars).await?;
        let old = parsed.all(&calendars).ok().and_then(|calendars| stored_timetable(tenant, job, &calendars));
        cursor::after_change(conn, job, old.as_ref(), new).await
    }
}

/// The calendars in the settings, locked until the end of the transaction.
pub(super) async fn calendars_of(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &JobSettings,
    parsed: &ParsedCalendars,
) -> Result<Vec<Calendar>, SaveError> {
    let found = calendars::lock_named(conn, tenant, &settings.calendars).await?;
    let missing =
        settings.calendars.iter().find(|name| !found.iter().any(|calendar| calendar.name == **name));
    if let Some(name) = missing {
        return Err(SaveError::Missing { field: "calendars", kind: "calendar", name: name.clone() });
    }
    Ok(parsed.all(&found)?)
}

fn json_of(settings: &impl Serialize) -> DbResult<serde_json::Value> {
    serde_json::to_value(settings)
        .map_err(|error| DbError::Corrupt { what: "settings of a job".into(), reason: error.to_string() })
}

fn change_of(before: Option<&JobSettings>, after: &JobSettings) -> &'static str {
    match before {
        None => "created",
        Some(before) if before.is_enabled && !after.is_enabled => "disabled",
        Some(before) if !before.is_enabled && after.is_enabled => "enabled",
        Some(_) => "updated",
    }
}
