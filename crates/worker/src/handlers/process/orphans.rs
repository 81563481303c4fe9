//! Finds and kills the orphans of an attempt: background processes, processes that moved to their
//! own session, and processes that forked twice to lose their parent.
//!
//! On Linux, descent covers all of them: the worker is the subreaper of its descendants, so a
//! process that loses its parent becomes a child of the worker. Children of the worker that are not
//! the program of an attempt are therefore orphans. The mark in the environment identifies their
//! attempt, or the session does, or exclusion: see [`owner`].
//!
//! This module reaps only orphans, each by its pid, so it steals no exit status from the async
//! runtime. It never touches processes in the worker's own session: other code of this process may
//! wait for them. Such code must not give its children their own session while attempts run. All
//! functions return a list of survivors rather than hang.

use std::io;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getsid};
use uuid::Uuid;

use super::attempts::{self, Attempt};
use super::cgroups::AttemptGroups;
use super::procfs::{self, Identity, Stat};

/// Marks every process of an attempt. This module reads it from `/proc`.
pub(super) const ATTEMPT_MARK: &str = "SCHED_ATTEMPT_ID";
/// Names the worker process of an attempt. It distinguishes orphans of dead workers from those of
/// live workers.
pub(super) const WORKER_MARK: &str = "SCHED_WORKER_PROCESS";

