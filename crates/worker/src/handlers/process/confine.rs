//! The confinement of a program: its user and its restrictions.
//!
//! A launching thread prepares it, because preparation looks up names ([`super::users`]) and
//! creates groups. [`Confinement::enforce`] applies it between fork and exec, by plain system calls
//! only. If a step fails, the child never executes the program.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;

use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Uid};
use sched_model::domain::handler_config::ProcessConfig;

use super::cgroups::Entrance;
use super::users::Identity;

/// The first working directory of a program of another user, entered with that user's rights, which
/// the worker need not have.
#[derive(Debug)]
pub(super) enum Directory {
    /// Opened before it was given to the user.
    Open(OwnedFd),
    Named(CString),
}

#[derive(Debug)]
pub(super) struct Confinement {
    other_user: Option<(Uid, Gid, Directory)>,
    no_new_privs: bool,
    entrance: Entrance,
}

impl Confinement {
    /// `own` is the private directory, if a program of another user starts there.
    pub(super) fn new(
        config: &ProcessConfig,
        identity: Option<&Identity>,
        entrance: Entrance,
        own: Option<Directory>,
    ) -> io::Result<Self> {
        let other_user = match identity {
            None => None,
            Some(it) => {
                let named = || CString::new(config.cwd.as_deref().unwrap_or("/")).map(Directory::Named);
                Some((it.uid, it.gid, own.map_or_else(named, Ok)?))
            }
        };
        Ok(Self { other_user, no_new_privs: config.no_new_privs, entrance })
    }

    /// Applies the confinement to the calling process. Allocates nothing and takes no lock.
    pub(super) fn enforce(&self) -> io::Result<()> {
        // First, while the process still has the worker's rights.
        self.entrance.enter()?;
        // A core dump can contain secrets and fill disks.
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        if let Some((uid, gid, directory)) = &self.other_user {
            become_user(*uid, *gid)?;
            match directory {
                Directory::Open(folder) => nix::unistd::fchdir(folder)?,
                Directory::Named(path) => nix::unistd::chdir(path.as_c_str())?,
            }
        }
        #[cfg(target_os = "linux")]
        if self.no_new_privs {
            nix::sys::prctl::set_no_new_privs()?;
        }
        Ok(())
    }
}

/// Drops all other users and groups permanently, and verifies it.
#[expect(
    unsafe_code,
    reason = "the wrappers of the C library reach for its list of threads, which a forked child must not"
)]
fn become_user(uid: Uid, gid: Gid) -> io::Result<()> {
    use nix::libc::{
        EPERM, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, SYS_getgroups, SYS_getresgid, SYS_getresuid,
        SYS_prctl, SYS_setgroups, SYS_setresgid, SYS_setresuid, c_long, syscall,
    };
    let done = |result: c_long| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let (uid, gid) = (uid.as_raw(), gid.as_raw());
    let (mut users, mut groups) = ([0_u32; 3], [0_u32; 3]);
    let [real, effective, saved] = &mut users;
    let [real_group, effective_group, saved_group] = &mut groups;
    // SAFETY: plain system calls with numbers, pointers to local numbers, and a null pointer for an
    // empty list of groups.
    let others = unsafe {
        // They would survive the change. A kernel without them fails, which is harmless.
        syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        done(syscall(SYS_setgroups, 0, std::ptr::null::<u32>()))?;
        done(syscall(SYS_setresgid, gid, gid, gid))?;
        done(syscall(SYS_setresuid, uid, uid, uid))?;
        // With some numbers these calls succeed and change nothing.
        done(syscall(SYS_getresuid, &raw mut *real, &raw mut *effective, &raw mut *saved))?;
        done(syscall(SYS_getresgid, &raw mut *real_group, &raw mut *effective_group, &raw mut *saved_group))?;
        syscall(SYS_getgroups, 0, std::ptr::null_mut::<u32>())
    };
    if users == [uid; 3] && groups == [gid; 3] && others == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(EPERM))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn unchanged_user_is_a_failure() {
        // The kernel reads this number as "unchanged": the calls succeed for root.
        let nobody = std::thread::spawn(|| become_user(Uid::from_raw(u32::MAX), Gid::from_raw(u32::MAX)));
        let error = nobody.join().unwrap().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(nix::libc::EPERM));
    }
}
