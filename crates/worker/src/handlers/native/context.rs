//! The context of a native handler: data of the attempt, cancellation, log, progress and metrics.

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

use super::super::capture::{Capture, CapturedOutput};
use super::super::metrics::{MetricError, Metrics};
use super::super::{Execution, RunDetails, Upstream, storable};
use crate::attempt::stops::LazyToken;

/// The context of one attempt. Clones share it.
#[derive(Clone)]
pub struct Ctx(Arc<Inner>);

struct Inner {
    execution: Execution,
    config: NativeConfig,
    deadline: Instant,
    /// When a thread first ran the handler.
    began: OnceLock<Instant>,
    stop: LazyToken,
    /// The handler has completely ended.
    gone: LazyToken,
    log: Mutex<Capture>,
    /// Metrics, and the reason of the first rejection.
    metrics: Mutex<(Metrics, Option<MetricError>)>,
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
            stop: LazyToken::default(),
            gone: LazyToken::default(),
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

    pub(super) fn stop(&self) {
        self.0.stop.cancel();
    }

    fn token(&self) -> &CancellationToken {
        self.0.stop.token_or(CancellationToken::new)
    }

    /// Records that the handler has completely ended.
    pub(super) fn leave(&self) {
        self.0.gone.cancel();
    }

    /// Waits until the handler has completely ended.
    pub(super) async fn gone(&self) {
        self.0.gone.token_or(CancellationToken::new).cancelled().await;
    }

    pub(super) fn config(&self) -> &NativeConfig {
        &self.0.config
    }

    /// Later lines, from a task that the handler left behind, are only counted.
    pub(super) fn take_log(&self) -> CapturedOutput {
        std::mem::replace(&mut *self.log_lock(), Capture::new(0)).finish()
    }

    fn log_lock(&self) -> std::sync::MutexGuard<'_, Capture> {
        // Every push leaves the capture consistent.
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Later metrics are dropped.
    pub(super) fn take_metrics(&self) -> (Metrics, Option<MetricError>) {
        std::mem::take(&mut *self.metrics_lock())
    }

    fn metrics_lock(&self) -> std::sync::MutexGuard<'_, (Metrics, Option<MetricError>)> {
        // Every change leaves them consistent.
        self.0.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The untyped arguments.
    #[must_use]
    pub fn raw_args(&self) -> &Value {
        &self.0.execution.args
    }

    /// Writes a line to the output of the attempt (stream `log`). Users see it during the attempt
    /// and afterwards.
    ///
    /// It never waits. If the output exceeds `max_output_bytes`, the worker keeps its head and its
    /// tail.
    pub fn log(&self, line: impl AsRef<str>) {
        let mut text = storable::text(line.as_ref().as_bytes());
        text.push('\n');
        self.log_lock().push(text.as_bytes());
        self.0.execution.live.output("log", text);
    }

    /// Reports progress: a percentage, if known, and the current activity. It never waits.
    pub fn progress(&self, percent: impl Into<Option<f32>>, message: impl AsRef<str>) {
        let percent = percent.into().filter(|percent| percent.is_finite());
        let message = storable::text(message.as_ref().as_bytes());
        self.0.execution.live.progress(percent.map(|percent| percent.clamp(0.0, 100.0)), message);
    }

    /// Reports a metric of the attempt, such as the number of rows read. History keeps the latest
    /// value of each name, for every outcome.
    ///
    /// Names consist of lower-case letters, digits and `_`, at most 64 characters. An attempt keeps
    /// 20 metrics. Other names, further metrics and values that are not finite are dropped with a
    /// note in the worker's log.
    pub fn metric(&self, name: impl AsRef<str>, value: impl Into<Value>) {
        let mut kept = self.metrics_lock();
        if let Err(why) = kept.0.set(name.as_ref(), value.into()) {
            kept.1.get_or_insert(why);
        }
    }

    /// Waits until the attempt must stop: it timed out, a user cancelled it, or its worker stops.
    ///
    /// The handler then has its grace period (`grace_seconds`) to return. Use it in
    /// `tokio::select!` beside the work.
    pub async fn cancelled(&self) {
        self.token().cancelled().await;
    }

    /// Whether the attempt must stop. Blocking handlers check this between steps.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// The token behind [`Ctx::cancelled`].
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.token().clone()
    }

    /// When the attempt times out, on this machine's monotonic clock.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.0.deadline
    }

    /// The time-out of the attempt, from its start.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.0.execution.timeout
    }

    /// Time until the deadline, or zero after it.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.deadline.saturating_duration_since(monotonic())
    }

    /// The id of the run, the same for all its attempts.
    #[must_use]
    pub fn run_id(&self) -> Uuid {
        self.0.execution.run_id
    }

    /// The id of the tenant.
    #[must_use]
    pub fn tenant_id(&self) -> Uuid {
        self.0.execution.tenant_id
    }

    /// The id of the project of the job.
    #[must_use]
    pub fn project_id(&self) -> Option<Uuid> {
        self.0.execution.project_id
    }

    /// The source of the run: `scheduler`, `manual`, `api`, `retry` or `dependency`.
    #[must_use]
    pub fn trigger(&self) -> &'static str {
        self.0.execution.trigger
    }

    /// Names of tenant, project, queue and triggering user, and the schedule.
    ///
    /// `None` unless the configuration of the function has `context: true`: the claim then reads
    /// them for each run.
    #[must_use]
    pub fn details(&self) -> Option<&RunDetails> {
        self.0.execution.details.as_deref()
    }

    /// The id of the job.
    #[must_use]
    pub fn job_id(&self) -> Uuid {
        self.0.execution.job_id
    }

    /// The id of this attempt.
    #[must_use]
    pub fn attempt_id(&self) -> Uuid {
        self.0.execution.attempt_id
    }

    /// The name of the job.
    #[must_use]
    pub fn job_name(&self) -> &str {
        &self.0.execution.job_name
    }

    /// The number of this attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.execution.attempt
    }

    /// The due time of the run. Compute "the day before" from this time, not from the current time.
    #[must_use]
    pub fn fire_time(&self) -> DateTime<Utc> {
        self.0.execution.fire_time
    }

    /// Time from the due time to the claim, by the database's clock.
    #[must_use]
    pub fn lateness(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.execution.lateness_ms).unwrap_or(0))
    }

    /// Whether the run is a catch-up for a misfire.
    #[must_use]
    pub fn is_catch_up(&self) -> bool {
        self.0.execution.catch_up
    }

    /// The same for all attempts of a run. Receivers can detect repetitions by it.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.0.execution.idempotency_key
    }

    /// The run that this run follows, if a dependency caused it: its id, final status and result.
    #[must_use]
    pub fn upstream(&self) -> Option<&Upstream> {
        self.0.execution.upstream.as_deref()
    }

    /// W3C trace context of this attempt. Pass it on to called services.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.0.execution.traceparent.as_deref()
    }

    /// The value of a secret that `handler_config.secrets` names.
    ///
    /// # Errors
    /// The configuration of the function does not name the secret.
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
            .field("run_id", &execution.run_id)
            .field("attempt", &execution.attempt)
            .finish_non_exhaustive()
    }
}

/// The requested secret is not in `handler_config.secrets`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("handler_config.secrets of the function does not name {name:?}")]
pub struct SecretNotNamed {
    /// The requested name.
    pub name: String,
}
