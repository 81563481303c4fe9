//! Forks the programs of attempts, each as the leader of its own session and process group, and holds on to them.
//!
//! Linux kills the program when the *thread* that forked it ends, which is how programs die with a worker that was
//! killed. So the forking threads must outlive all programs: threads of the async runtime's blocking pool end when
//! idle, and its workers can become such threads. [`Launcher`] therefore keeps a few threads of its own, which end
//! with it; forking, which takes a good part of a millisecond, does not hold up the runtime's threads either. An
//! attempt borrows its launcher, so no program outlives its thread.
//!
//! [`Running`] owns a program. Dropped before its end is known, it kills the whole tree at once.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sched_model::domain::handler_config::{ProcessConfig, StdinSource};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::super::Execution;
use super::attempts::{self, Registration};
use super::environment::{self, SAFE_PATH};
use super::procfs::{self, Identity};
use super::workspace::Workspace;
use super::{StartError, strays};

/// Most launching threads: forks of one process hinder each other in the kernel, more threads gain nothing.
const MAX_THREADS: usize = 4;
/// Attempts that wait for a launching thread. The worker's slots are the real bound; this keeps the queue finite.
const QUEUE: usize = 64;

/// Makes everything an attempt needs; runs on a launching thread.
pub(super) type Prepare = Box<dyn FnOnce() -> Result<(Command, Workspace), StartError> + Send>;

type Started = Result<(Running, Workspace), StartError>;

struct Job {
    execution_id: Uuid,
    prepare: Prepare,
    /// Where the program's pipes and exit are watched.
    runtime: Handle,
    reply: oneshot::Sender<Started>,
}

/// The threads that fork.
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
    let started =
        prepare().and_then(|(command, workspace)| Ok((Running::start(command, execution_id)?, workspace)));
    if let Err(unwanted) = reply.send(started) {
        // Whoever asked was dropped meanwhile: dropping the answer kills the program and removes its files.
        drop(unwanted);
    }
}

/// The command of an attempt, complete but for its start.
pub(super) fn command(
    config: &ProcessConfig,
    execution: &Execution,
    workspace: &Workspace,
    inherited: &BTreeMap<OsString, OsString>,
) -> Result<Command, StartError> {
    let mut command = match (&config.program, &config.command) {
        (Some(program), _) => Command::new(find(program)?),
        (None, shell_command) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg("-c").arg(shell_command.as_deref().unwrap_or_default()).arg("sh");
            shell
        }
    };
    let stdin = match config.stdin {
        StdinSource::None => Stdio::null(),
        // A file and not a pipe: nothing has to be fed, and a program that does not read is no error.
        StdinSource::Args => File::open(workspace.args_file())
            .map_err(|source| StartError::Workspace { root: workspace.args_file(), source })?
            .into(),
    };
    command
        .args(&config.args)
        .env_clear()
        .envs(environment::variables(config, execution, workspace, inherited))
        .current_dir(working_directory(config, workspace)?)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    Ok(command)
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

/// Lets the forked child, before it becomes the program, lead its own session and die with the worker.
#[expect(unsafe_code, reason = "only code that runs between fork and exec can set these for the child")]
fn contain(command: &mut Command) {
    let worker = nix::unistd::getpid();
    let enter = move || {
        nix::unistd::setsid()?;
        #[cfg(target_os = "linux")]
        {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The worker may have died before that call; then nobody would ever kill us.
            if nix::unistd::getppid() != worker {
                return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
            }
            // Our own files are closed on exec anyhow; this is for those the worker itself inherited. Kernels before
            // 5.11 do not know it, which is no reason to fail.
            // SAFETY: it changes flags of descriptors and touches no memory.
            unsafe {
                nix::libc::syscall(nix::libc::SYS_close_range, 3, u32::MAX, nix::libc::CLOSE_RANGE_CLOEXEC)
            };
        }
        Ok(())
    };
    // SAFETY: the closure makes four plain system calls. It allocates nothing, takes no lock and cannot panic, so it
    // may run in the child of a process with many threads.
    unsafe { command.pre_exec(enter) };
}

/// A program that was started, with all that descends from it.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    program: Identity,
    execution_id: Uuid,
    /// Its exit status was taken, so its number may be anyone's by now.
    has_exited: bool,
    /// Nothing of it is left to be killed.
    is_over: bool,
    _registration: Registration,
}

impl Running {
    fn start(mut command: Command, execution_id: Uuid) -> Result<Self, StartError> {
        contain(&mut command);
        let spawned = attempts::start(execution_id, || {
            let child = command.spawn()?;
            let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).ok_or(io::ErrorKind::NotFound)?;
            // It cannot be reaped yet, so this is it.
            let program = procfs::stat(pid).map_or(Identity { pid, start: 0 }, |stat| stat.identity);
            Ok(((child, program), program))
        });
        match spawned {
            Ok(((child, program), registration)) => Ok(Self {
                child,
                program,
                execution_id,
                has_exited: false,
                is_over: false,
                _registration: registration,
            }),
            Err(source) => {
                let program = command.as_std().get_program().to_string_lossy().into_owned();
                Err(match source.kind() {
                    io::ErrorKind::NotFound => StartError::NoInterpreter { program, source },
                    _ => StartError::Spawn { program, source },
                })
            }
        }
    }

    /// Its output pipes; `None` when they were taken before.
    pub(super) fn take_output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Waits for the program to exit. May be abandoned and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.has_exited = true;
        Ok(status)
    }

    /// Asks everything of the attempt to end.
    pub(super) fn terminate(&self) {
        self.signal_tree(Signal::SIGTERM);
    }

    /// Kills everything of the attempt that can be found now.
    pub(super) fn kill_tree(&self) {
        self.signal_tree(Signal::SIGKILL);
    }

    fn signal_tree(&self, signal: Signal) {
        let mut others = Vec::new();
        if !self.has_exited {
            // Looked up before the signal: later they would no longer be below it.
            let below = procfs::descendants(self.program.pid);
            others.extend(below.iter().filter(|s| s.group != self.program.pid).map(|s| s.identity));
            // As long as the program is not reaped its number is its own, and so is the group's. The only error is
            // that nobody is there any more.
            let _ = killpg(Pid::from_raw(self.program.pid), signal);
        }
        others.extend(strays::of(self.execution_id));
        for other in others {
            strays::send(other, signal);
        }
    }

    /// Whether anything but the program is alive.
    pub(super) fn has_strays(&self) -> bool {
        !strays::of(self.execution_id).is_empty()
    }

    /// Reaps dead strays, of any attempt.
    pub(super) fn reap_zombies(&self) {
        // Looking for strays reaps; the living ones may live, their program still runs.
        drop(strays::of(self.execution_id));
    }

    /// Kills all that is left. Gives a note for people when something could not be killed.
    pub(super) async fn kill_strays(&mut self) -> Option<String> {
        let survivors = strays::kill_all_of(self.execution_id).await;
        self.is_over = self.has_exited;
        if survivors.is_empty() {
            return None;
        }
        let numbers =
            survivors.iter().map(|survivor| survivor.pid.to_string()).collect::<Vec<_>>().join(", ");
        Some(format!("processes of the attempt could not be killed: {numbers}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.is_over {
            self.kill_tree();
        }
    }
}
