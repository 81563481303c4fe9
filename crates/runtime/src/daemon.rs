//! The life cycle of a daemon's process, from its arguments to its exit code.
//!
//! The process hides itself from other processes of its user, loads the configuration, starts
//! telemetry, signal handling and the runtime, and runs the daemon's body, which watches
//! [`Context::shutdown`], and reports to the service manager when it serves. The body defines the
//! order in which its parts stop. After the second signal it has [`GRACE`] left before it is
//! dropped. The process sends the remaining spans and error reports. Then it waits [`GRACE`] for
//! running blocking calls and abandons them.

use std::ffi::OsString;
use std::future::Future;
use std::io::Write;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::process::ExitCode;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use metrics_exporter_prometheus::PrometheusHandle;

use crate::config::{self, ProcessSettings, Program, Setting, Source, Values};
use crate::delivery::Sending;
use crate::exit::{self, ExitError, ExitStatus};
use crate::service_manager::ServiceManager;
use crate::shield;
use crate::shutdown::{self, Shutdown};
use crate::tasks::spawn_owned;
use crate::telemetry::{self, LogSettings};
use crate::traces::{self, Exporter, Traces, TracesSettings};
use crate::tracker::{self, Report, Reporter, Tracker, TrackerSettings};

/// Time that the body has left after the second signal.
pub const GRACE: Duration = Duration::from_secs(2);

pub const COMMON: &[&[Setting]] =
    &[config::LOGGING, config::PROCESS, traces::TRACES, tracker::TRACKER, config::REFUSED];

/// The values that the process passes to its body.
#[derive(Debug, Clone)]
pub struct Context {
    pub program: Program,
    /// The signals to stop.
    pub shutdown: Shutdown,
    pub metrics: PrometheusHandle,
    pub traces: Traces,
    pub tracker: Tracker,
    pub service: ServiceManager,
}

/// Runs a daemon with the process's arguments and environment.
///
/// `groups` are its settings besides [`COMMON`]. `read` builds the configuration from the values;
/// its result is used only if no mistake was recorded.
pub fn run<C, F, E>(
    program: &Program,
    groups: &[&[Setting]],
    read: impl FnOnce(&mut Values) -> C,
    body: impl FnOnce(C, Context) -> F,
) -> ExitCode
where
    F: Future<Output = Result<(), E>>,
    E: Into<ExitError>,
{
    let args = std::env::args_os();
    let invocation = Invocation { program, groups, args, source: &config::ProcessEnvironment };
    match invocation.run(read, body) {
        Ok(()) => ExitCode::from(exit::OK),
        Err(error) => {
            // Without standard error, the exit code still reports the failure.
            let _ = writeln!(std::io::stderr(), "error: {}", error.describe());
            ExitCode::from(error.code())
        }
    }
}

#[derive(Debug)]
pub struct Invocation<'a, A> {
    pub program: &'a Program,
    pub groups: &'a [&'a [Setting]],
    pub args: A,
    pub source: &'a dyn Source,
}

impl<A: IntoIterator<Item = OsString>> Invocation<'_, A> {
    /// Like [`run`], with the given arguments and variables.
    ///
    /// # Errors
    /// If the configuration is invalid, the process cannot be set up, or the body fails.
    pub fn run<C, F, E>(
        self,
        read: impl FnOnce(&mut Values) -> C,
        body: impl FnOnce(C, Context) -> F,
    ) -> Result<(), ExitError>
    where
        F: Future<Output = Result<(), E>>,
        E: Into<ExitError>,
    {
        let program = self.program;
        // First, because the environment can be read until then.
        shield::hide_process().map_err(failure)?;
        match self.start(read)? {
            Start::Answer(text) => answer(&text),
            Start::Run(process, config) => live(program, *process, |context| body(config, context)),
        }
    }

    fn start<C>(self, read: impl FnOnce(&mut Values) -> C) -> Result<Start<C>, ExitError> {
        let of_all = COMMON.iter().copied();
        let all: Vec<&[Setting]> = self.groups.iter().copied().chain(of_all).collect();
        let mut values = match config::load(self.program, &all, self.args, self.source) {
            Ok(values) => values,
            Err(config::LoadError::Answered { text }) => return Ok(Start::Answer(text)),
            Err(error) => return Err(error.into()),
        };
        let own = read(&mut values);
        let process = Process {
            logging: LogSettings::read(&mut values),
            process: ProcessSettings::read(&mut values),
            traces: TracesSettings::read(&mut values),
            tracker: TrackerSettings::read(&mut values),
        };
        let effective = values.check_requested().then(|| values.effective());
        values.finish()?;
        Ok(effective.map_or(Start::Run(Box::new(process), own), Start::Answer))
    }
}

/// The request of the command line.
enum Start<C> {
    Answer(String),
    Run(Box<Process>, C),
}

struct Process {
    logging: LogSettings,
    process: ProcessSettings,
    traces: Option<TracesSettings>,
    tracker: Option<TrackerSettings>,
}

fn answer(text: &str) -> Result<(), ExitError> {
    let mut output = std::io::stdout().lock();
    let written = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    written.map_err(|error| ExitError::new(exit::FAILURE, error))
}

