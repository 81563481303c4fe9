//! Starts a process with the runtime's implementation: a fork of the worker that executes the
//! program.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;

use tokio::net::unix::pipe::Receiver;
use tokio::process::Command;

use super::{Child, NewChild, Program};

/// See [`super::spawn`].
///
/// # Safety
/// The contract of [`super::spawn`].
#[expect(unsafe_code, reason = "see super::spawn")]
pub(super) unsafe fn spawn(
    program: &Program,
    enter: impl Fn() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<NewChild> {
    let stdin = match &program.stdin {
        None => Stdio::null(),
        Some(file) => file.try_clone()?.into(),
    };
    let mut command = Command::new(&program.path);
    command
        .args(&program.args)
        .env_clear()
        .envs(&program.env)
        .current_dir(if program.runs_as_other_user { Path::new("/") } else { &program.cwd })
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: by the contract of this function.
    unsafe { command.pre_exec(enter) };
    let mut child = command.spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (Some(stdout), Some(stderr)) = (stdout, stderr) else {
        return Err(io::Error::other("the process was started without pipes"));
    };
    let pipe = |pipe: io::Result<OwnedFd>| Receiver::from_owned_fd(pipe?);
    Ok(NewChild {
        stdout: pipe(stdout.into_owned_fd())?,
        stderr: pipe(stderr.into_owned_fd())?,
        child: Child::Portable(child),
    })
}
