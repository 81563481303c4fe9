//! Tasks with an owner.
//!
//! Long-lived tasks of a daemon are in [`TaskGroup`]s; short-lived children, such as an attempt,
//! are [`OwnedTask`]s. Both end with their owner. A member that returns or panics before the group
//! stops fails the whole group, so no task is dead while the process appears healthy.

use std::any::Any;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::{Id, JoinError, JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

pub use crate::exit::BoxError;
use crate::exit::{self, ExitStatus};

#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("task {name} ended unexpectedly")]
    Returned { name: String },
    #[error("task {name} failed")]
    Failed {
        name: String,
        #[source]
        source: BoxError,
    },
    #[error("task {name} panicked: {message}")]
    Panicked { name: String, message: String },
    /// The task was aborted at the deadline.
    #[error("task {name} did not stop in time and was aborted")]
    Aborted { name: String },
}

impl ExitStatus for TaskError {
    fn exit_code(&self) -> u8 {
        exit::FAILURE
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not everything stopped in order: {}", failures.iter().map(|e| exit::describe(e)).collect::<Vec<_>>().join("; "))]
pub struct StopError {
    pub failures: Vec<TaskError>,
}

impl StopError {
    /// Whether tasks were aborted at the deadline, and none failed.
    #[must_use]
    pub fn is_of_slow_tasks(&self) -> bool {
        self.failures.iter().all(|failure| matches!(failure, TaskError::Aborted { .. }))
    }

    fn unless_empty(failures: Vec<TaskError>) -> Result<(), Self> {
        if failures.is_empty() { Ok(()) } else { Err(Self { failures }) }
    }
}

impl ExitStatus for StopError {
    fn exit_code(&self) -> u8 {
        exit::FAILURE
    }
}

/// Long-lived tasks with a common stop. A drop aborts them.
#[derive(Debug, Default)]
pub struct TaskGroup {
    token: CancellationToken,
    tasks: JoinSet<Result<(), BoxError>>,
    names: HashMap<Id, String>,
}

impl TaskGroup {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The token that [`stop`](Self::stop) cancels.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    pub fn spawn<F>(&mut self, name: impl Into<String>, task: F)
    where
        F: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        let name = name.into();
        let span = tracing::info_span!("task", task.name = name);
        let handle = self.tasks.spawn(task.instrument(span));
        self.names.insert(handle.id(), name);
    }

    /// Waits until `stop` is cancelled. The tasks continue until [`stop`](Self::stop).
    ///
    /// # Errors
    /// If a task ends before that.
    pub async fn run_until(&mut self, stop: &CancellationToken) -> Result<(), TaskError> {
        tokio::select! {
            biased;
            () = stop.cancelled() => Ok(()),
            ended = self.next_end() => Err(ended),
        }
    }

    /// Cancels the group's token and waits for its tasks, until it aborts them at `deadline`.
    ///
    /// # Errors
    /// With every failed or aborted task.
    pub async fn stop(mut self, deadline: Duration) -> Result<(), StopError> {
        self.token.cancel();
        let mut failures = Vec::new();
        // The remaining tasks after a timeout are named below.
        let _ = tokio::time::timeout(deadline, self.join_all(&mut failures)).await;
        self.tasks.abort_all();
        let aborted: Vec<String> = self.names.values().cloned().collect();
        // A blocking call cannot be aborted, so its end is not awaited.
        failures.extend(aborted.into_iter().map(|name| TaskError::Aborted { name }));
        StopError::unless_empty(failures)
    }

    async fn join_all(&mut self, failures: &mut Vec<TaskError>) {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            let (name, result) = self.name(ended);
            if let Err(error) = outcome(name, result) {
                failures.push(error);
            }
        }
    }

    /// The first unexpected end; waits forever in an empty group.
    async fn next_end(&mut self) -> TaskError {
        let Some(ended) = self.tasks.join_next_with_id().await else { return std::future::pending().await };
        let (name, result) = self.name(ended);
        outcome(name.clone(), result).err().unwrap_or(TaskError::Returned { name })
    }

    fn name(
        &mut self,
        ended: Result<(Id, Result<(), BoxError>), JoinError>,
    ) -> (String, Result<Result<(), BoxError>, JoinError>) {
        let (id, result) = match ended {
            Ok((id, result)) => (id, Ok(result)),
            Err(error) => (error.id(), Err(error)),
        };
        (self.names.remove(&id).unwrap_or_default(), result)
    }
}

/// Stops groups in order before one deadline: later groups protect the work of earlier ones.
///
/// # Errors
/// With every failed or aborted task.
pub async fn stop_in_order(
    groups: impl IntoIterator<Item = TaskGroup>,
    deadline: Duration,
) -> Result<(), StopError> {
    let started = tokio::time::Instant::from_std(crate::monotonic_clock::monotonic());
    let mut failures = Vec::new();
    for group in groups {
        let left = deadline.saturating_sub(started.elapsed());
        if let Err(error) = group.stop(left).await {
            failures.extend(error.failures);
        }
    }
    StopError::unless_empty(failures)
}

/// A task that a drop of its handle aborts. The handle is a future of the task's value.
#[derive(Debug)]
pub struct OwnedTask<T> {
    name: String,
    handle: JoinHandle<T>,
}

/// Starts a task that belongs to the returned handle.
pub fn spawn_owned<T, F>(name: impl Into<String>, task: F) -> OwnedTask<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    spawn_owned_on(&Handle::current(), name, task)
}

/// Like [`spawn_owned`], on another runtime.
pub fn spawn_owned_on<T, F>(runtime: &Handle, name: impl Into<String>, task: F) -> OwnedTask<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    OwnedTask { name: name.into(), handle: runtime.spawn(task.in_current_span()) }
}

impl<T> OwnedTask<T> {
    pub fn abort(&self) {
        self.handle.abort();
    }

    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl<T> Future for OwnedTask<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = std::task::ready!(Pin::new(&mut self.handle).poll(context));
        Poll::Ready(ended.map_err(|error| join_failure(self.name.clone(), error)))
    }
}

impl<T> Drop for OwnedTask<T> {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

fn outcome(name: String, result: Result<Result<(), BoxError>, JoinError>) -> Result<(), TaskError> {
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(source)) => Err(TaskError::Failed { name, source }),
        Err(error) => Err(join_failure(name, error)),
    }
}

fn join_failure(name: String, error: JoinError) -> TaskError {
    match error.try_into_panic() {
        Ok(panic) => TaskError::Panicked { name, message: panic_message(panic.as_ref()) },
        Err(_cancelled) => TaskError::Aborted { name },
    }
}

#[must_use]
pub fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests;
