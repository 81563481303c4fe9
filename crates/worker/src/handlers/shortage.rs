//! Operating system errors that mean that this worker or its machine has run out of a resource.
//!
//! The worker releases the run as untried: it may begin later or elsewhere.

use std::io;

use nix::errno::Errno;

/// Too many processes, open files or sockets. Lack of memory (ENOMEM) does not count: a program
/// that is too large would be released forever.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EAGAIN | Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_machine_shortages_count() {
        let is = |errno: Errno| is_shortage(&io::Error::from_raw_os_error(errno as i32));
        for errno in [Errno::EAGAIN, Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS] {
            assert!(is(errno), "{errno}");
        }
        for errno in [Errno::ENOENT, Errno::EACCES, Errno::ENOEXEC, Errno::E2BIG, Errno::EPERM, Errno::ENOMEM]
        {
            assert!(!is(errno), "{errno}");
        }
        assert!(!is_shortage(&io::ErrorKind::WouldBlock.into()), "only the operating system's word counts");
    }
}
