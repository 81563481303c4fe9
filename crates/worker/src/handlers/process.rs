//! The `process` handler: runs a program of the operating system and leaves nothing of it behind.
//!
//! An attempt goes through five steps, one module each: `workspace` makes a private directory with the arguments, or
//! takes one of `spares`, `environment` builds the variables from nothing, `launch` starts the program (`spawn`), `pipes` keeps head and tail of the output and
//! `progress` looks how far it is while `supervise` waits for the exit, the timeout or the cancellation, and `strays` finds and kills what outlived the
//! program. `outcome` says in words how it ended.
//!
//! What it guarantees on Linux: once [`ProcessHandler::run`] returns, no process of the attempt runs any more, whether
//! it moved to a session of its own or forked twice, and zombies do not stay for long. A dropped future kills what it
//! finds at once, and does not wait for the deaths. The limits: a process that has left its parent *and* its session
//! *and* emptied its environment cannot be told from those of attempts that run beside it, and goes with the last of
//! them; one of another user (a set-uid program) cannot be killed, and is named in the report's notes. When the worker
//! itself is killed, the kernel kills the programs it started; what these had started lives on until another worker
//! of the same installation on the machine finds it, at its start or before its lease runs out ([`ProcessHandler::clear_away_dead`]).
//! Elsewhere than on Linux only the process group is killed.
//!
//! Which programs there are to start is the operator's word (`programs`). What one may be and use is `confine`'s and `cgroups`' part: another user, no new privileges, no core dumps, and bounds of
//! memory, processor time and processes. What this machine cannot do of it is refused, never left out. The worker itself is not to be
//! read by the programs it runs, even by those of its own user: the kernel is told not to let them look into it.
//!
//! It holds no locks across awaits. All waits have deadlines: for a process in the kernel's hands and for a pipe that
//! someone else holds open too.

mod attempts;
mod cgroups;
mod confine;
mod dir_pool;
mod environment;
mod launch;
mod orphans;
mod outcome;
mod ownership;
mod pipes;
mod procfs;
mod programs;
mod progress;
mod running;
mod spawn;
mod supervise;
mod users;
mod workspace;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sched_model::domain::handler_config::{FieldError, ProcessConfig};
use sched_runtime::monotonic_clock::monotonic;
use tokio_util::sync::CancellationToken;

use super::capture::Captured;
use super::metrics::Metrics;
use super::report::{Again, ErrorClass, Outcome, Report};
use super::{Execution, MissingSecret};
use crate::handlers::process::dir_pool::Spares;
use cgroups::{Cgroups, Entrance, Leaf, LimitError};
use confine::{Confinement, Directory};
use launch::{Launcher, Prepared};
use pipes::Pipes;
use programs::ProgramRefused;
use supervise::Patience;
use users::{Identity, RunAsError};
use workspace::Workspace;

pub use environment::SAFE_PATH;
pub use programs::{ProgramList, ProgramListError};
pub use users::{RunAsList, RunAsListError};

/// How long the pipes are read after the program has ended of its own accord; a background process of it may hold
/// them open for good.
const DRAIN: Duration = Duration::from_secs(1);
/// The same once everything of the attempt has been killed, so that only what is in the pipes remains.
const DRAIN_AFTER_KILL: Duration = Duration::from_millis(250);

/// What the handler is given by the worker's configuration.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// Where the private directories of attempts are made. It must exist.
    pub temp_root: PathBuf,
    /// The worker's own environment, of which a function may name variables to hand down (`env_allow`).
    pub inherited: BTreeMap<OsString, OsString>,
    /// A word of letters and digits for the installation the worker belongs to. Processes, directories and control groups that dead
    /// workers of the same one have left on this machine are cleared away; those of others are let alone.
    pub installation: String,
    /// Control group below which groups for limits are made, as a path within the hierarchy; the worker's own if absent.
    pub cgroup_root: Option<String>,
    /// Programs that functions may start.
    pub programs: ProgramList,
    /// Users as which functions may run besides the worker's own; none if empty.
    pub run_as: RunAsList,
}

