//! The `native` handler: runs Rust functions that are built into the worker's program.
//!
//! Handlers run on threads of their own, apart from those of the worker: one that blocks its thread (a long computation, a
//! blocking call) holds up other handlers at most, and never a heartbeat, a claim or the storing of a result. Each attempt is
//! a task there; this module waits for it on the worker's side and makes it stop: when its time is up or it is cancelled,
//! first by its token ([`Ctx::cancelled`]), after the grace by dropping it. A dropped future is gone at its next `.await`; a
//! thread that never comes to one cannot be stopped, which is then said in the report and keeps its thread until it returns. A
//! panic is caught and is a failed attempt.
//!
//! When the future of an attempt is dropped here (its lease is lost), its token is cancelled and its task aborted. If it runs
//! on all the same, the session ends the process ([`NativeHandler::ended_within`]), so that nothing runs twice. When the process
//! dies nothing is left behind: everything is inside it.
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
mod outcome;
mod panics;
mod registry;
mod watch;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::{Duration, Instant};

use sched_model::domain::handler_config::NativeConfig;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::spawn_owned_on;
use tokio::runtime::{self, Handle, Runtime};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Execution;
use super::report::{ErrorClass, Outcome, Report};
use alive::{Alive, Count};
use outcome::{Stopped, invalid_config, judge};
use registry::{Ending, Handler};
use watch::Watch;

pub use context::{Ctx, SecretNotNamed};
pub use error::HandlerError;
pub use registry::{RegisterError, Registry};

/// How long a dropped handler may take to be gone.
const DROP_WAIT: Duration = Duration::from_secs(5);
/// Threads that blocking handlers may take: as many as a worker can have slots. Each is started when it is needed.
const MOST_BLOCKING_THREADS: usize = 10_000;
/// How often it is looked whether the last handler has ended; nothing announces that.
const ENDED_POLL: Duration = Duration::from_millis(10);

/// Runs functions of type `native`.
pub struct NativeHandler {
    registry: Registry,
    threads: Threads,
    alive: Count,
    watch: Watch,
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
            .max_blocking_threads(MOST_BLOCKING_THREADS)
            .thread_name("sched-handler")
            .enable_all()
            .build()?;
        panics::install();
        Ok(Self {
            registry,
            threads: Threads::Own(Some(runtime)),
            alive: Count::default(),
            watch: Watch::default(),
        })
    }

    /// Handlers that run on the runtime of whoever calls; for tests.
    #[must_use]
    pub fn on_callers_threads(registry: Registry) -> Self {
        panics::install();
        Self { registry, threads: Threads::Callers, alive: Count::default(), watch: Watch::default() }
    }

    /// How many handlers run, those included that were given up and have not ended.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.alive.get()
    }

    /// Looks whether handlers block all of their threads, and says so; to be called now and then.
    pub fn tidy(&self) {
        if let Threads::Own(Some(runtime)) = &self.threads {
            self.watch.look(runtime.handle());
        }
    }

    /// Waits until no handler is left running; whether that came within `limit`. For those who must be sure before
    /// others run the same work.
    pub async fn ended_within(&self, limit: Duration) -> bool {
        let all_ended = async {
            while self.alive() > 0 {
                sleep(ENDED_POLL).await;
            }
        };
        timeout(limit, all_ended).await.is_ok()
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
        let (metrics, not_kept) = ctx.take_metrics();
        report.metrics = metrics.into_json();
        report.notes.extend(not_kept.map(|why| why.to_string()));
        report
    }

    async fn supervise(&self, handler: Handler, ctx: &Ctx, cancel: &CancellationToken) -> Report {
        let (alive, gone) = Alive::new(&self.alive);
        // Also when this future is dropped: a thread that cannot be aborted should at least be told.
        let told_to_stop = ctx.cancellation().drop_guard();
        let mut task = spawn_owned_on(&self.handle(), "native handler", attempt(handler, ctx.clone(), alive));
        let reason = tokio::select! {
            biased;
            ended = &mut task => return judge(ended),
            () = cancel.cancelled() => Stopped::Cancelled,
            () = sleep(ctx.timeout()) => Stopped::TimedOut,
        };
        drop(told_to_stop);
        let grace = Duration::from_secs(u64::from(ctx.config().grace_seconds));
        if let Ok(ended) = timeout(grace, &mut task).await {
            return reason.after_return(judge(ended), ctx);
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
