//! Finds and kills what an attempt leaves behind beside its program: background processes, those that moved to a
//! session of their own, those that forked twice to lose their parent.
//!
//! A process group holds none of the latter two. What holds all of them on Linux is descent: this process is the
//! subreaper of everything it starts, so whoever loses its parent becomes *our* child. Our children that are no
//! attempt's program are therefore strays, or the top of a tree of strays. Whose they are is told by the mark in their
//! environment, by their session, or, for those that emptied the one and left the other, by exclusion: see [`owner`].
//!
//! Programs themselves are waited for by the async runtime; only strays are reaped here, each by its number, so no exit
//! status is stolen. Processes in our own session are never touched: they are children that other code of this
//! process has started and waits for itself. Such code must not give its children a session of their own while attempts
//! run. All of this reads `/proc` without blocking for long, and gives up with a list of survivors rather than hang.

use std::io;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getsid};
use uuid::Uuid;

use super::attempts::{self, Attempt};
use super::cgroups::Leaf;
use super::environment::{EXECUTION_MARK, WORKER_MARK};
use super::procfs::{self, Identity, Stat};

/// Pauses between looks while killed processes die; two seconds in all. Killed processes are gone in well under one
/// millisecond, so the first pauses are the ones that happen.
const PAUSES_MS: [u64; 12] = [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Makes orphans below this process its children, instead of init's. Holds for the life of the process.
pub(super) fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    Ok(())
}

/// Value that marks the processes of this worker process, in this installation.
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

/// Kills every process on this machine that a worker of this installation started which no longer lives. Gives their number. What
/// belongs to other installations on the machine is theirs to judge.
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

/// Whether a mark names a worker of this machine and installation that lives no more.
pub(super) fn is_mark_of_dead_worker(mark: &str, own_mark: &str) -> bool {
    is_of_dead_worker(mark, own_mark, procfs::stat)
}

/// Whether a mark is from the space of process numbers and the installation of our own, and names a worker that is gone.
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

/// Number space, process number, start and installation.
fn parts(mark: &str) -> Option<(&str, &str, &str, &str)> {
    let mut parts = mark.split(':');
    let all = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(all)
}

/// One of our children that is no attempt's program.
#[derive(Debug, Clone, Copy)]
struct Orphan {
    stat: Stat,
    /// The attempt its environment names.
    mark: Option<Uuid>,
}

/// The orphans among these children of ours.
fn orphans(children: Vec<i32>, running: &[Attempt]) -> Vec<Orphan> {
    // Without a session of our own to compare with, nothing is anybody's orphan.
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
    procfs::variable(pid, EXECUTION_MARK).and_then(|id| Uuid::parse_str(&id).ok())
}

/// Whose an orphan is, if it is anyone's who still runs.
///
/// Without mark and outside every session it may be of any attempt that started before it did. It is given to the last
/// of these to end, once it is the only one left: so nobody is robbed of a process that still has work to do, and none
/// is forgotten.
fn owner(orphan: &Orphan, running: &[Attempt]) -> Option<Uuid> {
    let by_mark = running.iter().find(|attempt| Some(attempt.execution_id) == orphan.mark);
    let by_session = || running.iter().find(|attempt| attempt.program.pid == orphan.stat.session);
    if let Some(certain) = by_mark.or_else(by_session) {
        return Some(certain.execution_id);
    }
    let started_before = |attempt: &&Attempt| attempt.program.start <= orphan.stat.identity.start;
    let mut possible = running.iter().filter(started_before);
    match (possible.next(), possible.next()) {
        (Some(only), None) => Some(only.execution_id),
        _ => None,
    }
}

/// Strays of an attempt and everything below them, living ones only. Reaps the zombies among all orphans.
pub(super) fn of(execution_id: Uuid) -> Vec<Identity> {
    // What comes to us as an orphan comes to our first thread, and programs are started by others.
    let adopted = || procfs::adopted(own_pid());
    let children = adopted();
    if children.is_empty() {
        return Vec::new();
    }
    let running = attempts::running();
    let is_anothers = |orphan: &Orphan| {
        orphan.mark.is_some_and(|mark| mark != execution_id && running.iter().any(|a| a.execution_id == mark))
    };
    // The common case needs no lock: we have no children but programs.
    if orphans(children, &running).iter().all(is_anothers) {
        return Vec::new();
    }
    attempts::while_none_starts(|| {
        let running = attempts::running();
        let mut found = Vec::new();
        for orphan in orphans(adopted(), &running) {
            if orphan.stat.is_zombie {
                reap(orphan.stat.identity.pid);
            } else if owner(&orphan, &running) == Some(execution_id) {
                found.push(orphan.stat.identity);
                let below = procfs::descendants(orphan.stat.identity.pid);
                found.extend(below.iter().filter(|stat| !stat.is_zombie).map(|stat| stat.identity));
            }
        }
        found
    })
}

