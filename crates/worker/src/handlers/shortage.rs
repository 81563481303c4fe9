//! Errors by which the operating system says that this worker, or its machine, has run out of something.
//!
//! What an attempt asks for is then none of the reasons: the same attempt may begin on another worker, or here a little later, so it is
//! handed back untried.

use std::io;

use nix::errno::Errno;

/// Whether it tells of too many processes, open files or sockets, or of no memory for the kernel.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EAGAIN | Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS))
        || is_of_memory(error)
}

/// Whether it tells of no memory, which an attempt with a limit of its own may have used up itself.
pub(super) fn is_of_memory(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENOMEM as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_lacks_is_told_from_what_a_program_lacks() {
        let is = |errno: Errno| is_shortage(&io::Error::from_raw_os_error(errno as i32));
        for errno in [Errno::EAGAIN, Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::ENOBUFS] {
            assert!(is(errno), "{errno}");
        }
        for errno in [Errno::ENOENT, Errno::EACCES, Errno::ENOEXEC, Errno::E2BIG, Errno::EPERM] {
            assert!(!is(errno), "{errno}");
        }
        assert!(!is_shortage(&io::ErrorKind::OutOfMemory.into()), "only the operating system's word counts");
    }
}
