//! The private directory of an attempt: arguments, result file, scratch space.
//!
//! It has mode 0700 and an unguessable name, and it is removed with its contents when the attempt
//! is over. A program may be hostile, so its files are read with care (`result_file`). The
//! directory of a program that runs as another user belongs to that user: files that the program
//! starts with are opened before the directory is given away, and later access goes through
//! [`super::ownership`].
//!
//! File operations block: creation runs on a launching thread, closing on the blocking pool. A
//! dropped workspace removes its directory too. If the worker was killed, the next worker that
//! starts there removes the directory: its name contains the identity of its worker. A directory
//! that its program left unchanged may be reused by another attempt
//! ([`crate::handlers::process::dir_pool`]).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid};
use serde_json::Value;
use uuid::Uuid;

use super::super::{Execution, Live, storable};
use super::ownership;
use super::progress::{Follower, PROGRESS};
use crate::handlers::process::dir_pool::{InUse, Look, Spares};
use crate::handlers::process::orphans;

/// Larger results are ignored.
const MAX_RESULT_BYTES: u64 = 1024 * 1024;

/// Name of the result file.
const RESULT: &str = "result.json";

/// Name of the working directory.
pub(super) const WORK: &str = "work";

/// Prefix of the names of private directories.
const PREFIX: &str = "sched-";

/// The private directory of a running attempt.
#[derive(Debug)]
pub(super) struct Workspace {
    path: PathBuf,
    /// The open directory itself, even if its owner moves it.
    folder: OwnedFd,
    /// Arguments and working directory, opened before the directory is given away.
    args: Option<File>,
    work: Option<OwnedFd>,
    /// The owner, if it is not the worker's user.
    owner: Option<(Uid, Gid)>,
    is_removed: bool,
    /// Its state right after it was filled, if the worker owns it.
    filled: Option<Look>,
    in_use: InUse,
}

/// The contents of the directory when it was closed.
#[derive(Debug, Default)]
pub(super) struct Left {
    pub(super) result: Option<Value>,
    /// Problems with the result or with the removal.
    pub(super) notes: Vec<String>,
}

impl Workspace {
    /// Creates the directory below `root`, or takes a spare, and writes the arguments. It belongs
    /// to `owner`, the user of the program, or else to the worker. `mark` is the worker's.
    pub(super) fn create(
        root: &Path,
        execution: &Execution,
        mark: &str,
        owner: Option<(Uid, Gid)>,
        spares: &Arc<Spares>,
    ) -> io::Result<Self> {
        let worker = mark.replace(':', "_");
        let (id, unguessable) = (execution.attempt_id.simple(), Uuid::new_v4().simple());
        let path = root.join(format!("{PREFIX}{worker}-{id}-{unguessable}"));
        let in_use = spares.used();
        // A spare may have held data of the worker's user, so another user never gets it.
        let spare = if owner.is_none() { spares.take(&path) } else { None };
        let is_new = spare.is_none();
        let folder = match spare {
            Some(folder) => folder,
            None => {
                DirBuilder::new().mode(0o700).create(&path)?;
                open_folder(&path).inspect_err(|_| {
                    let (Ok(()) | Err(_)) = fs::remove_dir(&path);
                })?
            }
        };
        // From here on, dropping the workspace removes the directory.
        let (args, work, filled) = (None, None, None);
        let mut workspace = Self { path, folder, args, work, owner: None, is_removed: false, filled, in_use };
        if is_new {
            DirBuilder::new().mode(0o700).create(workspace.work())?;
        }
        workspace.fill(execution, owner)?;
        Ok(workspace)
    }

