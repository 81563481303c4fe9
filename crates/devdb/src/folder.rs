//! The cluster's folder and its lock.
//!
//! The holder of the exclusive lock on `<dir>/lock` owns the cluster. The system releases the lock
//! at any end of its holder. So if the lock is free, no process needs a server that still runs
//! there.

use std::{
    fs::{self, File, Permissions, TryLockError},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use nix::unistd::geteuid;

use crate::{DevDbError, StopMode, launch, socket};

const PREFIX: &str = "sched-pg-";

pub(crate) fn create(dir: &Path) -> Result<PathBuf, DevDbError> {
    if !dir.is_dir() {
        fs::create_dir_all(dir).map_err(DevDbError::file("create", dir))?;
        restrict(dir)?;
    }
    fs::canonicalize(dir).map_err(DevDbError::file("resolve", dir))
}

/// Takes the lock. `None` if another process, or another handle of this one, holds it.
pub(crate) fn try_own(dir: &Path) -> Result<Option<File>, DevDbError> {
    let path = dir.join("lock");
    let opened = File::options().create(true).truncate(false).write(true).open(&path);
    let file = opened.map_err(DevDbError::file("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(DevDbError::file("lock", path)(source)),
    }
}

/// Creates and locks a throw-away cluster's folder below `parent`.
pub(crate) fn make_throw_away(parent: &Path) -> Result<(PathBuf, File), DevDbError> {
    fs::create_dir_all(parent).map_err(DevDbError::file("create", parent))?;
    let parent = fs::canonicalize(parent).map_err(DevDbError::file("resolve", parent))?;
    sweep(&parent);
    let made = tempfile::Builder::new().prefix(".sched-pg-new-").tempdir_in(&parent);
    let new = made.map_err(DevDbError::file("create a folder in", &parent))?;
    restrict(new.path())?;
    let lock = try_own(new.path())?;
    // Other processes sweep folders with this name, so it is given under the lock.
    let suffix = new.path().file_name().unwrap_or_default().to_string_lossy().replace(".sched-pg-new-", "");
    let dir = parent.join(format!("{PREFIX}{suffix}"));
    fs::rename(new.keep(), &dir).map_err(DevDbError::file("rename a folder to", &dir))?;
    match lock {
        Some(lock) => Ok((dir, lock)),
        None => Err(DevDbError::NotReady { dir, limit: std::time::Duration::ZERO }),
    }
}

/// Removes throw-away clusters whose owner and guard were both killed. Best effort: a leftover only
/// costs disk.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let dir = entry.path();
        let ours = fs::symlink_metadata(&dir).is_ok_and(|is| is.is_dir() && is.uid() == geteuid().as_raw());
        if !ours || !entry.file_name().to_string_lossy().starts_with(PREFIX) || !dir.join("lock").is_file() {
            continue;
        }
        if let Ok(Some(_lock)) = try_own(&dir) {
            drop(launch::end_other(&dir, &dir.join("data"), StopMode::Immediate));
            socket::remove(&dir);
            drop(fs::remove_dir_all(&dir));
        }
    }
}

/// Closes a folder to other users. Root's folder stays passable for the server's user.
fn restrict(dir: &Path) -> Result<(), DevDbError> {
    let mode = if geteuid().is_root() { 0o711 } else { 0o700 };
    fs::set_permissions(dir, Permissions::from_mode(mode))
        .map_err(DevDbError::file("change the mode of", dir))
}
