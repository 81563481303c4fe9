//! The `native` handler: runs Rust functions that are built into the worker's program.
//!
//! Handlers run on threads of their own, apart from those of the worker: one that blocks its thread (a long computation, a
//! blocking call) holds up other handlers at most, and never a heartbeat, a claim or the storing of a result. Each attempt is
//! a task there; this module waits for it on the worker's side and makes it stop: when its time is up or it is cancelled,
//! first by its token ([`Ctx::cancelled`]), after the grace by dropping it. A dropped future is gone at its next `.await`; a
//! thread that never comes to one cannot be stopped, which is then said in the report and keeps its thread until it returns. A
//! panic is caught and is a failed attempt.
//!
//! When the future of an attempt is dropped here (its lease is lost), its token is cancelled and its task aborted. When the
//! process dies nothing of it is left: everything is inside the process.
//!
//! # Design notes
//!
//! A second runtime costs two wake-ups across threads for each attempt, a few microseconds, and is what makes the promise about
//! heartbeats hold: with one runtime, as many blocking handlers as there are cores would stop all of the worker, and its lease
//! with it. Giving only the heartbeats a thread of their own would keep the lease of a worker that no longer claims or stores
//! anything. A thread for each attempt would make blocking harmless, but 1,000 slots of waiting handlers are 1,000 threads;
//! those who block ask for it (`blocking_handler`).

mod alive;
mod context;
mod error;
mod panics;
mod registry;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

use sched_model::domain::handler_config::NativeConfig;
use sched_runtime::clock::monotonic;
use sched_runtime::tasks::{TaskError, spawn_owned_on};
use tokio::runtime::{self, Handle, Runtime};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Execution;
use super::report::{ErrorClass, Outcome, Report};
use alive::{Alive, Count};
use registry::{Ending, Handler};

pub use context::{Ctx, SecretError};
pub use error::HandlerError;
pub use registry::{RegisterError, Registry};

/// How long a dropped handler may take to be gone.
const DROP_WAIT: Duration = Duration::from_secs(5);
/// Longest error message that is kept, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// Runs functions of type `native`.
pub struct NativeHandler {
    registry: Registry,
    threads: Threads,
    alive: Count,
}

/// Where handlers run.
enum Threads {
    /// On those of whoever calls.
    Callers,
    /// On their own. `None` once it shuts down.
    Own(Option<Runtime>),
}

impl NativeHandler {
    /// Handlers with `threads` threads of their own; none are started for an empty registry.
    ///
    /// # Errors
    /// The operating system refused the threads.
    pub fn new(registry: Registry, threads: usize) -> io::Result<Self> {
        if registry.is_empty() {
            return Ok(Self::on_callers_threads(registry));
        }
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("sched-handler")
            .enable_all()
            .build()?;
        panics::install();
        Ok(Self { registry, threads: Threads::Own(Some(runtime)), alive: Count::default() })
    }

    /// Handlers that run on the runtime of whoever calls; for tests.
    #[must_use]
    pub fn on_callers_threads(registry: Registry) -> Self {
        panics::install();
        Self { registry, threads: Threads::Callers, alive: Count::default() }
    }

    /// How many handlers run, those included that were given up and have not ended.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.alive.get()
    }

    /// Runs one attempt to its end; see the module.
    pub async fn run(&self, execution: Execution, cancel: &CancellationToken) -> Report {
        let called = monotonic();
        let mut report = self.attempt(execution, cancel, called).await;
        report.elapsed = monotonic().duration_since(called);
        report
    }

    async fn attempt(&self, execution: Execution, cancel: &CancellationToken, called: Instant) -> Report {
        if cancel.is_cancelled() {
            return Report::ended(
                Outcome::Cancelled,
                Some((ErrorClass::Cancelled, "cancelled before it started")),
            );
        }
        let config = match NativeConfig::parse(&execution.handler_config) {
            Ok(config) => config,
            Err(mistakes) => return invalid_config(&mistakes),
        };
        let Some(handler) = self.registry.get(&config.handler) else { return self.unknown(&config.handler) };
        let ctx = Ctx::new(execution, config, called);
        let mut report = self.supervise(handler, &ctx, cancel).await;
        report.started_after = ctx.began().map(|began| began.saturating_duration_since(called));
        report.log = ctx.take_log();
        report
    }

    async fn supervise(&self, handler: Handler, ctx: &Ctx, cancel: &CancellationToken) -> Report {
        let (alive, gone) = Alive::new(&self.alive);
        // Also when this future is dropped: a thread that cannot be aborted should at least be told.
        let told_to_stop = ctx.cancellation().drop_guard();
        let mut task = spawn_owned_on(&self.handle(), "native handler", attempt(handler, ctx.clone(), alive));
        let reason = tokio::select! {
            biased;
            ended = &mut task => return judge(ended, ctx),
            () = cancel.cancelled() => Stopped::Cancelled,
            () = sleep(ctx.timeout()) => Stopped::TimedOut,
        };
        drop(told_to_stop);
        let grace = Duration::from_secs(u64::from(ctx.config().grace_seconds));
        if let Ok(ended) = timeout(grace, &mut task).await {
            return reason.after_return(judge(ended, ctx), ctx);
        }
        task.abort();
        let is_gone = timeout(DROP_WAIT, gone).await.is_ok();
        reason.after_drop(is_gone, grace, ctx)
    }

    fn handle(&self) -> Handle {
        match &self.threads {
            Threads::Own(Some(runtime)) => runtime.handle().clone(),
            Threads::Own(None) | Threads::Callers => Handle::current(),
        }
    }

    fn unknown(&self, name: &str) -> Report {
        let names = self.registry.names();
        let has = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let message = format!(
            "this worker has no native handler {name:?}; it has: {has}. Give the function a queue that only workers with \
             the handler serve"
        );
        Report::failed(ErrorClass::UnknownHandler, &message)
    }
}

