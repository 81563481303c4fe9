//! Jobs files, which are also the body of `apply`: queues, calendars, task functions, templates,
//! jobs, notification channels and rules.
//!
//! Defaults are applied while reading, so a value of these types is complete. Shapes, types and
//! words are checked here. The API checks the meaning, for example whether a cron expression parses
//! and a function exists.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definitions::calendar::CalendarSpec;
use crate::definitions::notification::{NotificationChannelSpec, NotificationRuleSpec};
use crate::definitions::project::ProjectDefinition;
use crate::definitions::queue::QueueDefinition;
use crate::definitions::secret::SecretReference;
use crate::definitions::template::TemplateSpec;
use crate::enums::{
    AfterCondition, AfterMode, BackoffType, CalendarRoll, DstGap, DstOverlap, HandlerType, JobType,
    MisfirePolicy, OverlapPolicy, Scope,
};

/// Name of the default project, queue and tenant of every installation.
const DEFAULT: &str = "default";

/// Definitions to write. They are applied in one transaction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Projects; written before the jobs that may name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projects: Vec<ProjectDefinition>,
    /// Secrets that may not exist yet. A file has no values of secrets: a run that needs one fails
    /// until it is set. A reference to another missing secret is an error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretReference>,
    /// Queues with their limits; written before the functions and jobs that may name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueDefinition>,
    /// Calendars of excluded times; written before the jobs that may name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<CalendarSpec>,
    /// Task functions; written before the jobs that may name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub task_functions: Vec<FunctionSpec>,
    /// Templates of jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<TemplateSpec>,
    /// Jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobSpec>,
    /// Destinations of notifications; written before the rules that may name them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notification_channels: Vec<NotificationChannelSpec>,
    /// Subscriptions: which notifications go to which channel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notification_rules: Vec<NotificationRuleSpec>,
}

impl Manifest {
    /// Returns the JSON Schema (2020-12) of a jobs file, for editors.
    #[must_use]
    pub fn schema() -> Value {
        schemars::schema_for!(Manifest).to_value()
    }
}

/// A task function as written in a file or a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionSpec {
    /// Stable name; jobs refer to it.
    pub name: String,
    /// Display name; the stable name when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Handler type.
    pub handler_type: HandlerType,
    /// Settings of the handler.
    pub handler_config: Map<String, Value>,
    /// Queue of its runs.
    #[serde(default = "default_name")]
    pub queue: String,
    /// Timeout of an attempt in seconds.
    #[serde(default = "default_timeout_seconds")]
    pub default_timeout_seconds: i32,
    /// Retry policy; one attempt when absent, unless the installation sets another default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicySpec>,
    /// JSON Schema (2020-12) for the arguments of its jobs; any arguments when absent.
    ///
    /// The API rejects a job whose arguments do not match when it is saved, and a trigger when it
    /// is sent. A changed schema does not stop existing jobs; it is checked at their next change.
    /// `$ref` may point only into the schema (`#/$defs/…`) and not to itself, `format` is checked,
    /// and patterns have neither look-around nor back-references.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_schema: Option<Map<String, Value>>,
}

