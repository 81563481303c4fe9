//! Puts together the program of an attempt and starts it, on threads that live long enough.
//!
//! Linux kills the program when the *thread* that started it ends, which is how programs die with a worker that was
//! killed. So the starting threads must outlive all programs: threads of the async runtime's blocking pool end when
//! idle, and its workers can become such threads. [`Launcher`] therefore keeps a few threads of its own, which end
//! with it; starting, which takes a good part of a millisecond, does not hold up the runtime's threads either. An
//! attempt borrows its launcher, so no program outlives its thread. An answer that nobody takes any more is dropped,
//! which kills the program again.

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

use super::super::Execution;
use super::StartError;
use super::cgroups::Leaf;
use super::confine::Confinement;
use super::environment::{self, SAFE_PATH};
use super::running::Running;
use super::spawn::Program;
use super::users::Identity;
use super::workspace::Workspace;

/// Most launching threads: more than there are processors gain nothing.
const MAX_THREADS: usize = 4;
/// Attempts that wait for a launching thread. The worker's slots are the real bound; this keeps the queue finite.
const QUEUE: usize = 64;

/// Makes everything an attempt needs; runs on a launching thread.
pub(super) type Prepare = Box<dyn FnOnce() -> Result<Prepared, StartError> + Send>;

/// A program that can be started.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) program: Program,
    pub(super) confinement: Confinement,
    pub(super) leaf: Option<Leaf>,
    pub(super) workspace: Workspace,
}

type Started = Result<(Running, Workspace), StartError>;

struct Job {
    execution_id: Uuid,
    prepare: Prepare,
    /// Where the program's pipes and exit are watched.
    runtime: Handle,
    reply: oneshot::Sender<Started>,
}

/// The threads that start programs.
#[derive(Debug)]
pub(super) struct Launcher {
    jobs: mpsc::Sender<Job>,
}

impl Launcher {
    pub(super) fn new() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let queue = Arc::new(Mutex::new(queue));
        // A machine that cannot tell how many processors it has gets one thread.
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

    /// Starts a program on one of the threads.
    pub(super) async fn start(&self, execution_id: Uuid, prepare: Prepare) -> Started {
        let (reply, answer) = oneshot::channel();
        let job = Job { execution_id, prepare, runtime: Handle::current(), reply };
        if self.jobs.send(job).await.is_err() {
            return Err(StartError::LauncherGone);
        }
        answer.await.unwrap_or(Err(StartError::LauncherGone))
    }
}

/// The threads queue up for the queue: one waits in it for a job, the others for the lock.
fn next(queue: &Mutex<mpsc::Receiver<Job>>) -> Option<Job> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
}

fn launch(job: Job) {
    let Job { execution_id, prepare, runtime, reply } = job;
    let _in_runtime = runtime.enter();
    let started = prepare().and_then(|prepared| {
        let Prepared { program, confinement, leaf, workspace } = prepared;
        Ok((Running::start(program, execution_id, confinement, leaf)?, workspace))
    });
    if let Err(unwanted) = reply.send(started) {
        // Whoever asked was dropped meanwhile: dropping the answer kills the program and removes its files.
        drop(unwanted);
    }
}

/// The file that is to be started, as the function names it.
pub(super) fn path(config: &ProcessConfig) -> Result<PathBuf, StartError> {
    config.program.as_deref().map_or_else(|| Ok(PathBuf::from("/bin/sh")), find)
}

/// The program of an attempt, with all it is given. One of another user goes to its directory when it has become that user.
pub(super) fn program(
    path: PathBuf,
    config: &ProcessConfig,
    execution: &Execution,
    workspace: &mut Workspace,
    worker: &environment::Worker,
    identity: Option<&Identity>,
) -> Result<Program, StartError> {
    let own_args = config.args.iter().map(OsString::from);
    let args = match &config.program {
        Some(_) => own_args.collect(),
        None => {
            let script = config.command.as_deref().unwrap_or_default();
            ["-c", script, "sh"].map(OsString::from).into_iter().chain(own_args).collect()
        }
    };
    // A file and not a pipe: nothing has to be fed, and a program that does not read is no error.
    let stdin = workspace.take_args().filter(|_| config.stdin == StdinSource::Args);
    let env = environment::variables(config, execution, workspace, worker, identity)?;
    let cwd = working_directory(config, workspace)?;
    Ok(Program { path, args, env, cwd, stdin, is_anothers: identity.is_some() })
}

fn working_directory(config: &ProcessConfig, workspace: &Workspace) -> Result<PathBuf, StartError> {
    match &config.cwd {
        None => Ok(workspace.work()),
        Some(cwd) if Path::new(cwd).is_dir() => Ok(PathBuf::from(cwd)),
        Some(cwd) => Err(StartError::NoSuchDirectory { cwd: cwd.clone() }),
    }
}

/// The file of a program: as given when absolute, else the first executable of that name in the safe path.
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
