//! Processes that a killed `dev` left. They end within seconds. Until then they hold the port of
//! the API, and the next `dev` waits. It never kills: a process id may already belong to another
//! process.

use std::time::Duration;

use anyhow::anyhow;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use sched_runtime::exit::ExitError;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::shutdown::Shutdown;

use super::log::Log;
use crate::failure::failure;
use crate::local_install::{Folder, ProcessEntry};

/// Longer than a guard needs.
const LIMIT: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) async fn wait_until_gone(folder: &Folder, log: Log, shutdown: &Shutdown) -> Result<(), ExitError> {
    let began = monotonic();
    let mut is_logged = false;
    loop {
        let entries = folder.leftover_processes().map_err(failure)?;
        let left: Vec<&ProcessEntry> = entries.iter().filter(|entry| runs(entry)).collect();
        if left.is_empty() {
            return folder.forget().map_err(failure);
        }
        let names: Vec<String> =
            left.iter().map(|entry| format!("{} (process {})", entry.name, entry.pid)).collect();
        let names = names.join(", ");
        if began.elapsed() > LIMIT || shutdown.soft.is_cancelled() {
            return Err(failure(anyhow!(
                "processes of an earlier `schedctl dev` in this directory still run: {names}; stop them first"
            )));
        }
        if !is_logged {
            log.print(&format!(
                "An earlier `schedctl dev` was killed; waiting for its processes to end: {names}."
            ));
            is_logged = true;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Whether the process of the entry is still a daemon of this directory. `schedctl` itself is gone:
/// this process has its lock.
fn runs(entry: &ProcessEntry) -> bool {
    if entry.health_url.is_none() {
        return false;
    }
    match std::fs::read_to_string(format!("/proc/{}/stat", entry.pid)) {
        Ok(stat) => is_live_daemon(&stat),
        // No such process, or a system without this file, where only the id can be checked.
        Err(_) if std::path::Path::new("/proc/self/stat").exists() => false,
        Err(_) => !matches!(kill(Pid::from_raw(entry.pid), None), Err(Errno::ESRCH)),
    }
}

/// Parses `pid (name) state …`. An ended process stays listed until its parent reaps it.
fn is_live_daemon(stat: &str) -> bool {
    let Some((head, tail)) = stat.rsplit_once(')') else { return false };
    let name = head.split_once('(').map_or("", |(_, name)| name);
    name.starts_with("sched-") && !matches!(tail.trim_start().chars().next(), Some('Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_living_daemon_is_waited_for() {
        for (stat, expected) in [
            ("12 (sched-worker) S 1 12", true),
            ("12 (sched-worker) Z 1 12", false),
            ("12 (firefox) S 1 12", false),
            ("12 (a) sched-) S 1 12", false),
            ("", false),
        ] {
            assert_eq!(is_live_daemon(stat), expected, "{stat}");
        }
        let this = i32::try_from(std::process::id()).unwrap();
        assert!(!runs(&ProcessEntry { name: "api".into(), pid: this, health_url: Some(String::new()) }));
    }
}
