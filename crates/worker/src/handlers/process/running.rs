//! A running program of an attempt with its descendants, from fork to end.
//!
//! [`Running`] is the only waiter of the program. Dropping it before the end kills the whole tree
//! at once. Signals go only to pids that cannot have been reused: to the process group while the
//! program is not reaped, and to other processes only after a check of their start time.

use std::io;
use std::process::ExitStatus;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use sched_model::fault_injection::{self, Fence};
use tokio::net::unix::pipe::Receiver;
use uuid::Uuid;

use super::super::shortage::is_shortage;
use super::attempts::{self, Registration};
use super::cgroups::AttemptGroups;
use super::confine::Confinement;
use super::procfs::{self, Identity};
use super::spawn::{self, Child, NewChild, Program};
use super::start_error::StartError;
use crate::handlers::process::orphans;

#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    output: Option<(Receiver, Receiver)>,
    program: Identity,
    attempt_id: Uuid,
    /// Another process may have the pid now.
    has_exited: bool,
    /// No process of the attempt is left to kill.
    is_over: bool,
    cgroup: Option<AttemptGroups>,
    _registration: Registration,
}

impl Running {
    /// Blocks until the program has begun.
    pub(super) fn start(
        program: Program,
        attempt_id: Uuid,
        confinement: Confinement,
        cgroup: Option<AttemptGroups>,
    ) -> Result<Self, StartError> {
        let spawned = attempts::start(attempt_id, || {
            let spawned = start_contained(&program, confinement)?;
            let pid = spawned.child.pid().ok_or(io::ErrorKind::NotFound)?;
            // Not reaped yet, so this is the program.
            let identity = procfs::stat(pid).map_or(Identity { pid, start: 0 }, |stat| stat.identity);
            Ok(((spawned, identity), identity))
        });
        match spawned {
            Ok(((NewChild { child, stdout, stderr }, program), registration)) => Ok(Self {
                child,
                output: Some((stdout, stderr)),
                program,
                attempt_id,
                has_exited: false,
                is_over: false,
                cgroup,
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

    /// `None` if they were taken before.
    pub(super) fn take_output(&mut self) -> (Option<Receiver>, Option<Receiver>) {
        self.output.take().unzip()
    }

    /// Cancel-safe, and may be called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        self.has_exited = true;
        Ok(status)
    }

    pub(super) fn terminate(&self) {
        self.signal_tree(Signal::SIGTERM);
    }

    /// Only processes that can be found now.
    pub(super) fn kill_tree(&self) {
        if fault_injection::is_active(Fence::JobKill) {
            self.signal_tree(Signal::SIGKILL);
        }
    }

    fn signal_tree(&self, signal: Signal) {
        let mut others = Vec::new();
        if !self.has_exited {
            // Listed before the signal: afterwards they may no longer be descendants.
            let below = procfs::descendants(self.program.pid);
            others.extend(below.iter().filter(|s| s.group != self.program.pid).map(|s| s.identity));
            // The pid and process group belong to the program until it is reaped. The only possible
            // error is that no process is left.
            let _ = killpg(Pid::from_raw(self.program.pid), signal);
        }
        others.extend(orphans::of(self.attempt_id));
        others.extend(self.others_in_group());
        for other in others {
            orphans::send(other, signal);
        }
        if let Some(cgroup) = self.cgroup.as_ref().filter(|_| signal == Signal::SIGKILL) {
            cgroup.kill();
        }
    }

    /// Outside the program's process group, which gets signals as a whole.
    fn others_in_group(&self) -> Vec<Identity> {
        let members = self.cgroup.as_ref().map(AttemptGroups::members).unwrap_or_default();
        let is_other = |member: &Identity| {
            self.has_exited || procfs::stat(member.pid).is_none_or(|stat| stat.group != self.program.pid)
        };
        members.into_iter().filter(is_other).collect()
    }

    pub(super) fn memory_kills(&self) -> u64 {
        self.cgroup.as_ref().map_or(0, AttemptGroups::memory_kills)
    }

    /// A process other than the program is alive.
    pub(super) fn has_strays(&self) -> bool {
        let in_group = || self.cgroup.as_ref().is_some_and(|cgroup| !cgroup.members().is_empty());
        !orphans::of(self.attempt_id).is_empty() || in_group()
    }

    pub(super) fn reap_zombies(&self) {
        // The search reaps. Living orphans may live on, because their program still runs.
        drop(orphans::of(self.attempt_id));
    }

    /// Returns a note for people about survivors.
    pub(super) async fn kill_strays(&mut self) -> Option<String> {
        if !fault_injection::is_active(Fence::JobKill) {
            self.is_over = true;
            return None;
        }
        let mut survivors = orphans::kill_all_of(self.attempt_id).await;
        if let Some(cgroup) = &self.cgroup {
            survivors.extend(orphans::kill_all_in(cgroup).await);
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
fn start_contained(program: &Program, confinement: Confinement) -> io::Result<NewChild> {
    let worker = nix::unistd::getpid();
    let enter = move || {
        nix::unistd::setsid()?;
        // Before the call below, which a change of user would undo.
        confinement.enforce()?;
        #[cfg(target_os = "linux")]
        {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The worker may have died before that call. Then no process would ever kill this
            // child.
            if nix::unistd::getppid() != worker {
                return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
            }
            // The worker's own files are close-on-exec; this covers files that the worker itself
            // inherited. Kernels before 5.11 lack the call, which is not an error.
            // SAFETY: it changes flags of descriptors and touches no memory.
            unsafe {
                nix::libc::syscall(nix::libc::SYS_close_range, 3, u32::MAX, nix::libc::CLOSE_RANGE_CLOEXEC)
            };
        }
        Ok(())
    };
    // SAFETY: the closure makes plain system calls only. It allocates nothing, takes no lock and
    // cannot panic.
    unsafe { spawn::spawn(program, enter) }
}
