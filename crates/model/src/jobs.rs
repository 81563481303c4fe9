//! Jobs: their settings, versions and state.
//!
//! This module and `list` read jobs. [`save`](fn@save), [`switch`](fn@switch),
//! [`delete`](fn@delete) and [`restore`](fn@restore) write them; [`versions`] reads earlier
//! settings. `cursor` moves a job's cursor on such a change, [`reschedule_users_of`] on a change of
//! a calendar, and [`stale_cursors`] after plain SQL. [`quarantine`](fn@quarantine) disables jobs
//! for the scheduler. The scheduler's own writes of the cursor are in
//! [`crate::dispatching::tick`].

mod cursor;
mod delete;
mod list;
mod parsed_calendars;
mod quarantine;
mod refusal;
mod reschedule;
mod restore;
mod save;
mod save_mode;
pub mod stale_cursors;
mod switch;
pub mod versions;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::Bool;
use diesel_async::RunQueryDsl;

use super::schema::{projects, scheduled_jobs, task_functions};
use super::{Conn, DbResult};
use crate::definitions::stored_json::{stored_after, stored_policy};
use sched_domain::dependency::AfterMode;
use sched_domain::ids::{JobId, ProjectId, TenantId};
use sched_domain::job::{JobSettings, MisfireKind, OverlapPolicy, Scope};
use sched_domain::retry::RetryPolicy;
use sched_domain::run_state::DispatchStatus;
use sched_timetable::{CalendarRoll, DstGap, DstOverlap, JobType};

pub use self::delete::{DeleteRequest, Deleted, DeletedJob, delete};
pub(super) use self::delete::{Deletion, end};
pub use self::list::{JobStatus, List, Order, Position, Shown, SortBy, count, list};
pub use self::parsed_calendars::ParsedCalendars;
pub use self::quarantine::{Quarantine, quarantine};
pub use self::refusal::SaveError;
pub use self::reschedule::reschedule_users_of;
pub use self::restore::{RestoreRequest, Restored, restore};
pub use self::save::{SavedJob, Saving, Writing, roll_back, save};
pub use self::save_mode::SaveMode;
pub use self::switch::{NewPause, Pause, PauseEnd, Switch, SwitchRequest, Switched, switch};

#[derive(Debug, Clone)]
pub struct Job {
    pub id: JobId,
    pub settings: JobSettings,
    pub state: JobState,
    pub defaults: FunctionDefaults,
}

/// The settings of the function that apply where the job has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionDefaults {
    pub queue: String,
    pub timeout_seconds: i32,
    pub retry_policy: Option<RetryPolicy>,
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = scheduled_jobs, check_for_backend(diesel::pg::Pg))]
pub struct JobState {
    pub disabled_reason: Option<String>,
    /// At the time of the read; false after the end of the pause.
    #[diesel(select_expression = PausedNow, select_expression_type = PausedNow)]
    pub is_paused: bool,
    /// Stays after the end of the pause, until the job is changed.
    pub pause_reason: Option<String>,
    /// Stays after the end of the pause, until the job is changed.
    pub paused_until: Option<DateTime<Utc>>,
    pub dispatch_lock_until: Option<DateTime<Utc>>,
    pub last_fire_at: Option<DateTime<Utc>>,
    pub ledger_starts_at: Option<DateTime<Utc>>,
    pub next_run_at: Option<DateTime<Utc>>,
    pub last_run_at: Option<DateTime<Utc>>,
    pub last_status: Option<DispatchStatus>,
    pub last_dispatched_at: Option<DateTime<Utc>>,
    pub total_run_count: i64,
    pub fired_count: i64,
    pub settled_until: DateTime<Utc>,
    pub active_dispatches: i32,
    pub tzdata_version: Option<String>,
    pub version: i64,
    pub created_at: DateTime<Utc>,
    pub created_src: String,
    pub updated_at: DateTime<Utc>,
    pub updated_src: String,
    pub deleted_at: Option<DateTime<Utc>>,
    pub made_from: Option<serde_json::Value>,
}

