//! One daemon as a child process: start, watch, signal.
//!
//! The child has its own process group, so Ctrl-C reaches only `schedctl`, which controls the order
//! of the stop. The kernel signals the child when the main thread of `schedctl` is gone (so that
//! thread must start it), and a guard kills it ten seconds later. Its environment has only the
//! given variables.

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use devdb::{Guard, Target};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::OwnedTask;
use tokio::process::{Child, Command};

use super::log::Log;
use super::ports::{self, PortError};

/// A process that the child left behind may hold the pipe open.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Signals of the guard, ten seconds apart. On Linux the kernel has already sent the stop signal,
/// and a second one would mean "at once", so the first signal there has no effect.
const GUARD_SIGNALS: [&str; 2] = if cfg!(target_os = "linux") { ["CONT", "KILL"] } else { ["TERM", "KILL"] };

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    /// The program has its own setting for this port.
    Fixed(u16),
    At(u16),
    /// A free port at each start.
    Chosen,
}

#[derive(Debug, Clone)]
pub(super) struct Spec {
    pub(super) name: String,
    pub(super) colour: usize,
    pub(super) program: PathBuf,
    /// The whole environment.
    pub(super) variables: Vec<(String, String)>,
    pub(super) health: Health,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error(transparent)]
    Port(#[from] PortError),
    #[error("could not start {}", .program.display())]
    Spawn {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// A running daemon.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    pid: i32,
    port: u16,
    started: Instant,
    // Dropped after the child: the child is killed first, so the guard need not wait for it.
    guard: Guard,
    lines: [Option<OwnedTask<()>>; 2],
}

impl Running {
    /// Must be called on the main thread.
    pub(super) fn start(spec: &Spec, log: Log) -> Result<Self, StartError> {
        let mut command = Command::new(&spec.program);
        command.env_clear().envs(spec.variables.iter().map(|(name, value)| (name, value)));
        command.env("SCHED_EXIT_WITH_PARENT", std::process::id().to_string());
        let port = match spec.health {
            Health::Fixed(port) => port,
            Health::At(_) | Health::Chosen => {
                let port = if let Health::At(port) = spec.health { port } else { ports::free()? };
                command.env("HEALTH_HOST", "127.0.0.1").env("HEALTH_PORT", port.to_string());
                port
            }
        };
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |source| StartError::Spawn { program: spec.program.clone(), source };
        let mut child = command.spawn().map_err(failed)?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.ok_or_else(|| failed(io::Error::other("it has no process id")))?;
        let guard = Guard::start(Target::Group(pid), &GUARD_SIGNALS, &[]).map_err(failed)?;
        let name = || spec.name.clone();
        let lines = [
            child.stdout.take().map(|stream| log.follow(name(), spec.colour, stream)),
            child.stderr.take().map(|stream| log.follow(name(), spec.colour, stream)),
        ];
        Ok(Self { child, pid, port, started: monotonic(), guard, lines })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn health_url(&self) -> String {
        format!("http://127.0.0.1:{}/health", self.port)
    }

    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Requests a stop. Only valid while the end of the daemon has not been detected: until then
    /// its process id cannot be reused.
    pub(super) fn ask_to_stop(&self) {
        // Fails only if it has already ended.
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGTERM);
    }

    /// Kills the whole process group.
    pub(super) fn kill(&self) {
        // Fails only if it has already ended.
        let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
    }

    /// Ends the guard and forwards the last lines.
    pub(super) async fn bury(self) {
        let Self { guard, lines, .. } = self;
        guard.release();
        for task in lines.into_iter().flatten() {
            // Missing lines are not worth a longer wait; a panic of the task has its own message.
            let _ = tokio::time::timeout(LAST_LINES, task).await;
        }
    }
}

pub(super) fn describe_exit(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => match Signal::try_from(signal) {
            Ok(signal) => format!("signal {signal}"),
            Err(_) => format!("signal {signal}"),
        },
        (None, None) => status.to_string(),
    }
}
