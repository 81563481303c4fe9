//! What is known about a driven task, for health, metrics and tests alike.
//!
//! Published through a `watch` channel by the driver, the only writer. Readers see the latest state and never block it.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::Value;

/// Whether the task is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskState {
    /// It waits for its time or a wake-up.
    Idle,
    /// It runs.
    Running,
    /// Its driver was asked to stop and has.
    Stopped,
}

/// The state of one driven task and what its runs came to.
#[derive(Debug, Clone, Serialize)]
pub struct TaskStatus {
    /// The task's name.
    pub name: &'static str,
    /// Whether it is at work.
    pub state: TaskState,
    /// Runs that ended, well or not.
    pub iterations: u64,
    /// Runs that ended with an error or a panic.
    pub failures: u64,
    /// The failures since the last run that ended well.
    pub consecutive_failures: u32,
    /// When the last run began, on this process's monotonic clock; shown as its age in milliseconds.
    #[serde(rename = "last_started_ms_ago", serialize_with = "age")]
    pub last_started: Option<Instant>,
    /// When the last run that ended well began; shown as its age in milliseconds.
    #[serde(rename = "last_success_ms_ago", serialize_with = "age")]
    pub last_success: Option<Instant>,
    /// How long the last run took that ended.
    pub last_duration_ms: Option<u64>,
    /// The last error with its causes; kept after a run that ended well.
    pub last_error: Option<String>,
    /// The counts of the last run that ended well.
    pub last_report: Option<Value>,
}

impl TaskStatus {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            state: TaskState::Idle,
            iterations: 0,
            failures: 0,
            consecutive_failures: 0,
            last_started: None,
            last_success: None,
            last_duration_ms: None,
            last_error: None,
            last_report: None,
        }
    }

    /// How long ago the last run began.
    #[must_use]
    pub fn since_started(&self) -> Option<Duration> {
        self.last_started.map(since)
    }

    /// How long ago the last run that ended well began.
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

/// Whole milliseconds; what does not fit is as good as for ever.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