/// The operating system refused something without which attempts could not be contained.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// Orphans of attempts would go to init, out of sight.
    #[error("failed to become the parent of orphaned job processes")]
    Subreaper(#[source] std::io::Error),
    /// Jobs of the same user could read the worker's memory and environment.
    #[error("failed to hide this process from the programs it runs")]
    Shield(#[source] std::io::Error),
    /// No thread to fork from.
    #[error("failed to start a thread for launching processes")]
    Launcher(#[source] std::io::Error),
    /// Attempts could keep no files.
    #[error("the directory for private files of jobs, {path}, cannot be used", path = path.display())]
    TempRoot {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Why an attempt never came to run.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("handler_config is not valid: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Config(Vec<FieldError>),
    #[error(transparent)]
    Secret(#[from] MissingSecret),
    #[error("program {program:?} was not found in PATH ({SAFE_PATH}) on this worker")]
    NotInPath { program: String },
    #[error("program {program:?} does not exist on this worker")]
    NoSuchProgram { program: String },
    #[error(transparent)]
    Refused(#[from] ProgramRefused),
    #[error("working directory {cwd:?} is not a directory on this worker")]
    NoSuchDirectory { cwd: String },
    #[error("this worker could make no process for {program:?}")]
    Shortage { program: String, source: std::io::Error },
    #[error("failed to start {program:?}")]
    Spawn { program: String, source: std::io::Error },
    #[error(
        "failed to start {program:?}: the interpreter that its first line or its format asks for is missing"
    )]
    NoInterpreter { program: String, source: std::io::Error },
    #[error("failed to make the private directory of the attempt in {root}", root = root.display())]
    Workspace { root: PathBuf, source: std::io::Error },
    #[error(transparent)]
    RunAs(#[from] RunAsError),
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error("the launcher of processes has stopped")]
    LauncherGone,
}

impl StartError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Config(_) => ErrorClass::InvalidConfig,
            Self::Secret(_) => ErrorClass::MissingSecret,
            Self::NotInPath { .. } | Self::NoSuchProgram { .. } => ErrorClass::ProgramNotFound,
            Self::Refused(_) => ErrorClass::ProgramRefused,
            Self::NoSuchDirectory { .. } | Self::NoInterpreter { .. } | Self::Spawn { .. } => {
                ErrorClass::SpawnFailed
            }
            Self::RunAs(_) => ErrorClass::RunAsUnavailable,
            Self::Limit(LimitError::Unavailable { .. }) => ErrorClass::LimitsUnavailable,
            Self::Shortage { .. }
            | Self::Workspace { .. }
            | Self::Limit(LimitError::Group { .. })
            | Self::LauncherGone => ErrorClass::Worker,
        }
    }
}

/// Runs functions of type `process`.
#[derive(Debug)]
pub struct ProcessHandler {
    place: Arc<Place>,
    launcher: Launcher,
}

/// What every attempt needs of this process.
#[derive(Debug)]
struct Place {
    temp_root: PathBuf,
    worker: environment::Worker,
    cgroups: Cgroups,
    programs: ProgramList,
    run_as: RunAsList,
    spares: Arc<Spares>,
}

impl ProcessHandler {
    /// Prepares this operating system process: orphans of attempts become its children from now on, and those that an
    /// earlier, killed worker left behind on this machine are killed.
    ///
    /// # Errors
    /// The operating system refused, or the directory for private files cannot be used.
    pub fn new(settings: ProcessSettings) -> Result<Self, PrepareError> {
        if let Err(source) = std::fs::read_dir(&settings.temp_root) {
            return Err(PrepareError::TempRoot { path: settings.temp_root, source });
        }
        crate::handlers::process::orphans::adopt_orphans().map_err(PrepareError::Subreaper)?;
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_dumpable(false)
            .map_err(|errno| PrepareError::Shield(std::io::Error::from(errno)))?;
        let mark = crate::handlers::process::orphans::mark_of_this_process(&settings.installation);
        clear_away_dead_workers(&settings.temp_root, &mark);
        let cgroups = Cgroups::look(settings.cgroup_root.as_deref(), &mark);
        tracing::debug!(limits = ?cgroups.names(), missing = ?cgroups.missing(), "Looked for control groups.");
        let launcher = Launcher::new().map_err(PrepareError::Launcher)?;
        let ProcessSettings { temp_root, inherited, programs, run_as, .. } = settings;
        let worker = environment::Worker { inherited, mark };
        let place = Place { temp_root, worker, cgroups, programs, run_as, spares: Arc::default() };
        Ok(Self { place: Arc::new(place), launcher })
    }

    /// Kills and reaps what attempts that were dropped have left; to be called every other second, within the runtime.
    pub fn tidy(&self) {
        cgroups::tidy();
        let unwanted = self.place.spares.unwanted();
        if !unwanted.is_empty() {
            drop(tokio::task::spawn_blocking(move || drop(unwanted)));
        }
        let killed = crate::handlers::process::orphans::tidy();
        if killed > 0 {
            tracing::warn!(
                process.count = killed,
                "Killed processes that a dropped attempt had left behind."
            );
        }
    }

    /// Kills and removes what workers that were killed since have left on the machine; to be called often enough that it is gone before
    /// their work is begun again.
    pub async fn clear_away_dead(&self) {
        let place = Arc::clone(&self.place);
        // Reads a file of every process on the machine.
        let looked = tokio::task::spawn_blocking(move || {
            clear_away_dead_workers(&place.temp_root, &place.worker.mark);
        });
        if let Err(error) = looked.await {
            tracing::error!(%error, "Looking for what dead workers have left failed.");
        }
    }

    /// Runs one attempt to its end; see the module for what holds afterwards.
    pub async fn run(&self, execution: &Execution, cancel: &CancellationToken) -> Report {
        let called = monotonic();
        let mut report = if cancel.is_cancelled() {
            Report::ended(Outcome::Cancelled, Some((ErrorClass::Cancelled, "cancelled before it started")))
        } else {
            match self.attempt(execution, cancel, called).await {
                Ok(report) => report,
                Err(error) if error.class() == ErrorClass::Worker => Report::untried(&with_causes(&error)),
                Err(error) => {
                    // What the operator does not let run will not run the next time either.
                    let is_refused = matches!(error, StartError::Refused(_));
                    let again = if is_refused { Again::Never } else { Again::AsThePolicySays };
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
        let patience = Patience {
            timeout: execution.timeout,
            grace: Duration::from_secs(u64::from(config.grace_seconds)),
        };
        let (mut running, workspace) = self.start(config.clone(), execution.clone()).await?;
        let started_after = monotonic().duration_since(called);

        let mut pipes = Pipes::of(&mut running, config.max_output_bytes, &execution.live);
        let progress = workspace.follower(&execution.live);
        let ending = tokio::select! {
            biased;
            ending = pipes.read_during(supervise::until_it_ends(&mut running, patience, cancel)) => ending,
            never = progress.follow() => match never {},
        };
        let mut notes = Vec::new();
        if ending.was_stopped() {
            notes.extend(running.kill_strays().await);
            pipes.drain(DRAIN_AFTER_KILL).await;
        } else {
            // A background process may still be writing the last lines (think of `… | tee`): read first, kill then.
            pipes.drain(DRAIN).await;
            notes.extend(running.kill_strays().await);
            pipes.drain(DRAIN_AFTER_KILL).await;
        }
        let survives = !notes.is_empty();
        let memory_kills = running.memory_kills();
        drop(running);

        let left = workspace.close(survives).await;
        notes.extend(left.notes);
        let (metrics, not_kept) = left.result.as_ref().map(Metrics::of_result).unwrap_or_default();
        notes.extend(not_kept.map(|why| format!("of the result's metrics some were not kept: {why}")));
        let (stdout, stderr) = pipes.finish();
        let judged = outcome::judge(&ending, patience, &config.success_exit_codes);
        let judged = outcome::with_memory_kills(judged, memory_kills, config.limits.as_ref(), &mut notes);
        Ok(Report {
            result: left.result,
            metrics: metrics.into_json(),
            stdout,
            stderr,
            log: Captured::of_lines(&notes),
            started_after: Some(started_after),
            notes,
            ..judged
        })
    }

    /// Makes the private directory and starts the program in it.
    async fn start(
        &self,
        config: ProcessConfig,
        execution: Execution,
    ) -> Result<(running::Running, Workspace), StartError> {
        let place = Arc::clone(&self.place);
        let execution_id = execution.execution_id;
        let prepare = move || {
            let identity =
                config.run_as.as_ref().map(|run_as| Identity::of(run_as, &place.run_as)).transpose()?;
            let identity = identity.as_ref();
            let owner = identity.map(|identity| (identity.uid, identity.gid));
            let path = place.programs.permits(launch::path(&config)?)?;
            let (root, mark) = (&place.temp_root, &place.worker.mark);
            let mut workspace = Workspace::create(root, &execution, mark, owner, &place.spares)
                .map_err(|source| StartError::Workspace { root: root.clone(), source })?;
            let program =
                launch::program(path, &config, &execution, &mut workspace, &place.worker, identity)?;
            let leaf = place.cgroups.make(execution_id, config.limits.as_ref())?;
            let entrance = leaf.as_ref().map_or_else(|| Ok(Entrance::nowhere()), Leaf::entrance)?;
            let place_of_its_own = workspace.take_work().map(Directory::Open);
            let directory = place_of_its_own.filter(|_| config.cwd.is_none());
            let confinement = Confinement::new(&config, identity, entrance, directory)
                .map_err(|source| StartError::Workspace { root: place.temp_root.clone(), source })?;
            Ok(Prepared { program, confinement, leaf, workspace })
        };
        self.launcher.start(execution_id, Box::new(prepare)).await
    }
}

/// Kills the processes and removes the directories that killed workers of the same installation have left on this machine.
fn clear_away_dead_workers(temp_root: &Path, mark: &str) {
    let killed = crate::handlers::process::orphans::kill_orphans_of_dead_workers(mark);
    if killed > 0 {
        tracing::warn!(process.count = killed, "Killed processes that a dead worker had left behind.");
    }
    match workspace::remove_those_of_dead_workers(temp_root, mark) {
        Ok(0) => {}
        Ok(removed) => {
            tracing::warn!(directory.count = removed, "Removed private directories of dead workers.");
        }
        Err(error) => tracing::warn!(%error, "Looking for private directories of dead workers failed."),
    }
}

/// An error with its chain of causes, on one line.
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
