//! The private directory of an attempt: its arguments, its result, its scratch space.
//!
//! Mode 0700, with an unguessable name, removed with everything in it when the attempt is over. The result file is
//! written by a program that may be hostile: it is opened without following links and without waiting, must be a
//! regular file, and is read up to a limit. Blocking file work: creation runs on a launcher thread, closing on the
//! blocking pool. A dropped workspace removes itself too. One whose worker was killed is removed by the next worker that starts
//! there: the name of the directory names its worker.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::{Gid, Uid};
use serde_json::Value;
use tempfile::TempDir;

use super::super::{Execution, storable};
use super::strays;

/// Largest result that is taken.
const MAX_RESULT_BYTES: u64 = 1024 * 1024;

/// How the names of private directories begin.
const PREFIX: &str = "sched-";

/// The private directory of an attempt that runs.
#[derive(Debug)]
pub(super) struct Workspace {
    dir: TempDir,
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
    /// Makes the directory below `root` and writes the arguments into it.
    /// It belongs to `owner`, who is to run there, or else to the worker. `mark` is the worker's.
    pub(super) fn create(
        root: &Path,
        execution: &Execution,
        mark: &str,
        owner: Option<(Uid, Gid)>,
    ) -> io::Result<Self> {
        let private = fs::Permissions::from_mode(0o700);
        let worker = mark.replace(':', "_");
        let prefix = format!("{PREFIX}{worker}-{}-", execution.execution_id.simple());
        let dir = tempfile::Builder::new().prefix(&prefix).permissions(private).tempdir_in(root)?;
        let workspace = Self { dir };
        let mut folder = DirBuilder::new();
        folder.mode(0o700);
        folder.create(workspace.work())?;
        let mut args =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(workspace.args_file())?;
        args.write_all(execution.args.to_string().as_bytes())?;
        if let Some((uid, gid)) = owner {
            // The directory comes last: until then nobody else can get at what is in it.
            for path in [workspace.args_file(), workspace.work(), workspace.dir.path().into()] {
                std::os::unix::fs::lchown(path, Some(uid.as_raw()), Some(gid.as_raw()))?;
            }
        }
        Ok(workspace)
    }

    /// Working directory of a function that names none.
    pub(super) fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Scratch space.
    pub(super) fn temp(&self) -> &Path {
        self.dir.path()
    }

    /// The arguments as JSON.
    pub(super) fn args_file(&self) -> PathBuf {
        self.dir.path().join("args.json")
    }

    /// Where the program may write its result.
    pub(super) fn result_file(&self) -> PathBuf {
        self.dir.path().join("result.json")
    }

    /// Reads the result and removes the directory.
    pub(super) async fn close(self) -> Left {
        let closed = tokio::task::spawn_blocking(move || self.close_now()).await;
        closed
            .unwrap_or_else(|error| Left { result: None, notes: vec![format!("private directory: {error}")] })
    }

    fn close_now(self) -> Left {
        let mut left = Left::default();
        match read_result(&self.result_file()) {
            Ok(result) => left.result = result,
            Err(problem) => left.notes.push(format!("the result file was ignored: {problem}")),
        }
        // What is known to be there mostly is all; only what a program left besides has to be looked for.
        let files = [self.args_file(), self.result_file()];
        let work = self.work();
        let path = self.dir.keep();
        for file in files {
            // One that is not there, or is not a file, is no matter: the last removal tells.
            let (Ok(()) | Err(_)) = fs::remove_file(file);
        }
        let removed = fs::remove_dir(work).and_then(|()| fs::remove_dir(&path));
        if let Err(error) = removed.or_else(|_| fs::remove_dir_all(&path)) {
            left.notes.push(format!("private directory {} could not be removed: {error}", path.display()));
        }
        left
    }
}

/// Removes the private directories below `root` that are ours and whose worker lives no more. Gives their number.
pub(super) fn remove_those_of_dead_workers(root: &Path, own_mark: &str) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if is_of_dead_worker(&path, own_mark).unwrap_or(false) && fs::remove_dir_all(&path).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// `None` for what is no private directory of a worker, or of another user's. Root runs functions as others, to whom their directories
/// belong; removing follows no links, so whoever makes up such a name has nothing but his own removed.
fn is_of_dead_worker(path: &Path, own_mark: &str) -> Option<bool> {
    let (worker, _) = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    // What vanishes while we look has been removed by its own worker.
    let metadata = fs::symlink_metadata(path).ok()?;
    let me = nix::unistd::geteuid();
    let is_ours = metadata.is_dir() && (me.is_root() || metadata.uid() == me.as_raw());
    is_ours.then(|| strays::is_mark_of_dead_worker(&worker.replace('_', ":"), own_mark))
}

/// Why a result file was ignored.
#[derive(Debug, thiserror::Error)]
enum ResultProblem {
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it is larger than {MAX_RESULT_BYTES} bytes")]
    TooLarge,
    #[error("it is not JSON: {0}")]
    NotJson(serde_json::Error),
}

fn read_result(path: &Path) -> Result<Option<Value>, ResultProblem> {
    // O_NONBLOCK: opening a FIFO would wait for a writer for ever.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(nix::libc::ELOOP) => return Err(ResultProblem::NotAFile),
        Err(error) => return Err(ResultProblem::Unreadable(error)),
    };
    if !file.metadata().map_err(ResultProblem::Unreadable)?.is_file() {
        return Err(ResultProblem::NotAFile);
    }
    let bytes = read_limited(file)?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    serde_json::from_slice(&bytes).map(|value| Some(storable::json(value))).map_err(ResultProblem::NotJson)
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
    use nix::sys::stat::Mode;

    fn result_of(write: impl FnOnce(&Path)) -> Result<Option<Value>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("result.json");
        write(&path);
        read_result(&path).map_err(|problem| problem.to_string())
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
    fn links_pipes_and_directories_are_no_results() {
        let refused = Err("it is not a regular file".to_owned());
        assert_eq!(result_of(|path| std::os::unix::fs::symlink("/etc/hostname", path).unwrap()), refused);
        assert_eq!(result_of(|path| nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap()), refused);
        assert_eq!(result_of(|path| fs::create_dir(path).unwrap()), refused);
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
