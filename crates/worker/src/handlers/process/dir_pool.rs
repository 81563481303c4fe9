//! Pool of private directories that later attempts can reuse.
//!
//! On some file systems, creating and removing two directories costs a short attempt more than its
//! program. So the next attempt reuses a directory that a program left unchanged, with a new name.
//! Unchanged means: by the kernel's timestamps, nothing was added or modified since the worker
//! filled the directory. Because these timestamps are coarse, the directory must also be empty and
//! private to this user. All other directories are removed, including those that belonged to
//! another user, that held a result, or whose attempt left a process that could not be killed.
//!
//! There are at most as many spares as running attempts. A spare has its worker in its name, so the
//! next worker removes those of a killed worker. The lock is never held for a file operation.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use sched_runtime::monotonic_clock::monotonic;

use super::ownership::removal;

pub(super) const WORK: &str = "work";

/// A spare that was unused for this long is removed.
const UNWANTED_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct DirPool {
    spares: Mutex<Vec<SpareDir>>,
    in_use: AtomicUsize,
}

#[derive(Debug)]
pub(super) struct InUse(Arc<DirPool>);

/// Dropping it removes the directory.
#[derive(Debug)]
pub(super) struct SpareDir {
    path: PathBuf,
    /// Device and inode.
    file: (u64, u64),
    since: Instant,
    is_taken: bool,
}

/// State right after the directory and its working directory were filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Snapshot([(u64, u64, i64, i64); 2]);

impl Snapshot {
    /// `folder` is open at `path`.
    pub(super) fn at(folder: &impl AsFd, path: &Path) -> io::Result<Self> {
        let outer = File::from(folder.as_fd().try_clone_to_owned()?).metadata()?;
        let work = fs::symlink_metadata(path.join(WORK))?;
        Ok(Self([&outer, &work].map(|it| (it.dev(), it.ino(), it.ctime(), it.ctime_nsec()))))
    }
}

impl DirPool {
    pub(super) fn used(self: &Arc<Self>) -> InUse {
        self.in_use.fetch_add(1, Ordering::Relaxed);
        InUse(self.clone())
    }

    /// Renames a spare and returns it opened.
    pub(super) fn take(&self, path: &Path) -> Option<OwnedFd> {
        let mut spare = self.spares().pop()?;
        fs::rename(&spare.path, path).ok()?;
        spare.path = path.to_owned();
        // If it is another directory, another process has put it there. Dropping the value removes
        // it.
        let folder = open_folder(path).ok()?;
        let metadata = File::from(folder.try_clone().ok()?).metadata().ok()?;
        if id_of(&metadata) != spare.file || !is_private(&metadata) {
            return None;
        }
        spare.is_taken = true;
        Some(folder)
    }

    /// Dropping them removes the directories, which blocks the thread.
    pub(super) fn unwanted(&self) -> Vec<SpareDir> {
        let is_unwanted = |spare: &mut SpareDir| monotonic().duration_since(spare.since) > UNWANTED_AFTER;
        self.spares().extract_if(.., is_unwanted).collect()
    }