    fn fill(&mut self, execution: &Execution, owner: Option<(Uid, Gid)>) -> io::Result<()> {
        let mut args = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.args_file())?;
        args.write_all(execution.args.to_string().as_bytes())?;
        self.args = Some(File::open(self.args_file())?);
        if let Some((uid, gid)) = owner {
            self.work = Some(open_folder(&self.work())?);
            // The directory comes last: until then no other user can access its contents.
            for path in [self.args_file(), self.work()] {
                std::os::unix::fs::lchown(path, Some(uid.as_raw()), Some(gid.as_raw()))?;
            }
            std::os::unix::fs::fchown(&self.folder, Some(uid.as_raw()), Some(gid.as_raw()))?;
            self.owner = owner;
        } else {
            self.filled = Some(Look::at(&self.folder, &self.path)?);
        }
        Ok(())
    }

    /// Working directory of a function without `cwd`.
    pub(super) fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    pub(super) fn temp(&self) -> &Path {
        &self.path
    }

    /// Takes the opened arguments.
    pub(super) fn take_args(&mut self) -> Option<File> {
        self.args.take()
    }

    /// Takes the opened working directory. Only for a program that runs as another user.
    pub(super) fn take_work(&mut self) -> Option<OwnedFd> {
        self.work.take()
    }

    pub(super) fn args_file(&self) -> PathBuf {
        self.path.join("args.json")
    }

    pub(super) fn result_file(&self) -> PathBuf {
        self.path.join(RESULT)
    }

    pub(super) fn progress_file(&self) -> PathBuf {
        self.path.join(PROGRESS)
    }

    /// Returns a follower of the progress file.
    pub(super) fn follower(&self, live: &Live) -> Follower {
        // Without a free descriptor the attempt runs without progress.
        Follower::new(self.folder.try_clone().ok(), self.owner, live)
    }

    /// Reads the result and removes the directory, or keeps the directory for another attempt if no
    /// process of this one `survives`.
    pub(super) async fn close(self, survives: bool) -> Left {
        let closed = tokio::task::spawn_blocking(move || self.close_now(survives)).await;
        closed
            .unwrap_or_else(|error| Left { result: None, notes: vec![format!("private directory: {error}")] })
    }

    fn close_now(mut self, survives: bool) -> Left {
        let mut left = Left::default();
        let read = || read_result(&self.folder, self.owner.map(|(uid, _)| uid));
        let read = match self.owner {
            None => read(),
            Some(owner) => {
                ownership::as_owner(owner, read).unwrap_or_else(|error| Err(ResultProblem::Unreadable(error)))
            }
        };
        match read {
            Ok(result) => left.result = result,
            Err(problem) => left.notes.push(format!("the result file was ignored: {problem}")),
        }
        if !survives && self.keep() {
            return left;
        }
        if let Err(error) = self.remove() {
            let path = self.path.display();
            left.notes.push(format!("private directory {path} could not be removed: {error}"));
        }
        left
    }

    /// Keeps the directory for another attempt if the program left it unchanged. Returns whether it
    /// did.
    fn keep(&mut self) -> bool {
        // On other systems the worker cannot find all surviving processes.
        if !cfg!(target_os = "linux") {
            return false;
        }
        let now = Look::at(&self.folder, &self.path).ok();
        if now.is_none() || now != self.filled || fs::remove_file(self.args_file()).is_err() {
            return false;
        }
        self.is_removed = self.in_use.keep(&self.path, &self.folder);
        self.is_removed
    }

    fn remove(&mut self) -> io::Result<()> {
        self.is_removed = true;
        if let Some(owner) = self.owner {
            return ownership::remove(&self.folder, &self.path, owner);
        }
        // Usually these entries are all. Listing the directory is needed only if the program left
        // more.
        for file in [self.args_file(), self.result_file(), self.progress_file()] {
            // A missing file, or another kind of entry, is harmless: the last removal reports
            // errors.
            let (Ok(()) | Err(_)) = fs::remove_file(file);
        }
        let removed = fs::remove_dir(self.work()).and_then(|()| fs::remove_dir(&self.path));
        removed.or_else(|_| fs::remove_dir_all(&self.path))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // An error has no receiver here. The next worker that starts tries again.
        let (Ok(()) | Err(_)) = if self.is_removed { Ok(()) } else { self.remove() };
    }
}

