//! The `native` handler: runs Rust functions that are compiled into the worker's program.
//!
//! Handlers run on separate threads. A handler that blocks its thread delays at most other
//! handlers, never a heartbeat, a claim or the storing of a result. An attempt that times out or is
//! cancelled is stopped through its token ([`Ctx::cancelled`]), after the grace period by dropping
//! its future. A dropped future ends at its next `.await`. A thread that never reaches one cannot
//! be stopped; the report states this. A caught panic is a failed attempt.
//!
//! When the future of an attempt is dropped here because its lease is lost, its token is cancelled
//! and its task aborted. If the handler still runs, the session ends the process
//! ([`NativeHandler::ended_within`]), so that the same work never runs twice.
//!
//! # Design notes
//!
//! A second runtime costs a few microseconds per attempt. With one runtime, as many blocking
//! handlers as cores would stop the whole worker, and it would lose its lease. A separate thread
//! for the heartbeats alone would keep the lease of a worker that no longer claims or stores
//! results. A thread per attempt would need 1,000 threads for 1,000 slots of waiting handlers.

mod alive;
#[warn(missing_docs)]
mod context;
#[warn(missing_docs)]
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

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sched_model::domain::handler_config::NativeConfig;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::spawn_owned_on;
use tokio::runtime::{self, Handle, Runtime};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Execution;
use super::report::{ErrorClass, Outcome, Report};
use alive::{Alive, Count};
use outcome::{StopReason, invalid_config, report_of};
use registry::{Ending, Handler};
use watch::Watch;

pub use context::{Ctx, SecretNotNamed};
pub use error::HandlerError;
pub use registry::{RegisterError, Registry};

/// A dropped handler must end within this time.
const DROP_WAIT: Duration = Duration::from_secs(5);
/// The maximal number of slots. Threads start on demand.
const MOST_BLOCKING_THREADS: usize = 10_000;
/// There is no notification of the end of the last handler.
const ENDED_POLL: Duration = Duration::from_millis(10);

pub struct NativeHandler {
    registry: Registry,
    threads: Threads,
    alive: Count,
    watch: Watch,
}

enum Threads {
    Callers,
    /// `None` during shutdown.
    Own(Option<Runtime>),
}

impl NativeHandler {
    /// An empty registry starts no threads.
    ///
    /// # Errors
    /// The operating system could not start the threads.
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

    /// Runs handlers on the runtime of the caller. For tests.
    #[must_use]
    pub fn on_callers_threads(registry: Registry) -> Self {
        panics::install();
        Self { registry, threads: Threads::Callers, alive: Count::default(), watch: Watch::default() }
    }

    /// Includes abandoned handlers that have not ended.
    #[must_use]
    pub fn alive(&self) -> usize {
        self.alive.get()
    }

    /// Logs if handlers block all of their threads. The caller repeats this.
    pub fn clean_up(&self) {
        if let Threads::Own(Some(runtime)) = &self.threads {
            self.watch.check(runtime.handle());
        }
    }

    /// Returns whether no handler runs any more. Callers use this before another worker runs the
    /// same work.
    pub async fn ended_within(&self, limit: Duration) -> bool {
        let all_ended = async {
            while self.alive() > 0 {
                sleep(ENDED_POLL).await;
            }
        };
        timeout(limit, all_ended).await.is_ok()
    }

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
        let (metrics, metric_error) = ctx.take_metrics();
        report.metrics = metrics.into_json();
        report.notes.extend(metric_error.map(|why| why.to_string()));
        report
    }

    async fn supervise(&self, handler: Handler, ctx: &Ctx, cancel: &CancellationToken) -> Report {
        let (alive, gone) = Alive::new(&self.alive);
        // Also when this future is dropped: the thread can still read its token.
        let stop_guard = ctx.cancellation().drop_guard();
        let mut task = spawn_owned_on(&self.handle(), "native handler", attempt(handler, ctx.clone(), alive));
        let reason = tokio::select! {
            biased;
            ended = &mut task => return report_of(ended),
            () = cancel.cancelled() => StopReason::Cancelled,
            () = sleep(ctx.timeout()) => StopReason::TimedOut,
        };
        drop(stop_guard);
        let grace = Duration::from_secs(u64::from(ctx.config().grace_seconds));
        if let Ok(ended) = timeout(grace, &mut task).await {
            return reason.after_return(report_of(ended), ctx);
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

impl super::Handler for NativeHandler {
    fn run<'a>(&'a self, execution: Execution, cancel: &'a CancellationToken) -> BoxFuture<'a, Report> {
        self.run(execution, cancel).boxed()
    }

    fn owns_task(&self) -> bool {
        true
    }

    fn clean_up(&self) {
        self.clean_up();
    }

    fn ended_within(&self, limit: Duration) -> BoxFuture<'_, bool> {
        self.ended_within(limit).boxed()
    }
}

impl Drop for NativeHandler {
    fn drop(&mut self) {
        if let Threads::Own(runtime) = &mut self.threads
            && let Some(runtime) = runtime.take()
        {
            // Blocking is not allowed here.
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

/// No panic leaves this function.
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
