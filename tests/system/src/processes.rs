//! What the machine says of a worker and of what its jobs started. Linux alone tells.

use std::fs;

use test_support::process_state;

/// The numbers of all processes.
fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("a Linux machine").flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect()
}

/// The processes, dead ones aside, in whose command line or environment `mark` stands.
///
/// # Panics
/// When the system does not tell.
#[must_use]
pub fn marked(mark: &str) -> Vec<i32> {
    // One that has ended meanwhile has nothing to show.
    let shows = |pid: i32, what: &str| {
        let text = fs::read(format!("/proc/{pid}/{what}")).unwrap_or_default();
        text.windows(mark.len()).any(|window| window == mark.as_bytes())
    };
    let own = i32::try_from(std::process::id()).expect("a process id");
    let marked =
        all().into_iter().filter(|pid| *pid != own && (shows(*pid, "cmdline") || shows(*pid, "environ")));
    marked.filter(|pid| test_support::is_running(*pid)).collect()
}

/// The numbers of the children of a process, dead ones that nobody has taken notice of included.
///
/// # Panics
/// When the system does not tell.
#[must_use]
pub fn children_of(parent: i32) -> Vec<i32> {
    let stat = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).ok();
    let parent_of = |pid: i32| stat(pid)?.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<i32>().ok();
    all().into_iter().filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// The children of a process that have ended and that nobody has taken notice of.
#[must_use]
pub fn zombies_of(parent: i32) -> Vec<i32> {
    children_of(parent).into_iter().filter(|pid| process_state(*pid) == Some('Z')).collect()
}

/// How many files a process has open.
///
/// # Panics
/// When it is gone.
#[must_use]
pub fn open_files(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).expect("a living process").count()
}

/// The most memory a process has had at once, in megabytes.
///
/// # Panics
/// When it is gone.
#[must_use]
pub fn most_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    let kilobytes = line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    kilobytes.expect("a number") / 1024
}
