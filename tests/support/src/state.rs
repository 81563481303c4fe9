//! The state of any process: from `/proc` on Linux, otherwise from `ps`, which some small Linux
//! systems lack.

use std::{fs, path::Path, process::Command};

/// The state letter of `ps`: `R`, `S`, `D`, `T`, `Z` and so on; `None` without a process.
pub fn process_state(pid: i32) -> Option<char> {
    if Path::new("/proc/self/stat").exists() {
        // The program's name is first, in parentheses, and may contain any character.
        return fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()?
            .rsplit(')')
            .next()?
            .trim_start()
            .chars()
            .next();
    }
    let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim_start().chars().next()
}

/// Whether a process runs; a zombie does not.
pub fn is_running(pid: i32) -> bool {
    process_state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_run_until_we_have_ended() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(is_running(own));
        let mut child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        assert_eq!(process_state(pid), None);
        assert!(!is_running(pid));
    }
}
