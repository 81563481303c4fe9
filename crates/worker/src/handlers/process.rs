//! The `process` handler: runs a program of the operating system and leaves no process or file of
//! it behind.
//!
//! Steps of an attempt, one module each:
//!
//! 1. `workspace` creates a private directory with the arguments.
//! 2. `environment` builds the environment variables from nothing.
//! 3. `launch` starts the program (`spawn`).
//! 4. `pipes` and `progress` read the output and the progress file, while `supervise` waits for the
//!    end.
//! 5. `orphans` finds and kills processes that outlived the program.
//!
//! Guarantees on Linux: once [`ProcessHandler::run`] returns, no process of the attempt runs any
//! more, even if it moved to its own session or forked twice. A dropped future kills the processes
//! that it finds at once, and does not wait for their deaths.
//!
//! Limits of these guarantees:
//!
//! - A process that has left its parent *and* its session *and* emptied its environment is
//!   indistinguishable from those of concurrent attempts. It is killed with the last of these
//!   attempts.
//! - A process of another user (a set-uid program) cannot be killed. The report names it.
//! - If the worker itself is killed, the kernel kills the programs that the worker started. Their
//!   children live on until another worker of the same installation on the machine kills them, at
//!   its start or before the lease of the killed worker expires
//!   ([`ProcessHandler::clean_up_dead_workers`]).
//! - On systems other than Linux only the process group is killed.
//!
//! If this machine cannot enforce a restriction (`confine`, `cgroups`), the attempt is rejected.
//! Programs must not read the memory of the worker, even as the worker's own user: the worker marks
//! its process as not dumpable.
//!
//! No lock is held across an await. All waits have deadlines, including those for a process stuck
//! in the kernel and for a pipe that another process holds open.

mod attempts;
mod cgroups;
mod confine;
mod environment;
mod launch;
mod orphans;
mod outcome;
mod ownership;
mod pipes;
mod procfs;
mod programs;
mod progress;
mod result_file;
mod running;
mod spawn;
mod start_error;
mod supervise;
mod users;
mod workspace;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sched_model::domain::handler_config::ProcessConfig;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::shield::hide_process;
use tokio_util::sync::CancellationToken;

use super::capture::CapturedOutput;
use super::metrics::Metrics;
use super::report::{ErrorClass, Outcome, Report, RetryHint};
use super::{Execution, Handler};
use cgroups::{AttemptGroups, Cgroups, Entrance};
use confine::{Confinement, Directory};
use environment::ProgramContext;
use launch::{Launcher, PreparedProgram};
use pipes::Pipes;
use start_error::StartError;
use supervise::TimeLimits;
use users::Identity;
use workspace::{Workspace, WorkspaceRoot};

pub use environment::{EnvAllowList, EnvAllowListError, SAFE_PATH};
pub use programs::{ProgramList, ProgramListError};
pub use users::{RunAsList, RunAsListError};

/// Time for reading the pipes after a normal exit. A background process may hold them open
/// permanently.
const DRAIN: Duration = Duration::from_secs(1);
/// The same time after all processes were killed: only bytes in the pipes remain.
const DRAIN_AFTER_KILL: Duration = Duration::from_millis(250);

/// The settings of the handler, from the worker's configuration.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// Parent of the private directories of attempts. It must exist.
    pub temp_root: PathBuf,
    /// The worker's own environment. A function may name variables to inherit (`env_allow`).
    pub inherited: BTreeMap<OsString, OsString>,
    /// Letters and digits that identify the worker's installation. The worker removes processes,
    /// directories and control groups that dead workers of the same installation have left on this
    /// machine, and never touches those of other installations.
    pub installation: String,
    /// Parent of the control groups for limits, as a path within the hierarchy. The default is the
    /// worker's own group.
    pub cgroup_root: Option<String>,
    pub programs: ProgramList,
    /// Variables that functions may inherit.
    pub env_allow: EnvAllowList,
    /// Users that functions may run as, besides the worker's own. Empty means no other user.
    pub run_as: RunAsList,
}

