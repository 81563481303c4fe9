//! Which user the server runs as.
//!
//! PostgreSQL refuses to run as root. Then its programs run as the user `postgres`; where that user cannot
//! reach the folder (a project below root's home), they run in a user namespace in which we appear as an ordinary user, so
//! that every file stays root's. An ordinary user's server runs as that user.
//!
//! Commands made here start from an empty environment: a `PGHOST` or `PGDATA` of the caller must not steer them.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::{
        fs::{MetadataExt, lchown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use nix::unistd::{Gid, Uid, User, geteuid};

use crate::DevDbError;

/// The user the server programs run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// The user we are.
    Ourselves,
    /// We are root; this user takes the server's part.
    Other { uid: Uid, gid: Gid },
    /// We are root and remain so outside; inside its namespace the server sees an ordinary user.
    Namespace,
}

/// Wrapper that maps root to an ordinary user; the identifiers mean nothing outside the namespace.
const UNSHARE: [&str; 5] = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"];

impl Account {
    /// Decides for a cluster in `dir`, which exists.
    pub(crate) fn for_folder(dir: &Path) -> Result<Self, DevDbError> {
        if !geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        // A broken user database is the same to us as one without that user: the namespace is tried next.
        if let Ok(Some(user)) = User::from_name("postgres") {
            let other = Self::Other { uid: user.uid, gid: user.gid };
            if other.reaches(dir) {
                return Ok(other);
            }
        }
        match Self::Namespace.command("true").status() {
            Ok(status) if status.success() => Ok(Self::Namespace),
            _ => Err(DevDbError::NoAccountForRoot { dir: dir.to_owned() }),
        }
    }

    /// Whether that user may enter `dir`.
    pub(crate) fn reaches(self, dir: &Path) -> bool {
        let status = self.command("test").arg("-x").arg(dir).status();
        status.is_ok_and(|status| status.success())
    }

    /// A command that runs `program` as this user, with an empty environment and no input.
    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self {
            Self::Ourselves => Command::new(program),
            Self::Other { uid, gid } => {
                let mut command = Command::new(program);
                // The standard library also drops root's supplementary groups here.
                command.uid(uid.as_raw()).gid(gid.as_raw());
                command
            }
            Self::Namespace => {
                let [wrapper, arguments @ ..] = UNSHARE;
                let mut command = Command::new(wrapper);
                command.args(arguments).arg(program);
                command
            }
        };
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("LC_ALL", LOCALE).current_dir("/").stdin(Stdio::null());
        command
    }

    /// Makes `path` and all below it belong to this user, when it does not yet.
    pub(crate) fn take_over(self, path: &Path) -> Result<(), DevDbError> {
        let (uid, gid) = match self {
            // Without being root there is no choice of owner.
            Self::Ourselves => return Ok(()),
            Self::Other { uid, gid } => (uid.as_raw(), gid.as_raw()),
            Self::Namespace => (0, 0),
        };
        let owner = fs::symlink_metadata(path).map_err(DevDbError::file("read", path))?.uid();
        if owner == uid {
            return Ok(());
        }
        chown_tree(path, uid, gid).map_err(DevDbError::file("change the owner of", path))
    }
}

/// The locale of the cluster and of its programs' messages. macOS knows no `C.UTF-8`.
pub(crate) const LOCALE: &str = if cfg!(target_os = "macos") { "C" } else { "C.UTF-8" };

/// What a program of PostgreSQL said, when it failed.
pub(crate) fn checked(program: PathBuf, output: &Output) -> Result<(), DevDbError> {
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    Err(DevDbError::Program { program, status: output.status, output: text.trim().to_owned() })
}

fn chown_tree(path: &Path, uid: u32, gid: u32) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            chown_tree(&entry?.path(), uid, gid)?;
        }
    }
    // The top comes last: a walk that was interrupted is seen as not done and repeated.
    lchown(path, Some(uid), Some(gid))
}
