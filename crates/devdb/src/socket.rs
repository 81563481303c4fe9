//! The folder of the server's Unix socket: normally `<dir>/run`.
//!
//! A socket's path is limited to 107 bytes on Linux and 103 on macOS. For a longer path, the folder
//! is below the temporary one, and `<dir>/socket-dir` records it for other processes. The folder
//! belongs to the server's user with mode 0700: access to it is the permission to connect.

use std::{
    fs,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use crate::{DevDbError, account::Account};

/// The shorter of the two systems' limits.
const LONGEST_PATH: usize = 103;

/// Finds or creates the socket's folder, and removes an earlier server's files. Only the cluster's
/// owner calls this.
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

pub(crate) fn locate(dir: &Path) -> PathBuf {
    recorded(dir).unwrap_or_else(|| dir.join("run"))
}

pub(crate) fn remove(dir: &Path) {
    if let Some(folder) = recorded(dir) {
        // Best effort: the record leads the next start to a folder that still exists.
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

/// The recorded folder, if only its owner can enter it.
fn recorded(dir: &Path) -> Option<PathBuf> {
    let folder = PathBuf::from(fs::read_to_string(record(dir)).ok()?);
    let is = fs::symlink_metadata(&folder).ok()?;
    // Other users may create this name in the temporary folder, so the owner must match: the owner
    // of the data, or this process's user after an interrupted start.
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

/// Another process may have the id in a socket's lock file; the server would not start.
fn clear(folder: &Path) -> Result<(), DevDbError> {
    for entry in fs::read_dir(folder).map_err(DevDbError::file("read", folder))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".s.PGSQL.") {
            fs::remove_file(entry.path()).map_err(DevDbError::file("remove", entry.path()))?;
        }
    }
    Ok(())
}
