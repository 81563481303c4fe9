//! One daemon as a child process: started, watched, signalled.
//!
//! The child runs in a process group of its own, so that a Ctrl-C in the terminal reaches us alone and the order of
//! stopping is ours. It ends with us however we end: the kernel tells it when our main thread is gone (so it must be
//! started from there), and a guard kills it when it has not obeyed ten seconds later. Its environment is what we give it and
//! nothing else. Nothing here waits, but for the last lines of a child that has ended.

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

/// How long the last lines of an ended child are waited for; a process it left behind may hold the pipe open.
const LAST_LINES: Duration = Duration::from_millis(500);

/// What the guard sends, ten seconds apart. On Linux the kernel has asked the child to stop already, and asking a second
/// time would mean "at once"; the first signal there changes nothing.
const GUARD_SIGNALS: [&str; 2] = if cfg!(target_os = "linux") { ["CONT", "KILL"] } else { ["TERM", "KILL"] };

/// Where a daemon says how it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    /// On its one port, which is fixed.
    Fixed(u16),
    /// On a port chosen anew for each start.
    Chosen,
}

/// What to start.
#[derive(Debug, Clone)]
pub(super) struct Spec {
    /// Name in the log.
    pub(super) name: String,
    /// Colour of the name.
    pub(super) colour: usize,
    /// The program.
    pub(super) program: PathBuf,
    /// Its whole environment.
    pub(super) variables: Vec<(String, String)>,
    /// Where it says how it is.
    pub(super) health: Health,
}

/// Why a daemon could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    /// There is no port for it.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The system refused.
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
    // After the child: it is killed first, so that the guard need not wait for it.
    guard: Guard,
    lines: [Option<OwnedTask<()>>; 2],
}

impl Running {
    /// Starts a daemon. Call it on the main thread.
    pub(super) fn start(spec: &Spec, log: Log) -> Result<Self, StartError> {
        let mut command = Command::new(&spec.program);
        command.env_clear().envs(spec.variables.iter().map(|(name, value)| (name, value)));
        command.env("SCHED_EXIT_WITH_PARENT", std::process::id().to_string());
        let port = match spec.health {
            Health::Fixed(port) => port,
            Health::Chosen => {
                let port = ports::free()?;
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

    /// Its process.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// How long it has been running.
    pub(super) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Where it says how it is.
    pub(super) fn health_url(&self) -> String {
        format!("http://127.0.0.1:{}/health", self.port)
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Asks it to stop. Only for one whose end has not been noticed: its id is nobody else's as long as that is so.
    pub(super) fn ask_to_stop(&self) {
        // Fails only when it has ended, which is what is wanted.
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGTERM);
    }

    /// Kills it with everything in its process group.
    pub(super) fn kill(&self) {
        // Fails only when it has ended, which is what is wanted.
        let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
    }

    /// Ends what is left of one that has ended: its guard, and its last lines are passed on.
    pub(super) async fn bury(self) {
        let Self { guard, lines, .. } = self;
        guard.release();
        for task in lines.into_iter().flatten() {
            // Lines that do not come any more are not worth more waiting, and a panic in a line is told by its own message.
            let _ = tokio::time::timeout(LAST_LINES, task).await;
        }
    }
}

/// How a process ended, for people.
pub(super) fn in_words(status: ExitStatus) -> String {
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
