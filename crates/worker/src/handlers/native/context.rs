//! What a native handler is given: who it runs for, when it must stop, and where it tells what it does.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sched_model::domain::handler_config::NativeConfig;
use sched_runtime::monotonic_clock::monotonic;
use secrecy::ExposeSecret;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::super::capture::{Capture, Captured};
use super::super::metrics::{Metrics, NotKept};
use super::super::{Execution, storable};

/// The context of one attempt. Cloning is cheap, and the clones are the same context.
#[derive(Clone)]
pub struct Ctx(Arc<Inner>);

struct Inner {
    execution: Execution,
    config: NativeConfig,
    deadline: Instant,
    /// When the handler was first given a thread.
    began: OnceLock<Instant>,
    stop: CancellationToken,
    log: Mutex<Capture>,
    /// What was reported in numbers, and the first that was not kept.
    metrics: Mutex<(Metrics, Option<NotKept>)>,
}

impl Ctx {
    pub(super) fn new(execution: Execution, config: NativeConfig, called: Instant) -> Self {
        let deadline = called + execution.timeout;
        let limit = usize::try_from(config.max_output_bytes).unwrap_or(usize::MAX);
        Self(Arc::new(Inner {
            execution,
            config,
            deadline,
            began: OnceLock::new(),
            stop: CancellationToken::new(),
            log: Mutex::new(Capture::new(limit)),
            metrics: Mutex::default(),
        }))
    }

    pub(super) fn begin(&self) {
        self.0.began.get_or_init(monotonic);
    }

    pub(super) fn began(&self) -> Option<Instant> {
        self.0.began.get().copied()
    }

    pub(super) fn config(&self) -> &NativeConfig {
        &self.0.config
    }

    pub(super) fn timeout(&self) -> Duration {
        self.0.execution.timeout
    }

    /// What was logged. Lines that come later (from a task the handler left behind) are only counted.
    pub(super) fn take_log(&self) -> Captured {
        std::mem::replace(&mut *self.log_lock(), Capture::new(0)).finish()
    }

    fn log_lock(&self) -> std::sync::MutexGuard<'_, Capture> {
        // Every push leaves the capture whole.
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was reported in numbers. What comes later is nobody's.
    pub(super) fn take_metrics(&self) -> (Metrics, Option<NotKept>) {
        std::mem::take(&mut *self.metrics_lock())
    }

    fn metrics_lock(&self) -> std::sync::MutexGuard<'_, (Metrics, Option<NotKept>)> {
        // Every change leaves them whole.
        self.0.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The arguments as they are. A handler's typed arguments were read from these.
    #[must_use]
    pub fn raw_args(&self) -> &Value {
        &self.0.execution.args
    }

    /// Writes a line to the output of the attempt (stream `log`), where people see it while it runs and afterwards.
    ///
    /// It never waits. Of very much output the head and the tail are kept (`max_output_bytes`).
    pub fn log(&self, line: impl AsRef<str>) {
        let mut text = storable::text(line.as_ref().as_bytes());
        text.push('\n');
        self.log_lock().push(text.as_bytes());
        self.0.execution.live.output("log", text);
    }

    /// Tells how far the work has come: a percentage where it is known, and what it does now. It never waits.
    pub fn progress(&self, percent: impl Into<Option<f32>>, message: impl AsRef<str>) {
        let percent = percent.into().filter(|percent| percent.is_finite());
        let message = storable::text(message.as_ref().as_bytes());
        self.0.execution.live.progress(percent.map(|percent| percent.clamp(0.0, 100.0)), message);
    }

    /// Reports a number about the attempt, such as the rows it read. History keeps the latest of each name, whatever the outcome.
    ///
    /// Names are small letters, digits and `_`, up to 64; an attempt keeps 20 numbers. What is none of that, or not finite, is left out with a
    /// note in the worker's log.
    pub fn metric(&self, name: impl AsRef<str>, value: impl Into<Value>) {
        let mut kept = self.metrics_lock();
        if let Err(why) = kept.0.set(name.as_ref(), value.into()) {
            kept.1.get_or_insert(why);
        }
    }

    /// Waits until the attempt is to stop: its time is up, somebody cancelled it, or its worker stops.
    ///
    /// The handler then has its grace (`grace_seconds`) to return. Use it in `tokio::select!` beside the work.
    pub async fn cancelled(&self) {
        self.0.stop.cancelled().await;
    }

    /// Whether the attempt is to stop. Blocking handlers look at it between steps.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// The token behind [`Ctx::cancelled`], for libraries that take one.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.0.stop.clone()
    }

    /// When the time of the attempt is up, on this machine's monotonic clock.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.0.deadline
    }

    /// How much time is left; zero when none is.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.deadline.saturating_duration_since(monotonic())
    }

    /// The dispatch. It stays the same over retries.
    #[must_use]
    pub fn dispatch_id(&self) -> Uuid {
        self.0.execution.dispatch_id
    }

    /// The job.
    #[must_use]
    pub fn job_id(&self) -> Uuid {
        self.0.execution.job_id
    }

    /// This attempt.
    #[must_use]
    pub fn execution_id(&self) -> Uuid {
        self.0.execution.execution_id
    }

    /// Name of the job.
    #[must_use]
    pub fn job_name(&self) -> &str {
        &self.0.execution.job_name
    }

    /// Number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.execution.attempt
    }

    /// The instant the dispatch was due. Work on "the day before" counts from here and not from now.
    #[must_use]
    pub fn fire_time(&self) -> DateTime<Utc> {
        self.0.execution.fire_time
    }

    /// How late the attempt was claimed, by the database's clock.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.execution.lateness_ms).unwrap_or(0))
    }

    /// Whether the dispatch makes up for a fire time that was missed.
    #[must_use]
    pub fn is_catch_up(&self) -> bool {
        self.0.execution.catch_up
    }

    /// Stays the same over retries: give it to receivers that must not act twice.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.0.execution.idempotency_key
    }

    /// W3C trace context of this attempt, in the trace of what created the dispatch; whatever it calls is part of it.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.0.execution.traceparent.as_deref()
    }

    /// The value of a secret that `handler_config.secrets` names.
    ///
    /// # Errors
    /// The function's configuration does not name it.
    pub fn secret(&self, name: &str) -> Result<&str, SecretNotNamed> {
        let value = self.0.execution.secrets.get(name).map(ExposeSecret::expose_secret);
        value.ok_or_else(|| SecretNotNamed { name: name.to_owned() })
    }
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let execution = &self.0.execution;
        f.debug_struct("Ctx")
            .field("job", &execution.job_name)
            .field("dispatch_id", &execution.dispatch_id)
            .field("attempt", &execution.attempt)
            .finish_non_exhaustive()
    }
}

/// A native handler asked for a secret that it was not given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("handler_config.secrets of the function does not name {name:?}")]
pub struct SecretNotNamed {
    /// The name.
    pub name: String,
}
