//! The folder of the server's Unix socket.
//!
//! Normally `<dir>/run`. A socket's path is limited to 107 bytes on Linux and 103 on macOS, so a
//! deep project gets a short folder below the temporary one instead. `<dir>/socket-dir` records it,
//! for other processes and for the next start. Either folder belongs to the server's user with mode
//! 0700: access to it is the permission to connect.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{DevDbError, account::Account};

/// The shorter of the two systems' limits.
const LONGEST_PATH: usize = 103;

/// Finds or creates the socket's folder, and removes the files of an earlier server from it. Only
/// the cluster's owner calls this.
pub(crate) fn prepare(dir: &Path, port: u16, account: Account) -> Result<PathBuf, DevDbError> {
    let usual = dir.join("run");
    let folder = if fits(&usual, port) {
        if !usual.is_dir() {
            fs::DirBuilder::new().mode(0o700).create(&usual).map_err(DevDbError::file("create", &usual))?;
        }
        usual
    } else {
        match recorded(dir) {
            Some(folder) => folder,
            None => make_short(dir, port, account)?,
        }
    };
    account.take_over(&folder)?;
    clear(&folder)?;
    Ok(folder)
}

/// The folder that the owner chose, for a process that only attaches.
pub(crate) fn locate(dir: &Path) -> PathBuf {
    recorded(dir).unwrap_or_else(|| dir.join("run"))
}

/// Removes a short folder after its server has stopped.
pub(crate) fn remove(dir: &Path) {
    if let Some(folder) = recorded(dir) {
        // Best effort: the record leads the next start to a folder that could not be removed, and
        // it is used again.
        if fs::remove_dir_all(folder).is_ok() {
            drop(fs::remove_file(record(dir)));
        }
    }
}

fn fits(folder: &Path, port: u16) -> bool {
    folder.join(format!(".s.PGSQL.{port}")).as_os_str().len() <= LONGEST_PATH
}

fn record(dir: &Path) -> PathBuf {
    dir.join("socket-dir")
}

/// The recorded folder, if still only its owner can enter it.
fn recorded(dir: &Path) -> Option<PathBuf> {
    let folder = PathBuf::from(fs::read_to_string(record(dir)).ok()?);
    let is = fs::symlink_metadata(&folder).ok()?;
    // Other users may write to the temporary folder, so a folder with this name can belong to
    // another user and must not be used. A valid one belongs to the owner of the data, or still to
    // this process's user after an interrupted start.
    let owners =
        [nix::unistd::geteuid().as_raw(), fs::metadata(dir.join("data")).map_or(0, |data| data.uid())];
    (is.is_dir() && is.permissions().mode() & 0o077 == 0 && owners.contains(&is.uid())).then_some(folder)
}

fn make_short(dir: &Path, port: u16, account: Account) -> Result<PathBuf, DevDbError> {
    let parents = [std::env::temp_dir(), PathBuf::from("/tmp")];
    let usable =
        |parent: &&PathBuf| fits(&parent.join("sched-socket-123456"), port) && account.reaches(parent);
    let parent = parents.iter().find(usable).map_or(Path::new("/tmp"), PathBuf::as_path);
    let made = tempfile::Builder::new()
        .prefix("sched-socket-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(parent);
    let folder = made.map_err(DevDbError::file("create a socket folder in", parent))?.keep();
    let path = record(dir);
    fs::write(&path, folder.as_os_str().as_encoded_bytes()).map_err(DevDbError::file("write", path))?;
    Ok(folder)
}

/// A socket's lock file names a process id, which another process may have by now; the server would
/// take that process for a rival.
fn clear(folder: &Path) -> Result<(), DevDbError> {
    for entry in fs::read_dir(folder).map_err(DevDbError::file("read", folder))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".s.PGSQL.") {
            fs::remove_file(entry.path()).map_err(DevDbError::file("remove", entry.path()))?;
        }
    }
    Ok(())
}
