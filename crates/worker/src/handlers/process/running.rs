//! Holds a program of an attempt from its fork to its end, with all that descends from it.
//!
//! [`Running`] starts it as the leader of its own session and process group, signals its tree, and is the only one who
//! waits for it. Dropped before its end is known, it kills the whole tree at once. Signals go to numbers that cannot
//! have been used again: the group's while the program is not reaped, and others only after a look at their start time.

use std::io;
use std::process::ExitStatus;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sched_model::fault_injection::{self, Fence};
use tokio::net::unix::pipe::Receiver;
use uuid::Uuid;

use super::super::shortage::is_shortage;
use super::StartError;
use super::attempts::{self, Registration};
use super::cgroups::Leaf;
use super::confine::Confinement;
use super::procfs::{self, Identity};
use super::spawn::{self, Child, Program, Spawned};
use crate::handlers::process::orphans;

/// A program that was started, with all that descends from it.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    /// Its stdout and stderr, until they are taken.
    output: Option<(Receiver, Receiver)>,
    program: Identity,
    execution_id: Uuid,
    /// Its exit status was taken, so its number may be anyone's by now.
    has_exited: bool,
    /// Nothing of it is left to be killed.
    is_over: bool,
    /// The control groups it is bounded by, if it is.
    leaf: Option<Leaf>,
    _registration: Registration,
}

impl Running {
    /// Starts a program in its confinement. Blocks until it has begun.
    pub(super) fn start(
        program: Program,
        execution_id: Uuid,
        confinement: Confinement,
        leaf: Option<Leaf>,
    ) -> Result<Self, StartError> {
        let spawned = attempts::start(execution_id, || {
            let spawned = start_contained(&program, confinement)?;
            let pid = spawned.child.pid().ok_or(io::ErrorKind::NotFound)?;
            // It cannot be reaped yet, so this is it.
            let identity = procfs::stat(pid).map_or(Identity { pid, start: 0 }, |stat| stat.identity);
            Ok(((spawned, identity), identity))
        });
        match spawned {
            Ok(((Spawned { child, stdout, stderr }, program), registration)) => Ok(Self {
                child,
                output: Some((stdout, stderr)),
                program,
                execution_id,
                has_exited: false,
                is_over: false,
                leaf,
                _registration: registration,
            }),
            Err(source) => {
                let program = program.path.to_string_lossy().into_owned();
                Err(match source.kind() {
                    io::ErrorKind::NotFound => StartError::NoInterpreter { program, source },
                    _ if is_shortage(&source) => StartError::Shortage { program, source },
                    _ => StartError::Spawn { program, source },
                })
            }
        }
    }

    /// Its output pipes; `None` when they were taken before.
    pub(super) fn take_output(&mut self) -> (Option<Receiver>, Option<Receiver>) {
        self.output.take().unzip()
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
        if fault_injection::stands(Fence::JobKill) {
            self.signal_tree(Signal::SIGKILL);
        }
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
        others.extend(orphans::of(self.execution_id));
        others.extend(self.others_in_group());
        for other in others {
            orphans::send(other, signal);
        }
        if let Some(leaf) = self.leaf.as_ref().filter(|_| signal == Signal::SIGKILL) {
            leaf.kill();
        }
    }

    /// Members of its control group that are not the program and not of its process group, which gets its signals as a whole.
    fn others_in_group(&self) -> Vec<Identity> {
        let members = self.leaf.as_ref().map(Leaf::members).unwrap_or_default();
        let is_other = |member: &Identity| {
            self.has_exited || procfs::stat(member.pid).is_none_or(|stat| stat.group != self.program.pid)
        };
        members.into_iter().filter(is_other).collect()
    }

    /// How often the kernel killed something of it because its memory limit was reached.
    pub(super) fn memory_kills(&self) -> u64 {
        self.leaf.as_ref().map_or(0, Leaf::memory_kills)
    }

    /// Whether anything but the program is alive.
    pub(super) fn has_strays(&self) -> bool {
        let in_group = || self.leaf.as_ref().is_some_and(|leaf| !leaf.members().is_empty());
        !orphans::of(self.execution_id).is_empty() || in_group()
    }

    /// Reaps dead strays, of any attempt.
    pub(super) fn reap_zombies(&self) {
        // Looking for strays reaps; the living ones may live, their program still runs.
        drop(orphans::of(self.execution_id));
    }

    /// Kills all that is left. Gives a note for people when something could not be killed.
    pub(super) async fn kill_strays(&mut self) -> Option<String> {
        if !fault_injection::stands(Fence::JobKill) {
            self.is_over = true;
            return None;
        }
        let mut survivors = orphans::kill_all_of(self.execution_id).await;
        if let Some(leaf) = &self.leaf {
            survivors.extend(orphans::kill_all_in(leaf).await);
            survivors.sort_unstable();
            survivors.dedup();
        }
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

/// Starts a program that leads its own session and dies with the worker.
#[expect(unsafe_code, reason = "only code that runs in the child before its program can set these")]
fn start_contained(program: &Program, confinement: Confinement) -> io::Result<Spawned> {
    let worker = nix::unistd::getpid();
    let enter = move || {
        nix::unistd::setsid()?;
        // Before the call below, which a change of user would undo.
        confinement.enforce()?;
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
    // SAFETY: the closure makes plain system calls only. It allocates nothing, takes no lock and cannot panic.
    unsafe { spawn::spawn(program, enter) }
}
