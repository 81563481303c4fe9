//! Facts about processes, from `/proc`. Linux only.

use std::fs;

use test_support::process_state;

fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc is readable").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect()
}

/// The running processes with `mark` in their command line or environment.
///
/// # Panics
/// When `/proc` cannot be read.
#[must_use]
pub fn marked(mark: &str) -> Vec<i32> {
    // An ended process has no such file.
    let shows = |pid: i32, what: &str| {
        let text = fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        text.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    let own = i32::try_from(std::process::id()).expect("process ids fit into an i32");
    let marked =
        all().into_iter().filter(|pid| *pid != own && (shows(*pid, "cmdline") || shows(*pid, "environ")));
    marked.filter(|pid| test_support::is_running(*pid)).collect()
}

/// The children of a process, including zombies.
///
/// # Panics
/// When `/proc` cannot be read.
#[must_use]
pub fn children_of(parent: i32) -> Vec<i32> {
    let stat = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let parent_of = |pid: i32| stat(pid)?.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<i32>().ok();
    all().into_iter().filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

#[must_use]
pub fn zombies_of(parent: i32) -> Vec<i32> {
    children_of(parent).into_iter().filter(|pid| process_state(*pid) == Some('Z')).collect()
}

/// # Panics
/// When the process has ended.
#[must_use]
pub fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("the process runs").count()
}

/// Returns the peak memory in megabytes.
///
/// # Panics
/// When the process has ended.
#[must_use]
pub fn most_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the status has the peak memory");
    let kilobytes = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("the peak memory is a number") / 1024
}
