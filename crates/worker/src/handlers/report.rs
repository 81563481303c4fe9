//! How an attempt ended, in a form that PostgreSQL can store: no NUL, valid UTF-8, bounded.

use std::time::Duration;

use rand::RngExt as _;
use sched_model::domain::attempt::AttemptOutcome;
use serde_json::Value;

use super::capture::CapturedOutput;
use super::storable;

/// Wait in seconds after a worker could not start an attempt. Random, so that the runs do not
/// return all at once.
const UNTRIED_REST: std::ops::RangeInclusive<f64> = 5.0..=30.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    /// Also if the attempt could not be started.
    Failed,
    TimedOut,
    Cancelled,
}

impl From<Outcome> for AttemptOutcome {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Succeeded => Self::Completed,
            Outcome::Failed => Self::Failed,
            Outcome::TimedOut => Self::Timeout,
            Outcome::Cancelled => Self::Cancelled,
        }
    }
}

/// The stored words are stable: retry policies name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    UnsupportedHandler,
    InvalidConfig,
    MissingSecret,
    SecretUnreadable,
    ProgramNotFound,
    ProgramRefused,
    SpawnFailed,
    RunAsUnavailable,
    LimitsUnavailable,
    /// The kernel killed the process at its memory limit.
    OutOfMemory,
    ExitCode,
    /// A signal that this worker did not send ended the process.
    Signal,
    Timeout,
    Cancelled,
    InvalidArgs,
    /// The name did not resolve, the connection failed, or it ended early.
    Unreachable,
    /// A temporary error (408, 425, 429, 5xx).
    ErrorResponse,
    /// The same request will probably fail again.
    RequestRejected,
    /// The response is not HTTP, or lacks a value that the configuration picks.
    ResponseInvalid,
    TargetRefused,
    /// The circuit breaker of the endpoint is open after repeated failures. No request was sent.
    CircuitOpen,
    /// The worker itself failed: no space for the attempt's files, no threads. If the attempt did
    /// not even begin, see [`Report::untried`].
    Worker,
    UnknownHandler,
    /// A native handler returned an error without a class.
    HandlerError,
    Panic,
    Own(&'static str),
}

impl ErrorClass {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::UnsupportedHandler => "unsupported_handler",
            Self::InvalidConfig => "invalid_config",
            Self::MissingSecret => "missing_secret",
            Self::SecretUnreadable => "secret_unreadable",
            Self::ProgramNotFound => "program_not_found",
            Self::ProgramRefused => "program_refused",
            Self::SpawnFailed => "spawn_failed",
            Self::RunAsUnavailable => "run_as_unavailable",
            Self::LimitsUnavailable => "limits_unavailable",
            Self::OutOfMemory => "out_of_memory",
            Self::ExitCode => "exit_code",
            Self::Signal => "signal",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::InvalidArgs => "invalid_args",
            Self::Unreachable => "unreachable",
            Self::ErrorResponse => "error_response",
            Self::RequestRejected => "request_rejected",
            Self::ResponseInvalid => "response_invalid",
            Self::TargetRefused => "target_refused",
            Self::CircuitOpen => "circuit_open",
            Self::Worker => "worker",
            Self::UnknownHandler => "unknown_handler",
            Self::HandlerError => "handler_error",
            Self::Panic => "panic",
            Self::Own(class) => class,
        }
    }
}

/// Whether the handler allows another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryHint {
    /// The retry policy decides.
    #[default]
    AsThePolicySays,
    /// Another attempt would fail in the same way.
    Never,
}

#[derive(Debug, Clone)]
pub struct Report {
    pub outcome: Outcome,
    /// `None` if a signal ended the process or it never ran.
    pub exit_code: Option<i32>,
    /// For people. `None` exactly if the attempt succeeded.
    pub error_message: Option<String>,
    /// For programs. `None` exactly if the attempt succeeded.
    pub error_class: Option<ErrorClass>,
    pub again: RetryHint,
    pub traceback: Option<String>,
    /// For every outcome.
    pub result: Option<Value>,
    /// An object, for every outcome.
    pub metrics: Option<Value>,
    /// The wait that the server requests. A retry comes no sooner.
    pub retry_after: Option<Duration>,
    /// For a request: the response.
    pub stdout: CapturedOutput,
    pub stderr: CapturedOutput,
    /// For a process: the worker's notes.
    pub log: CapturedOutput,
    /// From the call until the work began. `None` if it never began.
    pub started_after: Option<Duration>,
    /// From the call until the attempt was cleaned up.
    pub elapsed: Duration,
    /// The attempt did not begin, for a reason outside it, and does not count. The worker releases
    /// the run, which waits for `retry_after`.
    pub untried: bool,
    /// The attempt still runs although it was stopped: the thread of a native handler cannot be
    /// killed.
    pub still_runs: bool,
    /// For the worker's log, without effect on the outcome.
    pub notes: Vec<String>,
}

impl Report {
    /// The attempt could not begin.
    #[must_use]
    pub fn failed(class: ErrorClass, message: &str) -> Self {
        Self::ended(Outcome::Failed, Some((class, message)))
    }

    /// This worker could not begin the attempt. Another worker may run it, or this one later.
    #[must_use]
    pub fn untried(message: &str) -> Self {
        let rest = Duration::from_secs_f64(rand::rng().random_range(UNTRIED_REST));
        Self { untried: true, retry_after: Some(rest), ..Self::failed(ErrorClass::Worker, message) }
    }

    /// `error` is given exactly if the outcome is not success.
    pub(super) fn ended(outcome: Outcome, error: Option<(ErrorClass, &str)>) -> Self {
        Self {
            outcome,
            exit_code: None,
            error_message: error.map(|(_, message)| storable::text(message.as_bytes())),
            error_class: error.map(|(class, _)| class),
            again: RetryHint::default(),
            traceback: None,
            result: None,
            metrics: None,
            retry_after: None,
            stdout: CapturedOutput::default(),
            stderr: CapturedOutput::default(),
            log: CapturedOutput::default(),
            started_after: None,
            elapsed: Duration::ZERO,
            untried: false,
            still_runs: false,
            notes: Vec::new(),
        }
    }
}
