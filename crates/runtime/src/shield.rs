//! Hides this process from other processes of its user.
//!
//! The environment of a daemon has the address of the database with its password. Jobs may run as
//! the user of the daemon, so they must not read it.

use std::io;

/// Lets only processes with `CAP_SYS_PTRACE` read or trace this process from now on.
///
/// That covers its environment, its memory and the list of its open files. It leaves no core dump.
/// Programs that this process starts are not hidden. Has an effect on Linux only.
///
/// # Errors
/// If the kernel rejects the request.
pub fn hide_process() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}
