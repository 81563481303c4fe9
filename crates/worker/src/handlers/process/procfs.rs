//! Reads data about processes from `/proc`.
//!
//! A process may vanish between two reads, so results may be incomplete, and there are no errors.
//! The kernel reuses pids, so [`Identity`] adds the start time.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Identity {
    pub(super) pid: i32,
    /// Clock ticks from boot to the start. 0 if unknown.
    pub(super) start: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) identity: Identity,
    pub(super) parent: i32,
    pub(super) group: i32,
    pub(super) session: i32,
    pub(super) is_zombie: bool,
}

pub(super) fn stat(pid: i32) -> Option<Stat> {
    // An unreadable process is gone.
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse_stat(&String::from_utf8_lossy(&text))
}

/// `pid (name) state ppid pgrp session …`. The name may contain parentheses, so fields are counted
/// from the last one.
fn parse_stat(text: &str) -> Option<Stat> {
    let (pid, rest) = text.split_once(' ')?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let mut number = || fields.next()?.parse::<i32>().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    // Field 22 of the file; six were taken, counting the name.
    let start = fields.nth(15)?.parse().ok()?;
    Some(Stat { identity: Identity { pid: pid.parse().ok()?, start }, parent, group, session, is_zombie })
}

pub(super) fn children(parent: i32) -> Vec<i32> {
    // A kernel may lack these files.
    if !Path::new("/proc/thread-self/children").exists() {
        return all()
            .into_iter()
            .filter(|pid| stat(*pid).is_some_and(|stat| stat.parent == parent))
            .collect();
    }
    let mut found = Vec::new();
    for thread in numbers_in(&format!("/proc/{parent}/task")) {
        let list = fs::read_to_string(format!("/proc/{parent}/task/{thread}/children")).unwrap_or_default();
        found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    }
    found
}

/// The kernel makes orphans children of the first thread. The list also contains children that the
/// first thread itself started. This reads one file, not one per thread.
pub(super) fn adopted(parent: i32) -> Vec<i32> {
    // A kernel may lack these files.
    match fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")) {
        Ok(list) => list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect(),
        Err(_) => children(parent),
    }
}

pub(super) fn descendants(ancestor: i32) -> Vec<Stat> {
    let mut found: Vec<Stat> = Vec::new();
    let mut to_ask = vec![ancestor];
    while let Some(parent) = to_ask.pop() {
        for child in children(parent).into_iter().filter_map(stat) {
            // A reused pid could form a cycle.
            if !found.iter().any(|known| known.identity == child.identity) {
                to_ask.push(child.identity.pid);
                found.push(child);
            }
        }
    }
    found
}

pub(super) fn all() -> Vec<i32> {
    numbers_in("/proc")
}

fn numbers_in(directory: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// From the initial environment. `None` for a zombie.
pub(super) fn variable(pid: i32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(OsStr::from_bytes(value).to_string_lossy().into_owned())
    })
}

/// The same pid is another process in another container.
pub(super) fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_parser_handles_blanks_and_parentheses_in_names() {
        let tail = "S 10 11 12 0 -1 4194560 106 0 0 0 0 0 0 0 20 0 1 0 5151 3 4";
        for name in ["sh", "a b", "a) Z 1 (b", ")"] {
            let stat = parse_stat(&format!("77 ({name}) {tail}")).unwrap();
            let identity = Identity { pid: 77, start: 5151 };
            assert_eq!(
                stat,
                Stat { identity, parent: 10, group: 11, session: 12, is_zombie: false },
                "{name}"
            );
        }
        assert!(parse_stat("77 (sh) Z 1 2 3 0").is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn stat_of_this_process_is_read() {
        let own = i32::try_from(std::process::id()).unwrap();
        let stat = stat(own).unwrap();
        assert_eq!((stat.identity.pid, stat.is_zombie), (own, false));
        assert!(stat.identity.start > 0 && all().contains(&own) && children(stat.parent).contains(&own));
    }
}
