//! Runs one attempt of a dispatch and reports how it ended.
//!
//! `Handlers` picks the handler for the kind of the function; each kind has its own module. A handler is given an
//! [`Execution`] and gives back a [`Report`], always: bad configuration, a missing program or a failing disk are
//! reports too, so the caller has one path. What the report means for the dispatch (retry, dead letter) is decided
//! by `sched_domain`, and storing it is the completer's work; nothing here talks to the database.
//!
//! Handlers run side by side; they share only the launcher's threads, the table of running attempts, idle connections and circuits. An attempt
//! is ended politely through its token (soft signal, grace, kill) and at once by dropping its future: whatever it
//! started is killed either way.

mod capture;
mod execution;
pub mod http;
mod live;
mod metrics;
pub mod native;
pub mod process;
mod report;
pub mod scrub;
mod secrets;
mod shortage;
mod storable;

use std::sync::Arc;
use std::time::Duration;

use sched_model::domain::function::HandlerType;
use tokio_util::sync::CancellationToken;

pub use capture::Captured;
pub use execution::Execution;
pub use live::{Live, LiveEvent};
pub use report::{Again, ErrorClass, Outcome, Report};
pub use secrets::{MissingSecret, Secrets};

use http::HttpHandler;
use native::{NativeHandler, Registry};
use process::{PrepareError, ProcessHandler, ProcessSettings};

/// Every handler this worker has.
#[derive(Debug)]
pub struct Handlers {
    process: ProcessHandler,
    native: NativeHandler,
    http: Arc<HttpHandler>,
}

impl Handlers {
    /// Makes the handlers and prepares the operating system process for them. Call it once, before the first claim.
    ///
    /// # Errors
    /// The operating system refused something without which attempts could not be contained.
    pub fn new(process: ProcessSettings, http: impl Into<Arc<HttpHandler>>) -> Result<Self, PrepareError> {
        let native = NativeHandler::on_callers_threads(Registry::default());
        Ok(Self { process: ProcessHandler::new(process)?, http: http.into(), native })
    }

    /// With native handlers.
    #[must_use]
    pub fn with_native(self, native: NativeHandler) -> Self {
        Self { native, ..self }
    }

    /// Clears away what attempts that were dropped have left; to be called now and then.
    pub fn tidy(&self) {
        self.process.tidy();
        self.native.tidy();
        self.http.tidy();
    }

    /// Clears away what other workers of the installation have left on this machine that were killed; to be called several times within a
    /// lease, so that it is gone before their work is begun again.
    pub async fn clear_away_dead(&self) {
        self.process.clear_away_dead().await;
    }

    /// Whether everything that runs inside this process has ended, after at most `limit`. Programs are killed by the kernel and
    /// do not count.
    pub async fn ended_within(&self, limit: Duration) -> bool {
        self.native.ended_within(limit).await
    }

    /// Runs one attempt to its end.
    ///
    /// `cancel` asks it to stop: the process gets the soft signal, its grace, and then the kill. Dropping the future
    /// kills at once. Both end with the whole process tree gone.
    pub async fn run(&self, kind: HandlerType, execution: Execution, cancel: CancellationToken) -> Report {
        match kind {
            HandlerType::Process => self.process.run(&execution, &cancel).await,
            HandlerType::Http => self.http.run(&execution, &cancel).await,
            HandlerType::Native => self.native.run(execution, &cancel).await,
            HandlerType::Celery | HandlerType::Sql => {
                let message = format!("this worker has no handler for functions of type {kind}");
                Report::failed(ErrorClass::UnsupportedHandler, &message)
            }
        }
    }
}