/// Kills orphans of attempts that have ended and takes the exit status of the dead ones; returns how many were killed.
///
/// An attempt does this for itself when it ends in order. One that was dropped, because its lease was lost, leaves its zombies
/// and whatever was forked while it was being killed; so this is done now and then besides.
pub(super) fn tidy() -> usize {
    // Programs whose attempt was dropped are still the children of the thread that started them.
    let children = || procfs::children(own_pid());
    if orphans(children(), &attempts::running()).is_empty() {
        return 0;
    }
    attempts::while_none_starts(|| {
        let running = attempts::running();
        let mut killed = 0;
        for orphan in orphans(children(), &running) {
            let is_nobodys = orphan.mark.is_some() || running.is_empty();
            if orphan.stat.is_zombie {
                reap(orphan.stat.identity.pid);
            } else if is_nobodys && owner(&orphan, &running).is_none() {
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

/// Takes the exit status of a dead orphan, which nobody asks for, so that its entry goes.
fn reap(pid: i32) {
    // Losing the answer is right: either it is gone now, or someone else has taken it.
    let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
}

/// Sends a signal to one particular process. Tells whether it was there to get it.
pub(super) fn send(to: Identity, signal: Signal) -> bool {
    let is_still_it =
        to.start == 0 || procfs::stat(to.pid).is_some_and(|now| now.identity == to && !now.is_zombie);
    // One that is gone needs no signal, and one of another user shows up among the survivors.
    is_still_it && kill(Pid::from_raw(to.pid), signal).is_ok()
}

/// Kills the strays of an attempt until none is left. Gives those that could not be killed.
pub(super) async fn kill_all_of(execution_id: Uuid) -> Vec<Identity> {
    for pause in PAUSES_MS {
        let strays = of(execution_id);
        if strays.is_empty() {
            return strays;
        }
        for stray in &strays {
            send(*stray, Signal::SIGKILL);
        }
        // Nothing announces the death of a process that is not our child; those that are need reaping then.
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    of(execution_id)
}

/// The same for everything in the control groups of an attempt.
pub(super) async fn kill_all_in(leaf: &Leaf) -> Vec<Identity> {
    for pause in PAUSES_MS {
        // Before looking: where the kernel kills a group as a whole, it misses nobody whom we might.
        leaf.kill();
        if leaf.members().is_empty() {
            return Vec::new();
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    leaf.members()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);
    const GONE: Uuid = Uuid::from_u128(9);

    fn attempt(execution_id: Uuid, pid: i32, start: u64) -> Attempt {
        Attempt { execution_id, program: Identity { pid, start } }
    }

    fn stat(pid: i32, start: u64, session: i32) -> Stat {
        Stat { identity: Identity { pid, start }, parent: 1, group: session, session, is_zombie: false }
    }

    #[test]
    fn orphans_are_given_to_the_attempt_they_came_from() {
        let (a, b) = (attempt(A, 100, 50), attempt(B, 200, 70));
        type Case<'a> = (Option<Uuid>, i32, u64, &'a [Attempt], Option<Uuid>);
        let table: &[Case<'_>] = &[
            // By mark, whatever else.
            (Some(A), 200, 80, &[a, b], Some(A)),
            (Some(B), 999, 80, &[a, b], Some(B)),
            // By session when the environment was emptied.
            (None, 100, 80, &[a, b], Some(A)),
            (None, 200, 80, &[a, b], Some(B)),
            // By exclusion when it also left the session.
            (None, 999, 60, &[a, b], Some(A)),
            (None, 999, 80, &[a, b], None),
            (None, 999, 80, &[a], Some(A)),
            (Some(GONE), 999, 80, &[b], Some(B)),
            // Older than every attempt: nobody's.
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
    fn only_marks_of_dead_workers_of_our_own_number_space_and_installation_count() {
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
