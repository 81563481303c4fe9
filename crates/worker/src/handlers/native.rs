//! The `native` handler: runs Rust functions that are compiled into the worker's program.
//!
//! Handlers run on separate threads. A handler that blocks its thread delays at most other
//! handlers, never a heartbeat, a claim or the storing of a result. An attempt that times out or is
//! cancelled is stopped through its token ([`Ctx::cancelled`]), after the grace period by dropping
//! its future. A dropped future ends at its next `.await`. A thread that never reaches one cannot
//! be stopped; the report states this. A caught panic is a failed attempt.
//!
//! The first poll of a short handler runs in place, in a task that polls many attempts of a claim
//! (`attempt/in_place.rs`).
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
//! Handlers that block must request a thread with `blocking_handler`.

mod alive;
mod begun;
#[warn(missing_docs)]
mod context;
#[warn(missing_docs)]
mod error;
mod outcome;
mod panics;
mod registry;
mod watch;

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sched_model::domain::handler_config::NativeConfig;
use sched_runtime::monotonic_clock::monotonic;
use tokio::runtime::{self, Handle, Runtime};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Execution;
use super::report::{ErrorClass, Outcome, Report};
use alive::Count;
use outcome::invalid_config;
use watch::Watch;

pub(crate) use begun::{Begun, Call, HandlerTask, Polled};
pub use context::{Ctx, SecretNotNamed};
pub use error::HandlerError;
pub use registry::{RegisterError, Registry};

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
        match self.begin(execution, cancel.is_cancelled(), called) {
            Ok((begun, call)) => {
                let report = begun.supervise(call.spawn(&self.handle()), cancel).await;
                begun.complete(report)
            }
            Err(mut report) => {
                report.elapsed = called.elapsed();
                *report
            }
        }
    }

    /// The handler counts as alive until the call is dropped or its run has ended. The error is the
    /// report of an attempt that cannot run.
    pub(crate) fn begin(
        &self,
        execution: Execution,
        is_cancelled: bool,
        called: Instant,
    ) -> Result<(Begun, Call), Box<Report>> {
        if is_cancelled {
            let error = (ErrorClass::Cancelled, "cancelled before it started");
            return Err(Box::new(Report::ended(Outcome::Cancelled, Some(error))));
        }
        let config = match NativeConfig::parse(&execution.handler_config) {
            Ok(config) => config,
            Err(mistakes) => return Err(Box::new(invalid_config(&mistakes))),
        };
        let Some(handler) = self.registry.get(&config.handler) else {
            return Err(Box::new(self.unknown(&config.handler)));
        };
        let ctx = Ctx::new(execution, config, called);
        let call = Call::new(handler, ctx.clone(), &self.alive);
        Ok((Begun { ctx, called }, call))
    }

    /// The threads on which attempts may run in place; `None` for tests on the caller's threads.
    pub(crate) fn own_threads(&self) -> Option<&Handle> {
        match &self.threads {
            Threads::Own(runtime) => runtime.as_ref().map(Runtime::handle),
            Threads::Callers => None,
        }
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