/// The operating system refused a step without which attempts cannot be contained.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// Without it, orphans of attempts become children of init, out of the worker's reach.
    #[error("failed to become the parent of orphaned job processes")]
    Subreaper(#[source] std::io::Error),
    /// Without it, programs of the same user can read the worker's memory and environment.
    #[error("failed to hide this process from the programs it runs")]
    Shield(#[source] std::io::Error),
    #[error("failed to start a thread for launching processes")]
    Launcher(#[source] std::io::Error),
    #[error("the directory for private files of jobs, {path}, cannot be used", path = path.display())]
    TempRoot {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

#[derive(Debug)]
pub struct ProcessHandler {
    shared: Arc<Shared>,
    launcher: Launcher,
}

#[derive(Debug)]
struct Shared {
    temp_root: PathBuf,
    worker: environment::Worker,
    cgroups: Cgroups,
    programs: ProgramList,
    env_allow: EnvAllowList,
    run_as: RunAsList,
}

impl ProcessHandler {
    /// Kills processes that a killed worker left on this machine. From now on, this process adopts
    /// orphans of attempts.
    ///
    /// # Errors
    /// The operating system refused a step, or the directory for private files is unusable.
    pub fn new(settings: ProcessSettings) -> Result<Self, PrepareError> {
        if let Err(source) = std::fs::read_dir(&settings.temp_root) {
            return Err(PrepareError::TempRoot { path: settings.temp_root, source });
        }
        crate::handlers::process::orphans::adopt_orphans().map_err(PrepareError::Subreaper)?;
        hide_process().map_err(PrepareError::Shield)?;
        let mark = crate::handlers::process::orphans::mark_of_this_process(&settings.installation);
        remove_dead_worker_folders(&settings.temp_root, &mark);
        let cgroups = Cgroups::probe(settings.cgroup_root.as_deref(), &mark);
        tracing::debug!(limits = ?cgroups.names(), missing = ?cgroups.missing(), "probed control groups");
        let launcher = Launcher::new().map_err(PrepareError::Launcher)?;
        let ProcessSettings { temp_root, inherited, programs, env_allow, run_as, .. } = settings;
        let worker = environment::Worker { inherited, mark };
        let shared = Shared { temp_root, worker, cgroups, programs, env_allow, run_as };
        Ok(Self { shared: Arc::new(shared), launcher })
    }

    /// Kills and reaps processes of dropped attempts. The caller repeats this every two seconds,
    /// within the runtime.
    pub fn clean_up(&self) {
        cgroups::clean_up();
        let killed = crate::handlers::process::orphans::clean_up();
        if killed > 0 {
            tracing::warn!(process.count = killed, "killed processes of dropped attempts");
        }
    }

    /// Kills processes and removes directories of killed workers on the machine. The caller repeats
    /// this, before another worker repeats the work.
    pub async fn clean_up_dead_workers(&self) {
        let shared = Arc::clone(&self.shared);
        // Reads a file of every process on the machine.
        let looked = tokio::task::spawn_blocking(move || {
            remove_dead_worker_folders(&shared.temp_root, &shared.worker.mark);
        });
        if let Err(error) = looked.await {
            tracing::error!(%error, "failed to clean up after dead workers");
        }
    }

    /// See the module documentation for the guarantees.
    pub async fn run(&self, execution: &Execution, cancel: &CancellationToken) -> Report {
        let called = monotonic();
        let mut report = if cancel.is_cancelled() {
            Report::ended(Outcome::Cancelled, Some((ErrorClass::Cancelled, "cancelled before it started")))
        } else {
            match self.attempt(execution, cancel, called).await {
                Ok(report) => report,
                Err(error) if error.class() == ErrorClass::Worker => Report::untried(&with_causes(&error)),
                Err(error) => {
                    // The operator forbids it next time too.
                    let is_refused = matches!(error, StartError::Refused(_) | StartError::Variable(_));
                    let again = if is_refused { RetryHint::Never } else { RetryHint::AsThePolicySays };
                    Report { again, ..Report::failed(error.class(), &with_causes(&error)) }
                }
            }
        };
        report.elapsed = monotonic().duration_since(called);
        report
    }

    async fn attempt(
        &self,
        execution: &Execution,
        cancel: &CancellationToken,
        called: Instant,
    ) -> Result<Report, StartError> {
        let config = ProcessConfig::parse(&execution.handler_config).map_err(StartError::Config)?;
        let time_limits = TimeLimits {
            timeout: execution.timeout,
            grace: Duration::from_secs(u64::from(config.grace_seconds)),
        };
        let (mut running, workspace) = self.start(config.clone(), execution.clone()).await?;
        let started_after = monotonic().duration_since(called);

        let mut pipes = Pipes::of(&mut running, config.max_output_bytes, &execution.live);
        let progress = workspace.follower(&execution.live);
        let ending = tokio::select! {
            biased;
            ending = pipes.read_during(supervise::until_it_ends(&mut running, time_limits, cancel)) => ending,
            never = progress.follow() => match never {},
        };
        let mut notes = Vec::new();
        if ending.was_stopped() {
            notes.extend(running.kill_strays().await);
            pipes.drain(DRAIN_AFTER_KILL).await;
        } else {
            // A background process may still write the last lines (as in `… | tee`): read first,
            // then kill.
            pipes.drain(DRAIN).await;
            notes.extend(running.kill_strays().await);
            pipes.drain(DRAIN_AFTER_KILL).await;
        }
        let memory_kills = running.memory_kills();
        drop(running);

        let left = workspace.close().await;
        notes.extend(left.notes);
        let (metrics, metric_error) = left.result.as_ref().map(Metrics::of_result).unwrap_or_default();
        notes.extend(metric_error.map(|why| format!("some metrics of the result were dropped: {why}")));
        let (stdout, stderr) = pipes.finish();
        let report = outcome::evaluate(&ending, time_limits, &config.success_exit_codes);
        let report = outcome::with_memory_kills(report, memory_kills, config.limits.as_ref(), &mut notes);
        Ok(Report {
            result: left.result,
            metrics: metrics.into_json(),
            stdout,
            stderr,
            log: CapturedOutput::of_lines(&notes),
            started_after: Some(started_after),
            notes,
            ..report
        })
    }

    async fn start(
        &self,
        config: ProcessConfig,
        execution: Execution,
    ) -> Result<(running::Running, Workspace), StartError> {
        let shared = Arc::clone(&self.shared);
        let attempt_id = execution.attempt_id;
        let prepare = move || {
            let identity =
                config.run_as.as_ref().map(|run_as| Identity::of(run_as, &shared.run_as)).transpose()?;
            let identity = identity.as_ref();
            let owner = identity.map(|identity| (identity.uid, identity.gid));
            let path = shared.programs.permits(launch::path(&config)?)?;
            shared.env_allow.check(&config.env_allow)?;
            let root = WorkspaceRoot { path: &shared.temp_root, mark: &shared.worker.mark };
            let mut workspace = Workspace::create(root, &execution, owner)
                .map_err(|source| StartError::Workspace { root: shared.temp_root.clone(), source })?;
            let context =
                ProgramContext { config: &config, execution: &execution, worker: &shared.worker, identity };
            let program = launch::program(&context, path, &mut workspace)?;
            let cgroup = shared.cgroups.create(attempt_id, config.limits.as_ref())?;
            let entrance =
                cgroup.as_ref().map_or_else(|| Ok(Entrance::nowhere()), AttemptGroups::entrance)?;
            let private_directory = workspace.take_work().map(Directory::Open);
            let directory = private_directory.filter(|_| config.cwd.is_none());
            let confinement = Confinement::new(&config, identity, entrance, directory)
                .map_err(|source| StartError::Workspace { root: shared.temp_root.clone(), source })?;
            Ok(PreparedProgram { program, confinement, cgroup, workspace })
        };
        self.launcher.start(attempt_id, Box::new(prepare)).await
    }
}

impl Handler for ProcessHandler {
    fn run<'a>(&'a self, execution: Execution, cancel: &'a CancellationToken) -> BoxFuture<'a, Report> {
        async move { self.run(&execution, cancel).await }.boxed()
    }

    fn clean_up(&self) {
        self.clean_up();
    }

    fn clean_up_dead_workers(&self) -> BoxFuture<'_, ()> {
        self.clean_up_dead_workers().boxed()
    }
}

/// Kills processes and removes directories of killed workers of the same installation on this
/// machine.
fn remove_dead_worker_folders(temp_root: &Path, mark: &str) {
    let killed = crate::handlers::process::orphans::kill_orphans_of_dead_workers(mark);
    if killed > 0 {
        tracing::warn!(process.count = killed, "killed processes of dead workers");
    }
    match workspace::remove_directories_of_dead_workers(temp_root, mark) {
        Ok(0) => {}
        Ok(removed) => {
            tracing::warn!(directory.count = removed, "removed private directories of dead workers");
        }
        Err(error) => tracing::warn!(%error, "failed to remove private directories of dead workers"),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