    fn spares(&self) -> MutexGuard<'_, Vec<SpareDir>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InUse {
    /// Keeps the directory at `path` for reuse and returns whether it did. Conditions: other
    /// attempts are running, `path` is still the directory that is open as `folder`, and it
    /// contains only an empty working directory.
    pub(super) fn store(&self, path: &Path, folder: &impl AsFd) -> bool {
        let others = self.0.in_use.load(Ordering::Relaxed).saturating_sub(1);
        if self.0.spares().len() >= others {
            return false;
        }
        let Ok(file) = empty(path, folder) else { return false };
        self.0.spares().push(SpareDir { path: path.to_owned(), file, since: monotonic(), is_taken: false });
        true
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for SpareDir {
    fn drop(&mut self) {
        if !self.is_taken {
            // The next worker that starts tries again.
            let (Ok(()) | Err(_)) = remove(&self.path);
        }
    }
}

/// Only if the directory is empty.
fn empty(path: &Path, folder: &impl AsFd) -> io::Result<(u64, u64)> {
    let other = || io::Error::from(io::ErrorKind::DirectoryNotEmpty);
    let opened = File::from(folder.as_fd().try_clone_to_owned()?).metadata()?;
    let work = path.join(WORK);
    for (at, is_same) in [(path, true), (&work, false)] {
        let metadata = fs::symlink_metadata(at)?;
        if !is_private(&metadata) || (is_same && id_of(&metadata) != id_of(&opened)) {
            return Err(other());
        }
    }
    let names: Vec<_> =
        fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<_>>()?;
    if names != [WORK] || fs::read_dir(&work)?.next().is_some() {
        return Err(other());
    }
    Ok(id_of(&opened))
}

/// Also removes anything that replaced the working directory. Never follows links.
fn remove(path: &Path) -> io::Result<()> {
    let is_folder = fs::symlink_metadata(path)?.is_dir();
    let removed =
        if is_folder { fs::remove_dir(path.join(WORK)) } else { Err(io::ErrorKind::NotADirectory.into()) };
    // Listing the directory needs file descriptors, which may be exhausted.
    removed.and_then(|()| fs::remove_dir(path)).or_else(|_| removal::remove(path))
}

/// Fails for links and other kinds of files.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let flags = (OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits();
    Ok(OpenOptions::new().read(true).custom_flags(flags).open(path)?.into())
}

fn id_of(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// A directory of this user without access for other users.
fn is_private(metadata: &Metadata) -> bool {
    metadata.is_dir()
        && metadata.mode() & 0o7777 == 0o700
        && metadata.uid() == nix::unistd::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Used {
        path: PathBuf,
        folder: OwnedFd,
        filled: Snapshot,
        in_use: InUse,
    }

    fn used(root: &Path, name: &str, spares: &Arc<DirPool>) -> Used {
        let path = root.join(name);
        fs::create_dir_all(path.join(WORK)).unwrap();
        for made in [&path, &path.join(WORK)] {
            fs::set_permissions(made, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let folder = open_folder(&path).unwrap();
        let filled = Snapshot::at(&folder, &path).unwrap();
        Used { path, folder, filled, in_use: spares.used() }
    }

    fn names(root: &Path) -> Vec<String> {
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn directory_is_kept_while_another_attempt_runs() {
        let (root, spares) = (tempfile::tempdir().unwrap(), Arc::<DirPool>::default());
        let root = root.path();
        let (a, b) = (used(root, "a", &spares), used(root, "b", &spares));
        assert!(a.in_use.store(&a.path, &a.folder));
        assert!(!b.in_use.store(&b.path, &b.folder), "one for the one other that is under way");
        let taken = spares.take(&root.join("c")).unwrap();
        assert!(root.join("c").join(WORK).is_dir() && !a.path.exists());
        assert_eq!(
            Snapshot::at(&taken, &root.join("c")).unwrap().0[0].1,
            a.filled.0[0].1,
            "the same directory"
        );
        assert!(spares.take(&root.join("d")).is_none(), "there was one");
        drop(a);
        assert!(!b.in_use.store(&b.path, &b.folder), "no other attempt is running");
    }

    #[test]
    fn unused_spares_are_removed() {
        let (root, spares) = (tempfile::tempdir().unwrap(), Arc::<DirPool>::default());
        let root = root.path();
        let (a, b, c) = (used(root, "a", &spares), used(root, "b", &spares), used(root, "c", &spares));
        assert!(a.in_use.store(&a.path, &a.folder) && b.in_use.store(&b.path, &b.folder));
        drop(spares.unwanted());
        assert_eq!(names(root).len(), 3, "not at once");
        spares.spares()[0].since = monotonic().checked_sub(UNWANTED_AFTER * 2).unwrap();
        drop(spares.unwanted());
        assert!(!a.path.exists() && b.path.exists());
        drop((a, b, c, spares));
        assert_eq!(names(root), ["c"], "with their worker");
    }

    #[test]
    fn changed_directory_is_not_kept() {
        type Change = fn(&Path);
        let changes: [(&str, Change, bool); 7] = [
            ("nothing", |_| (), true),
            ("a file", |path| fs::write(path.join("file"), "x").unwrap(), false),
            ("a file to work with", |path| fs::write(path.join(WORK).join("file"), "x").unwrap(), false),
            (
                "open to all",
                |path| fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap(),
                false,
            ),
            (
                "a group's",
                |path| fs::set_permissions(path.join(WORK), PermissionsExt::from_mode(0o2700)).unwrap(),
                false,
            ),
            (
                "a link to work in",
                |path| {
                    fs::remove_dir(path.join(WORK)).unwrap();
                    symlink("/tmp", path.join(WORK)).unwrap();
                },
                false,
            ),
            (
                "another one",
                |path| {
                    fs::rename(path, path.with_extension("moved")).unwrap();
                    fs::create_dir_all(path.join(WORK)).unwrap();
                    for made in [path, &path.join(WORK)] {
                        fs::set_permissions(made, PermissionsExt::from_mode(0o700)).unwrap();
                    }
                },
                false,
            ),
        ];
        for (what, change, is_kept) in changes {
            let (root, spares) = (tempfile::tempdir().unwrap(), Arc::<DirPool>::default());
            let it = used(root.path(), "a", &spares);
            let _other = spares.used();
            change(&it.path);
            assert_eq!(it.in_use.store(&it.path, &it.folder), is_kept, "{what}");
        }
    }

    #[test]
    fn timestamps_reveal_undone_changes() {
        let (root, spares) = (tempfile::tempdir().unwrap(), Arc::<DirPool>::default());
        let it = used(root.path(), "a", &spares);
        assert_eq!(Snapshot::at(&it.folder, &it.path).unwrap(), it.filled);
        let started = monotonic();
        while Snapshot::at(&it.folder, &it.path).unwrap() == it.filled {
            assert!(monotonic().duration_since(started) < Duration::from_secs(10), "no time passes here");
            fs::write(it.path.join(WORK).join("file"), "x").unwrap();
            fs::remove_file(it.path.join(WORK).join("file")).unwrap();
        }
    }

    #[test]
    fn replaced_spare_is_not_taken() {
        let (root, spares) = (tempfile::tempdir().unwrap(), Arc::<DirPool>::default());
        let root = root.path();
        let (a, _b) = (used(root, "a", &spares), used(root, "b", &spares));
        assert!(a.in_use.store(&a.path, &a.folder));
        fs::rename(&a.path, root.join("moved")).unwrap();
        symlink(root.join("b"), &a.path).unwrap();
        assert!(spares.take(&root.join("c")).is_none());
        assert!(root.join("b").join(WORK).is_dir(), "what a link leads to is let alone");
    }
}
