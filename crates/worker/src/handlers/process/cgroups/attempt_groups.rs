//! The control groups of one attempt: created with their limits, entered by the program, emptied
//! and removed at the end.
//!
//! A program of the worker's own user can create groups below its group. So the groups below are
//! included and removed first. A group with processes cannot be removed. [`clean_up`] retries
//! periodically, and finally the next worker does.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sched_model::domain::handler_config::ResourceLimits;

use super::super::procfs::{self, Identity};
use super::{Controller, LimitError, Usable, Version};

/// Period of the CPU quota, the kernel's default.
const CPU_WINDOW_US: u64 = 100_000;
/// A group without a limit of processes may fork while it is killed.
const ROUNDS: usize = 100;
/// Groups below one group that one call visits or removes. Later calls continue.
const MOST_BELOW: usize = 1000;

/// Groups that could not be removed yet.
static LEFT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

pub(in super::super) fn clean_up() {
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    for group in left {
        remove_or_keep(&group);
    }
}

fn remove_or_keep(group: &Path) {
    if !empty_and_remove(group) {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(group.to_owned());
    }
}

#[derive(Debug)]
pub(in super::super) struct AttemptGroups {
    groups: Vec<(Usable, PathBuf)>,
}

/// Open files for entering the groups, written between fork and exec.
#[derive(Debug)]
pub(in super::super) struct Entrance(Vec<OwnedFd>);

impl Entrance {
    /// Puts the calling process into the groups. Makes plain system calls only.
    pub(in super::super) fn enter(&self) -> io::Result<()> {
        for file in &self.0 {
            // Zero means the writing process.
            nix::unistd::write(file, b"0")?;
        }
        Ok(())
    }

    pub(in super::super) fn nowhere() -> Self {
        Self(Vec::new())
    }
}

impl AttemptGroups {
    pub(super) fn create(wanted: &[Usable], name: &str, limits: &ResourceLimits) -> Result<Self, LimitError> {
        let mut cgroup = Self { groups: Vec::new() };
        for usable in wanted {
            let group = usable.base.join(name);
            let fault = |source| LimitError::Group { group: group.clone(), source };
            let exists = cgroup.groups.iter().any(|(_, created)| *created == group);
            if !exists {
                fs::create_dir(&group).map_err(fault)?;
            }
            // From here on, dropping `cgroup` removes it.
            cgroup.groups.push((usable.clone(), group.clone()));
            bound(usable, &group, limits).map_err(fault)?;
        }
        Ok(cgroup)
    }

    pub(in super::super) fn entrance(&self) -> Result<Entrance, LimitError> {
        let mut files = Vec::new();
        for group in self.paths() {
            let opened = OpenOptions::new().write(true).open(group.join("cgroup.procs"));
            let file: File =
                opened.map_err(|source| LimitError::Group { group: group.to_owned(), source })?;
            files.push(file.into());
        }
        Ok(Entrance(files))
    }

    fn paths(&self) -> Vec<&Path> {
        let mut paths: Vec<&Path> = self.groups.iter().map(|(_, group)| group.as_path()).collect();
        paths.dedup();
        paths
    }

    pub(in super::super) fn members(&self) -> Vec<Identity> {
        self.paths().first().map(|group| living_in(group)).unwrap_or_default()
    }

    /// Kills by the kernel because of the memory limit.
    pub(in super::super) fn memory_kills(&self) -> u64 {
        let memory = self.groups.iter().find(|(usable, _)| usable.controller == Controller::Memory);
        memory.map_or(0, |(usable, group)| {
            let file = match usable.version {
                Version::Two => "memory.events",
                Version::One => "memory.oom_control",
            };
            let text = fs::read_to_string(group.join(file)).unwrap_or_default();
            text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok()).unwrap_or(0)
        })
    }

    /// Kills every process in the groups, including concurrently forked ones.
    pub(in super::super) fn kill(&self) {
        if let Some(group) = self.paths().first() {
            kill_all_in(group);
        }
    }
}

impl Drop for AttemptGroups {
    fn drop(&mut self) {
        for group in self.paths() {
            remove_or_keep(group);
        }
    }
}

/// Kills the processes of a group and removes it. Returns whether the group is gone: dying
/// processes may keep it a moment longer.
pub(super) fn empty_and_remove(group: &Path) -> bool {
    kill_all_in(group);
    remove_from_below(group)
}

