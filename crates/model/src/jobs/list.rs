//! Lists of jobs: which, in which order, from where on, and how many there are.
//!
//! All of it reads the jobs of one tenant through their primary key or their names: no index serves the other orders, because every fire
//! would pay for it. Fifty thousand jobs are sorted in some tens of milliseconds.

use chrono::{DateTime, Utc};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use diesel_async::RunQueryDsl;

use super::super::schema::{projects, scheduled_jobs, task_functions};
use super::super::{Conn, DbResult};
use super::{Job, JobState, PausedNow, Row, SettingsRow, all_with_names, into_job};
use sched_domain::dispatch::DispatchStatus;
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::Scope;
use sched_timetable::JobType;

/// Which jobs a list shows, by who made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shown {
    /// Those that somebody has made.
    #[default]
    Own,
    /// The built-in ones too: those of built-in functions that belong to no project.
    All,
}

/// What a job is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Its schedule fires.
    Enabled,
    /// Its schedule does not fire for a while.
    Paused,
    /// Somebody disabled it, or it is a built-in job that waits for its settings.
    Disabled,
    /// The scheduler disabled it at a fire that it could not decide about, and says why.
    Quarantined,
    /// Somebody deleted it.
    Deleted,
}

impl JobStatus {
    /// What a job is: of several the one that says most.
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

/// What jobs are sorted by; jobs that have no such thing come last in either direction, and equal ones by their id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortBy {
    /// Their name.
    #[default]
    Name,
    /// When they fire next.
    NextRun,
    /// When their latest finished attempt started.
    LastRun,
    /// When their settings last changed.
    Updated,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// By what.
    pub by: SortBy,
    /// The greatest first.
    pub is_descending: bool,
}

/// Where a page ended: what its last job was sorted by, and its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// Its name.
    Name(String, JobId),
    /// An instant, if it had one.
    At(Option<DateTime<Utc>>, JobId),
}

impl Position {
    /// Where a job stands in an order.
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

/// Which jobs are listed.
#[derive(Debug, Clone, Default)]
pub struct List {
    /// By who made them.
    pub shown: Shown,
    /// Deleted ones too.
    pub with_deleted: bool,
    /// Only those that are so.
    pub status: Option<JobStatus>,
    /// Only those whose name or description has this text in it, whatever its case.
    pub text: Option<String>,
    /// Only those whose name begins so.
    pub name_prefix: Option<String>,
    /// Only of this task function.
    pub function: Option<String>,
    /// Only of this project.
    pub project: Option<String>,
    /// Only of this queue, which they or their function name.
    pub queue: Option<String>,
    /// Only of this kind of schedule.
    pub job_type: Option<JobType>,
    /// Only those whose latest finished dispatch ended so.
    pub last_status: Option<DispatchStatus>,
    /// Only those that were made from this template.
    pub template: Option<String>,
    /// In which order.
    pub order: Order,
    /// Only those after this place in the order, which must be one of it.
    pub after: Option<Position>,
}

/// Text as a part of a pattern.
pub(in super::super) fn literally(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

/// Restricts a boxed query of jobs to those of a list, wherever a page begins.
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
        if let Some(status) = list.last_status {
            query = query.filter(j::last_status.eq(status));
        }
        if let Some(template) = &list.template {
            let named = sql::<Bool>("scheduled_jobs.made_from ->> 'template' = ").bind::<Text, _>(template);
            query = query.filter(named);
        }
        query
    }};
}

/// Sorts a boxed query by an instant that may be missing, from a place on. What is missing comes last either way.
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

/// How many jobs of the tenant a list has in all, counted up to `most`.
pub async fn count(conn: &mut Conn, tenant: TenantId, list: &List, most: i64) -> DbResult<usize> {
    let found: Vec<JobId> =
        listed!(all_with_names!(), tenant, list).select(scheduled_jobs::id).limit(most).load(conn).await?;
    Ok(found.len())
}