/// Opens a directory. Fails for links and other kinds of files.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    Ok(OpenOptions::new().read(true).custom_flags(flags).open(path)?.into())
}

/// Removes private directories below `root` whose worker is dead, and returns their number.
pub(super) fn remove_those_of_dead_workers(root: &Path, own_mark: &str) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if is_of_dead_worker(&path, own_mark).unwrap_or(false) && remove_left(&path).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// Returns `None` if the path is not a private directory of a worker.
fn is_of_dead_worker(path: &Path, own_mark: &str) -> Option<bool> {
    let (worker, _) = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    // A directory that vanishes during the check was removed by its own worker.
    let is_folder = fs::symlink_metadata(path).ok()?.is_dir();
    is_folder.then(|| orphans::is_mark_of_dead_worker(&worker.replace('_', ":"), own_mark))
}

/// Removes the directory of a dead worker. The directory of a program that ran as another user
/// belongs to that user. It is removed with the owner's rights, so a user who forges such a name
/// loses only own files.
fn remove_left(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.uid() == nix::unistd::geteuid().as_raw() {
        return fs::remove_dir_all(path);
    }
    let owner = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
    let folder = ownership::as_owner(owner, || open_folder(path))??;
    if File::from(folder.try_clone()?).metadata()?.uid() != metadata.uid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    ownership::remove(&folder, path, owner)
}

/// Why a file of the program was ignored.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResultProblem {
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it belongs to another user than the program")]
    NotItsOwn,
    #[error("it is larger than {MAX_RESULT_BYTES} bytes")]
    TooLarge,
    #[error("it is not JSON: {0}")]
    NotJson(serde_json::Error),
}

/// Reads the result file in a directory. The file must belong to `owner`, if given.
fn read_result(folder: &OwnedFd, owner: Option<Uid>) -> Result<Option<Value>, ResultProblem> {
    let Some(file) = open_left(folder, RESULT, owner)? else { return Ok(None) };
    let bytes = read_limited(file)?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    serde_json::from_slice(&bytes).map(|value| Some(storable::json(value))).map_err(ResultProblem::NotJson)
}

/// Opens a file that the program may have written, if it exists. It must be a regular file, and
/// belong to `owner`, if given.
pub(super) fn open_left(
    folder: &OwnedFd,
    name: &str,
    owner: Option<Uid>,
) -> Result<Option<File>, ResultProblem> {
    // O_NONBLOCK: otherwise opening a FIFO would wait for a writer forever.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::ELOOP) => return Err(ResultProblem::NotAFile),
        Err(error) => return Err(ResultProblem::Unreadable(error.into())),
    };
    let metadata = file.metadata().map_err(ResultProblem::Unreadable)?;
    if !metadata.is_file() {
        return Err(ResultProblem::NotAFile);
    }
    if owner.is_some_and(|owner| owner.as_raw() != metadata.uid()) {
        return Err(ResultProblem::NotItsOwn);
    }
    Ok(Some(file))
}