fn remove_from_below(group: &Path) -> bool {
    let mut path = vec![group.to_owned()];
    let mut removed = 0;
    while let Some(last) = path.last() {
        if let Some(below) = directly_below(last).next() {
            path.push(below);
            continue;
        }
        match fs::remove_dir(last) {
            Ok(()) if removed < MOST_BELOW => removed += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(()) | Err(_) => return false,
        }
        path.pop();
    }
    true
}

/// Other directory entries are files.
fn directly_below(group: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    // An unreadable group is gone.
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

fn with_those_below(group: &Path) -> Vec<PathBuf> {
    let mut found = vec![group.to_owned()];
    let mut looked_into = 0;
    while let Some(next) = found.get(looked_into).filter(|_| found.len() < MOST_BELOW) {
        let below: Vec<PathBuf> = directly_below(next).collect();
        found.extend(below);
        looked_into += 1;
    }
    found
}

fn kill_all_in(group: &Path) {
    // Version 2 since Linux 5.14 kills atomically, including processes that are being forked and
    // groups below.
    if fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for _ in 0..ROUNDS {
        let members = living_in(group);
        if members.is_empty() {
            return;
        }
        for member in members {
            // The process may be gone.
            let _ = kill(Pid::from_raw(member.pid), Signal::SIGKILL);
        }
        std::thread::yield_now();
    }
}

fn living_in(group: &Path) -> Vec<Identity> {
    let mut found = Vec::new();
    for group in with_those_below(group) {
        let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        let pids = text.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()).filter(|pid| *pid > 0);
        let living = pids.filter_map(procfs::stat).filter(|stat| !stat.is_zombie);
        found.extend(living.map(|stat| stat.identity));
    }
    found
}

fn bound(usable: &Usable, group: &Path, limits: &ResourceLimits) -> io::Result<()> {
    let set = |file: &str, value: String| fs::write(group.join(file), value);
    match (usable.version, usable.controller) {
        (Version::Two, Controller::Memory) => {
            set("memory.max", limits.memory_bytes.unwrap_or_default().to_string())?;
            // A partly killed program would be inconsistent. A kernel without swap has no swap
            // file.
            set("memory.oom.group", "1".into())?;
            set_where_it_exists(group, "memory.swap.max", "0")
        }
        (Version::One, Controller::Memory) => {
            let bytes = limits.memory_bytes.unwrap_or_default().to_string();
            set("memory.limit_in_bytes", bytes.clone())?;
            set_where_it_exists(group, "memory.memsw.limit_in_bytes", &bytes)
        }
        (version, Controller::Cpu) => {
            let quota = u64::from(limits.cpu_percent.unwrap_or_default()) * CPU_WINDOW_US / 100;
            match version {
                Version::Two => set("cpu.max", format!("{quota} {CPU_WINDOW_US}")),
                Version::One => {
                    set("cpu.cfs_period_us", CPU_WINDOW_US.to_string())?;
                    set("cpu.cfs_quota_us", quota.to_string())
                }
            }
        }
        (_, Controller::Pids) => set("pids.max", limits.pids.unwrap_or_default().to_string()),
    }
}

fn set_where_it_exists(group: &Path, file: &str, value: &str) -> io::Result<()> {
    match fs::write(group.join(file), value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        set => set,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_groups_are_listed_and_removed_first() {
        let place = tempfile::tempdir().unwrap();
        let group = place.path().join("group");
        for below in ["a/b/c", "a/d", "e"] {
            fs::create_dir_all(group.join(below)).unwrap();
        }
        // According to these files, this process is in all of them.
        let own = std::process::id();
        for (at, text) in [("cgroup.procs", String::new()), ("a/d/cgroup.procs", format!("{own}\n"))] {
            fs::write(group.join(at), text).unwrap();
        }
        assert_eq!(with_those_below(&group).len(), 6);
        assert_eq!(living_in(&group).iter().map(|one| one.pid).collect::<Vec<_>>(), [own.cast_signed()]);
        // Unlike the kernel's directories, these cannot be removed with their files.
        assert!(!remove_from_below(&group));
        for file in ["cgroup.procs", "a/d/cgroup.procs"] {
            fs::remove_file(group.join(file)).unwrap();
        }
        assert!(remove_from_below(&group) && !group.exists());
        assert!(remove_from_below(&group), "what is gone is gone");
    }

    #[test]
    fn many_nested_groups_are_removed_in_steps() {
        let place = tempfile::tempdir().unwrap();
        let group = place.path().join("group");
        for number in 0..MOST_BELOW + 10 {
            fs::create_dir_all(group.join(number.to_string())).unwrap();
        }
        assert!(!remove_from_below(&group) && group.exists());
        assert!(remove_from_below(&group) && !group.exists());
    }
}
