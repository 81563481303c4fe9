//! The user that runs the server.
//!
//! PostgreSQL rejects root. If this process is root, the programs run as the user `postgres`. If
//! that user cannot reach the folder, they run in a user namespace that maps root to an ordinary
//! user, so all files stay root's. Otherwise the server runs as the user of this process.
//!
//! Commands have an empty environment: a `PGHOST` or `PGDATA` of the caller must not affect them.

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
    Ourselves,
    Other {
        uid: Uid,
        gid: Gid,
    },
    /// This process and the server are root. In its namespace, the server is an ordinary user.
    Namespace,
}

/// Maps root to an ordinary user. The ids have no meaning outside the namespace.
const UNSHARE: [&str; 5] = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"];

impl Account {
    pub(crate) fn for_folder(dir: &Path) -> Result<Self, DevDbError> {
        if !geteuid().is_root() {
            return Ok(Self::Ourselves);
        }
        // A broken user database counts as one without that user.
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

    pub(crate) fn command(self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self {
            Self::Ourselves => Command::new(program),
            Self::Other { uid, gid } => {
                let mut command = Command::new(program);
                // This also drops root's supplementary groups.
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

    /// Gives the tree at `path` to this user, unless the user owns `path` already.
    pub(crate) fn take_over(self, path: &Path) -> Result<(), DevDbError> {
        let (uid, gid) = match self {
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

/// The locale of the cluster and of messages. macOS has no `C.UTF-8`.
pub(crate) const LOCALE: &str = if cfg!(target_os = "macos") { "C" } else { "C.UTF-8" };

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
    // The top is last, so that an interrupted walk is repeated.
    lchown(path, Some(uid), Some(gid))
}
