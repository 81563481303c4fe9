//! A child that borrows this process's memory until exec (`CLONE_VM | CLONE_VFORK`).
//!
//! The calling thread is suspended until then, the other threads run on. So the parent prepares all
//! data before the clone, and the child only makes system calls: it must not allocate, lock or
//! panic, and it has its own stack. The signal handlers would run in the worker's memory. So all
//! signals are blocked around the clone, and the child resets the handlers before it unblocks
//! signals. The child stores its error in the shared memory.
//!
//! A pidfd reports the end of the process (Linux 5.3).

use std::cell::Cell;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::OnceLock;

use nix::libc::{self, c_char};
use nix::sched::CloneFlags;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;

use super::{NewChild, Program};

/// In bytes, for calls three levels deep.
const STACK: usize = 32 * 1024;
/// No code reads it.
const FAILED: i32 = 127;

#[derive(Debug)]
pub(in super::super) struct Child {
    pid: Pid,
    end: AsyncFd<OwnedFd>,
    status: Option<ExitStatus>,
}

pub(super) fn is_possible() -> bool {
    static IS_POSSIBLE: OnceLock<bool> = OnceLock::new();
    *IS_POSSIBLE.get_or_init(|| descriptor_of(nix::unistd::getpid()).is_ok())
}

/// See [`super::spawn`].
///
/// # Safety
/// The contract of [`super::spawn`].
#[expect(unsafe_code, reason = "see super::spawn")]
pub(super) unsafe fn spawn(
    program: &Program,
    enter: &(dyn Fn() -> io::Result<()> + Sync),
) -> io::Result<NewChild> {
    let stdin = match &program.stdin {
        Some(file) => file.try_clone()?,
        None => OpenOptions::new().read(true).open("/dev/null")?,
    };
    let (stdout, stderr) = (io::pipe()?, io::pipe()?);
    let plan = Plan::new(program, stdin, stdout.1, stderr.1)?;
    // SAFETY: the caller upholds the contract; the plan outlives the call.
    let pid = unsafe { clone_child(&plan, enter) }?;
    let receiver = |reader: PipeReader| Receiver::from_owned_fd(reader.into());
    let watch = || {
        // SAFETY: an owned descriptor stays the same and open until it is dropped, together with
        // its watcher.
        let end = unsafe { AsyncFd::register(descriptor_of(pid)?) }?;
        let child = Child { pid, end, status: None };
        Ok((child, receiver(stdout.0)?, receiver(stderr.0)?))
    };
    match watch() {
        Ok((child, stdout, stderr)) => Ok(NewChild { child: super::Child::Direct(child), stdout, stderr }),
        Err(error) => {
            // It cannot have been reaped, so the pid is its own.
            let (Ok(()) | Err(_)) = nix::sys::signal::kill(pid, Signal::SIGKILL);
            let (Ok(_) | Err(_)) = waitpid(pid, None);
            Err(error)
        }
    }
}

struct Plan {
    path: CString,
    args: Strings,
    /// For a file that the kernel cannot execute: it runs as a shell script, as in every `exec…p`
    /// function.
    script: Strings,
    env: Strings,
    cwd: CString,
    /// Descriptors 0, 1 and 2. The parent closes them when the child has its own.
    stdin: File,
    stdout: PipeWriter,
    stderr: PipeWriter,
}

const SHELL: &std::ffi::CStr = c"/bin/sh";

impl Plan {
    fn new(program: &Program, stdin: File, stdout: PipeWriter, stderr: PipeWriter) -> io::Result<Self> {
        let path = text(program.path.as_os_str())?;
        let args: Vec<CString> = program.args.iter().map(|arg| text(arg)).collect::<io::Result<_>>()?;
        let variable = |(name, value): (&OsString, &OsString)| {
            let mut entry = name.clone();
            entry.push("=");
            entry.push(value);
            text(&entry)
        };
        Ok(Self {
            script: Strings::new([SHELL.to_owned(), path.clone()].into_iter().chain(args.clone()).collect()),
            args: Strings::new(std::iter::once(path.clone()).chain(args).collect()),
            env: Strings::new(program.env.iter().map(variable).collect::<io::Result<_>>()?),
            cwd: text(program.cwd.as_os_str())?,
            path,
            stdin,
            stdout,
            stderr,
        })
    }
}

fn text(text: &OsStr) -> io::Result<CString> {
    CString::new(text.to_owned().into_vec()).map_err(|error| {
        let shown = String::from_utf8_lossy(text.as_bytes()).into_owned();
        io::Error::new(io::ErrorKind::InvalidInput, format!("{shown:?} has a NUL byte: {error}"))
    })
}