/// A job as written in a file or a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Stable name.
    pub name: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Owner.
    #[serde(default = "default_scope")]
    pub scope: Scope,
    /// Project; `default` when absent and the scope is `project`. Not allowed for other scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Name of the task function it runs.
    pub function: String,
    /// Arguments of every run.
    #[serde(default)]
    pub task_args: Map<String, Value>,
    /// Kind of schedule.
    pub job_type: JobType,
    /// The schedule, in the form its kind defines; empty for a manual job. If a cron schedule
    /// restricts both day fields, its `day_match` (`either`, `both`) selects the days.
    #[serde(default)]
    pub schedule_config: Map<String, Value>,
    /// IANA zone of wall-clock times; the default of the API when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Rule for wall-clock times that do not exist; the default of the expression when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<DstGap>,
    /// Rule for wall-clock times that occur twice; the default of the expression when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_overlap: Option<DstOverlap>,
    /// No fire before this instant (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<DateTime<Utc>>,
    /// No fire at or after this instant (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<DateTime<Utc>>,
    /// Maximum number of fires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_runs: Option<i64>,
    /// Runs become claimable up to this many seconds after the fire time; stable per job and fire
    /// time.
    #[serde(default)]
    pub jitter_seconds: i32,
    /// Names of calendars; a fire time that one of them excludes is skipped or moved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<String>,
    /// Rule for an excluded fire time.
    #[serde(default = "default_calendar_roll")]
    pub calendar_roll: CalendarRoll,
    /// Expected duration of a run; for simulations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_duration_seconds: Option<i32>,
    /// Dependencies: jobs that start it, in addition to its schedule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<AfterSpec>,
    /// Which dependencies must have ended.
    #[serde(default = "default_after_mode")]
    pub after_mode: AfterMode,
    /// Rule for fire times that passed without a dispatch.
    #[serde(default = "default_misfire_policy")]
    pub misfire_policy: MisfirePolicy,
    /// Maximum lateness of a fire that still counts as on time; the default of the installation
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misfire_grace_seconds: Option<i32>,
    /// Maximum number of fires that `fire_all` catches up.
    #[serde(default = "default_misfire_cap")]
    pub misfire_cap: i32,
    /// Number of open runs from which `overlap_policy` applies.
    #[serde(default = "default_max_instances")]
    pub max_instances: i32,
    /// Rule for a fire at that number of open runs.
    #[serde(default = "default_overlap_policy")]
    pub overlap_policy: OverlapPolicy,
    /// Queue of its runs; the queue of the function when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Priority of its runs, 0 first to 100 last; the default of the queue when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 100))]
    pub priority: Option<i16>,
    /// Timeout of an attempt in seconds; the default of the function when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Maximum wait of a claimable run for its first attempt; then the run expires. No limit when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_within_seconds: Option<i32>,
    /// Retry policy; the policy of the function when absent, else one attempt, unless the
    /// installation sets another default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_policy: Option<RetryPolicySpec>,
    /// Whether the schedule fires.
    #[serde(default = "default_is_enabled")]
    pub is_enabled: bool,
}

/// A dependency: a job to run after, or in the other direction a job that runs after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AfterSpec {
    /// Name of the other job.
    pub job: String,
    /// Required outcome of the earlier job.
    #[serde(default = "default_after_condition")]
    pub on: AfterCondition,
}

/// Number and delay of retries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryPolicySpec {
    /// Number of attempts, including the first; 1 disables retries.
    #[schemars(range(min = 1, max = 100))]
    pub max_attempts: u32,
    /// Base delay in seconds.
    #[serde(default = "default_backoff_seconds")]
    #[schemars(range(min = 0, max = 86_400))]
    pub backoff_seconds: u32,
    /// Growth of the delay.
    #[serde(default = "default_backoff_type")]
    pub backoff_type: BackoffType,
    /// Maximum delay in seconds.
    #[serde(default = "default_max_backoff_seconds")]
    #[schemars(range(min = 1, max = 604_800))]
    pub max_backoff_seconds: u32,
    /// Random increase of the delay, up to this percentage, so that many retries do not coincide.
    #[serde(default = "default_jitter_percent")]
    #[schemars(range(min = 0, max = 100))]
    pub jitter_percent: u8,
    /// Error classes without retries, 1 to 100 characters each.
    #[serde(default)]
    #[schemars(length(max = 50), inner(length(min = 1, max = 100)))]
    pub non_retryable: Vec<String>,
}

fn default_name() -> String {
    DEFAULT.to_owned()
}

const fn default_timeout_seconds() -> i32 {
    300
}

const fn default_scope() -> Scope {
    Scope::Project
}

const fn default_misfire_policy() -> MisfirePolicy {
    MisfirePolicy::FireOnce
}

pub(crate) const fn default_calendar_roll() -> CalendarRoll {
    CalendarRoll::Skip
}

const fn default_after_mode() -> AfterMode {
    AfterMode::All
}

const fn default_after_condition() -> AfterCondition {
    AfterCondition::Success
}

const fn default_misfire_cap() -> i32 {
    100
}

