//! The `http` handler: sends one request and evaluates the response.
//!
//! Steps of an attempt: `request` builds the request; `circuit` checks the circuit breaker of the
//! endpoint; `guard` resolves the host and checks every address; `connect` opens the connection to
//! exactly these addresses, unless `pool` has one; `exchange` sends and reads; `response`
//! determines the outcome.
//!
//! Design notes. *hyper and no client above it*: the address check is on the only path that opens
//! sockets; the head of a response is bounded; redirects, proxies, cookies and decompression do not
//! exist. *No resending*: a request of which a byte may have been sent is never sent again within
//! an attempt.
//!
//! The deadline of the attempt covers all steps. An attempt that is dropped, cancelled or timed out
//! closes its connection.

mod circuit;
mod connect;
mod exchange;
mod guard;
mod own_database;
mod pool;
mod ports;
mod request;
mod resolver;
mod response;
mod sign;
mod this_machine;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rand::RngExt as _;
use sched_model::domain::handler_config::HttpConfig;
use sched_runtime::exit::describe;
use sched_runtime::monotonic_clock::monotonic;
use tokio_util::sync::CancellationToken;

use super::report::{ErrorClass, Outcome, Report};
use super::shortage::is_shortage;
use super::{Execution, Handler};
use circuit::{Circuits, Endpoint, Pass};
use connect::{ConnectError, Trust};
use exchange::{Bounds, ExchangeError, Progress, Stage, Transport};
use guard::{Guard, NoTarget};
use pool::Pool;
use request::RequestError;

pub use connect::CertificateError;
pub use ports::{InvalidPort, PortList};
pub use resolver::{Resolve, Resolving, SystemResolver};
pub use sched_runtime::http_targets::{AllowEntry, AllowList, InvalidTarget};

/// The settings of the handler, from the worker's configuration.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Targets that functions may call although they are not public.
    pub allow: AllowList,
    pub ports: PortList,
    /// Hosts and ports of the scheduler's own database, which functions may never call.
    pub own_database: Vec<(String, u16)>,
    /// PEM file with certificate authorities that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    pub resolver: Arc<dyn Resolve>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            allow: AllowList::default(),
            ports: PortList::default(),
            own_database: Vec::new(),
            ca_file: None,
            resolver: Arc::new(SystemResolver::default()),
        }
    }
}

#[derive(Debug)]
pub struct HttpHandler {
    transport: Transport,
    circuits: Circuits,
}

enum Ending {
    Done(Result<(), ExchangeError>),
    TimedOut,
    Cancelled,
}

impl HttpHandler {
    /// Does not connect.
    ///
    /// # Errors
    /// The file with certificates cannot be read.
    pub fn new(settings: HttpSettings) -> Result<Self, CertificateError> {
        let trust = Trust::new(settings.ca_file.as_deref())?;
        let guard = Guard::new(settings);
        Ok(Self {
            transport: Transport { guard, trust, pool: Pool::default() },
            circuits: Circuits::default(),
        })
    }

    /// Closes idle connections and forgets endpoints without recent failures. The caller repeats
    /// this.
    pub fn clean_up(&self) {
        self.transport.pool.clean_up();
        self.circuits.clean_up(monotonic());
    }

    pub async fn run(&self, execution: &Execution, cancel: &CancellationToken) -> Report {
        let called = monotonic();
        let mut report = if cancel.is_cancelled() {
            Report::ended(Outcome::Cancelled, Some((ErrorClass::Cancelled, "cancelled before it started")))
        } else {
            self.attempt(execution, cancel, called).await
        };
        report.elapsed = monotonic().duration_since(called);
        let outcome = report.error_class.map_or("ok", ErrorClass::as_str);
        metrics::counter!("sched_http_requests_total", "outcome" => outcome).increment(1);
        metrics::histogram!("sched_http_request_seconds").record(report.elapsed.as_secs_f64());
        report
    }

    async fn attempt(&self, execution: &Execution, cancel: &CancellationToken, called: Instant) -> Report {
        let parsed = HttpConfig::parse(&execution.handler_config).map_err(RequestError::Config);
        let prepared = parsed.and_then(|config| {
            let now = request::database_time(execution, monotonic().duration_since(called));
            request::prepare(&config, execution, now).map(|prepared| (config, prepared))
        });
        let (config, prepared) = match prepared {
            Ok(ready) => ready,
            Err(error) => return Report::failed(error.class(), &describe(&error)),
        };
        let endpoint = Endpoint { tenant: execution.tenant_id, origin: prepared.endpoint.clone() };
        let pass = match self.circuits.enter(endpoint, config.circuit_breaker, monotonic()) {
            Ok(pass) => pass,
            Err(open) => return circuit_open(open.rest),
        };
        let started_after = monotonic().duration_since(called);
        let mut progress = Progress::default();
        let left = execution.timeout.saturating_sub(started_after);
        let bounds = Bounds {
            connect: Duration::from_secs(config.connect_timeout_seconds.into()),
            body_bytes: response::bytes_to_read(&config),
        };
        let exchange = self.transport.exchange(prepared, bounds, &mut progress);
        let ending = until_it_ends(exchange, left, cancel).await;
        let report = report_of(&config, ending, &progress, execution.timeout);
        report_to_circuit(pass, &report, &progress);
        Report { started_after: Some(started_after), ..report }
    }
}

