//! Starts a process from the description of a program, and waits for it.
//!
//! `direct`, on Linux: the child borrows the worker's memory until it executes the program, so the
//! cost of a start does not depend on the memory and threads of the worker. A copy of the memory
//! (fork) took most of a short attempt's time. `portable`, on other systems and on kernels before
//! 5.3, is the runtime's own. The first start decides, by trying. A child that becomes another user
//! never shares the worker's memory: operations that this user may apply to the child (stop it,
//! read its memory) would apply to the worker.
//!
//! In both, a child that fails before exec never executes a program. This module kills only
//! children that no other code knows yet.

#[cfg(target_os = "linux")]
mod direct;
mod portable;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use tokio::net::unix::pipe::Receiver;

#[derive(Debug)]
pub(super) struct Program {
    /// Absolute.
    pub(super) path: PathBuf,
    /// Without the program name.
    pub(super) args: Vec<OsString>,
    /// Complete.
    pub(super) env: BTreeMap<OsString, OsString>,
    pub(super) cwd: PathBuf,
    /// `None` for an empty one.
    pub(super) stdin: Option<File>,
    /// `enter` changes the user and enters the working directory as that user.
    pub(super) runs_as_other_user: bool,
}

#[derive(Debug)]
pub(super) struct NewChild {
    pub(super) child: Child,
    pub(super) stdout: Receiver,
    pub(super) stderr: Receiver,
}

/// Dropping it neither kills the process nor waits for it.
#[derive(Debug)]
pub(super) enum Child {
    #[cfg(target_os = "linux")]
    Direct(direct::Child),
    Portable(tokio::process::Child),
}

/// The child runs `enter` before exec. If `enter` fails, no program runs. Blocks until the child
/// has executed the program. Must be called within the runtime.
///
/// # Safety
/// `enter` may make plain system calls only: no allocation, no lock, no panic. It runs in the child
/// of a process with many threads, and possibly in this process's memory.
#[expect(
    unsafe_code,
    reason = "code between clone and exec must follow rules that the compiler cannot check"
)]
pub(super) unsafe fn spawn(
    program: &Program,
    enter: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<NewChild> {
    #[cfg(target_os = "linux")]
    if direct::is_possible() && !program.runs_as_other_user {
        // SAFETY: the caller upholds the contract.
        return unsafe { direct::spawn(program, &enter) };
    }
    // SAFETY: the caller upholds the contract.
    unsafe { portable::spawn(program, enter) }
}

impl Child {
    /// Valid until the exit status is taken.
    pub(super) fn pid(&self) -> Option<i32> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Direct(child) => Some(child.pid()),
            Self::Portable(child) => child.id().and_then(|pid| i32::try_from(pid).ok()),
        }
    }

    /// Cancel-safe, and may be called again, also after the end.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Direct(child) => child.wait().await,
            Self::Portable(child) => child.wait().await,
        }
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "spawning is unsafe")]
mod tests {
    use std::io::Read;
    use std::os::unix::process::ExitStatusExt;
    use std::path::Path;

    use nix::sys::signal::Signal;
    use tokio::io::AsyncReadExt;

    use super::*;

    fn shell(script: &str) -> Program {
        Program {
            path: "/bin/sh".into(),
            args: ["-c", script].map(OsString::from).into(),
            env: BTreeMap::from([("GREETING".into(), "hello".into())]),
            cwd: "/".into(),
            stdin: None,
            runs_as_other_user: false,
        }
    }

    type Enter = fn() -> io::Result<()>;
    type Spawn = unsafe fn(&Program, Enter) -> io::Result<NewChild>;

    const WAYS: [(&str, Spawn); 2] = [
        ("direct", |program, enter| unsafe { direct::spawn(program, &enter) }),
        ("portable", |program, enter| unsafe { portable::spawn(program, enter) }),
    ];

