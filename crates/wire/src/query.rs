//! Query parameters of lists.
//!
//! Every list is paginated by an opaque cursor from the previous answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{
    AttemptFilter, HandlerType, JobSort, JobStatus, JobType, RunFilter, TimeSort, WorkerStatus,
};

/// Parameters of a list without filters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Maximum number of items of the page, 1 to [`MAX_PAGE`](crate::MAX_PAGE);
    /// [`DEFAULT_PAGE`](crate::DEFAULT_PAGE) when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page; absent for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of `apply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyQuery {
    /// Validate everything and store nothing: the answer has the changes or the problems.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Parameters of an export.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportQuery {
    /// Only jobs of this project, and the functions, calendars and queues that they name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only jobs whose name has this prefix, and the functions, calendars and queues that they
    /// name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// Leave out the jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_jobs: bool,
}

/// Additional items of a list, besides user-defined and undeleted ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Include {
    /// Built-in items.
    System,
    /// Deleted items.
    Deleted,
    /// Built-in and deleted items.
    All,
}

/// Parameters of the list of jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsQuery {
    /// `system` includes the built-in jobs, `deleted` the deleted ones, `all` both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Include>,
    /// Only jobs with this text in their name or description; case is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Only those whose name has this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// Only jobs in this state.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub status: Option<JobStatus>,
    /// Only jobs of this task function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Only jobs of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only jobs whose runs wait in this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only jobs with this kind of schedule.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub job_type: Option<JobType>,
    /// Only those whose latest finished run ended so; `failing` for every kind of failure.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub last_status: Option<RunFilter>,
    /// Only jobs of this template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Order; `name` when absent.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub sort: Option<JobSort>,
    /// Return the number of all items, up to 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<bool>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of the list of task functions, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionsQuery {
    /// Only those whose name has this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// Only functions whose runs wait in this queue by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only functions of this handler type.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub handler_type: Option<HandlerType>,
    /// Only active ones (`true`) or inactive ones (`false`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_active: Option<bool>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of the list of queues, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuesQuery {
    /// Only those whose name has this prefix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// Only paused ones (`true`) or unpaused ones (`false`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of the list of workers, live ones first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkersQuery {
    /// Only runs with this status.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkerStatus>,
    /// Only workers that serve this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of the list of runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunsQuery {
    /// Only of the job with this name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Only in this state; `failing` for every kind of failure.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub status: Option<RunFilter>,
    /// Only of jobs that run the task function with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Only of jobs of the project with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only runs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only runs whose last claim is by this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Uuid>,
    /// Only runs of this source: `scheduler`, `manual`, `api`, `retry` or `dependency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// Order; newest first when absent.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// Only runs created at this instant or later: RFC 3339, a wall-clock time in UTC, or a
    /// distance from now such as `-2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only runs created before this instant, in the same forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// As in [`JobsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<bool>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of the list of attempts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttemptsQuery {
    /// Only of the job with this name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Only attempts of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Uuid>,
    /// Only those with this outcome; `failing` for every kind of failure.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub status: Option<AttemptFilter>,
    /// Only of jobs that run the task function with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Only of jobs that belonged to this project at the time of the attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only attempts of this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Uuid>,
    /// Only of runs of this source, as in [`RunsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// Order, by their claim, shortly before their start; newest first when absent.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// Only attempts that started at this instant or later, in the forms of [`RunsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only attempts that started before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// As in [`JobsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<bool>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of the list of the runs of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobRunsQuery {
    /// Only in this state; `failing` for every kind of failure.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub status: Option<RunFilter>,
    /// Only runs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only runs whose last claim is by this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Uuid>,
    /// Only runs of this source: `scheduler`, `manual`, `api`, `retry` or `dependency`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// Order; newest first when absent.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// As in [`RunsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// As in [`RunsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// As in [`JobsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<bool>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of the list of the attempts of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobAttemptsQuery {
    /// Only those with this outcome; `failing` for every kind of failure.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub status: Option<AttemptFilter>,
    /// Only attempts of this worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Uuid>,
    /// Only of runs of this source, as in [`RunsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// Order, by their claim, shortly before their start; newest first when absent.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// As in [`AttemptsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// As in [`AttemptsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// As in [`JobsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<bool>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// As in [`PageQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl From<JobRunsQuery> for RunsQuery {
    fn from(query: JobRunsQuery) -> Self {
        let JobRunsQuery { status, queue, worker, triggered_by, sort, since, until, total, limit, cursor } =
            query;
        let (job, function, project) = (None, None, None);
        Self {
            job,
            status,
            function,
            project,
            queue,
            worker,
            triggered_by,
            sort,
            since,
            until,
            total,
            limit,
            cursor,
        }
    }
}

impl From<JobAttemptsQuery> for AttemptsQuery {
    fn from(query: JobAttemptsQuery) -> Self {
        let JobAttemptsQuery { status, worker, triggered_by, sort, since, until, total, limit, cursor } =
            query;
        let (job, run, function, project) = (None, None, None, None);
        Self {
            job,
            run,
            status,
            function,
            project,
            worker,
            triggered_by,
            sort,
            since,
            until,
            total,
            limit,
            cursor,
        }
    }
}
