//! The private directory of an attempt: its arguments, its result, its scratch space.
//!
//! Mode 0700, with an unguessable name, removed with everything in it when the attempt is over. The result file is
//! written by a program that may be hostile: it is opened without following links and without waiting, must be a
//! regular file, and is read up to a limit. The directory of a program that runs as another user belongs to that user: what the program
//! begins with is opened before it is given away, and what is in it afterwards is handled by [`super::ownership`]. Blocking file work: creation runs on a launcher thread, closing on the
//! blocking pool. A dropped workspace removes itself too. One whose worker was killed is removed by the next worker that starts
//! there: the name of the directory names its worker. One that its program left as it found it may become another attempt's ([`crate::handlers::process::dir_pool`]).

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

/// Largest result that is taken.
const MAX_RESULT_BYTES: u64 = 1024 * 1024;

/// The file that a result is written to.
const RESULT: &str = "result.json";

/// The directory to work in.
pub(super) const WORK: &str = "work";

/// How the names of private directories begin.
const PREFIX: &str = "sched-";

/// The private directory of an attempt that runs.
#[derive(Debug)]
pub(super) struct Workspace {
    path: PathBuf,
    /// The directory itself, wherever its owner has moved it.
    folder: OwnedFd,
    /// The arguments and the working directory, to be opened only until the directory is given away.
    args: Option<File>,
    work: Option<OwnedFd>,
    /// Whose it is, if not the worker's.
    owner: Option<(Uid, Gid)>,
    is_removed: bool,
    /// How it was when it had been filled, if it is the worker's.
    filled: Option<Look>,
    in_use: InUse,
}

/// What was found in the directory when it was closed.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// The result the program wrote.
    pub(super) result: Option<Value>,
    /// What was wrong with the result or with the removal.
    pub(super) notes: Vec<String>,
}

impl Workspace {
    /// Makes the directory below `root`, or takes a spare, and writes the arguments into it.
    /// It belongs to `owner`, who is to run there, or else to the worker. `mark` is the worker's.
    pub(super) fn create(
        root: &Path,
        execution: &Execution,
        mark: &str,
        owner: Option<(Uid, Gid)>,
        spares: &Arc<Spares>,
    ) -> io::Result<Self> {
        let worker = mark.replace(':', "_");
        let (id, unguessable) = (execution.execution_id.simple(), Uuid::new_v4().simple());
        let path = root.join(format!("{PREFIX}{worker}-{id}-{unguessable}"));
        let in_use = spares.used();
        // What may have been in a spare was the worker's, and becomes nobody else's.
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
        // From here on dropping it removes the directory.
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
            // The directory comes last: until then nobody else can get at what is in it.
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

    /// Working directory of a function that names none.
    pub(super) fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    /// Scratch space.
    pub(super) fn temp(&self) -> &Path {
        &self.path
    }

    /// The arguments, opened; once.
    pub(super) fn take_args(&mut self) -> Option<File> {
        self.args.take()
    }

    /// The working directory, opened; once, and only of a program that runs as another user.
    pub(super) fn take_work(&mut self) -> Option<OwnedFd> {
        self.work.take()
    }

    /// The arguments as JSON.
    pub(super) fn args_file(&self) -> PathBuf {
        self.path.join("args.json")
    }

    /// Where the program may write its result.
    pub(super) fn result_file(&self) -> PathBuf {
        self.path.join(RESULT)
    }

    /// Where the program may write how far it is.
    pub(super) fn progress_file(&self) -> PathBuf {
        self.path.join(PROGRESS)
    }

    /// Looks at that file for those who watch.
    pub(super) fn follower(&self, live: &Live) -> Follower {
        // Where there is no descriptor left for it, the work goes on and nobody sees how far it is.
        Follower::new(self.folder.try_clone().ok(), self.owner, live)
    }

    /// Reads the result and removes the directory, or keeps it for another attempt if nothing of this one `survives`.
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

    /// Keeps the directory for another attempt if the program has left it as it was. Tells whether it has.
    fn keep(&mut self) -> bool {
        // Elsewhere nobody knows of everything that lives on.
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
        // What is known to be there mostly is all; only what a program left besides has to be looked for.
        for file in [self.args_file(), self.result_file(), self.progress_file()] {
            // One that is not there, or is not a file, is no matter: the last removal tells.
            let (Ok(()) | Err(_)) = fs::remove_file(file);
        }
        let removed = fs::remove_dir(self.work()).and_then(|()| fs::remove_dir(&self.path));
        removed.or_else(|_| fs::remove_dir_all(&self.path))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Nobody is there to be told; the next worker that starts here tries again.
        let (Ok(()) | Err(_)) = if self.is_removed { Ok(()) } else { self.remove() };
    }
}

/// Opens a directory, and nothing else.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    Ok(OpenOptions::new().read(true).custom_flags(flags).open(path)?.into())
}

/// Removes the private directories below `root` that are ours and whose worker lives no more. Gives their number.
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

/// `None` for what is no private directory of a worker.
fn is_of_dead_worker(path: &Path, own_mark: &str) -> Option<bool> {
    let (worker, _) = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    // What vanishes while we look has been removed by its own worker.
    let is_folder = fs::symlink_metadata(path).ok()?.is_dir();
    is_folder.then(|| orphans::is_mark_of_dead_worker(&worker.replace('_', ":"), own_mark))
}

/// Removes what a dead worker has left. Directories of programs that ran as others belong to these; they are removed with their owner's
/// rights, so whoever makes up such a name has nothing but his own removed.
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

/// Why a file that a program has written was ignored.
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

/// Reads the result in a directory, which must belong to `owner` if there is one.
fn read_result(folder: &OwnedFd, owner: Option<Uid>) -> Result<Option<Value>, ResultProblem> {
    let Some(file) = open_left(folder, RESULT, owner)? else { return Ok(None) };
    let bytes = read_limited(file)?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    serde_json::from_slice(&bytes).map(|value| Some(storable::json(value))).map_err(ResultProblem::NotJson)
}

/// Opens a file that a program has written in a directory, if there is one; it must be a file, and belong to `owner` if there is one.
pub(super) fn open_left(
    folder: &OwnedFd,
    name: &str,
    owner: Option<Uid>,
) -> Result<Option<File>, ResultProblem> {
    // O_NONBLOCK: opening a FIFO would wait for a writer for ever.
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
    // One byte more than allowed tells too large from just right; the size beforehand could change.
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
            dispatch_id: Uuid::nil(),
            tenant_id: Uuid::nil(),
            job_id: Uuid::nil(),
            execution_id: Uuid::nil(),
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
