//! The worker as a library: a program with Rust functions that jobs can run.
//!
//! [`Builder::main`] is a complete `main` function like that of `sched-worker`. Building has no
//! side effects.

use std::fmt;
use std::future::Future;
use std::io::Write;
use std::process::ExitCode;

use sched_model::domain::built_in;
use sched_runtime::config::Program;
use sched_runtime::daemon::{self, Context};
use sched_runtime::exit::{self, ExitError, ExitStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config::{Config, GROUPS};
use crate::daemon::Native;
use crate::handlers::native::{Ctx, HandlerError, RegisterError, Registry};

/// A blocking handler leaves another thread free.
const FEWEST_THREADS: usize = 2;

/// A worker that is ready to run.
#[derive(Debug)]
pub struct Worker {
    program: Program,
    native: Native,
}

/// The registered handlers are invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BuildError {
    /// All errors, at least one.
    pub mistakes: Vec<RegisterError>,
}

impl ExitStatus for BuildError {
    fn exit_code(&self) -> u8 {
        exit::FAILURE
    }
}

/// Builds a worker.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use sched_worker::{Ctx, HandlerError, Worker};
///
/// #[derive(serde::Deserialize)]
/// struct Greeting {
///     name: String,
/// }
///
/// async fn greet(ctx: Ctx, args: Greeting) -> Result<String, HandlerError> {
///     ctx.log(format!("greeting {}", args.name));
///     Ok(format!("Hello, {}!", args.name))
/// }
///
/// fn main() -> ExitCode {
///     Worker::builder().handler("greet", greet).main()
/// }
/// ```
#[must_use = "a builder alone does nothing"]
pub struct Builder {
    program: Program,
    registry: Registry,
    threads: Option<usize>,
    mistakes: Vec<RegisterError>,
}

impl Worker {
    /// A builder without native handlers.
    pub fn builder() -> Builder {
        Builder {
            program: crate::PROGRAM,
            registry: Registry::default(),
            threads: None,
            mistakes: Vec::new(),
        }
    }

    /// The sorted names of its native handlers, without the built-in ones.
    #[must_use]
    pub fn handlers(&self) -> Vec<&str> {
        self.native.registry.names()
    }

    /// Reads the command line, the environment and the configuration file, and runs until a signal.
    pub fn main(self) -> ExitCode {
        let program = self.program;
        daemon::run(&program, GROUPS, Config::read, |config, context| self.run(config, context))
    }

    /// Runs until `context.shutdown`, with settings and a multi-threaded runtime of the caller.
    ///
    /// # Errors
    /// The worker cannot start, or one of its tasks ends.
    pub async fn run(self, config: Config, context: Context) -> Result<(), ExitError> {
        crate::daemon::run(self.native, 1, config, context).await
    }

    /// Runs `count` workers that share the process, for load measurements. Each has its own
    /// identity, lease, heartbeat and slots.
    ///
    /// # Errors
    /// A worker cannot start, or one of its tasks ends.
    pub async fn run_crowd(self, count: usize, config: Config, context: Context) -> Result<(), ExitError> {
        crate::daemon::run(self.native, count, config, context).await
    }
}

