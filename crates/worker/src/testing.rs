//! Runs a native handler in a test, without a database and without a daemon.
//!
//! A [`TestRun`] is one attempt with the rules of a worker for arguments, errors, panics, timeout and
//! cancellation. Nothing is stored. It runs on the runtime of the test.
//!
//! ```
//! use sched_worker::testing::TestRun;
//! use sched_worker::{Ctx, HandlerError};
//!
//! async fn double(ctx: Ctx, args: Vec<i64>) -> Result<i64, HandlerError> {
//!     ctx.progress(50.0, "adding");
//!     Ok(args.iter().sum::<i64>() * 2)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let ended = TestRun::new(double).args(serde_json::json!([1, 2])).attempt(2).run().await;
//! assert_eq!(ended.result, Some(serde_json::json!(6)));
//! assert_eq!(ended.progress, [(Some(50.0), "adding".to_owned())]);
//! # }
//! ```

use std::future::Future;
use std::time::Duration;

use chrono::{DateTime, Utc};
use secrecy::SecretString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::handlers::native::{Ctx, HandlerError, NativeHandler, RegisterError, Registry};
use crate::handlers::{
    Execution, Live, LiveEvent, Outcome, Report, RetryHint, RunDetails, Secrets, Upstream,
};

const NAME: &str = "handler";
const MOST_EVENTS: usize = 100_000;

/// An attempt of a native handler.
#[derive(Debug)]
pub struct TestRun {
    registry: Result<Registry, RegisterError>,
    execution: Execution,
    grace_seconds: u32,
    secrets: Vec<(String, String)>,
    cancel: CancellationToken,
}

/// How the attempt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TestReport {
    /// The outcome.
    pub outcome: Outcome,
    /// The returned value, as the worker would store it.
    pub result: Option<Value>,
    /// The class, unless the attempt succeeded.
    pub error_class: Option<&'static str>,
    /// The message, unless the attempt succeeded.
    pub error_message: Option<String>,
    /// `false` when the handler excluded a retry.
    pub may_retry: bool,
    /// The location of a panic.
    pub traceback: Option<String>,
    /// The reported metrics as an object, if there are any.
    pub metrics: Option<Value>,
    /// The logged lines.
    pub log: String,
    /// The percentage, if known, and the message.
    pub progress: Vec<(Option<f32>, String)>,
    /// Notes of the worker's log, such as a result that is too large.
    pub notes: Vec<String>,
}

impl TestRun {
    /// The first attempt of an asynchronous handler, on time, without arguments, with a timeout of one
    /// minute.
    pub fn new<F, Fut, A, R, E>(handler: F) -> Self
    where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        A: DeserializeOwned,
        R: Serialize,
        E: Into<HandlerError>,
    {
        let mut registry = Registry::default();
        let added = registry.add(NAME, handler);
        Self::of(added.map(|()| registry))
    }

    /// The first attempt of a blocking handler, as in [`TestRun::new`].
    pub fn blocking<F, A, R, E>(handler: F) -> Self
    where
        F: Fn(Ctx, A) -> Result<R, E> + Send + Sync + 'static,
        A: DeserializeOwned,
        R: Serialize,
        E: Into<HandlerError>,
    {
        let mut registry = Registry::default();
        let added = registry.add_blocking(NAME, handler);
        Self::of(added.map(|()| registry))
    }

    fn of(registry: Result<Registry, RegisterError>) -> Self {
        let execution = execution();
        let cancel = CancellationToken::new();
        Self { registry, execution, grace_seconds: 10, secrets: Vec::new(), cancel }
    }

    /// Sets the arguments.
    #[must_use]
    pub fn args(mut self, args: Value) -> Self {
        self.execution.args = args;
        self
    }

