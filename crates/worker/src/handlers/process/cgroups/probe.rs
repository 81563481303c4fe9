//! Finds the controllers that this worker may use by creating and removing a group.
//!
//! In version 2, a group that delegates controllers must not contain processes. If the worker is
//! the only process in its group, it moves into a group below. It never moves another process. A
//! failed step is a reason in the result, not an error.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Controller, Usable, Version};

/// The worker moves here when it must leave its own group.
const OWN_GROUP: &str = "sched-worker";

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The mounted path within the hierarchy.
    root: String,
    at: PathBuf,
    /// The controllers, in version 1.
    options: String,
}

/// Also the reasons why the others are unusable.
pub(super) fn usable_controllers(root: Option<&str>, worker: &str) -> (Vec<Usable>, Vec<String>) {
    let mounts = mounts(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let (mut usable, mut missing) = (Vec::new(), Vec::new());
    for controller in Controller::ALL {
        let found = mounts.iter().find(|mount| has(mount, controller));
        let Some(mount) = found else {
            missing.push(format!("{} has no hierarchy", controller.name()));
            continue;
        };
        let path = root.map_or_else(|| own_group(&own, mount.version, controller), str::to_owned);
        let base = below(mount, &path);
        let delegated = match mount.version {
            Version::Two => delegate(&base, controller),
            Version::One => Ok(()),
        };
        match delegated.and_then(|()| try_group(&base, mount.version, controller, worker)) {
            Ok(()) => usable.push(Usable { controller, version: mount.version, base }),
            Err(error) => missing.push(format!("{} below {}: {error}", controller.name(), base.display())),
        }
    }
    (usable, missing)
}

fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo
        .lines()
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut fields = before.split(' ').skip(3);
            let (root, at) = (fields.next()?.to_owned(), PathBuf::from(fields.next()?));
            let mut fields = after.split(' ');
            let version = match fields.next()? {
                "cgroup2" => Version::Two,
                "cgroup" => Version::One,
                _ => return None,
            };
            Some(Mount { version, root, at, options: fields.nth(1).unwrap_or_default().to_owned() })
        })
        .collect()
}

fn has(mount: &Mount, controller: Controller) -> bool {
    match mount.version {
        Version::One => mount.options.split(',').any(|option| option == controller.name()),
        Version::Two => {
            let names = fs::read_to_string(mount.at.join("cgroup.controllers")).unwrap_or_default();
            names.split_whitespace().any(|name| name == controller.name())
        }
    }
}

/// From lines of `number:controllers:path`.
fn own_group(own: &str, version: Version, controller: Controller) -> String {
    let found = own.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = match version {
            Version::Two => controllers.is_empty(),
            Version::One => controllers.split(',').any(|name| name == controller.name()),
        };
        is_it.then(|| path.to_owned())
    });
    found.unwrap_or_else(|| "/".to_owned())
}

fn below(mount: &Mount, path: &str) -> PathBuf {
    let inside = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(path);
    mount.at.join(inside.trim_start_matches('/'))
}

/// Version 2 only.
fn delegate(base: &Path, controller: Controller) -> io::Result<()> {
    let file = base.join("cgroup.subtree_control");
    let names = fs::read_to_string(&file)?;
    if names.split_whitespace().any(|name| name == controller.name()) {
        return Ok(());
    }
    let enable = || fs::write(&file, format!("+{}", controller.name()));
    let Err(refused) = enable() else { return Ok(()) };
    let inside = fs::read_to_string(base.join("cgroup.procs"))?;
    let own = std::process::id().to_string();
    if refused.kind() != io::ErrorKind::ResourceBusy || inside.split_whitespace().ne([own.as_str()]) {
        return Err(refused);
    }
    let group = base.join(OWN_GROUP);
    fs::create_dir(&group).or_else(|error| if group.is_dir() { Ok(()) } else { Err(error) })?;
    fs::write(group.join("cgroup.procs"), own)?;
    enable()
}

fn try_group(base: &Path, version: Version, controller: Controller, worker: &str) -> io::Result<()> {
    let group = base.join(format!("sched_probe_{worker}_{}", controller.name()));
    fs::create_dir(&group)?;
    let file = match (version, controller) {
        (Version::Two, Controller::Memory) => "memory.max",
        (Version::Two, Controller::Cpu) => "cpu.max",
        (Version::One, Controller::Memory) => "memory.limit_in_bytes",
        (Version::One, Controller::Cpu) => "cpu.cfs_quota_us",
        (_, Controller::Pids) => "pids.max",
    };
    // Opened for writing as later. A kernel may lack one of the files.
    let has_file = fs::OpenOptions::new().write(true).open(group.join(file)).map(drop);
    fs::remove_dir(&group)?;
    has_file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_cgroup_versions_are_parsed() {
        let info = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                    32 31 0:29 /box /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:7 - cgroup cgroup rw,cpu,cpuacct\n\
                    33 31 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = mounts(info);
        assert_eq!(found.len(), 2);
        assert!(has(&found[0], Controller::Cpu) && !has(&found[0], Controller::Memory));
        let own = "4:memory:/m\n3:cpu,cpuacct:/box/x\n0::/user.slice/w\n";
        let group = own_group(own, Version::One, Controller::Cpu);
        assert_eq!(below(&found[0], &group), Path::new("/sys/fs/cgroup/cpu,cpuacct/x"));
        let group = own_group(own, Version::Two, Controller::Cpu);
        assert_eq!(below(&found[1], &group), Path::new("/sys/fs/cgroup/unified/user.slice/w"));
        assert_eq!(own_group(own, Version::One, Controller::Pids), "/");
    }
}
