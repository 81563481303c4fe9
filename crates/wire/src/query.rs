//! Parameters of lists, as they stand in the query of a request.
//!
//! Every list is cut into pages by a cursor, which is opaque: it is taken from the answer before. Plain data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::enums::{
    AttemptStatus, HandlerType, JobSort, JobStatus, JobType, RunStatus, TimeSort, WorkerStatus,
};

/// Parameters of a list without filters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageQuery {
    /// Most items of the page, 1 to [`MAX_PAGE`](crate::MAX_PAGE); [`DEFAULT_PAGE`](crate::DEFAULT_PAGE) when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before; absent for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Parameters of `apply`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyQuery {
    /// Do everything but keep it: the answer says what would be made and changed, or what is wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Parameters of an export.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportQuery {
    /// Only the jobs of this project, with the functions, calendars and queues that they name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only the jobs whose name begins so, with the functions, calendars and queues that they name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// Everything but jobs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_jobs: bool,
}

/// What a list shows besides what people have made and not deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Include {
    /// What is built in.
    System,
    /// What is deleted.
    Deleted,
    /// What is built in, and what is deleted.
    All,
}

/// Parameters of the list of jobs, by name when nothing else is said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobsQuery {
    /// `system` for the built-in jobs too, `deleted` for the deleted ones, `all` for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<Include>,
    /// Only those with this text in their name or description, whatever its case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q: Option<String>,
    /// Only those whose name begins so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// Only those that are so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<JobStatus>,
    /// Only those that run this task function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Only those of this project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only those whose runs wait in this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only those with this kind of schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_type: Option<JobType>,
    /// Only those whose latest finished run ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_status: Option<RunStatus>,
    /// Only those that were made from this template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// In which order; `name` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<JobSort>,
    /// Whether to count how many there are in all, up to 10,000.
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
    /// Only those whose name begins so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// Only those whose runs wait in this queue unless the job names another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only those that are run so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handler_type: Option<HandlerType>,
    /// Only active ones, or only inactive ones.
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
    /// Only those whose name begins so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_prefix: Option<String>,
    /// Only those that are paused; with false only those that are not.
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

/// Parameters of the list of workers, the living first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkersQuery {
    /// Only in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<WorkerStatus>,
    /// Only those that serve this queue.
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
    /// Only in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Only of jobs that run the task function with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Only of jobs of the project with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only those of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only those that this worker has claimed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Uuid>,
    /// Only those that this has made: `scheduler`, `manual`, `api`, `retry`, `dependency` or `backfill`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// The order; newest first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// Only those created then or later: an instant in RFC 3339, a time on the clock of UTC, or a distance from now such as `-2h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only those created before then.
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
    /// Only of this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatch: Option<Uuid>,
    /// Only those that ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<AttemptStatus>,
    /// Only of jobs that run the task function with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Only of jobs that belonged to the project with this name when they ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only those that this worker ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Uuid>,
    /// Only of runs that this has made, as in [`RunsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// The order, by when they were claimed, shortly before they started; newest first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// Only those that started then or later, written as in [`RunsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only those that started before then.
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
    /// Only in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RunStatus>,
    /// Only those of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only those that this worker has claimed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Uuid>,
    /// Only those that this has made: `scheduler`, `manual`, `api`, `retry`, `dependency` or `backfill`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// The order; newest first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Only those that ended so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<AttemptStatus>,
    /// Only those that this worker ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<Uuid>,
    /// Only of runs that this has made, as in [`RunsQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub triggered_by: Option<String>,
    /// The order, by when they were claimed, shortly before they started; newest first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        let (job, dispatch, function, project) = (None, None, None, None);
        Self {
            job,
            dispatch,
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
