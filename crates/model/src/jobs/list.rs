//! Lists of jobs: filter, order, page and count.
//!
//! Everything reads the jobs of one tenant through their primary key or their names. No other order
//! has an index, because every fire would pay for it; sorting the jobs of one tenant is fast
//! enough.

use chrono::{DateTime, Utc};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use diesel_async::RunQueryDsl;

use super::super::schema::{projects, scheduled_jobs, task_functions};
use super::super::{Conn, DbResult};
use super::{Job, JobState, PausedNow, Row, SettingsRow, all_with_names, into_job};
use crate::connection::like::literally;
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::Scope;
use sched_domain::run_state::DispatchStatus;
use sched_timetable::JobType;

/// Which jobs a list shows, by origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shown {
    /// Jobs that users created.
    #[default]
    Own,
    /// Built-in jobs too: jobs of built-in functions without a project.
    All,
}

/// The current status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Its schedule fires.
    Enabled,
    /// Its schedule is paused.
    Paused,
    /// A user disabled it, or it is a built-in job that waits for its settings.
    Disabled,
    /// The scheduler disabled it, with a reason, at a fire that it could not decide.
    Quarantined,
    Deleted,
}

impl JobStatus {
    /// The status of a job; if several apply, the most specific.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        match &job.state {
            state if state.deleted_at.is_some() => Self::Deleted,
            state
                if !job.settings.is_enabled
                    && state.disabled_reason.is_some()
                    && state.last_fire_at.is_some() =>
            {
                Self::Quarantined
            }
            _ if !job.settings.is_enabled => Self::Disabled,
            state if state.is_paused => Self::Paused,
            _ => Self::Enabled,
        }
    }
}

/// Sort key. Jobs without the key come last in either direction; equal jobs are ordered by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortBy {
    #[default]
    Name,
    /// The next fire time.
    NextRun,
    /// Start of the latest finished attempt.
    LastRun,
    /// The last change of the settings.
    Updated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    pub by: SortBy,
    /// Greatest first.
    pub is_descending: bool,
}

/// End of a page: sort key and id of its last job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// Sorted by name.
    Name(String, JobId),
    /// Sorted by a time, if the job has one.
    At(Option<DateTime<Utc>>, JobId),
}

impl Position {
    /// The position of a job in an order.
    #[must_use]
    pub fn of(job: &Job, by: SortBy) -> Self {
        match by {
            SortBy::Name => Self::Name(job.settings.name.clone(), job.id),
            SortBy::NextRun => Self::At(job.state.next_run_at, job.id),
            SortBy::LastRun => Self::At(job.state.last_run_at, job.id),
            SortBy::Updated => Self::At(Some(job.state.updated_at), job.id),
        }
    }
}

/// Which jobs to list.
#[derive(Debug, Clone, Default)]
pub struct List {
    pub shown: Shown,
    /// Includes deleted jobs.
    pub with_deleted: bool,
    /// Only jobs with this status.
    pub status: Option<JobStatus>,
    /// The name or description contains this text, ignoring case.
    pub text: Option<String>,
    /// The name starts with this text.
    pub name_prefix: Option<String>,
    /// Only jobs of this task function.
    pub function: Option<String>,
    /// Only jobs of this project.
    pub project: Option<String>,
    /// Queue of the job or its function.
    pub queue: Option<String>,
    /// Only this kind of schedule.
    pub job_type: Option<JobType>,
    /// States of the latest finished run; empty for any.
    pub last_status: &'static [DispatchStatus],
    /// Only jobs created from this template.
    pub template: Option<String>,
    pub order: Order,
    /// Only jobs after this position, which must belong to the order.
    pub after: Option<Position>,
}

