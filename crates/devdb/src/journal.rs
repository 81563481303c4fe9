//! The server's log: `<dir>/log`, with the older lines in `<dir>/log.1`.
//!
//! Lines can contain values of statements, so only the owner has access. Root's folder is passable
//! for other users.
//!
//! The server appends directly, so its last lines outlive the owner. A thread of the owner cuts a
//! long log every half minute. Lines between the copy and the cut are lost.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::DevDbError;

/// Limit of each of the two files.
const LONGEST: u64 = 8 * 1024 * 1024;
const PERIOD: Duration = Duration::from_secs(30);
const PRIVATE: u32 = 0o600;

#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    start: u64,
    /// A drop ends the thread.
    _stop: mpsc::Sender<()>,
}

impl Journal {
    /// Opens the log; the returned file is for the server's output.
    pub(crate) fn open(dir: &Path) -> Result<(Self, File), DevDbError> {
        let path = dir.join("log");
        // Best effort: an uncut log must not prevent the start of the database.
        drop(cut(&path, LONGEST));
        let opened = File::options().append(true).create(true).mode(PRIVATE).open(&path);
        let file = opened.map_err(DevDbError::file("open", &path))?;
        restrict(&path).map_err(DevDbError::file("change the mode of", &path))?;
        let start = file.metadata().map_or(0, |metadata| metadata.len());
        let (stop, stopped) = mpsc::channel();
        let watched = path.clone();
        thread::spawn(move || {
            while stopped.recv_timeout(PERIOD) == Err(mpsc::RecvTimeoutError::Timeout) {
                drop(cut(&watched, LONGEST));
            }
        });
        Ok((Self { path, start, _stop: stop }, file))
    }

    pub(crate) fn tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut file = File::open(&self.path)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(self.start.min(length).max(length.saturating_sub(4096))))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        read().unwrap_or_default()
    }
}

/// Closes the files of an older version, which other users could read.
fn restrict(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(PRIVATE))?;
    match fs::set_permissions(older(path), Permissions::from_mode(PRIVATE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn older(path: &Path) -> PathBuf {
    path.with_extension("1")
}

/// Moves a log longer than `longest` to `log.1`. The file itself stays: the server holds it open.
fn cut(path: &Path, longest: u64) -> io::Result<()> {
    if fs::metadata(path)?.len() <= longest {
        return Ok(());
    }
    fs::copy(path, older(path))?;
    File::options().write(true).open(path)?.set_len(0)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_long_log_is_cut_and_its_writer_goes_on_from_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut writer = File::options().append(true).create(true).open(&path).unwrap();
        writer.write_all(b"0123456789").unwrap();
        cut(&path, 10).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "0123456789", "not longer than the limit");
        writer.write_all(b"!").unwrap();
        cut(&path, 10).unwrap();
        writer.write_all(b"next").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "next");
        assert_eq!(fs::read_to_string(dir.path().join("log.1")).unwrap(), "0123456789!");
    }

    #[test]
    fn log_is_readable_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let [log, older] = ["log", "log.1"].map(|name| dir.path().join(name));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        drop(Journal::open(dir.path()).unwrap());
        assert_eq!(mode(&log), 0o600);
        for path in [&log, &older] {
            fs::write(path, "DETAIL: a value").unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        }
        drop(Journal::open(dir.path()).unwrap());
        assert_eq!((mode(&log), mode(&older)), (0o600, 0o600));
        cut(&log, 1).unwrap();
        assert_eq!((mode(&log), mode(&older)), (0o600, 0o600));
    }
}
