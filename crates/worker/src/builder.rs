//! The worker as a library: a program of one's own with Rust functions that jobs can run.
//!
//! [`Builder::main`] is all of a `main` function: command line, settings, log, metrics and signals are those of `sched-worker`,
//! which is the same builder without handlers. Building has no side effects; what starts and stops, and in which order, is the
//! daemon's part.

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

/// Handlers have at least so many threads, so that on a small machine one that blocks leaves another.
const FEWEST_THREADS: usize = 2;

/// A worker that is ready to run.
#[derive(Debug)]
pub struct Worker {
    program: Program,
    native: Native,
}

/// A worker that cannot be built as its code says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct BuildError {
    /// Everything that is wrong, at least one thing.
    pub mistakes: Vec<RegisterError>,
}

impl ExitStatus for BuildError {
    fn exit_code(&self) -> u8 {
        exit::FAILURE
    }
}

/// Puts a worker together.
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
#[must_use = "a builder does nothing by itself"]
pub struct Builder {
    program: Program,
    registry: Registry,
    threads: Option<usize>,
    mistakes: Vec<RegisterError>,
}

impl Worker {
    /// A worker without native handlers, to which they are added.
    pub fn builder() -> Builder {
        Builder {
            program: crate::PROGRAM,
            registry: Registry::default(),
            threads: None,
            mistakes: Vec::new(),
        }
    }

    /// The names of its native handlers, in order, without the built-in ones that every worker has.
    #[must_use]
    pub fn handlers(&self) -> Vec<&str> {
        self.native.registry.names()
    }

    /// The whole life of the process: reads the command line, the environment and the configuration file, and runs until a
    /// signal. Returns the exit code for `main`.
    pub fn main(self) -> ExitCode {
        let program = self.program;
        daemon::run(&program, GROUPS, Config::read, |config, context| self.run(config, context))
    }

    /// Runs until `context.shutdown`, for those who have read the settings and started a runtime themselves. The runtime
    /// must have several threads; handlers get their own beside them.
    ///
    /// # Errors
    /// When it cannot start, or a part of it ends by itself.
    pub async fn run(self, config: Config, context: Context) -> Result<(), ExitError> {
        crate::daemon::run(self.native, 1, config, context).await
    }

    /// As [`Worker::run`], but `count` workers that share the process, its pool of connections and its listener; each has its own
    /// identity, lease, heartbeat and slots. For measuring and testing what a large fleet asks of the database.
    ///
    /// # Errors
    /// When they cannot start, or a part of one ends by itself.
    pub async fn run_crowd(self, count: usize, config: Config, context: Context) -> Result<(), ExitError> {
        crate::daemon::run(self.native, count, config, context).await
    }
}

impl Builder {
    /// Adds an asynchronous handler under the name by which functions call it (`handler_config.handler`).
    ///
    /// `handler` is given the context of the attempt and the job's args, read into a type of its own; args that do not fit are
    /// an error of the class `invalid_args`, which is not retried. What it returns is stored as the result of the attempt.
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

    /// Adds a handler that is an ordinary function. It is run on a thread of its own and may block it.
    ///
    /// A thread cannot be stopped from outside: the handler looks at [`Ctx::is_cancelled`] between its steps.
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

    /// What the program calls itself in `--help`, `--version`, the log, the list of workers and the database's list of
    /// connections. `name` is also its table in the configuration file. Without this it is `sched-worker`.
    pub fn program(mut self, name: &'static str, version: &'static str, about: &'static str) -> Self {
        self.program = Program::new(name, version, about).defaults(crate::PROGRAM.defaults);
        self
    }

    /// How many threads asynchronous handlers share; as many as there are cores, and at least two, without this.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The worker.
    ///
    /// # Errors
    /// Two handlers have the same name, or one has a name that no function could give or that begins with `sched.`.
    pub fn build(self) -> Result<Worker, BuildError> {
        if !self.mistakes.is_empty() {
            return Err(BuildError { mistakes: self.mistakes });
        }
        let cores = std::thread::available_parallelism().map_or(FEWEST_THREADS, usize::from);
        let threads = self.threads.unwrap_or(cores.max(FEWEST_THREADS));
        Ok(Worker { program: self.program, native: Native { registry: self.registry, threads } })
    }

    /// [`Builder::build`] and [`Worker::main`]: the body of a program's `main` function.
    pub fn main(self) -> ExitCode {
        match self.build() {
            Ok(worker) => worker.main(),
            Err(error) => {
                // With standard error gone there is nobody left to tell; the code still says it.
                let _ = writeln!(std::io::stderr(), "error: {error}");
                ExitCode::from(error.exit_code())
            }
        }
    }
}

/// Why a handler of one's own may not have that name, whatever the registry says.
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
    fn a_worker_knows_its_handlers() {
        let worker = Worker::builder()
            .handler("b", nothing)
            .handler("a", async |_: Ctx, (): ()| Err::<(), _>("no"))
            .blocking_handler("c", |_, _: Value| Ok::<_, std::io::Error>(7))
            .build();
        assert_eq!(worker.unwrap().handlers(), ["a", "b", "c"]);
        assert!(Worker::builder().build().unwrap().handlers().is_empty());
    }

    #[test]
    fn names_of_built_in_handlers_are_refused() {
        let built = Worker::builder()
            .handler("sched.backup", nothing)
            .blocking_handler("sched.x", |_, (): ()| Ok::<_, HandlerError>(()));
        let text = built.build().unwrap_err().to_string();
        assert!(text.contains("\"sched.backup\"") && text.contains("\"sched.x\" is no name"), "{text}");
    }

    #[test]
    fn every_mistake_is_told_at_once() {
        let built =
            Worker::builder().handler("a", nothing).handler("a", nothing).handler("b c", nothing).build();
        let error = built.unwrap_err();
        assert_eq!(error.mistakes.len(), 2);
        assert!(
            error.to_string().starts_with("two handlers are called \"a\"; \"b c\" is no name"),
            "{error}"
        );
    }
}
