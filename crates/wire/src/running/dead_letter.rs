//! Dead letters, and decisions on them.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::enums::{DeadLetterChoice, DeadLetterState, TimeSort};

/// A run whose retries are exhausted, or that was lost too often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    /// The run.
    pub run_id: Uuid,
    /// Id of the job.
    pub job_id: Uuid,
    /// Name of the job.
    pub job: String,
    /// Queue of the run.
    pub queue: String,
    /// The fire time, or the instant of the trigger.
    #[serde(serialize_with = "crate::instants::utc")]
    pub scheduled_for: DateTime<Utc>,
    /// When the run became a dead letter.
    #[serde(serialize_with = "crate::instants::utc")]
    pub died_at: DateTime<Utc>,
    /// Number of attempts.
    pub attempts: i32,
    /// Number of attempts that were lost with their worker.
    pub lost_count: i32,
    /// Number of attempts that a worker handed back unfinished, because it stopped or because it
    /// spared an unavailable HTTP host. They use up no retry.
    #[serde(default)]
    pub handed_back: i32,
    /// Class of the last failure.
    pub error_class: Option<String>,
    /// Message of the last failure.
    pub error_message: Option<String>,
    /// The attempt that failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<Uuid>,
    /// The last lines of standard error of that attempt, or of its log without standard error; only
    /// in the answer for a single dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tail: Option<String>,
    /// URL of the run, if the API has a public URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Arguments of the run.
    pub task_args: Value,
    /// Decision on the dead letter.
    pub state: DeadLetterState,
    /// When the decision was made; `None` while it is open.
    #[serde(serialize_with = "crate::instants::utc")]
    pub settled_at: Option<DateTime<Utc>>,
    /// Author of the decision; `None` while it is open.
    pub settled_by: Option<String>,
    /// Reason of the decision, if given.
    pub settled_reason: Option<String>,
    /// Run that retries it; `None` unless it was retried.
    pub retried_as: Option<Uuid>,
}

/// Parameters of the list of dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLettersQuery {
    /// Only dead letters with this decision; open ones when absent.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub state: Option<DeadLetterChoice>,
    /// Only of the job with this name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Only of jobs of the project with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only runs of this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only those whose last failure has this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    /// Order, by the creation of their runs; newest first when absent.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// Only those that died at this instant or later; as an instant of
    /// [`ExplainQuery`](crate::ExplainQuery), wall-clock times in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only those that died before this instant, in the same forms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// As in [`PageQuery`](crate::PageQuery).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// As in [`PageQuery`](crate::PageQuery).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Body of a command for many open dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLettersCommand {
    /// As in [`DeadLettersQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// As in [`DeadLettersQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// As in [`DeadLettersQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// As in [`DeadLettersQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    /// As in [`DeadLettersQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// As in [`DeadLettersQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Select all open dead letters. Required when no filter is given, and rejected with a filter.
    #[serde(default)]
    pub all: bool,
    /// Change nothing; count the selected dead letters and return the newest.
    #[serde(default)]
    pub dry_run: bool,
    /// Reason, for people; only for discarding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `next_cursor` of the previous answer; absent in the first request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Answer to a command for many dead letters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeadLettersSettled {
    /// True if nothing was changed.
    pub dry_run: bool,
    /// Number of dead letters that this request retried or discarded; in a dry run the number of
    /// all selected ones.
    pub count: i64,
    /// Dead letters of this batch that could not be retried, counted by reason. They stay open.
    pub refused: Vec<RefusedCount>,
    /// Retried dead letters with their new runs.
    #[serde(default)]
    pub retried: Vec<RetriedDeadLetter>,
    /// Newest selected dead letters; only in a dry run.
    pub sample: Vec<DeadLetter>,
    /// Send it as `cursor` for the rest; `None` when none are left.
    pub next_cursor: Option<String>,
}

/// A dead letter and the run that retries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetriedDeadLetter {
    /// The dead run.
    pub run_id: Uuid,
    /// The new run.
    pub retried_as: Uuid,
}

/// Number of rejected items for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedCount {
    /// Code of the problem: `job_deleted`, `job_disabled` or `inactive`.
    pub code: String,
    /// Number of items.
    pub count: usize,
}