fn live<F, E>(program: &Program, settings: Process, body: impl FnOnce(Context) -> F) -> Result<(), ExitError>
where
    F: Future<Output = Result<(), E>>,
    E: Into<ExitError>,
{
    if let Some(parent) = settings.process.exit_with_parent {
        shutdown::exit_with_parent(parent).map_err(failure)?;
    }
    let tracker = settings.tracker.map(|tracker| Reporter::new(program, tracker)).transpose();
    let (tracker, reporter) = tracker.map_err(failure)?.unzip();
    let tracker = tracker.unwrap_or_default();
    telemetry::init_reporting(&settings.logging, &tracker).map_err(failure)?;
    tracker.watch_panics();
    let metrics = telemetry::metrics_recorder().map_err(failure)?;
    let collector = settings.traces.map(|collector| Exporter::new(program, collector)).transpose();
    let (traces, exporter) = collector.map_err(failure)?.unzip();
    let traces = traces.unwrap_or_default();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = program.threads {
        runtime.worker_threads(threads);
    }
    let runtime = runtime.enable_all().build().map_err(failure)?;
    let result = runtime.block_on(async {
        let shutdown = Shutdown::listen().map_err(failure)?;
        tracing::info!(daemon = program.table(), version = program.version, "Starting.");
        let exporting = exporter.map(|exporter| Sending::start("export_traces", |stop| exporter.run(stop)));
        let reporting = reporter.map(|reporter| Sending::start("report_errors", |stop| reporter.run(stop)));
        let service = ServiceManager::of_process();
        let _feeding = spawn_owned("service_manager", service.clone().run(shutdown.soft.clone()));
        let context = Context {
            program: *program,
            shutdown: shutdown.clone(),
            metrics,
            traces,
            tracker: tracker.clone(),
            service,
        };
        // The hook reports a panic; the panic resumes after the report.
        let result = AssertUnwindSafe(until_dropped(body(context), &shutdown)).catch_unwind().await;
        if let Ok(Err(error)) = &result {
            tracker.report_fatal(|| ended_by(error));
        }
        let sending = [exporting, reporting].into_iter().flatten();
        join_all(sending.map(|sending| sending.finish(&shutdown.hard))).await;
        result.unwrap_or_else(|panic| resume_unwind(panic))
    });
    runtime.shutdown_timeout(GRACE);
    tracing::info!(daemon = program.table(), ok = result.is_ok(), "Stopped.");
    result
}

fn ended_by(error: &ExitError) -> Report {
    let cause = ("error".to_owned(), error.describe());
    let code = ("exit_code".to_owned(), error.code().to_string());
    let title = "The daemon ended with an error.".to_owned();
    Report { title, facts: vec![cause, code], ..Report::default() }
}

fn failure(error: impl Into<exit::BoxError>) -> ExitError {
    ExitError::new(exit::FAILURE, error)
}

#[derive(Debug, thiserror::Error)]
#[error("stopped at once by a second signal; work in progress was left to be recovered")]
struct Forced;

impl ExitStatus for Forced {
    fn exit_code(&self) -> u8 {
        exit::FAILURE
    }
}

async fn until_dropped<E: Into<ExitError>>(
    body: impl Future<Output = Result<(), E>>,
    shutdown: &Shutdown,
) -> Result<(), ExitError> {
    let forced = async {
        shutdown.hard.cancelled().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        result = body => result.map_err(Into::into),
        () = forced => Err(Forced.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HEALTH, HealthSettings, MapSource};

    const PROGRAM: Program =
        Program::new("sched-worker", "1.2.3", "Runs jobs").defaults(&[("health-port", "9102")]);

    fn started(args: &[&str], variables: &[(&str, &str)]) -> Result<Start<HealthSettings>, ExitError> {
        let args = std::iter::once("sched-worker").chain(args.iter().copied()).map(OsString::from);
        let source: MapSource = variables.iter().copied().collect();
        let invocation = Invocation { program: &PROGRAM, groups: &[HEALTH], args, source: &source };
        invocation.start(HealthSettings::read)
    }

    #[test]
    fn a_sound_configuration_runs() {
        let Ok(Start::Run(process, health)) = started(&["--log-format=json"], &[("LOG_LEVEL", "debug")])
        else {
            panic!("refused")
        };
        assert_eq!(health.port, 9102);
        assert_eq!(process.logging.directives, "debug");
    }

    #[test]
    fn mistakes_of_the_daemon_and_of_the_process_are_told_together() {
        let Err(error) = started(&["--health-port=many"], &[("LOG_FORMAT", "xml")]) else {
            panic!("accepted")
        };
        assert_eq!(error.code(), exit::USAGE);
        let text = error.describe();
        assert!(text.contains("health-port") && text.contains("log-format"), "{text}");
    }

    #[test]
    fn questions_are_answered_instead_of_running() {
        for (flag, part) in
            [("--help", "HEALTH_PORT"), ("--version", "1.2.3"), ("--check-config", "health-port = \"9102\"")]
        {
            let Ok(Start::Answer(text)) = started(&[flag], &[]) else { panic!("{flag} runs") };
            assert!(text.contains(part), "{flag}: {text}");
        }
        assert!(started(&["--check-config"], &[("LOG_FORMAT", "xml")]).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_ignores_the_second_signal_is_dropped() {
        let shutdown = Shutdown::new();
        shutdown.trigger();
        shutdown.trigger();
        let error =
            until_dropped(std::future::pending::<Result<(), ExitError>>(), &shutdown).await.unwrap_err();
        assert_eq!(error.code(), exit::FAILURE);
        until_dropped(async { Ok::<_, ExitError>(()) }, &shutdown).await.unwrap();
    }
}
