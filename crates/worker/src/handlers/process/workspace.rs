//! The private directory of an attempt: arguments, result file, scratch space.
//!
//! It has mode 0700 and an unguessable name. A program may be hostile, so its files are read with
//! care (`result_file`). The directory of a program that runs as another user belongs to that user:
//! files that the program starts with are opened before the directory is given away, and later
//! access goes through [`super::ownership`].
//!
//! File operations block: creation runs on a launching thread, closing on the blocking pool. If the
//! worker was killed, the next worker removes the directory: its name contains the identity of its
//! worker.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::{Gid, Uid};
use serde_json::Value;
use uuid::Uuid;

use super::super::{Execution, Live};
use super::orphans;
use super::ownership::{self, removal};
use super::progress::{Follower, PROGRESS};
use super::result_file::{FileProblem, RESULT, read_result};

const PREFIX: &str = "sched-";
const WORK: &str = "work";

/// The directory in which a worker creates the private directories of its attempts.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkspaceRoot<'a> {
    pub(super) path: &'a Path,
    /// See [`crate::handlers::process::orphans`].
    pub(super) mark: &'a str,
}

/// The private directory of a running attempt.
#[derive(Debug)]
pub(super) struct Workspace {
    path: PathBuf,
    /// The open directory itself, even if its owner moves it.
    folder: OwnedFd,
    /// Opened before the directory is given away.
    args: Option<File>,
    work: Option<OwnedFd>,
    /// If it is not the worker's user.
    owner: Option<(Uid, Gid)>,
    is_gone: bool,
}

#[derive(Debug, Default)]
pub(super) struct Leftovers {
    pub(super) result: Option<Value>,
    pub(super) notes: Vec<String>,
}

impl Workspace {
    /// Creates the directory below `root` and writes the arguments. It belongs to `owner`, the user
    /// of the program, or else to the worker.
    pub(super) fn create(
        root: WorkspaceRoot<'_>,
        execution: &Execution,
        owner: Option<(Uid, Gid)>,
    ) -> io::Result<Self> {
        let WorkspaceRoot { path: root, mark } = root;
        let worker = mark.replace(':', "_");
        let (id, unguessable) = (execution.attempt_id.simple(), Uuid::new_v4().simple());
        let path = root.join(format!("{PREFIX}{worker}-{id}-{unguessable}"));
        DirBuilder::new().mode(0o700).create(&path)?;
        let folder = open_folder(&path).inspect_err(|_| {
            let (Ok(()) | Err(_)) = fs::remove_dir(&path);
        })?;
        // From here on, dropping the workspace removes it.
        let mut workspace = Self { path, folder, args: None, work: None, owner: None, is_gone: false };
        DirBuilder::new().mode(0o700).create(workspace.work())?;
        workspace.fill(execution, owner)?;
        Ok(workspace)
    }

    fn fill(&mut self, execution: &Execution, owner: Option<(Uid, Gid)>) -> io::Result<()> {
        write_new(&self.args_file(), &execution.args)?;
        self.args = Some(File::open(self.args_file())?);
        let upstream = execution.upstream.as_ref().and_then(|upstream| upstream.result.as_ref());
        if let Some(result) = upstream {
            write_new(&self.upstream_file(), result)?;
        }
        if let Some((uid, gid)) = owner {
            self.work = Some(open_folder(&self.work())?);
            // The directory comes last: until then no other user can access its contents.
            let upstream = upstream.map(|_| self.upstream_file());
            for path in [self.args_file(), self.work()].into_iter().chain(upstream) {
                std::os::unix::fs::lchown(path, Some(uid.as_raw()), Some(gid.as_raw()))?;
            }
            std::os::unix::fs::fchown(&self.folder, Some(uid.as_raw()), Some(gid.as_raw()))?;
            self.owner = owner;
        }
        Ok(())
    }

    /// The working directory of a function without `cwd`.
    pub(super) fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    pub(super) fn temp(&self) -> &Path {
        &self.path
    }

    pub(super) fn take_args(&mut self) -> Option<File> {
        self.args.take()
    }

    /// Only for a program that runs as another user.
    pub(super) fn take_work(&mut self) -> Option<OwnedFd> {
        self.work.take()
    }

    pub(super) fn args_file(&self) -> PathBuf {
        self.path.join("args.json")
    }

    /// The result of the run that this run follows.
    pub(super) fn upstream_file(&self) -> PathBuf {
        self.path.join("upstream.json")
    }

    pub(super) fn result_file(&self) -> PathBuf {
        self.path.join(RESULT)
    }