    /// Sets the number of the attempt, counted from 1.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.execution.attempt = attempt;
        self
    }

    /// Sets the due time of the run.
    #[must_use]
    pub fn fire_time(mut self, fire_time: DateTime<Utc>) -> Self {
        self.execution.fire_time = fire_time;
        self
    }

    /// Turns the run into a catch-up of a misfire, claimed this late.
    #[must_use]
    pub fn catching_up(mut self, lateness: Duration) -> Self {
        self.execution.catch_up = true;
        self.execution.lateness_ms = i64::try_from(lateness.as_millis()).unwrap_or(i64::MAX);
        self
    }

    /// Sets the name of the job.
    #[must_use]
    pub fn job_name(mut self, name: impl Into<String>) -> Self {
        self.execution.job_name = name.into();
        self
    }

    /// Sets the details of a run of a function with `context: true`.
    #[must_use]
    pub fn details(mut self, details: RunDetails) -> Self {
        self.execution.details = Some(Box::new(details));
        self
    }

    /// Sets the idempotency key; the default is the id of the run.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.execution.idempotency_key = key.into();
        self
    }

    /// Sets the run that this run follows, as if a dependency had caused it.
    #[must_use]
    pub fn upstream(mut self, upstream: Upstream) -> Self {
        self.execution.upstream = Some(Box::new(upstream));
        self
    }

    /// Adds a secret that the configuration of the function names.
    #[must_use]
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.secrets.push((name.into(), value.into()));
        self
    }

    /// Sets the timeout.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.execution.timeout = timeout;
        self
    }

    /// Sets the seconds between cancellation and drop of the handler.
    #[must_use]
    pub fn grace_seconds(mut self, seconds: u32) -> Self {
        self.grace_seconds = seconds;
        self
    }

    /// Cancels the attempt when `cancel` is cancelled.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
    }

    /// Runs the attempt to its end.
    pub async fn run(self) -> TestReport {
        let (live, mut events) = Live::channel(MOST_EVENTS);
        let names: Vec<&str> = self.secrets.iter().map(|(name, _)| name.as_str()).collect();
        let config = json!({"handler": NAME, "grace_seconds": self.grace_seconds, "secrets": names});
        let secrets =
            self.secrets.into_iter().map(|(name, value)| (name, SecretString::from(value))).collect();
        let execution = Execution { live, secrets, handler_config: config, ..self.execution };
        // The name is valid; otherwise the report would name an unknown handler.
        let handler = NativeHandler::on_callers_threads(self.registry.unwrap_or_default());
        let report = handler.run(execution, &self.cancel).await;
        let mut progress = Vec::new();
        while let Ok(event) = events.try_recv() {
            if let LiveEvent::Progress { percent, message } = event {
                progress.push((percent, message));
            }
        }
        TestReport::of(report, progress)
    }
}

impl TestReport {
    fn of(report: Report, progress: Vec<(Option<f32>, String)>) -> Self {
        Self {
            outcome: report.outcome,
            result: report.result,
            error_class: report.error_class.map(crate::handlers::ErrorClass::as_str),
            error_message: report.error_message,
            may_retry: report.again != RetryHint::Never,
            traceback: report.traceback,
            metrics: report.metrics,
            log: report.log.head + &report.log.tail,
            progress,
            notes: report.notes,
        }
    }
}

/// The first attempt of a run that was due at the epoch.
pub(crate) fn execution() -> Execution {
    let run_id = Uuid::new_v4();
    Execution {
        run_id,
        tenant_id: Uuid::new_v4(),
        project_id: None,
        job_id: Uuid::new_v4(),
        attempt_id: Uuid::new_v4(),
        job_name: "test".to_owned(),
        attempt: 1,
        fire_time: DateTime::UNIX_EPOCH,
        lateness_ms: 0,
        catch_up: false,
        trigger: "api",
        details: None,
        idempotency_key: run_id.to_string(),
        args: json!({}),
        timeout: Duration::from_secs(60),
        traceparent: None,
        handler_config: Value::Null,
        live: Live::detached(),
        secrets: Secrets::default(),
        upstream: None,
    }
}
