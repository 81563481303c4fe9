//! What a program may be: the user it runs as, and what it is kept from.
//!
//! Prepared on a launching thread, where names are looked up and groups are made, and put into force in the forked child before it
//! becomes the program ([`Confinement::enforce`]), by plain system calls only. A child in which any of it fails never becomes the
//! program, so nothing runs with more rights than it was to have.

use std::io;

use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::{Gid, Group, Uid, User};
use sched_model::domain::handler_config::{ProcessConfig, RunAs};

use super::cgroups::Entrance;

/// Numbers of the capabilities that running as somebody else takes: to own its files, to signal it, to become it.
const NEEDED: [(u32, &str); 4] = [(0, "CAP_CHOWN"), (5, "CAP_KILL"), (6, "CAP_SETGID"), (7, "CAP_SETUID")];

/// The user and the group of a program.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    /// Name and home of the user, where the machine knows them.
    pub(super) account: Option<(String, std::path::PathBuf)>,
}

/// Why a function cannot run as the user it names.
#[derive(Debug, thiserror::Error)]
pub(super) enum RunAsError {
    #[error(
        "the function is to run as user {user:?}, which takes a worker that runs as root or has {missing}"
    )]
    NotAllowed { user: String, missing: String },
    #[error("there is no user {0:?} on this worker")]
    NoSuchUser(String),
    #[error("there is no group {0:?} on this worker")]
    NoSuchGroup(String),
    #[error("user {0:?} is unknown on this worker and has no group of its own; name one in run_as.group")]
    NoGroup(String),
    #[error("failed to look up {name:?}")]
    LookUp { name: String, source: nix::Error },
}

impl Identity {
    /// Looks up who a function is to run as.
    pub(super) fn of(run_as: &RunAs) -> Result<Self, RunAsError> {
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Err(RunAsError::NotAllowed { user: run_as.user.clone(), missing: missing.join(", ") });
        }
        let look_up = |source| RunAsError::LookUp { name: run_as.user.clone(), source };
        let number = run_as.user.parse().ok().map(Uid::from_raw);
        let account = match number {
            Some(uid) => User::from_uid(uid),
            None => User::from_name(&run_as.user),
        }
        .map_err(look_up)?;
        let uid = number
            .or(account.as_ref().map(|user| user.uid))
            .ok_or_else(|| RunAsError::NoSuchUser(run_as.user.clone()))?;
        let gid = match &run_as.group {
            Some(group) => group_of(group)?,
            None => account
                .as_ref()
                .map(|user| user.gid)
                .ok_or_else(|| RunAsError::NoGroup(run_as.user.clone()))?,
        };
        Ok(Self { uid, gid, account: account.map(|user| (user.name, user.dir)) })
    }
}

fn group_of(name: &str) -> Result<Gid, RunAsError> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    let found =
        Group::from_name(name).map_err(|source| RunAsError::LookUp { name: name.to_owned(), source })?;
    found.map(|group| group.gid).ok_or_else(|| RunAsError::NoSuchGroup(name.to_owned()))
}

/// Capabilities that this process lacks to run programs as other users.
fn missing_capabilities() -> Vec<&'static str> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Without that file (not on Linux) being root is what there is.
    let held = held.unwrap_or(if nix::unistd::geteuid().is_root() { u64::MAX } else { 0 });
    NEEDED.iter().filter(|(number, _)| held & (1 << number) == 0).map(|(_, name)| *name).collect()
}

/// Everything that is put into force in the child.
#[derive(Debug)]
pub(super) struct Confinement {
    ids: Option<(Uid, Gid)>,
    no_new_privs: bool,
    entrance: Entrance,
}

impl Confinement {
    pub(super) fn new(config: &ProcessConfig, identity: Option<&Identity>, entrance: Entrance) -> Self {
        Self { ids: identity.map(|it| (it.uid, it.gid)), no_new_privs: config.no_new_privs, entrance }
    }

    /// Puts it into force for the calling process. Allocates nothing and takes no lock.
    pub(super) fn enforce(&self) -> io::Result<()> {
        // First, as long as it may.
        self.entrance.enter()?;
        // What a crash leaves of a program can hold secrets, fills disks, and goes where the machine says.
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        if let Some((uid, gid)) = self.ids {
            become_user(uid, gid)?;
        }
        #[cfg(target_os = "linux")]
        if self.no_new_privs {
            nix::sys::prctl::set_no_new_privs()?;
        }
        Ok(())
    }
}

/// Gives up every user and group but these, for good.
#[expect(
    unsafe_code,
    reason = "the wrappers of the C library reach for its list of threads, which a forked child must not"
)]
fn become_user(uid: Uid, gid: Gid) -> io::Result<()> {
    use nix::libc::{
        PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, SYS_prctl, SYS_setgroups, SYS_setresgid, SYS_setresuid,
        c_long, syscall,
    };
    let done = |result: c_long| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let (uid, gid) = (uid.as_raw(), gid.as_raw());
    // SAFETY: plain system calls with numbers, and a null pointer for a list of no groups.
    unsafe {
        // Rights that the worker was given beyond its user's would outlast the change. A kernel that knows none fails, harmlessly.
        syscall(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        done(syscall(SYS_setgroups, 0, std::ptr::null::<u32>()))?;
        done(syscall(SYS_setresgid, gid, gid, gid))?;
        done(syscall(SYS_setresuid, uid, uid, uid))
    }
}