/// Pauses between checks while killed processes die, two seconds in total. Most die in well under
/// one millisecond.
const PAUSES_MS: [u64; 12] = [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Makes this process, instead of init, adopt the orphans below it, for the rest of its life.
pub(super) fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

/// The value of [`WORKER_MARK`] for this worker process and installation.
pub(super) fn mark_of_this_process(installation: &str) -> String {
    let own = own_pid();
    mark(
        &procfs::namespace(),
        procfs::stat(own).map_or(Identity { pid: own, start: 0 }, |stat| stat.identity),
        installation,
    )
}

fn mark(namespace: &str, worker: Identity, installation: &str) -> String {
    format!("{namespace}:{}:{}:{installation}", worker.pid, worker.start)
}

fn own_pid() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// Kills every process that a dead worker of this installation started on this machine, and returns
/// their number. Processes of other installations are never touched.
pub(super) fn kill_orphans_of_dead_workers(own_mark: &str) -> usize {
    let mut killed = 0;
    for stat in procfs::all().into_iter().filter_map(procfs::stat) {
        let Some(mark) = procfs::variable(stat.identity.pid, WORKER_MARK) else { continue };
        if is_of_dead_worker(&mark, own_mark, procfs::stat) && send(stat.identity, Signal::SIGKILL) {
            killed += 1;
        }
    }
    killed
}

/// Whether a mark names a dead worker of this machine and installation.
pub(super) fn is_mark_of_dead_worker(mark: &str, own_mark: &str) -> bool {
    is_of_dead_worker(mark, own_mark, procfs::stat)
}

/// The pid namespace and the installation must be the own ones.
fn is_of_dead_worker(mark: &str, own_mark: &str, look_up: impl Fn(i32) -> Option<Stat>) -> bool {
    let (Some((space, pid, start, installation)), Some((own_space, _, _, own_installation))) =
        (parts(mark), parts(own_mark))
    else {
        return false;
    };
    let (Ok(pid), Ok(start)) = (pid.parse(), start.parse()) else { return false };
    let worker = Identity { pid, start };
    space == own_space
        && installation == own_installation
        && look_up(pid).is_none_or(|now| now.is_zombie || now.identity != worker)
}

/// Pid namespace, pid, start time and installation.
fn parts(mark: &str) -> Option<(&str, &str, &str, &str)> {
    let mut parts = mark.split(':');
    let all = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(all)
}

/// A child of this process that is not the program of an attempt.
#[derive(Debug, Clone, Copy)]
struct Orphan {
    stat: Stat,
    mark: Option<Uuid>,
}

fn orphans(children: Vec<i32>, running: &[Attempt]) -> Vec<Orphan> {
    // Without the own session to compare with, no process counts as an orphan.
    let Ok(own_session) = getsid(None) else { return Vec::new() };
    let is_program = |stat: &Stat| running.iter().any(|attempt| attempt.program == stat.identity);
    children
        .into_iter()
        .filter_map(procfs::stat)
        .filter(|stat| stat.parent == own_pid() && stat.session != own_session.as_raw() && !is_program(stat))
        .map(|stat| Orphan { stat, mark: mark_on(stat.identity.pid) })
        .collect()
}

fn mark_on(pid: i32) -> Option<Uuid> {
    procfs::variable(pid, ATTEMPT_MARK).and_then(|id| Uuid::parse_str(&id).ok())
}

/// The running attempt that an orphan belongs to.
///
/// An orphan without a mark and outside every session may belong to any attempt that started before
/// it. It is assigned to the last of these attempts, once it is the only one left. So no running
/// attempt loses a live process.
fn owner(orphan: &Orphan, running: &[Attempt]) -> Option<Uuid> {
    let by_mark = running.iter().find(|attempt| Some(attempt.attempt_id) == orphan.mark);
    let by_session = || running.iter().find(|attempt| attempt.program.pid == orphan.stat.session);
    if let Some(certain) = by_mark.or_else(by_session) {
        return Some(certain.attempt_id);
    }
    let started_before = |attempt: &&Attempt| attempt.program.start <= orphan.stat.identity.start;
    let mut possible = running.iter().filter(started_before);
    match (possible.next(), possible.next()) {
        (Some(only), None) => Some(only.attempt_id),
        _ => None,
    }
}

/// The living orphans of an attempt and their descendants. Reaps the zombies among all orphans.
pub(super) fn of(attempt_id: Uuid) -> Vec<Identity> {
    // The kernel makes orphans children of the first thread, and other threads start the programs.
    let adopted = || procfs::adopted(own_pid());
    let children = adopted();
    if children.is_empty() {
        return Vec::new();
    }
    let running = attempts::running();
    let is_of_other_attempt = |orphan: &Orphan| {
        orphan.mark.is_some_and(|mark| mark != attempt_id && running.iter().any(|a| a.attempt_id == mark))
    };
    // The common case needs no lock: the only children are programs.
    if orphans(children, &running).iter().all(is_of_other_attempt) {
        return Vec::new();
    }
    attempts::while_none_starts(|| {
        let running = attempts::running();
        let mut found = Vec::new();
        for orphan in orphans(adopted(), &running) {
            if orphan.stat.is_zombie {
                reap(orphan.stat.identity.pid);
            } else if owner(&orphan, &running) == Some(attempt_id) {
                found.push(orphan.stat.identity);
                let below = procfs::descendants(orphan.stat.identity.pid);
                found.extend(below.iter().filter(|stat| !stat.is_zombie).map(|stat| stat.identity));
            }
        }
        found
    })
}

/// Kills orphans of ended attempts, reaps the dead ones and returns the number of killed processes.
///
/// Only a dropped attempt leaves zombies, and processes that were forked while it was killed.
pub(super) fn clean_up() -> usize {
    // Programs of dropped attempts are still children of the thread that started them.
    let children = || procfs::children(own_pid());
    if orphans(children(), &attempts::running()).is_empty() {
        return 0;
    }
    attempts::while_none_starts(|| {
        let running = attempts::running();
        let mut killed = 0;
        for orphan in orphans(children(), &running) {
            let is_unowned = orphan.mark.is_some() || running.is_empty();
            if orphan.stat.is_zombie {
                reap(orphan.stat.identity.pid);
            } else if is_unowned && owner(&orphan, &running).is_none() {
                let below =
                    procfs::descendants(orphan.stat.identity.pid).into_iter().map(|stat| stat.identity);
                killed += std::iter::once(orphan.stat.identity)
                    .chain(below)
                    .filter(|process| send(*process, Signal::SIGKILL))
                    .count();
            }
        }
        killed
    })
}

fn reap(pid: i32) {
    // The entry is gone, or other code has reaped it.
    let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
}

/// Returns whether the process still existed.
pub(super) fn send(to: Identity, signal: Signal) -> bool {
    let is_still_it =
        to.start == 0 || procfs::stat(to.pid).is_some_and(|now| now.identity == to && !now.is_zombie);
    // The process may be gone. A process of another user appears among the survivors.
    is_still_it && kill(Pid::from_raw(to.pid), signal).is_ok()
}

/// Kills the orphans of an attempt until there are no more. Returns the survivors.
pub(super) async fn kill_all_of(attempt_id: Uuid) -> Vec<Identity> {
    for pause in PAUSES_MS {
        let strays = of(attempt_id);
        if strays.is_empty() {
            return strays;
        }
        for stray in &strays {
            send(*stray, Signal::SIGKILL);
        }
        // Only children notify the worker of their death. Children need reaping afterwards.
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    of(attempt_id)
}

/// Kills every process in the control groups of an attempt. Returns the survivors.
pub(super) async fn kill_all_in(cgroup: &AttemptGroups) -> Vec<Identity> {
    for pause in PAUSES_MS {
        // Kill before listing: the kernel's kill of the group misses no process, a list may.
        cgroup.kill();
        if cgroup.members().is_empty() {
            return Vec::new();
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    cgroup.members()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);
    const GONE: Uuid = Uuid::from_u128(9);

    fn attempt(attempt_id: Uuid, pid: i32, start: u64) -> Attempt {
        Attempt { attempt_id, program: Identity { pid, start } }
    }

    fn stat(pid: i32, start: u64, session: i32) -> Stat {
        Stat { identity: Identity { pid, start }, parent: 1, group: session, session, is_zombie: false }
    }

    #[test]
    fn orphan_belongs_to_its_attempt() {
        let (a, b) = (attempt(A, 100, 50), attempt(B, 200, 70));
        type Case<'a> = (Option<Uuid>, i32, u64, &'a [Attempt], Option<Uuid>);
        let table: &[Case<'_>] = &[
            // By the mark.
            (Some(A), 200, 80, &[a, b], Some(A)),
            (Some(B), 999, 80, &[a, b], Some(B)),
            // By the session, if the environment was emptied.
            (None, 100, 80, &[a, b], Some(A)),
            (None, 200, 80, &[a, b], Some(B)),
            // By exclusion, if the process also left the session.
            (None, 999, 60, &[a, b], Some(A)),
            (None, 999, 80, &[a, b], None),
            (None, 999, 80, &[a], Some(A)),
            (Some(GONE), 999, 80, &[b], Some(B)),
            // Older than every attempt.
            (None, 999, 40, &[a, b], None),
            (Some(GONE), 999, 40, &[a], None),
            (None, 999, 80, &[], None),
        ];
        for (mark, session, start, running, expected) in table {
            let orphan = Orphan { stat: stat(500, *start, *session), mark: *mark };
            assert_eq!(owner(&orphan, running), *expected, "{mark:?} {session} {start} {running:?}");
        }
    }

    #[test]
    fn only_marks_of_own_dead_workers_match() {
        let alive = |pid| (pid == 7).then(|| stat(7, 1000, 7));
        let table = [
            (mark("42", Identity { pid: 7, start: 1000 }, "a"), false),
            (mark("42", Identity { pid: 7, start: 999 }, "a"), true),
            (mark("42", Identity { pid: 8, start: 1000 }, "a"), true),
            (mark("43", Identity { pid: 8, start: 1000 }, "a"), false),
            (mark("42", Identity { pid: 8, start: 1000 }, "b"), false),
            ("42:8".into(), false),
            ("42:8:x:a".into(), false),
            ("42:8:1".into(), false),
            ("42:8:1:a:1".into(), false),
            (String::new(), false),
        ];
        for (mark, expected) in table {
            assert_eq!(is_of_dead_worker(&mark, "42:1:1:a", alive), expected, "{mark}");
        }
        let own = mark_of_this_process("a");
        assert!(!is_mark_of_dead_worker(&own, &own));
    }
}