struct Strings {
    pointers: Vec<*const c_char>,
    _texts: Vec<CString>,
}

impl Strings {
    fn new(texts: Vec<CString>) -> Self {
        let pointers = texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Self { pointers, _texts: texts }
    }
}

/// Starts the child and waits until it has executed the program or has failed.
///
/// # Safety
/// `enter` as in [`super::spawn`].
#[expect(unsafe_code, reason = "clone shares memory with the child")]
unsafe fn clone_child(plan: &Plan, enter: &(dyn Fn() -> io::Result<()> + Sync)) -> io::Result<Pid> {
    let mut stack = vec![0_u8; STACK];
    let failure = Cell::new(0);
    let child = || -> isize {
        // SAFETY: this is the child. Everything it refers to stays valid until it is gone, because
        // the parent waits.
        let errno = unsafe { become_program(plan, enter) };
        failure.set(errno);
        // SAFETY: ends the child without running any code of the parent.
        unsafe { libc::_exit(FAILED) }
    };
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let flags = CloneFlags::CLONE_VM | CloneFlags::CLONE_VFORK;
    // SAFETY: the stack is large enough and lives on. With CLONE_VFORK the child no longer uses
    // this memory when the call returns.
    let born = unsafe { nix::sched::clone(Box::new(child), &mut stack, flags, Some(libc::SIGCHLD)) };
    before.thread_set_mask()?;
    let pid = born?;
    match failure.get() {
        0 => Ok(pid),
        errno => {
            // The child is dead or about to exit.
            let (Ok(_) | Err(_)) = waitpid(pid, None);
            Err(io::Error::from_raw_os_error(errno))
        }
    }
}

/// Runs in the child. Returns only the errno if the child could not execute the program.
///
/// # Safety
/// For a child that shares memory with a waiting parent. `enter` as in [`super::spawn`].
#[expect(unsafe_code, reason = "plain system calls between clone and exec")]
unsafe fn become_program(plan: &Plan, enter: &(dyn Fn() -> io::Result<()> + Sync)) -> i32 {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in Signal::iterator() {
        // Two signals cannot be changed, which is harmless: they have no handlers.
        // SAFETY: sets no handler, and the table of handlers is the child's own.
        let (Ok(_) | Err(_)) = unsafe { nix::sys::signal::sigaction(signal, &default) };
    }
    let steps = || -> io::Result<()> {
        for (from, to) in
            [(plan.stdin.as_raw_fd(), 0), (plan.stdout.as_raw_fd(), 1), (plan.stderr.as_raw_fd(), 2)]
        {
            put(from, to)?;
        }
        nix::unistd::chdir(plan.cwd.as_c_str())?;
        enter()?;
        SigSet::empty().thread_set_mask()?;
        Ok(())
    };
    if let Err(error) = steps() {
        return error.raw_os_error().unwrap_or(libc::EINVAL);
    }
    // SAFETY: null-terminated lists of NUL-terminated strings, which live on in the parent.
    unsafe {
        libc::execve(plan.path.as_ptr(), plan.args.pointers.as_ptr(), plan.env.pointers.as_ptr());
        if nix::errno::Errno::last_raw() == libc::ENOEXEC {
            libc::execve(SHELL.as_ptr(), plan.script.pointers.as_ptr(), plan.env.pointers.as_ptr());
        }
    }
    nix::errno::Errno::last_raw()
}

/// `from` is never 0, 1 or 2: the worker has those open from its start.
#[expect(unsafe_code, reason = "the target is a number that no value owns")]
fn put(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: descriptors of the child alone.
    match unsafe { libc::dup2(from, to) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Readable when the process has ended.
#[expect(unsafe_code, reason = "neither the standard library nor nix has this call")]
fn descriptor_of(pid: Pid) -> io::Result<OwnedFd> {
    // SAFETY: numbers only. The descriptor is new, so it has no other owner. It is close-on-exec by
    // default.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0) };
    match RawFd::try_from(descriptor) {
        // SAFETY: as above.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Child {
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        loop {
            let mut ready = self.end.readable().await?;
            match take_status(self.pid)? {
                Some(status) => {
                    self.status = Some(status);
                    return Ok(status);
                }
                None => ready.clear_ready(),
            }
        }
    }
}

/// `None` while the child runs.
#[expect(
    unsafe_code,
    reason = "the safe wrapper knows only the first 31 signals, and other signals can end a process"
)]
fn take_status(pid: Pid) -> io::Result<Option<ExitStatus>> {
    let mut status = 0;
    // SAFETY: writes a number.
    match unsafe { libc::waitpid(pid.as_raw(), &raw mut status, libc::WNOHANG) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        _ => Ok(Some(ExitStatus::from_raw(status))),
    }
}