/// Applies the filters of a list to a boxed query of jobs, without the page position.
macro_rules! listed {
    ($query:expr, $tenant:expr, $list:expr) => {{
        use scheduled_jobs as j;
        let (mut query, list) = ($query.filter(j::tenant_id.eq($tenant)).into_boxed(), $list);
        if list.shown == Shown::Own {
            query = query.filter(diesel::dsl::not(task_functions::is_system).or(j::scope.eq(Scope::Project)));
        }
        if !list.with_deleted && list.status != Some(JobStatus::Deleted) {
            query = query.filter(j::deleted_at.is_null());
        }
        match list.status {
            None => {}
            Some(JobStatus::Deleted) => query = query.filter(j::deleted_at.is_not_null()),
            Some(status) => {
                query = query.filter(j::deleted_at.is_null());
                query = match status {
                    JobStatus::Enabled => query.filter(j::is_enabled).filter(diesel::dsl::not(PausedNow)),
                    JobStatus::Paused => query.filter(j::is_enabled).filter(PausedNow),
                    JobStatus::Quarantined => query
                        .filter(diesel::dsl::not(j::is_enabled))
                        .filter(j::disabled_reason.is_not_null().and(j::last_fire_at.is_not_null())),
                    JobStatus::Disabled | JobStatus::Deleted => query
                        .filter(diesel::dsl::not(j::is_enabled))
                        .filter(j::disabled_reason.is_null().or(j::last_fire_at.is_null())),
                };
            }
        }
        if let Some(text) = &list.text {
            let pattern = format!("%{}%", literally(text));
            query = query.filter(j::name.ilike(pattern.clone()).or(j::description.ilike(pattern)));
        }
        if let Some(prefix) = &list.name_prefix {
            query = query.filter(j::name.like(format!("{}%", literally(prefix))));
        }
        if let Some(function) = &list.function {
            query = query.filter(task_functions::name.eq(function));
        }
        if let Some(project) = &list.project {
            query = query.filter(projects::name.nullable().eq(project));
        }
        if let Some(queue) = &list.queue {
            let inherited = j::queue.is_null().and(task_functions::queue.eq(queue));
            query = query.filter(j::queue.eq(queue).or(inherited));
        }
        if let Some(job_type) = list.job_type {
            query = query.filter(j::job_type.eq(job_type));
        }
        if !list.last_status.is_empty() {
            query = query.filter(j::last_status.assume_not_null().eq_any(list.last_status));
        }
        if let Some(template) = &list.template {
            let named = sql::<Bool>("scheduled_jobs.made_from ->> 'template' = ").bind::<Text, _>(template);
            query = query.filter(named);
        }
        query
    }};
}

/// Sorts a boxed query by an optional time, after a position. Missing values come last in either
/// direction.
macro_rules! sorted_by {
    ($query:expr, $column:expr, $order:expr, $after:expr) => {{
        use scheduled_jobs::id;
        let (column, mut query, is_descending) = ($column, $query, $order.is_descending);
        if let Some((at, last)) = $after {
            query = match (at, is_descending) {
                (None, true) => query.filter(column.is_null()).filter(id.lt(last)),
                (None, false) => query.filter(column.is_null()).filter(id.gt(last)),
                (Some(at), true) => {
                    query.filter(column.is_null().or(column.lt(at)).or(column.eq(at).and(id.lt(last))))
                }
                (Some(at), false) => {
                    query.filter(column.is_null().or(column.gt(at)).or(column.eq(at).and(id.gt(last))))
                }
            };
        }
        if is_descending {
            query.order((column.desc().nulls_last(), id.desc()))
        } else {
            query.order((column.asc().nulls_last(), id.asc()))
        }
    }};
}

/// Jobs of the tenant, at most `limit`.
pub async fn list(conn: &mut Conn, tenant: TenantId, list: &List, limit: i64) -> DbResult<Vec<Job>> {
    use scheduled_jobs as j;
    let order = list.order;
    let after = match &list.after {
        Some(Position::At(at, id)) => Some((*at, *id)),
        Some(Position::Name(..)) | None => None,
    };
    let mut query = listed!(all_with_names!(), tenant, list).limit(limit);
    if let Some(Position::Name(name, id)) = &list.after {
        query = match order.is_descending {
            true => query.filter(j::name.lt(name).or(j::name.eq(name).and(j::id.lt(*id)))),
            false => query.filter(j::name.gt(name).or(j::name.eq(name).and(j::id.gt(*id)))),
        };
    }
    let query = match order.by {
        SortBy::Name if order.is_descending => query.order((j::name.desc(), j::id.desc())),
        SortBy::Name => query.order((j::name.asc(), j::id.asc())),
        SortBy::NextRun => sorted_by!(query, j::next_run_at, order, after),
        SortBy::LastRun => sorted_by!(query, j::last_run_at, order, after),
        SortBy::Updated => sorted_by!(query, j::updated_at, order, after),
    };
    let rows: Vec<Row> = query.load(conn).await?;
    Ok(rows.into_iter().map(into_job).collect())
}

/// Number of jobs of the tenant in a list, counted up to `most`.
pub async fn count(conn: &mut Conn, tenant: TenantId, list: &List, most: i64) -> DbResult<usize> {
    let found: Vec<JobId> =
        listed!(all_with_names!(), tenant, list).select(scheduled_jobs::id).limit(most).load(conn).await?;
    Ok(found.len())
}