    async fn ended(spawned: NewChild) -> (ExitStatus, String, String) {
        let NewChild { mut child, mut stdout, mut stderr } = spawned;
        let (mut out, mut err) = (String::new(), String::new());
        stdout.read_to_string(&mut out).await.unwrap();
        stderr.read_to_string(&mut err).await.unwrap();
        let status = child.wait().await.unwrap();
        assert_eq!(child.wait().await.unwrap(), status, "asked again");
        (status, out, err)
    }

    #[tokio::test]
    async fn spawned_program_gets_exactly_its_description() {
        assert!(direct::is_possible());
        for (way, spawn) in WAYS {
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, b"line\n").unwrap();
            std::io::Seek::rewind(&mut file).unwrap();
            let program = Program {
                stdin: Some(file),
                cwd: "/usr".into(),
                ..shell("read -r x; echo \"$x $GREETING $PWD\"; env | wc -l; echo oops >&2; exit 3")
            };
            let spawned = unsafe { spawn(&program, || Ok(())) }.unwrap();
            let (status, out, err) = ended(spawned).await;
            // The shell adds PWD, and some shells add more variables.
            let lines: Vec<&str> = out.lines().collect();
            assert_eq!((lines[0], err.as_str()), ("line hello /usr", "oops\n"), "{way}");
            assert!(lines[1].trim().parse::<u32>().unwrap() <= 4, "{way}: {out}");
            assert_eq!(status.code(), Some(3), "{way}");
        }
    }

    #[tokio::test]
    async fn spawned_program_has_default_signals() {
        for (way, spawn) in WAYS {
            let program = shell("grep -E '^Sig(Blk|Ign)|^SigCgt' /proc/self/status; kill -9 $$");
            let (status, out, _) = ended(unsafe { spawn(&program, || Ok(())) }.unwrap()).await;
            for line in out.lines() {
                let (name, mask) = line.split_once(":\t").unwrap();
                // The worker handles or ignores these. Other signals may have been ignored before
                // the test.
                let ours = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGPIPE, Signal::SIGCHLD];
                let ours: u64 = ours.iter().map(|signal| 1 << (*signal as u64 - 1)).sum();
                assert_eq!(u64::from_str_radix(mask, 16).unwrap() & ours, 0, "{way}: {name}");
            }
            assert_eq!(out.lines().count(), 3);
            assert_eq!(status.signal(), Some(9), "{way}");
        }
    }

    #[tokio::test]
    async fn failed_spawn_returns_error_and_no_child() {
        let not_there = Program { path: "/no/such/program".into(), ..shell("") };
        let no_directory = Program { cwd: "/no/such/directory".into(), ..shell("") };
        let children = || {
            let own = std::process::id();
            std::fs::read_dir(format!("/proc/{own}/task"))
                .unwrap()
                .flatten()
                .map(|task| {
                    let mut list = String::new();
                    std::fs::File::open(task.path().join("children"))
                        .unwrap()
                        .read_to_string(&mut list)
                        .unwrap();
                    list.split_whitespace().count()
                })
                .sum::<usize>()
        };
        for (way, spawn) in WAYS {
            for program in [&not_there, &no_directory] {
                let error = unsafe { spawn(program, || Ok(())) }.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::NotFound, "{way}");
            }
            let refused = || Err(io::Error::from_raw_os_error(nix::libc::EPERM));
            let error = unsafe { spawn(&shell("exit 0"), refused) }.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(nix::libc::EPERM), "{way}");
            let with_nul = Program { args: vec!["a\0b".into()], ..shell("") };
            assert_eq!(
                unsafe { spawn(&with_nul, || Ok(())) }.unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
            assert_eq!(children(), 0, "{way}");
        }
    }

    #[tokio::test]
    async fn script_without_shebang_runs_in_the_shell() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        std::fs::write(&path, "echo \"$0 $1\"").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        for (way, spawn) in WAYS {
            let program = Program { path: path.clone(), args: vec!["x".into()], ..shell("") };
            let (status, out, _) = ended(unsafe { spawn(&program, || Ok(())) }.unwrap()).await;
            assert_eq!((status.code(), out), (Some(0), format!("{} x\n", path.display())), "{way}");
        }
        assert!(Path::new(&path).exists());
    }
}