impl Builder {
    /// Adds an asynchronous handler. Functions name it in `handler_config.handler`.
    ///
    /// `handler` receives the context of the attempt and the deserialized args of the job. Args that do
    /// not fit the type fail the run with the class `invalid_args`, without a retry. The returned value
    /// is the result of the attempt.
    ///
    /// It must not block its thread for long; see [`Builder::blocking_handler`].
    pub fn handler<F, Fut, A, R, E>(mut self, name: &str, handler: F) -> Self
    where
        F: Fn(Ctx, A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, E>> + Send + 'static,
        A: DeserializeOwned,
        R: Serialize,
        E: Into<HandlerError>,
    {
        match refused(name) {
            Some(mistake) => self.mistakes.push(mistake),
            None => self.mistakes.extend(self.registry.add(name, handler).err()),
        }
        self
    }

    /// Adds a handler that is an ordinary function. It runs on its own thread and may block it.
    ///
    /// A thread cannot be stopped from outside: the handler must check [`Ctx::is_cancelled`] between its
    /// steps.
    pub fn blocking_handler<F, A, R, E>(mut self, name: &str, handler: F) -> Self
    where
        F: Fn(Ctx, A) -> Result<R, E> + Send + Sync + 'static,
        A: DeserializeOwned,
        R: Serialize,
        E: Into<HandlerError>,
    {
        match refused(name) {
            Some(mistake) => self.mistakes.push(mistake),
            None => self.mistakes.extend(self.registry.add_blocking(name, handler).err()),
        }
        self
    }

    /// Sets the name of the program in `--help`, `--version`, the log, the list of workers and the
    /// connections of the database. `name` is also its table in the configuration file. The default is
    /// `sched-worker`.
    pub fn program(mut self, name: &'static str, version: &'static str, about: &'static str) -> Self {
        self.program = Program::new(name, version, about).defaults(crate::PROGRAM.defaults);
        self
    }

    /// Sets the number of threads of asynchronous handlers. The default is the number of cores, at
    /// least two.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Builds the worker.
    ///
    /// # Errors
    /// Two handlers have the same name, or a name is invalid or starts with `sched.`.
    pub fn build(self) -> Result<Worker, BuildError> {
        if !self.mistakes.is_empty() {
            return Err(BuildError { mistakes: self.mistakes });
        }
        let cores = std::thread::available_parallelism().map_or(FEWEST_THREADS, usize::from);
        let threads = self.threads.unwrap_or(cores.max(FEWEST_THREADS));
        Ok(Worker { program: self.program, native: Native { registry: self.registry, threads } })
    }

    /// [`Builder::build`] and [`Worker::main`]: the body of a `main` function.
    pub fn main(self) -> ExitCode {
        match self.build() {
            Ok(worker) => worker.main(),
            Err(error) => {
                let _ = writeln!(std::io::stderr(), "error: {error}");
                ExitCode::from(error.exit_code())
            }
        }
    }
}

/// The name is reserved.
fn refused(name: &str) -> Option<RegisterError> {
    built_in::is_reserved(name).then(|| RegisterError::Reserved { name: name.to_owned() })
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("program", &self.program)
            .field("registry", &self.registry)
            .field("mistakes", &self.mistakes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    async fn nothing(_: Ctx, _: Value) -> Result<(), HandlerError> {
        Ok(())
    }

    #[test]
    fn worker_lists_its_handlers() {
        let worker = Worker::builder()
            .handler("b", nothing)
            .handler("a", async |_: Ctx, (): ()| Err::<(), _>("no"))
            .blocking_handler("c", |_, _: Value| Ok::<_, std::io::Error>(7))
            .build();
        assert_eq!(worker.unwrap().handlers(), ["a", "b", "c"]);
        assert!(Worker::builder().build().unwrap().handlers().is_empty());
    }

    #[test]
    fn names_of_built_in_handlers_are_rejected() {
        let built = Worker::builder()
            .handler("sched.backup", nothing)
            .blocking_handler("sched.x", |_, (): ()| Ok::<_, HandlerError>(()));
        let text = built.build().unwrap_err().to_string();
        assert!(text.contains("\"sched.backup\"") && text.contains("\"sched.x\" is not a valid"), "{text}");
    }

    #[test]
    fn all_registration_errors_are_reported_at_once() {
        let built =
            Worker::builder().handler("a", nothing).handler("a", nothing).handler("b c", nothing).build();
        let error = built.unwrap_err();
        assert_eq!(error.mistakes.len(), 2);
        assert!(
            error.to_string().starts_with("two handlers have the name \"a\"; \"b c\" is not a valid"),
            "{error}"
        );
    }
}
