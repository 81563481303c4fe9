//! An attempt of a native handler, from its first poll to its report.
//!
//! A handler runs in a task of its threads, or its first poll runs in place: in a task that polls
//! many handlers, one after the other. A handler that is pending after that poll continues in its
//! own task. While the first poll still runs, the supervisor waits for its end
//! ([`HandlerTask::InPlace`]).

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::{OwnedTask, TaskError, spawn_owned_on};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::super::report::Report;
use super::alive::{Alive, Count};
use super::context::Ctx;
use super::outcome::{StopReason, report_of};
use super::panics;
use super::registry::{Ending, Handler, Run};

/// A dropped handler must end within this time.
const DROP_WAIT: Duration = Duration::from_secs(5);
const TASK: &str = "native handler";

/// Its drop stops the handler: the thread can still read its context.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(super) ctx: Ctx,
    pub(super) called: Instant,
}

/// A handler that has not been called.
pub(crate) struct Call {
    handler: Handler,
    ctx: Ctx,
    alive: Alive,
}

/// A handler after its first poll.
pub(crate) enum Polled {
    Ended(Ending),
    Pending(Run),
}

/// The handler of a supervised attempt. A drop aborts it at its next `.await`.
pub(crate) enum HandlerTask {
    InPlace(FirstPoll),
    Own(OwnedTask<Ending>),
}

/// A first poll on another thread.
pub(crate) struct FirstPoll {
    polled: oneshot::Receiver<Polled>,
    /// They continue a pending handler.
    threads: Handle,
}

impl Call {
    pub(super) fn new(handler: Handler, ctx: Ctx, count: &Count) -> Self {
        let alive = Alive::new(count, ctx.clone());
        Self { handler, ctx, alive }
    }

    /// Calls the handler and polls it once. No panic leaves this function.
    pub(crate) fn poll_once(self, context: &mut Context<'_>) -> Polled {
        let Self { handler, ctx, alive } = self;
        ctx.begin();
        let mut run = match panics::catch(|| handler(ctx, alive)) {
            Ok(run) => run,
            Err(panic) => return Polled::Ended(Ending::Panicked(panic)),
        };
        let polled = match panics::catch(|| run.as_mut().poll(context)) {
            Ok(Poll::Pending) => return Polled::Pending(run),
            Ok(Poll::Ready(ending)) => Ok(ending),
            Err(panic) => Err(panic),
        };
        let dropped = panics::catch(|| drop(run));
        Polled::Ended(match (polled, dropped) {
            (Ok(ending), Ok(())) => ending,
            (Err(panic), _) | (Ok(_), Err(panic)) => Ending::Panicked(panic),
        })
    }

    /// No panic leaves this function.
    async fn run(self) -> Ending {
        let (mut call, mut run) = (Some(self), None);
        poll_fn(|context| {
            let Some(call) = call.take() else {
                return run.as_mut().map_or(Poll::Pending, |run| poll(run, context));
            };
            match call.poll_once(context) {
                Polled::Ended(ending) => Poll::Ready(ending),
                Polled::Pending(pending) => {
                    run = Some(pending);
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub(super) fn spawn(self, threads: &Handle) -> HandlerTask {
        HandlerTask::Own(spawn_owned_on(threads, TASK, self.run()))
    }
}

fn poll(run: &mut Run, context: &mut Context<'_>) -> Poll<Ending> {
    match panics::catch(|| run.as_mut().poll(context)) {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(Ending::Panicked(panic)),
    }
}

impl HandlerTask {
    /// A handler that is pending after its first poll, in a new task. The task polls it again, so
    /// that it registers the waker of the task.
    pub(crate) fn spawn(mut run: Run, threads: &Handle) -> Self {
        Self::Own(spawn_owned_on(threads, TASK, poll_fn(move |context| poll(&mut run, context))))
    }

    /// A handler in its first poll, which sends the result of the poll.
    pub(crate) fn in_place(polled: oneshot::Receiver<Polled>, threads: Handle) -> Self {
        Self::InPlace(FirstPoll { polled, threads })
    }

    async fn ended(&mut self) -> Result<Ending, TaskError> {
        loop {
            match self {
                Self::Own(task) => return task.await,
                Self::InPlace(first) => {
                    let polled = (&mut first.polled).await;
                    match polled {
                        Ok(Polled::Ended(ending)) => return Ok(ending),
                        Ok(Polled::Pending(run)) => *self = Self::spawn(run, &first.threads),
                        Err(_dropped) => return Err(aborted()),
                    }
                }
            }
        }
    }
}

impl Drop for FirstPoll {
    fn drop(&mut self) {
        // From now on, the thread of the first poll drops a pending handler.
        self.polled.close();
        if let Ok(Polled::Pending(run)) = self.polled.try_recv() {
            // Code of users runs only on their threads, also a drop.
            drop(HandlerTask::spawn(run, &self.threads));
        }
    }
}

/// The task of the handler ended with its runtime, or by a defect of this program.
fn aborted() -> TaskError {
    TaskError::Aborted { name: TASK.to_owned() }
}

impl Begun {
    /// Waits for the end of the handler, or stops it.
    pub(crate) async fn supervise(&self, mut task: HandlerTask, cancel: &CancellationToken) -> Report {
        let ctx = &self.ctx;
        let reason = tokio::select! {
            biased;
            ended = task.ended() => return report_of(ended),
            () = cancel.cancelled() => StopReason::Cancelled,
            () = sleep(ctx.timeout().saturating_sub(self.called.elapsed())) => StopReason::TimedOut,
        };
        ctx.stop();
        let grace = Duration::from_secs(u64::from(ctx.config().grace_seconds));
        if let Ok(ended) = timeout(grace, task.ended()).await {
            return reason.after_return(report_of(ended), ctx);
        }
        drop(task);
        let is_gone = timeout(DROP_WAIT, ctx.gone()).await.is_ok();
        reason.after_drop(is_gone, grace, ctx)
    }

    /// The report of a handler that ended in its first poll; `None` if its task died.
    pub(crate) fn report(self, ending: Option<Ending>) -> Report {
        let report = report_of(ending.ok_or_else(aborted));
        self.complete(report)
    }

    /// Adds times, log and metrics to the report.
    pub(crate) fn complete(self, mut report: Report) -> Report {
        let Self { ctx, called } = &self;
        report.started_after = ctx.began().map(|began| began.saturating_duration_since(*called));
        report.log = ctx.take_log();
        let (metrics, metric_error) = ctx.take_metrics();
        report.metrics = metrics.into_json();
        report.notes.extend(metric_error.map(|why| why.to_string()));
        report.elapsed = monotonic().duration_since(*called);
        report
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.ctx.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    struct NotesThread(mpsc::Sender<thread::ThreadId>);

    impl Drop for NotesThread {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).unwrap();
        }
    }

    #[test]
    fn pending_handler_is_dropped_on_its_threads() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (noted, thread_of_drop) = mpsc::channel();
        let notes = NotesThread(noted);
        let run: Run = Box::pin(async move {
            let _notes = notes;
            std::future::pending().await
        });
        let (sender, polled) = oneshot::channel();
        let task = HandlerTask::in_place(polled, runtime.handle().clone());
        assert!(sender.send(Polled::Pending(run)).is_ok());
        drop(task);
        assert_ne!(thread_of_drop.recv().unwrap(), thread::current().id());
    }
}
