//! How an attempt ended, in a form that PostgreSQL can store: no NUL, valid UTF-8, bounded.

use std::time::Duration;

use rand::RngExt as _;
use sched_model::domain::attempt::AttemptOutcome;
use serde_json::Value;

use super::capture::Captured;
use super::storable;

/// Seconds that a run waits after a worker could not start its attempt. The wait is random, so that
/// the runs released by one worker do not return all at once.
const UNTRIED_REST: std::ops::RangeInclusive<f64> = 5.0..=30.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Succeeded,
    /// It ran, or could not be started, and failed.
    Failed,
    /// It exceeded its timeout and was stopped.
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

/// The error class. The stored words are stable: retry policies name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// This worker has no handler of the type.
    UnsupportedHandler,
    InvalidConfig,
    /// The configuration names a secret that does not exist.
    MissingSecret,
    /// A secret exists, but this worker cannot decrypt it.
    SecretUnreadable,
    /// The program does not exist on this worker.
    ProgramNotFound,
    /// The operator of this worker does not allow functions to start the program.
    ProgramRefused,
    /// The program exists but could not be started.
    SpawnFailed,
    /// The function names a user that this worker cannot switch to.
    RunAsUnavailable,
    /// The function has limits that this worker cannot enforce.
    LimitsUnavailable,
    /// The kernel killed the process at its memory limit.
    OutOfMemory,
    /// The exit code does not mean success.
    ExitCode,
    /// A signal that this worker did not send ended the process.
    Signal,
    Timeout,
    Cancelled,
    /// The arguments of the run do not fit the function.
    InvalidArgs,
    /// There was no response: the name did not resolve, the connection failed, or it ended early.
    Unreachable,
    /// The server answered with a temporary error (408, 425, 429, 5xx). The same request may
    /// succeed later.
    ErrorResponse,
    /// The server answered with another unexpected status. The same request will probably fail
    /// again.
    RequestRejected,
    /// The response is not HTTP, or lacks a value that the configuration picks.
    ResponseInvalid,
    /// This worker may not call the target.
    TargetRefused,
    /// The endpoint failed repeatedly and the circuit breaker is open. No request was sent.
    CircuitOpen,
    /// The worker itself failed: no space for the attempt's files, no threads. If the attempt did
    /// not even begin, see [`Report::untried`].
    Worker,
    UnknownHandler,
    /// A native handler returned an error without a class.
    HandlerError,
    Panic,
    /// A class that a native handler defines.
    Own(&'static str),
}

impl ErrorClass {
    /// The stored word.
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

/// Whether the handler allows another attempt after a failed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Again {
    /// The retry policy decides.
    #[default]
    AsThePolicySays,
    /// Another attempt would fail in the same way.
    Never,
}

/// The result of one attempt.
#[derive(Debug, Clone)]
pub struct Report {
    pub outcome: Outcome,
    /// Exit code of the process. `None` if a signal ended it or it never ran.
    pub exit_code: Option<i32>,
    /// The error for people. `None` exactly if the attempt succeeded.
    pub error_message: Option<String>,
    /// The error for programs. `None` exactly if the attempt succeeded.
    pub error_class: Option<ErrorClass>,
    /// Whether another attempt is useful after a failure.
    pub again: Again,
    /// The location of the error, if the handler knows it.
    pub traceback: Option<String>,
    /// The returned value, for every outcome.
    pub result: Option<Value>,
    /// The reported metrics, for every outcome. An object.
    pub metrics: Option<Value>,
    /// The wait that the other side requests. A retry comes no sooner.
    pub retry_after: Option<Duration>,
    /// Kept standard output. For a request: the response.
    pub stdout: Captured,
    pub stderr: Captured,
    /// Kept log lines of a native handler. For a process: the worker's notes about it.
    pub log: Captured,
    /// From the call until the work itself began. `None` if it never began.
    pub started_after: Option<Duration>,
    /// From the call until the attempt was completely gone and cleaned up.
    pub elapsed: Duration,
    /// Whether the attempt did not begin, for a reason outside the attempt. Then it does not count
    /// as tried: the worker releases the run, which waits for `retry_after`.
    pub untried: bool,
    /// Whether the attempt still runs although it was stopped: the thread of a native handler
    /// cannot be killed.
    pub still_runs: bool,
    /// Problems that did not change the outcome, such as an unreadable result file. For the
    /// worker's log.
    pub notes: Vec<String>,
}

impl Report {
    /// A report of an attempt that failed before it could begin.
    #[must_use]
    pub fn failed(class: ErrorClass, message: &str) -> Self {
        Self::ended(Outcome::Failed, Some((class, message)))
    }

    /// A report of an attempt that this worker could not begin, for example because its disk is
    /// full or the database was unreachable. Another worker may run it, or this one later.
    #[must_use]
    pub fn untried(message: &str) -> Self {
        let rest = Duration::from_secs_f64(rand::rng().random_range(UNTRIED_REST));
        Self { untried: true, retry_after: Some(rest), ..Self::failed(ErrorClass::Worker, message) }
    }

    /// A report without output. `error` is given exactly if the outcome is not success.
    pub(super) fn ended(outcome: Outcome, error: Option<(ErrorClass, &str)>) -> Self {
        Self {
            outcome,
            exit_code: None,
            error_message: error.map(|(_, message)| storable::text(message.as_bytes())),
            error_class: error.map(|(class, _)| class),
            again: Again::default(),
            traceback: None,
            result: None,
            metrics: None,
            retry_after: None,
            stdout: Captured::default(),
            stderr: Captured::default(),
            log: Captured::default(),
            started_after: None,
            elapsed: Duration::ZERO,
            untried: false,
            still_runs: false,
            notes: Vec::new(),
        }
    }
}