fn read_limited(file: File) -> Result<Vec<u8>, ResultProblem> {
    let mut bytes = Vec::new();
    // Reading one byte beyond the limit detects a file that is too large. Its size could change
    // after a check.
    file.take(MAX_RESULT_BYTES + 1).read_to_end(&mut bytes).map_err(ResultProblem::Unreadable)?;
    if bytes.len() as u64 > MAX_RESULT_BYTES { Err(ResultProblem::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_of(write: impl FnOnce(&Path)) -> Result<Option<Value>, String> {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join(RESULT));
        read_result(&open_folder(dir.path()).unwrap(), None).map_err(|problem| problem.to_string())
    }

    #[test]
    fn a_result_is_read_and_made_storable() {
        assert_eq!(result_of(|_| ()), Ok(None));
        assert_eq!(result_of(|path| fs::write(path, " \n").unwrap()), Ok(None));
        assert_eq!(result_of(|path| fs::write(path, "[1]").unwrap()), Ok(Some(serde_json::json!([1]))));
        let nul = result_of(|path| fs::write(path, r#"{"a": "\u0000"}"#).unwrap());
        assert_eq!(nul, Ok(Some(serde_json::json!({"a": "\u{FFFD}"}))));
    }

    #[test]
    fn a_directory_is_not_kept_while_something_of_its_attempt_survives() {
        let (root, spares) = (tempfile::tempdir().unwrap(), Arc::<Spares>::default());
        let execution = Execution {
            run_id: Uuid::nil(),
            tenant_id: Uuid::nil(),
            job_id: Uuid::nil(),
            attempt_id: Uuid::nil(),
            job_name: String::new(),
            attempt: 1,
            fire_time: chrono::DateTime::UNIX_EPOCH,
            lateness_ms: 0,
            catch_up: false,
            idempotency_key: String::new(),
            args: serde_json::json!({}),
            timeout: std::time::Duration::ZERO,
            traceparent: None,
            handler_config: serde_json::json!({}),
            live: Live::detached(),
            secrets: super::super::super::Secrets::default(),
        };
        let _other = spares.used();
        let there = || fs::read_dir(root.path()).unwrap().count();
        for (survives, left) in [(true, 0), (false, usize::from(cfg!(target_os = "linux")))] {
            let workspace = Workspace::create(root.path(), &execution, "1:2:3:x", None, &spares).unwrap();
            assert_eq!(workspace.close_now(survives).notes, Vec::<String>::new());
            assert_eq!(there(), left);
        }
    }

    #[test]
    fn links_pipes_and_directories_are_no_results() {
        let refused = Err("it is not a regular file".to_owned());
        assert_eq!(result_of(|path| std::os::unix::fs::symlink("/etc/hostname", path).unwrap()), refused);
        assert_eq!(result_of(|path| nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap()), refused);
        assert_eq!(result_of(|path| fs::create_dir(path).unwrap()), refused);
    }

    #[test]
    fn a_result_of_somebody_else_is_none_of_the_programs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open_folder(dir.path()).unwrap();
        fs::write(dir.path().join(RESULT), "1").unwrap();
        let own = nix::unistd::geteuid();
        assert_eq!(read_result(&folder, Some(own)).unwrap(), Some(serde_json::json!(1)));
        let refused = read_result(&folder, Some(Uid::from_raw(own.as_raw() + 1))).unwrap_err();
        assert_eq!(refused.to_string(), "it belongs to another user than the program");
    }

    #[test]
    fn a_result_is_read_in_the_directory_that_was_made_wherever_it_was_moved() {
        let place = tempfile::tempdir().unwrap();
        let (made, moved, other) =
            (place.path().join("made"), place.path().join("moved"), place.path().join("other"));
        fs::create_dir(&made).unwrap();
        let folder = open_folder(&made).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(other.join(RESULT), "\"not for everybody\"").unwrap();
        fs::rename(&made, &moved).unwrap();
        std::os::unix::fs::symlink(&other, &made).unwrap();
        assert_eq!(read_result(&folder, None).unwrap(), None);
    }

    #[test]
    fn the_size_limit_is_exact() {
        let text = |length: u64| format!("\"{}\"", "x".repeat(usize::try_from(length).unwrap() - 2));
        assert!(result_of(|path| fs::write(path, text(MAX_RESULT_BYTES)).unwrap()).unwrap().is_some());
        let over = result_of(|path| fs::write(path, text(MAX_RESULT_BYTES + 1)).unwrap());
        assert_eq!(over, Err("it is larger than 1048576 bytes".to_owned()));
    }

    #[test]
    fn broken_json_is_refused() {
        assert!(result_of(|path| fs::write(path, "{").unwrap()).unwrap_err().starts_with("it is not JSON"));
        let deep = "[".repeat(200_000);
        assert!(result_of(|path| fs::write(path, deep).unwrap()).unwrap_err().starts_with("it is not JSON"));
    }
}
