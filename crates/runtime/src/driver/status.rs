//! The status of a driven task, for health, metrics and tests, in a `watch` channel: readers never
//! block the driver.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    Idle,
    Running,
    Stopped,
}

#[derive(Debug, Clone, Serialize)]
pub struct TaskStatus {
    pub name: &'static str,
    pub state: TaskState,
    /// Successful and failed runs.
    pub iterations: u64,
    pub failures: u64,
    pub consecutive_failures: u32,
    /// Start of the first of these runs; serialised as its age in milliseconds.
    #[serde(rename = "failing_since_ms_ago", serialize_with = "age")]
    pub failing_since: Option<Instant>,
    /// Start of the last run on the monotonic clock; serialised as its age in milliseconds.
    #[serde(rename = "last_started_ms_ago", serialize_with = "age")]
    pub last_started: Option<Instant>,
    /// Start of the last successful run; serialised like the field above.
    #[serde(rename = "last_success_ms_ago", serialize_with = "age")]
    pub last_success: Option<Instant>,
    pub last_duration_ms: Option<u64>,
    /// The last error with its causes; successful runs do not clear it.
    pub last_error: Option<String>,
    pub last_report: Option<Value>,
}

impl TaskStatus {
    /// Of a task that has not run.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            state: TaskState::Idle,
            iterations: 0,
            failures: 0,
            consecutive_failures: 0,
            failing_since: None,
            last_started: None,
            last_success: None,
            last_duration_ms: None,
            last_error: None,
            last_report: None,
        }
    }

    #[must_use]
    pub fn since_started(&self) -> Option<Duration> {
        self.last_started.map(since)
    }

    /// Time since the first failed run after the last successful one; `None` after a success.
    #[must_use]
    pub fn failing_for(&self) -> Option<Duration> {
        self.failing_since.map(since)
    }

    #[must_use]
    pub fn since_success(&self) -> Option<Duration> {
        self.last_success.map(since)
    }
}

fn since(instant: Instant) -> Duration {
    crate::monotonic_clock::monotonic().saturating_duration_since(instant)
}

fn age<S: Serializer>(instant: &Option<Instant>, serializer: S) -> Result<S::Ok, S::Error> {
    instant.map(|instant| millis(since(instant))).serialize(serializer)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
