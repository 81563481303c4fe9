//! Dead letters: runs that were given up for good, and what is decided about them. Plain data.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::enums::{DeadLetterChoice, DeadLetterState, TimeSort};

/// A run that was given up for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    /// The run.
    pub run_id: Uuid,
    /// Its job.
    pub job_id: Uuid,
    /// Its name.
    pub job: String,
    /// Queue it waited in.
    pub queue: String,
    /// The fire time, or the instant of the trigger.
    pub scheduled_for: DateTime<Utc>,
    /// When it was given up.
    pub died_at: DateTime<Utc>,
    /// Attempts there were.
    pub attempts: i32,
    /// Those of them that were lost with their worker.
    pub lost_count: i32,
    /// Those of them that were handed back before they came to an end, because the worker stopped or left the other side alone. They use
    /// up no retry.
    #[serde(default)]
    pub handed_back: i32,
    /// Class of the last failure.
    pub error_class: Option<String>,
    /// The last failure in words.
    pub error_message: Option<String>,
    /// Arguments of the run.
    pub task_args: Value,
    /// What was decided.
    pub state: DeadLetterState,
    /// When; `None` while it is open.
    pub settled_at: Option<DateTime<Utc>>,
    /// By whom; `None` while it is open.
    pub settled_by: Option<String>,
    /// Why, if they said.
    pub settled_reason: Option<String>,
    /// The run that runs it again; `None` unless it was retried.
    pub retried_as: Option<Uuid>,
}

/// Parameters of the list of dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeadLettersQuery {
    /// Those about which this is decided; open ones when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeadLetterChoice>,
    /// Only of the job with this name or id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Only of jobs of the project with this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only those that waited in this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only those whose last failure was of this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    /// The order, by when their runs were created; newest first when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort: Option<TimeSort>,
    /// Only those given up then or later, written as an instant of [`ExplainQuery`](crate::ExplainQuery) on the clock of UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Only those given up before then, written likewise.
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
    /// All of them: what has to be said when no filter is given, and only then.
    #[serde(default)]
    pub all: bool,
    /// Change nothing, but count those that are meant and show the newest.
    #[serde(default)]
    pub dry_run: bool,
    /// Why, for people; of discarding only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `next_cursor` of the answer before; absent at first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Answer to a command for many dead letters.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct DeadLettersSettled {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// How many were retried or discarded by this request; of a dry run how many are meant in all.
    pub count: i64,
    /// How many of those that this request came to could not be retried, by reason. They are open still.
    pub refused: Vec<RefusedCount>,
    /// The newest of those that are meant; of a dry run only.
    pub sample: Vec<DeadLetter>,
    /// To be sent as `cursor` for the rest; `None` when there is none.
    pub next_cursor: Option<String>,
}

/// How many things were refused for a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedCount {
    /// The reason: `job_deleted`, `job_disabled` or `inactive`, as the code of a problem.
    pub code: String,
    /// How many.
    pub count: usize,
}