/// Runs an exchange until it ends, the attempt is cancelled or the time `left` is over.
async fn until_it_ends(
    exchange: impl Future<Output = Result<(), ExchangeError>>,
    left: Duration,
    cancel: &CancellationToken,
) -> Ending {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Ending::Cancelled,
        done = exchange => Ending::Done(done),
        () = tokio::time::sleep(left) => Ending::TimedOut,
    }
}

impl Handler for HttpHandler {
    fn run<'a>(&'a self, execution: Execution, cancel: &'a CancellationToken) -> BoxFuture<'a, Report> {
        async move { self.run(&execution, cancel).await }.boxed()
    }

    fn clean_up(&self) {
        self.clean_up();
    }
}

/// No request was sent, and the attempt does not count. The waits differ, because only one of the
/// runs becomes the probe.
fn circuit_open(rest: Duration) -> Report {
    let rest = rest.mul_f64(rand::rng().random_range(1.0..=1.5));
    let message =
        format!("the circuit breaker of the endpoint is open; the next call is allowed in {:.0?}", rest);
    Report { untried: true, retry_after: Some(rest), ..Report::failed(ErrorClass::CircuitOpen, &message) }
}

fn report_of(config: &HttpConfig, ending: Ending, progress: &Progress, timeout: Duration) -> Report {
    let report = match ending {
        Ending::Cancelled => Report::ended(Outcome::Cancelled, Some((ErrorClass::Cancelled, "cancelled"))),
        Ending::TimedOut => {
            let doing = match progress.stage {
                Stage::Connecting => "connecting",
                Stage::Waiting => "waiting for the response",
                Stage::Reading => "reading the response",
            };
            let message = format!("timed out after {timeout:?} while {doing}");
            Report::ended(Outcome::TimedOut, Some((ErrorClass::Timeout, &message)))
        }
        // An error status is more informative than the broken body.
        Ending::Done(Err(error)) => match &progress.response {
            Some(response) if !config.expects(response.status) => response::evaluate(config, response),
            Some(_) | None => failed(&error),
        },
        Ending::Done(Ok(())) => match &progress.response {
            Some(response) => response::evaluate(config, response),
            None => Report::failed(ErrorClass::Worker, "the exchange ended without a response or an error"),
        },
    };
    match &progress.response {
        Some(response) => Report { stdout: response::captured_body(config, response), ..report },
        None => report,
    }
}

fn failed(error: &ExchangeError) -> Report {
    // No byte was sent, and the endpoint is not the cause.
    if let ExchangeError::Connect(ConnectError::Tcp(source))
    | ExchangeError::NoTarget(NoTarget::Unresolved { source: Some(source), .. }) = error
        && is_shortage(source)
    {
        return Report::untried(&format!("this worker could not open a connection: {}", describe(error)));
    }
    let class = match error {
        ExchangeError::NoTarget(
            NoTarget::Refused { .. } | NoTarget::Port { .. } | NoTarget::Never { .. },
        ) => ErrorClass::TargetRefused,
        ExchangeError::NoTarget(NoTarget::Unresolved { .. })
        | ExchangeError::ConnectTimeout(_)
        | ExchangeError::Connect(_)
        | ExchangeError::NoResponse(_) => ErrorClass::Unreachable,
        ExchangeError::BadResponse(_) | ExchangeError::BrokenBody(_) => ErrorClass::ResponseInvalid,
    };
    let mut report = Report::failed(class, &describe(error));
    if let ExchangeError::NoTarget(NoTarget::Refused { address: Some(address), .. }) = error {
        report.notes.push(format!("the target's address is {address}"));
    }
    report
}

/// An unexpected response counts as success, unless it means that the server is in trouble.
fn report_to_circuit(pass: Pass, report: &Report, progress: &Progress) {
    let is_in_trouble = match report.error_class {
        Some(ErrorClass::Unreachable | ErrorClass::Timeout) => true,
        Some(ErrorClass::ErrorResponse) => progress.response.as_ref().is_none_or(|r| r.status >= 500),
        Some(ErrorClass::ResponseInvalid) => progress.response.is_none(),
        _ => false,
    };
    let is_neutral = matches!(
        report.error_class,
        Some(ErrorClass::Cancelled | ErrorClass::TargetRefused | ErrorClass::Worker)
    );
    match (is_in_trouble, is_neutral) {
        (true, _) => pass.failed(monotonic()),
        (false, true) => drop(pass),
        (false, false) => pass.succeeded(),
    }
}