    pub(super) fn progress_file(&self) -> PathBuf {
        self.path.join(PROGRESS)
    }

    pub(super) fn follower(&self, live: &Live) -> Follower {
        // Without a free descriptor the attempt runs without progress.
        Follower::new(self.folder.try_clone().ok(), self.owner, live)
    }

    /// Reads the result and removes the directory.
    pub(super) async fn close(self) -> Leftovers {
        let closed = tokio::task::spawn_blocking(move || self.close_now()).await;
        closed.unwrap_or_else(|error| Leftovers {
            result: None,
            notes: vec![format!("private directory: {error}")],
        })
    }

    fn close_now(mut self) -> Leftovers {
        let mut left = Leftovers::default();
        let read = || read_result(&self.folder, self.owner.map(|(uid, _)| uid));
        let read = match self.owner {
            None => read(),
            Some(owner) => {
                ownership::as_owner(owner, read).unwrap_or_else(|error| Err(FileProblem::Unreadable(error)))
            }
        };
        match read {
            Ok(result) => left.result = result,
            Err(problem) => left.notes.push(format!("the result file was ignored: {problem}")),
        }
        if let Err(error) = self.remove() {
            let path = self.path.display();
            left.notes.push(format!("private directory {path} could not be removed: {error}"));
        }
        left
    }

    fn remove(&mut self) -> io::Result<()> {
        self.is_gone = true;
        if let Some(owner) = self.owner {
            return ownership::remove(&self.folder, &self.path, owner);
        }
        // Listing the directory is needed only if the program left more.
        for file in [self.args_file(), self.upstream_file(), self.result_file(), self.progress_file()] {
            // The last removal reports errors.
            let (Ok(()) | Err(_)) = fs::remove_file(file);
        }
        let removed = fs::remove_dir(self.work()).and_then(|()| fs::remove_dir(&self.path));
        removed.or_else(|_| removal::remove(&self.path))
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // The next worker that starts tries again.
        let (Ok(()) | Err(_)) = if self.is_gone { Ok(()) } else { self.remove() };
    }
}

fn write_new(path: &Path, value: &Value) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(value.to_string().as_bytes())
}

/// Fails for links and other kinds of files.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    Ok(OpenOptions::new().read(true).custom_flags(flags).open(path)?.into())
}

/// Removes private directories below `root` whose worker is dead. Returns their number.
pub(super) fn remove_directories_of_dead_workers(root: &Path, own_mark: &str) -> io::Result<usize> {
    let mut removed = 0;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if is_of_dead_worker(&path, own_mark).unwrap_or(false) && remove_left(&path).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// `None` if the path is not a private directory of a worker.
fn is_of_dead_worker(path: &Path, own_mark: &str) -> Option<bool> {
    let (worker, _) = path.file_name()?.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    // Its own worker removed the directory during the check.
    let is_folder = fs::symlink_metadata(path).ok()?.is_dir();
    is_folder.then(|| orphans::is_mark_of_dead_worker(&worker.replace('_', ":"), own_mark))
}

/// Removes the directory with the rights of its owner: a user that forges such a name loses only own
/// files.
fn remove_left(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.uid() == nix::unistd::geteuid().as_raw() {
        return removal::remove(path);
    }
    let owner = (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()));
    let folder = ownership::as_owner(owner, || removal::open_closed(path))??;
    if File::from(folder.try_clone()?).metadata()?.uid() != metadata.uid() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    ownership::remove(&folder, path, owner)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn closed_directory_of_dead_worker_is_removed() {
        const OTHER_USER: u32 = 12_345;
        let root = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(root.path(), 0o1777);
        let own = orphans::mark_of_this_process("tests");
        let parts: Vec<&str> = own.split(':').collect();
        let [space, pid, _, installation] = parts[..] else { panic!("{own}") };
        // A process with the same id that has started at another time.
        let path = root.path().join(format!("{PREFIX}{space}_{pid}_1_{installation}-attempt"));
        let folders = [path.clone(), path.join("a"), path.join("a/b")];
        for folder in &folders {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("file"), "x").unwrap();
            // Modes apply to other users than root only.
            if nix::unistd::geteuid().is_root() {
                std::os::unix::fs::chown(folder, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
            }
        }
        folders.iter().rev().for_each(|folder| mode(folder, 0o500));
        mode(&path, 0);
        assert_eq!(remove_directories_of_dead_workers(root.path(), &own).unwrap(), 1);
        assert!(!path.exists());
    }
}
