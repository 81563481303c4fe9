//! Lists of jobs: filter, order, page and count.
//!
//! Everything reads the jobs of one tenant through their primary key or their names. No other order
//! has an index: every fire would pay for it, and sorting is fast enough.

use chrono::{DateTime, Utc};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text};
use diesel_async::RunQueryDsl;

use super::super::schema::{projects, scheduled_jobs, task_functions};
use super::super::{Conn, DbResult};
use super::{FunctionRow, Job, JobState, PausedNow, Row, SettingsRow, all_with_names, into_job};
use crate::connection::like::literally;
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::Scope;
use sched_domain::run_state::DispatchStatus;
use sched_timetable::JobType;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shown {
    #[default]
    Own,
    /// Also jobs of built-in functions without a project.
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    Enabled,
    Paused,
    /// A user disabled it, or it is a built-in job that waits for its settings.
    Disabled,
    /// The scheduler disabled it with a reason: it could not decide a fire.
    Quarantined,
    Deleted,
}

impl JobStatus {
    /// The most specific status that applies.
    #[must_use]
    pub fn of(job: &Job) -> Self {
        match &job.state {
            state if state.deleted_at.is_some() => Self::Deleted,
            state
                if !job.settings.is_enabled
                    && state.disabled_reason.is_some()
                    && (state.last_fire_at.is_some() || job.settings.scope == Scope::Project) =>
            {
                Self::Quarantined
            }
            _ if !job.settings.is_enabled => Self::Disabled,
            state if state.is_paused => Self::Paused,
            _ => Self::Enabled,
        }
    }
}

/// Jobs without the key come last in either direction; equal jobs are ordered by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortBy {
    #[default]
    Name,
    NextRun,
    /// Start of the latest finished attempt.
    LastRun,
    Updated,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    pub by: SortBy,
    pub is_descending: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    Name(String, JobId),
    At(Option<DateTime<Utc>>, JobId),
}

impl Position {
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

#[derive(Debug, Clone, Default)]
pub struct List {
    pub shown: Shown,
    pub with_deleted: bool,
    pub status: Option<JobStatus>,
    /// The name or description contains this text, ignoring case.
    pub text: Option<String>,
    pub name_prefix: Option<String>,
    pub function: Option<String>,
    pub project: Option<String>,
    /// Queue of the job or its function.
    pub queue: Option<String>,
    pub job_type: Option<JobType>,
    /// States of the latest finished run; empty for any.
    pub last_status: &'static [DispatchStatus],
    pub template: Option<String>,
    pub order: Order,
    /// Only jobs after this position, which must belong to the order.
    pub after: Option<Position>,
}

/// Applies the filters, without the page position.
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
                        .filter(j::disabled_reason.is_not_null())
                        .filter(j::last_fire_at.is_not_null().or(j::scope.eq(Scope::Project))),
                    JobStatus::Disabled | JobStatus::Deleted => {
                        query.filter(diesel::dsl::not(j::is_enabled)).filter(
                            j::disabled_reason
                                .is_null()
                                .or(j::last_fire_at.is_null().and(j::scope.ne(Scope::Project))),
                        )
                    }
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

/// Sorts by an optional time, after a position. Missing values come last in either direction.
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