impl JobState {
    /// Whether a pause holds fires: an ended pause still holds the fires before its end.
    pub(super) const fn has_pause(&self) -> bool {
        self.is_paused || self.paused_until.is_some()
    }
}

fragment! {
    /// A pause with an end expires automatically.
    PausedNow: Bool =
        "(scheduled_jobs.is_paused AND (scheduled_jobs.paused_until > clock_timestamp()) IS NOT FALSE)"
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = scheduled_jobs, check_for_backend(diesel::pg::Pg))]
struct SettingsRow {
    id: JobId,
    name: String,
    description: String,
    scope: Scope,
    task_args: serde_json::Value,
    job_type: JobType,
    schedule_config: serde_json::Value,
    timezone: String,
    dst_gap: Option<DstGap>,
    dst_overlap: Option<DstOverlap>,
    start_at: Option<DateTime<Utc>>,
    end_at: Option<DateTime<Utc>>,
    max_runs: Option<i64>,
    jitter_seconds: i32,
    calendars: Vec<String>,
    calendar_roll: CalendarRoll,
    expected_duration_seconds: Option<i32>,
    after: serde_json::Value,
    after_mode: AfterMode,
    misfire_policy: MisfireKind,
    misfire_grace_seconds: Option<i32>,
    misfire_cap: i32,
    max_instances: i32,
    overlap_policy: OverlapPolicy,
    queue: Option<String>,
    priority: Option<i16>,
    timeout_seconds: Option<i32>,
    start_within_seconds: Option<i32>,
    retry_policy: Option<serde_json::Value>,
    is_enabled: bool,
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = task_functions, check_for_backend(diesel::pg::Pg))]
struct FunctionRow {
    name: String,
    queue: String,
    default_timeout_seconds: i32,
    retry_policy: Option<serde_json::Value>,
}

type Row = (SettingsRow, JobState, FunctionRow, Option<String>);

fn into_job((row, state, function, project): Row) -> Job {
    let defaults = FunctionDefaults {
        queue: function.queue,
        timeout_seconds: function.default_timeout_seconds,
        retry_policy: stored_policy(function.retry_policy, || {
            format!("retry_policy of function {}", function.name)
        }),
    };
    let function = function.name;
    let after = stored_after(row.after, &row.name);
    let retry_policy = stored_policy(row.retry_policy, || format!("retry_policy of job {}", row.name));
    Job {
        id: row.id,
        state,
        defaults,
        settings: JobSettings {
            name: row.name,
            description: row.description,
            scope: row.scope,
            project,
            function,
            task_args: row.task_args,
            job_type: row.job_type,
            schedule_config: row.schedule_config,
            timezone: row.timezone,
            dst_gap: row.dst_gap,
            dst_overlap: row.dst_overlap,
            start_at: row.start_at,
            end_at: row.end_at,
            max_runs: row.max_runs,
            jitter_seconds: row.jitter_seconds,
            calendars: row.calendars,
            calendar_roll: row.calendar_roll,
            expected_duration_seconds: row.expected_duration_seconds,
            after,
            after_mode: row.after_mode,
            misfire_policy: row.misfire_policy,
            misfire_grace_seconds: row.misfire_grace_seconds,
            misfire_cap: row.misfire_cap,
            max_instances: row.max_instances,
            overlap_policy: row.overlap_policy,
            queue: row.queue,
            priority: row.priority,
            timeout_seconds: row.timeout_seconds,
            start_within_seconds: row.start_within_seconds,
            retry_policy,
            is_enabled: row.is_enabled,
        },
    }
}

/// Includes deleted jobs.
macro_rules! all_with_names {
    () => {
        scheduled_jobs::table
            .inner_join(
                task_functions::table.on(task_functions::tenant_id
                    .eq(scheduled_jobs::tenant_id)
                    .and(task_functions::id.eq(scheduled_jobs::task_function_id))),
            )
            .left_join(
                projects::table.on(projects::tenant_id
                    .eq(scheduled_jobs::tenant_id)
                    .and(scheduled_jobs::project_id.eq(projects::id.nullable()))),
            )
            .select((
                <SettingsRow as diesel::SelectableHelper<diesel::pg::Pg>>::as_select(),
                <JobState as diesel::SelectableHelper<diesel::pg::Pg>>::as_select(),
                <FunctionRow as diesel::SelectableHelper<diesel::pg::Pg>>::as_select(),
                projects::name.nullable(),
            ))
    };
}
use all_with_names;

