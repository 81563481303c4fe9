//! The user that runs the server.
//!
//! PostgreSQL refuses to run as root. If this process is root, the programs run as the user
//! `postgres`. If that user cannot reach the folder (a project below root's home), they run in a
//! user namespace in which root appears as an ordinary user, so that every file stays root's. If
//! this process is not root, the server runs as its user.
//!
//! Commands created here start with an empty environment: a `PGHOST` or `PGDATA` of the caller must
//! not affect them.

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// The user of this process.
    Ourselves,
    /// This process is root; the server runs as this user.
    Other { uid: Uid, gid: Gid },
    /// This process is root, and so is the server outside of its namespace. Inside, the server sees
    /// an ordinary user.
    Namespace,
}

/// Wrapper that maps root to an ordinary user. The ids have no meaning outside the namespace.
const UNSHARE: [&str; 5] = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"];

impl Account {
    /// Chooses the account for a cluster in `dir`, which exists.
    pub(crate) fn for_folder(dir: &Path) -> Result<Self, DevDbError> {
        if !geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        // A broken user database is treated like one without that user: the namespace is tried
        // next.
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

    /// Whether this user may enter `dir`.
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

    /// Gives `path` and everything below it to this user, unless the user owns it already.
    pub(crate) fn take_over(self, path: &Path) -> Result<(), DevDbError> {
        let (uid, gid) = match self {
            // Only root can change owners.
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

/// The locale of the cluster and of its programs' messages. macOS has no `C.UTF-8`.
pub(crate) const LOCALE: &str = if cfg!(target_os = "macos") { "C" } else { "C.UTF-8" };

/// Turns a failure of a PostgreSQL program into an error with its output.
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
    // The top comes last: an interrupted walk is recognized as incomplete and repeated.
    lchown(path, Some(uid), Some(gid))
}
