//! The server's first process: finds it, checks that it is ready, ends it.
//!
//! `postmaster.pid` in the data folder outlives a killed server, and another program may have its
//! process id. So the process's working folder must be the data folder.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::{DevDbError, wait};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Postmaster {
    pub(crate) pid: i32,
    pub(crate) ready: bool,
    pub(crate) port: u16,
    pub(crate) loopback: bool,
}

pub(crate) fn pid_file(data: &Path) -> PathBuf {
    data.join("postmaster.pid")
}

/// Removes a file whose process id belongs to another program: the server would not start. Other
/// files stay: they show the server whether children of a killed predecessor still run.
pub(crate) fn forget_reused_id(data: &Path) -> Result<(), DevDbError> {
    let path = pid_file(data);
    let stale = fs::read_to_string(&path).ok().and_then(|text| parse(&text));
    match stale {
        Some(server) if alive(server.pid) && !serves(server.pid, data) => {
            fs::remove_file(&path).map_err(DevDbError::file("remove", path))
        }
        _ => Ok(()),
    }
}

/// The live server of a data folder.
pub(crate) fn find(data: &Path) -> Option<Postmaster> {
    let server = parse(&fs::read_to_string(pid_file(data)).ok()?)?;
    serves(server.pid, data).then_some(server)
}

/// Lines: process, data folder, start, port, socket folder, address, shared memory, status.
fn parse(text: &str) -> Option<Postmaster> {
    let mut lines = text.lines().map(str::trim);
    // A stand-alone backend, which accepts no connections, writes its id negated.
    let pid = lines.next()?.parse().ok().filter(|pid| *pid > 0)?;
    // The later lines appear during the start.
    let port = lines.nth(2).and_then(|port| port.parse().ok()).unwrap_or(0);
    let loopback = lines.nth(1).is_some_and(|address| !address.is_empty());
    let ready = lines.nth(1) == Some("ready");
    Some(Postmaster { pid, ready, port, loopback })
}

/// Also true for a process of another user.
pub(crate) fn alive(pid: i32) -> bool {
    !matches!(kill(Pid::from_raw(pid), None), Err(Errno::ESRCH))
}

#[cfg(target_os = "linux")]
fn serves(pid: i32, data: &Path) -> bool {
    // An unreadable link belongs to another user's process or to a zombie.
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == data)
}

#[cfg(not(target_os = "linux"))]
fn serves(pid: i32, data: &Path) -> bool {
    let output = std::process::Command::new("ps").args(["-o", "args=", "-p", &pid.to_string()]).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(&*data.to_string_lossy()))
}

pub(crate) fn end(pid: i32, signal: Signal, limit: Duration, mut ended: impl FnMut() -> bool) -> bool {
    // A failure shows as a process that does not end.
    let _ = kill(Pid::from_raw(pid), signal);
    wait::until(limit, || ended().then_some(())).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: &str = "4711\n/data\n1790000000\n5432\n/run\n\n  5432001   65538\nready   \n";

    #[test]
    fn a_complete_file_gives_process_port_and_readiness() {
        assert_eq!(parse(READY), Some(Postmaster { pid: 4711, ready: true, port: 5432, loopback: false }));
        assert!(parse(&READY.replace("\n\n", "\n127.0.0.1\n")).is_some_and(|server| server.loopback));
    }

    #[test]
    fn a_file_of_a_start_in_progress_is_not_ready() {
        for text in ["4711\n/data\n1790000000\n5432\n/run\n\n", &READY.replace("ready", "starting")] {
            assert_eq!(parse(text).map(|server| server.ready), Some(false), "{text}");
        }
    }

    #[test]
    fn stand_alone_backends_and_rubbish_are_no_server() {
        for text in ["", "\n", "-4711\n/data\n", "pid\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_reused_process_id_is_not_taken_for_the_server() {
        let data = tempfile::tempdir().unwrap();
        let ours = std::process::id();
        fs::write(pid_file(data.path()), READY.replace("4711", &ours.to_string())).unwrap();
        assert_eq!(find(data.path()), None);
        forget_reused_id(data.path()).unwrap();
        assert!(!pid_file(data.path()).exists());
    }
}
