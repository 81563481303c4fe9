//! Assembles the program of an attempt and starts it, on threads that live long enough.
//!
//! Linux kills the program when the *thread* that started it ends (PDEATHSIG), so programs die with
//! a killed worker. So the starting threads must outlive all programs. Threads of the async
//! runtime's blocking pool end when idle, and its workers can become such threads. [`Launcher`]
//! therefore keeps a few separate threads. An attempt borrows its launcher, so no program outlives
//! its thread. If the receiver of a started program is gone, the program is dropped, which kills
//! it.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use sched_model::domain::handler_config::{ProcessConfig, StdinSource};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::cgroups::AttemptGroups;
use super::confine::Confinement;
use super::environment::{self, ProgramContext, SAFE_PATH};
use super::running::Running;
use super::spawn::Program;
use super::start_error::StartError;
use super::workspace::Workspace;

/// More threads than processors gain nothing.
const MAX_THREADS: usize = 4;
/// Keeps the queue finite. The worker's slots are the real limit.
const QUEUE: usize = 64;

pub(super) type Prepare = Box<dyn FnOnce() -> Result<PreparedProgram, StartError> + Send>;

#[derive(Debug)]
pub(super) struct PreparedProgram {
    pub(super) program: Program,
    pub(super) confinement: Confinement,
    pub(super) cgroup: Option<AttemptGroups>,
    pub(super) workspace: Workspace,
}

type StartResult = Result<(Running, Workspace), StartError>;

struct Job {
    attempt_id: Uuid,
    prepare: Prepare,
    runtime: Handle,
    reply: oneshot::Sender<StartResult>,
}

#[derive(Debug)]
pub(super) struct Launcher {
    jobs: mpsc::Sender<Job>,
}

impl Launcher {
    pub(super) fn new() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let queue = Arc::new(Mutex::new(queue));
        // If the number of processors is unknown, one thread is used.
        let threads = thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS));
        for number in 0..threads {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(format!("launch-{number}")).spawn(move || {
                while let Some(job) = next(&queue) {
                    launch(job);
                }
            })?;
        }
        Ok(Self { jobs })
    }

    pub(super) async fn start(&self, attempt_id: Uuid, prepare: Prepare) -> StartResult {
        let (reply, answer) = oneshot::channel();
        let job = Job { attempt_id, prepare, runtime: Handle::current(), reply };
        if self.jobs.send(job).await.is_err() {
            return Err(StartError::LauncherGone);
        }
        answer.await.unwrap_or(Err(StartError::LauncherGone))
    }
}

/// The waiting thread holds the lock. The other threads wait for the lock.
fn next(queue: &Mutex<mpsc::Receiver<Job>>) -> Option<Job> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
}

fn launch(job: Job) {
    let Job { attempt_id, prepare, runtime, reply } = job;
    let _in_runtime = runtime.enter();
    let started = prepare().and_then(|prepared| {
        let PreparedProgram { program, confinement, cgroup, workspace } = prepared;
        Ok((Running::start(program, attempt_id, confinement, cgroup)?, workspace))
    });
    if let Err(unwanted) = reply.send(started) {
        // Dropping the program kills it and removes its files.
        drop(unwanted);
    }
}

pub(super) fn path(config: &ProcessConfig) -> Result<PathBuf, StartError> {
    config.program.as_deref().map_or_else(|| Ok(PathBuf::from("/bin/sh")), find)
}

/// A program of another user enters its directory after the change of user.
pub(super) fn program(
    context: &ProgramContext<'_>,
    path: PathBuf,
    workspace: &mut Workspace,
) -> Result<Program, StartError> {
    let config = context.config;
    let own_args = config.args.iter().map(OsString::from);
    let args = match &config.program {
        Some(_) => own_args.collect(),
        None => {
            let script = config.command.as_deref().unwrap_or_default();
            ["-c", script, "sh"].map(OsString::from).into_iter().chain(own_args).collect()
        }
    };
    // A file and not a pipe: a program that does not read it causes no error.
    let stdin = workspace.take_args().filter(|_| config.stdin == StdinSource::Args);
    let env = environment::variables(context, workspace)?;
    let cwd = working_directory(config, workspace)?;
    Ok(Program { path, args, env, cwd, stdin, runs_as_other_user: context.identity.is_some() })
}

fn working_directory(config: &ProcessConfig, workspace: &Workspace) -> Result<PathBuf, StartError> {
    match &config.cwd {
        None => Ok(workspace.work()),
        Some(cwd) if Path::new(cwd).is_dir() => Ok(PathBuf::from(cwd)),
        Some(cwd) => Err(StartError::NoSuchDirectory { cwd: cwd.clone() }),
    }
}

/// A bare name is searched in the safe path.
fn find(program: &str) -> Result<PathBuf, StartError> {
    if program.starts_with('/') {
        let path = PathBuf::from(program);
        return if path.exists() {
            Ok(path)
        } else {
            Err(StartError::NoSuchProgram { program: program.to_owned() })
        };
    }
    let is_executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    SAFE_PATH
        .split(':')
        .map(|directory| Path::new(directory).join(program))
        .find(is_executable)
        .ok_or_else(|| StartError::NotInPath { program: program.to_owned() })
}