/// Without deleted jobs.
macro_rules! jobs_with_names {
    () => {
        all_with_names!().filter(scheduled_jobs::deleted_at.is_null())
    };
}

pub async fn by_name(conn: &Conn, tenant: TenantId, name: &str) -> DbResult<Option<Job>> {
    let row: Option<Row> = jobs_with_names!()
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::name.eq(name))
        .get_result(&mut { conn })
        .await
        .optional()?;
    Ok(row.map(into_job))
}

pub async fn by_id(conn: &Conn, tenant: TenantId, id: JobId) -> DbResult<Option<Job>> {
    let row: Option<Row> = jobs_with_names!()
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::id.eq(id))
        .get_result(&mut { conn })
        .await
        .optional()?;
    Ok(row.map(into_job))
}

/// The jobs with these ids that exist.
pub(super) async fn by_ids(conn: &Conn, tenant: TenantId, ids: &[JobId]) -> DbResult<Vec<Job>> {
    let rows: Vec<Row> = jobs_with_names!()
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::id.eq_any(ids))
        .load(&mut { conn })
        .await?;
    Ok(rows.into_iter().map(into_job).collect())
}

/// The job with this id, deleted or not.
pub async fn by_id_with_deleted(conn: &Conn, tenant: TenantId, id: JobId) -> DbResult<Option<Job>> {
    let row: Option<Row> = all_with_names!()
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::id.eq(id))
        .get_result(&mut { conn })
        .await
        .optional()?;
    Ok(row.map(into_job))
}

/// As [`by_id_with_deleted`], and whether other jobs run after it.
pub async fn by_id_and_whether_followed(
    conn: &Conn,
    tenant: TenantId,
    id: JobId,
) -> DbResult<Option<(Job, bool)>> {
    use super::schema::job_dependencies as d;
    let others = d::table.filter(d::tenant_id.eq(tenant)).filter(d::after_job_id.eq(id));
    let row: Option<(SettingsRow, JobState, FunctionRow, Option<String>, bool)> = all_with_names!()
        .select((
            SettingsRow::as_select(),
            JobState::as_select(),
            FunctionRow::as_select(),
            projects::name.nullable(),
            diesel::dsl::exists(others),
        ))
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::id.eq(id))
        .get_result(&mut { conn })
        .await
        .optional()?;
    Ok(row.map(|(row, state, function, project, is_followed)| {
        (into_job((row, state, function, project)), is_followed)
    }))
}

pub async fn is_there(conn: &Conn, tenant: TenantId, id: JobId) -> DbResult<bool> {
    let found = scheduled_jobs::table.find((tenant, id));
    Ok(diesel::select(diesel::dsl::exists(found)).get_result(&mut { conn }).await?)
}

/// Jobs of a project without deleted ones, at most `limit`, by id.
pub(super) async fn of_project(
    conn: &mut Conn,
    tenant: TenantId,
    project: ProjectId,
    limit: i64,
) -> DbResult<Vec<Job>> {
    let rows: Vec<Row> = jobs_with_names!()
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::project_id.eq(project))
        .order(scheduled_jobs::id)
        .limit(limit)
        .load(conn)
        .await?;
    Ok(rows.into_iter().map(into_job).collect())
}

/// The last deleted job of this name.
pub async fn last_deleted(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<Job>> {
    let row: Option<Row> = all_with_names!()
        .filter(scheduled_jobs::tenant_id.eq(tenant))
        .filter(scheduled_jobs::name.eq(name))
        .filter(scheduled_jobs::deleted_at.is_not_null())
        .order((scheduled_jobs::deleted_at.desc(), scheduled_jobs::id.desc()))
        .first(conn)
        .await
        .optional()?;
    Ok(row.map(into_job))
}
