//! How an attempt ended, in a form that PostgreSQL takes as it is: no NUL, valid UTF-8, bounded.

use std::time::Duration;

use rand::RngExt as _;
use sched_model::domain::attempt::AttemptOutcome;
use serde_json::Value;

use super::capture::Captured;
use super::storable;

/// How long a dispatch waits, in seconds, after a worker that could not begin its attempt. Not all for the same time, so that those that such a
/// worker gives back do not all come again together.
const UNTRIED_REST: std::ops::RangeInclusive<f64> = 5.0..=30.0;

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it should.
    Succeeded,
    /// It ran, or could not be started, and failed.
    Failed,
    /// It ran out of time and was stopped.
    TimedOut,
    /// It was cancelled and stopped.
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

/// Kind of error. The words are stable: retry policies name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// No handler of this kind exists here.
    UnsupportedHandler,
    /// The function's configuration is not valid.
    InvalidConfig,
    /// The configuration names a secret that does not exist.
    MissingSecret,
    /// A secret exists, and this worker cannot open it.
    SecretUnreadable,
    /// The program does not exist on this worker.
    ProgramNotFound,
    /// The operator of this worker does not let functions start the program.
    ProgramRefused,
    /// The program exists but could not be started.
    SpawnFailed,
    /// The function names a user that this worker cannot run it as.
    RunAsUnavailable,
    /// The function has limits that this worker cannot keep.
    LimitsUnavailable,
    /// The kernel ended it at its memory limit.
    OutOfMemory,
    /// The process ended with an exit code that does not mean success.
    ExitCode,
    /// A signal nobody here sent ended the process.
    Signal,
    /// The time was up.
    Timeout,
    /// Somebody cancelled it.
    Cancelled,
    /// The arguments of the dispatch do not fit the function.
    InvalidArgs,
    /// Nobody answered: no such name, no connection, or one that ended before a response came.
    Unreachable,
    /// The server answered that it cannot now (408, 425, 429, 5xx); the same request may succeed later.
    ErrorResponse,
    /// The server answered with another status that is not expected; repeating the request seldom helps.
    RequestRejected,
    /// What came back is no HTTP, or lacks what was to be picked from it.
    ResponseInvalid,
    /// The target may not be called from this worker.
    TargetRefused,
    /// The endpoint failed again and again and is left alone for a while; nothing was sent.
    CircuitOpen,
    /// The worker itself failed: no space for the attempt's files, no threads. Where it could not even begin, see [`Report::untried`].
    Worker,
    /// The worker has no native handler of that name.
    UnknownHandler,
    /// A native handler returned an error and did not class it.
    HandlerError,
    /// A native handler panicked.
    Panic,
    /// A class of a native handler's own.
    Own(&'static str),
}

impl ErrorClass {
    /// The word that is stored.
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

/// What a handler says about another attempt after one that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Again {
    /// Nothing of its own.
    #[default]
    AsThePolicySays,
    /// It would fail in the same way.
    Never,
}

/// What came of one attempt.
#[derive(Debug, Clone)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// Exit code of the process; `None` when a signal ended it or it never ran.
    pub exit_code: Option<i32>,
    /// What went wrong, for people; `None` exactly when it succeeded.
    pub error_message: Option<String>,
    /// What went wrong, for programs; `None` exactly when it succeeded.
    pub error_class: Option<ErrorClass>,
    /// Whether another attempt makes sense, should it have failed.
    pub again: Again,
    /// Where it went wrong, as far as the handler knows.
    pub traceback: Option<String>,
    /// What the attempt gave back, whatever its outcome.
    pub result: Option<Value>,
    /// Numbers it reported about itself, whatever its outcome: an object.
    pub metrics: Option<Value>,
    /// How long the other side asks to be left alone; a retry comes no sooner.
    pub retry_after: Option<Duration>,
    /// Kept standard output; of a request, its response.
    pub stdout: Captured,
    /// Kept standard error.
    pub stderr: Captured,
    /// Kept lines of a native handler's logger; of a process what its worker noted about it.
    pub log: Captured,
    /// From the call until the work itself began; `None` if it never did.
    pub started_after: Option<Duration>,
    /// From the call until everything of the attempt was gone and cleaned up.
    pub elapsed: Duration,
    /// Whether nothing of it was begun, for a reason that is none of its own: then nothing has been tried that could count, and its
    /// dispatch is handed back, to wait for `retry_after`.
    pub untried: bool,
    /// Whether it runs on although it was to stop: a native handler whose thread cannot be stopped.
    pub still_runs: bool,
    /// Oddities that changed nothing about the outcome, such as an unreadable result file. For the worker's log.
    pub notes: Vec<String>,
}

impl Report {
    /// A report of an attempt that failed before it could do anything.
    #[must_use]
    pub fn failed(class: ErrorClass, message: &str) -> Self {
        Self::ended(Outcome::Failed, Some((class, message)))
    }

    /// A report of an attempt that this worker could not begin: its disk is full, the database was away. Another worker may, or this
    /// one later.
    #[must_use]
    pub fn untried(message: &str) -> Self {
        let rest = Duration::from_secs_f64(rand::rng().random_range(UNTRIED_REST));
        Self { untried: true, retry_after: Some(rest), ..Self::failed(ErrorClass::Worker, message) }
    }

    /// A report without output; `error` is given exactly when the outcome is not success.
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
