//! Tasks that run periodically and when woken.
//!
//! An [`Activation`] queries stored state, acts on it and reports counts. It has no input, so the
//! first run after a start or a failover is like any other. A [`Driver`] runs it at once, then
//! after each period, earlier if the report requests it, and soon after a [`Wake`]. Runs never
//! overlap. Wake-ups during a run cause exactly one more run. The driver registers for wake-ups
//! before a run, so none is lost between the query and the wait.
//!
//! The driver logs a failed run or a panic once, counts it, and repeats it after a growing wait,
//! which wake-ups do not shorten. Therefore an activation must leave nothing half-done in memory or
//! in the database. A stop of the driver lets a run end; an activation with long runs watches the
//! token.
//!
//! Wake-ups are hints: a lost one delays work by a period at most.

mod backoff;
mod status;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

pub use backoff::Backoff;
pub use status::{TaskState, TaskStatus};

use crate::exit::{self, BoxError};
use crate::tasks::panic_message;

/// Repeatable work that does everything that is due.
pub trait Activation: Send {
    /// For logs, metrics and status: `snake_case`, unique within a process.
    fn name(&self) -> &'static str;

    /// Does all due work.
    fn run_once(&mut self) -> impl Future<Output = Result<Report, BoxError>> + Send;
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Only runs that did work are logged at `info`.
    pub worked: bool,
    /// Counts of the work, an object.
    pub counts: Value,
    /// The wait before the next run if shorter than the period.
    pub next_in: Option<Duration>,
}

impl Report {
    #[must_use]
    pub fn idle() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn worked(counts: Value) -> Self {
        Self { worked: true, counts, next_in: None }
    }

    #[must_use]
    pub fn next_in(mut self, delay: Duration) -> Self {
        self.next_in = Some(delay);
        self
    }
}

/// Wakes a driven task, which need not be waiting.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Notify>);

impl Wake {
    /// Requests a run that begins after this call.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

#[derive(Debug)]
pub struct Driver<A> {
    task: A,
    period: Duration,
    backoff: Backoff,
    wake: Wake,
    status: watch::Sender<TaskStatus>,
    failing: FailingGauge,
}

impl<A: Activation> Driver<A> {
    #[must_use]
    pub fn new(task: A, period: Duration) -> Self {
        let (status, _) = watch::channel(TaskStatus::new(task.name()));
        let failing = FailingGauge(task.name());
        Self { task, period, backoff: Backoff::default(), wake: Wake::default(), status, failing }
    }

    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    #[must_use]
    pub fn wake_handle(&self) -> Wake {
        self.wake.clone()
    }

    #[must_use]
    pub fn status(&self) -> watch::Receiver<TaskStatus> {
        self.status.subscribe()
    }

    /// Drives the task until `cancel` is cancelled, for
    /// [`TaskGroup::spawn`](crate::tasks::TaskGroup::spawn). Never returns an error.
    pub async fn run(mut self, cancel: CancellationToken) -> Result<(), BoxError> {
        // A collector does not see the growth of a counter that did not exist, so each starts at
        // zero.
        for outcome in ["ok", "error"] {
            metrics::counter!("sched_task_runs_total", "task" => self.task.name(), "outcome" => outcome)
                .increment(0);
        }
        self.failing.show(Duration::ZERO);
        while !cancel.is_cancelled() {
            // This run serves earlier wake-ups. A later one stays.
            let _served = self.wake.0.notified().now_or_never();
            let pause = self.run_and_record().await;
            tokio::select! {
                biased;
                () = cancel.cancelled() => break,
                () = self.wake.0.notified(), if pause.can_be_woken => {}
                () = tokio::time::sleep(pause.delay) => {}
            }
        }
        self.status.send_modify(|status| status.state = TaskState::Stopped);
        Ok(())
    }

    async fn run_and_record(&mut self) -> Pause {
        let name = self.task.name();
        let started = crate::monotonic_clock::monotonic();
        self.status.send_modify(|status| {
            status.state = TaskState::Running;
            status.last_started = Some(started);
        });
        let result = AssertUnwindSafe(self.task.run_once()).catch_unwind().await;
        let result =
            result.unwrap_or_else(|panic| Err(format!("panicked: {}", panic_message(panic.as_ref())).into()));
        let duration = crate::monotonic_clock::monotonic().saturating_duration_since(started);
        metrics::histogram!("sched_task_duration_seconds", "task" => name).record(duration);
        match result {
            Ok(report) => self.record_success(started, duration, report),
            Err(error) => self.record_failure(started, duration, &error),
        }
    }

    fn record_success(&self, started: Instant, duration: Duration, report: Report) -> Pause {
        let name = self.task.name();
        metrics::counter!("sched_task_runs_total", "task" => name, "outcome" => "ok").increment(1);
        self.failing.show(Duration::ZERO);
        let (duration_ms, counts) = (status::millis(duration), &report.counts);
        if report.worked {
            tracing::info!(task.name = name, task.duration_ms = duration_ms, task.report = %counts, "Task did its work.");
        } else {
            tracing::debug!(task.name = name, task.duration_ms = duration_ms, "Task had nothing to do.");
        }
        let delay = report.next_in.map_or(self.period, |delay| delay.min(self.period));
        self.status.send_modify(|status| {
            status.state = TaskState::Idle;
            status.iterations += 1;
            status.consecutive_failures = 0;
            status.failing_since = None;
            status.last_success = Some(started);
            status.last_duration_ms = Some(duration_ms);
            status.last_report = Some(report.counts);
        });
        Pause { delay, can_be_woken: true }
    }

    fn record_failure(&self, started: Instant, duration: Duration, error: &BoxError) -> Pause {
        let name = self.task.name();
        metrics::counter!("sched_task_runs_total", "task" => name, "outcome" => "error").increment(1);
        let text = exit::describe(error.as_ref());
        let failures = self.status.borrow().consecutive_failures.saturating_add(1);
        let delay = self.backoff.delay(failures, rand::random());
        let delay_ms = status::millis(delay);
        tracing::warn!(
            task.name = name,
            task.consecutive_failures = failures,
            task.retry_in_ms = delay_ms,
            error = text,
            "Task failed and will be run again."
        );
        self.status.send_modify(|status| {
            status.state = TaskState::Idle;
            status.iterations += 1;
            status.failures += 1;
            status.consecutive_failures = failures;
            status.failing_since = status.failing_since.or(Some(started));
            status.last_duration_ms = Some(status::millis(duration));
            status.last_error = Some(text);
        });
        self.failing.show(self.status.borrow().failing_for().unwrap_or_default());
        Pause { delay, can_be_woken: false }
    }
}

/// For how long a task has failed. A process that no longer drives the task exports 0.
#[derive(Debug)]
struct FailingGauge(&'static str);

impl FailingGauge {
    fn show(&self, time: Duration) {
        metrics::gauge!("sched_task_failing_seconds", "task" => self.0).set(time.as_secs_f64());
    }
}

impl Drop for FailingGauge {
    fn drop(&mut self) {
        self.show(Duration::ZERO);
    }
}

struct Pause {
    delay: Duration,
    can_be_woken: bool,
}