impl Drop for NativeHandler {
    fn drop(&mut self) {
        if let Threads::Own(runtime) = &mut self.threads
            && let Some(runtime) = runtime.take()
        {
            // Waiting for threads is not allowed here, and one that blocks would never end.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for NativeHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeHandler")
            .field("registry", &self.registry)
            .field("alive", &self.alive())
            .finish_non_exhaustive()
    }
}

/// The handler's side: everything that is the user's code runs in here, and no panic leaves it.
async fn attempt(handler: Handler, ctx: Ctx, alive: Alive) -> Ending {
    ctx.begin();
    let mut run = match panics::catch(|| handler(ctx, alive)) {
        Ok(run) => run,
        Err(panic) => return Ending::Panicked(panic),
    };
    poll_fn(|context| match panics::catch(|| run.as_mut().poll(context)) {
        Ok(poll) => poll,
        Err(panic) => Poll::Ready(Ending::Panicked(panic)),
    })
    .await
}

/// Why an attempt was made to stop.
#[derive(Debug, Clone, Copy)]
enum Stopped {
    Cancelled,
    TimedOut,
}

impl Stopped {
    fn report(self, how: &str, ctx: &Ctx) -> Report {
        let (outcome, class, why) = match self {
            Self::Cancelled => (Outcome::Cancelled, ErrorClass::Cancelled, "cancelled".to_owned()),
            Self::TimedOut => {
                (Outcome::TimedOut, ErrorClass::Timeout, format!("timed out after {:?}", ctx.timeout()))
            }
        };
        Report::ended(outcome, Some((class, &format!("{why}; {how}"))))
    }

    /// What is stopped is never a success, but what it gave back is kept.
    fn after_return(self, returned: Report, ctx: &Ctx) -> Report {
        let how = match &returned.error_message {
            None => "it returned within the grace".to_owned(),
            Some(error) => format!("it ended within the grace: {error}"),
        };
        let stopped = self.report(&how, ctx);
        Report { result: returned.result, notes: returned.notes, ..stopped }
    }

    fn after_drop(self, is_gone: bool, grace: Duration, ctx: &Ctx) -> Report {
        let how = match (ctx.began(), is_gone) {
            (None, _) => "it never began, because other handlers block the threads of this worker".to_owned(),
            (Some(_), true) => format!("dropped when the grace of {grace:?} was over"),
            (Some(_), false) => format!(
                "it still runs although the grace of {grace:?} is over: it blocks its thread and does not look at its cancellation"
            ),
        };
        let mut report = self.report(&how, ctx);
        if !is_gone {
            report.notes.push("a native handler does not end and keeps its thread".to_owned());
        }
        report
    }
}

fn judge(ended: Result<Ending, TaskError>, ctx: &Ctx) -> Report {
    match ended {
        Ok(Ending::Returned { result, note }) => {
            let mut report = Report::ended(Outcome::Succeeded, None);
            report.result = result;
            report.notes.extend(note);
            report
        }
        Ok(Ending::Failed(error)) => {
            let (class, again, message) = error.into_parts();
            Report { again, ..Report::failed(class, bounded(&message)) }
        }
        Ok(Ending::Panicked(panic)) => {
            if let Some(backtrace) = panic.backtrace {
                ctx.log(backtrace);
            }
            Report::failed(ErrorClass::Panic, bounded(&panic.message))
        }
        Err(error) => Report::failed(ErrorClass::Worker, &format!("the handler was cut off: {error}")),
    }
}

fn invalid_config(mistakes: &[sched_model::domain::FieldError]) -> Report {
    let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    Report::failed(
        ErrorClass::InvalidConfig,
        &format!("handler_config is not valid: {}", mistakes.join("; ")),
    )
}

/// The beginning of a message that may be very long.
fn bounded(message: &str) -> &str {
    message.get(..message.floor_char_boundary(MAX_MESSAGE_BYTES)).unwrap_or(message)
}