const fn default_max_instances() -> i32 {
    1
}

const fn default_overlap_policy() -> OverlapPolicy {
    OverlapPolicy::Skip
}

const fn default_is_enabled() -> bool {
    true
}

const fn default_backoff_seconds() -> u32 {
    10
}

const fn default_backoff_type() -> BackoffType {
    BackoffType::Exponential
}

const fn default_max_backoff_seconds() -> u32 {
    3600
}

const fn default_jitter_percent() -> u8 {
    10
}

impl JobSpec {
    /// Returns its project after the default is applied.
    #[must_use]
    pub fn project_or_default(&self) -> Option<&str> {
        match self.scope {
            Scope::Project => Some(self.project.as_deref().unwrap_or(DEFAULT)),
            Scope::BackupInfrastructure | Scope::System => self.project.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn job(json: Value) -> Result<JobSpec, serde_json::Error> {
        serde_json::from_value(json)
    }

    #[test]
    fn a_short_job_means_what_the_documentation_says() {
        let spec = job(json!({"name": "tidy", "function": "tidy", "job_type": "manual"})).unwrap();
        assert_eq!(spec.project_or_default(), Some("default"));
        assert_eq!((spec.misfire_policy, spec.misfire_cap), (MisfirePolicy::FireOnce, 100));
        assert_eq!((spec.overlap_policy, spec.max_instances), (OverlapPolicy::Skip, 1));
        assert_eq!((spec.after, spec.after_mode), (Vec::new(), AfterMode::All));
        assert!(spec.is_enabled && spec.task_args.is_empty() && spec.schedule_config.is_empty());
    }

    #[test]
    fn jobs_of_the_installation_belong_to_no_project() {
        let spec =
            job(json!({"name": "a", "function": "f", "job_type": "manual", "scope": "system"})).unwrap();
        assert_eq!(spec.project_or_default(), None);
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let text = json!({
            "calendars": [{"name": "c", "timezone": "Europe/Berlin", "weekly": ["SAT"], "yearly": ["12-25"]}],
            "task_functions": [{
                "name": "f", "handler_type": "process", "handler_config": {"program": "true"},
                "retry_policy": {"max_attempts": 3},
            }],
            "jobs": [{
                "name": "j", "function": "f", "job_type": "cron", "schedule_config": {"expression": "@daily"},
                "timezone": "Europe/Berlin", "dst_gap": "skip", "dst_overlap": "both", "priority": 10,
                "after": [{"job": "k"}, {"job": "l", "on": "failure"}], "after_mode": "any",
                "start_at": "2026-12-01T00:00:00Z", "calendars": ["c"], "calendar_roll": "next_business_day",
            }],
        });
        let manifest: Manifest = serde_json::from_value(text).unwrap();
        let again = serde_json::from_value(serde_json::to_value(&manifest).unwrap()).unwrap();
        assert_eq!(manifest, again);
        assert_eq!(manifest.jobs[0].after[0].on, AfterCondition::Success);
        assert_eq!(manifest.task_functions[0].retry_policy.as_ref().unwrap().backoff_seconds, 10);
    }

    #[test]
    fn mistakes_are_refused_with_what_is_allowed() {
        let good = json!({"name": "a", "function": "f", "job_type": "manual"});
        for (field, value, expected) in [
            ("schedul_config", json!({}), "schedule_config"),
            ("job_type", json!("crn"), "`cron`, `interval`, `oneoff`, `manual`"),
            ("overlap_policy", json!("wait"), "`skip`, `queue`, `cancel_oldest`, `allow`"),
            ("after", json!([{"job": "b", "on": "sucess"}]), "`success`, `failure`, `completion`"),
            ("after", json!(["b"]), "AfterSpec"),
            ("retry_policy", json!({"max_attempts": 1, "backoff": 2}), "backoff_seconds"),
            ("task_args", json!([1]), "expected a map"),
        ] {
            let mut wrong = good.clone();
            wrong[field] = value;
            let error = job(wrong).unwrap_err().to_string();
            assert!(error.contains(expected), "{field}: {error}");
        }
    }
}
