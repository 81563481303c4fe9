//! Ends a process, or a process group, when its owner has ended.
//!
//! A shell waits on a pipe whose other end only the owner holds. The system closes that end at any
//! end of the owner, including `kill -9`. The shell then signals the target, with the next stronger
//! signal every ten seconds, and removes the given folders.
//!
//! A parent-death signal exists only on Linux, and a change of the user clears it. It also fires at
//! the end of the *thread* that started the child.

use std::{
    io::{self, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

/// `$1`: the process, or minus the process group; `$2`: signals in order; then folders to remove.
const SCRIPT: &str = r#"
read -r word
[ "$word" = done ] && exit 0
target=$1 signals=$2
shift 2
for signal in $signals; do
  kill -s "$signal" -- "$target" 2>/dev/null || break
  n=0
  while [ "$n" -lt 100 ] && kill -s 0 -- "$target" 2>/dev/null; do sleep 0.1; n=$((n + 1)); done
done
[ $# -eq 0 ] || rm -rf -- "$@"
"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Process(i32),
    Group(i32),
}

/// Ties its target to the life of this process. A drop ends the target; [`Guard::release`] does
/// not.
#[derive(Debug)]
pub struct Guard {
    shell: Child,
}

impl Guard {
    /// After the owner's end, sends `signals` (names without `SIG`) in order until the target has
    /// ended, and then removes the folders in `remove`.
    ///
    /// # Errors
    ///
    /// If no shell can be started.
    pub fn start(target: Target, signals: &[&str], remove: &[&Path]) -> io::Result<Self> {
        let target = match target {
            Target::Process(pid) => pid.to_string(),
            Target::Group(pid) => format!("-{pid}"),
        };
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "sched-guard", &target, &signals.join(" ")]);
        command.args(remove);
        // In its own process group: a Ctrl-C or a kill of the owner's group must not end the guard.
        command.process_group(0).current_dir("/").env_clear().env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: command.spawn()? })
    }

    pub fn release(mut self) {
        if let Some(pipe) = &mut self.shell.stdin {
            // Fails only if the guard has ended already.
            drop(pipe.write_all(b"done\n"));
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // `wait` closes the pipe first.
        drop(self.shell.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("300").process_group(0).spawn().unwrap()
    }

    #[test]
    fn dropping_the_guard_ends_the_target_and_removes_the_folder() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("to go");
        std::fs::create_dir(&folder).unwrap();
        let mut child = sleeper();
        let pid = i32::try_from(child.id()).unwrap();
        // Reaped concurrently, because otherwise the guard would wait for a zombie.
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        drop(Guard::start(Target::Group(pid), &["TERM", "KILL"], &[&folder]).unwrap());
        assert!(!reaper.join().unwrap().success());
        assert!(!folder.exists());
    }

    #[test]
    fn a_released_guard_leaves_the_target_alone() {
        let mut child = sleeper();
        let pid = i32::try_from(child.id()).unwrap();
        Guard::start(Target::Process(pid), &["KILL"], &[]).unwrap().release();
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
