//! Removes the files that a program left, even in directories to which it has no rights.
//!
//! Each step names an entry of an open directory, and none follows a link, so a process that still
//! runs cannot lead the removal elsewhere. A directory without rights for its owner gets them on
//! the way. Subdirectories move to the top before they are emptied, so a deep tree costs neither
//! stack nor file descriptors.
//!
//! An error does not stop the removal of the rest. The first one is returned. An entry that another
//! process has removed counts as removed.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::NixPath;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat, fstat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use uuid::Uuid;

const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// The error of the removal of a directory as another file.
const IS_FOLDER: Errno = if cfg!(target_os = "linux") { Errno::EISDIR } else { Errno::EPERM };

/// Removes a directory with its contents, or another file. The last component is never followed.
/// Succeeds if there is no such file.
pub(in super::super) fn remove(path: &Path) -> io::Result<()> {
    let (emptied, removed) = match open(AT_FDCWD, path) {
        Ok(folder) => (empty(&folder), unlinkat(AT_FDCWD, path, UnlinkatFlags::RemoveDir)),
        Err(Errno::ENOTDIR | Errno::ELOOP) => (Ok(()), unlinkat(AT_FDCWD, path, UnlinkatFlags::NoRemoveDir)),
        Err(errno) => (Ok(()), Err(errno)),
    };
    match removed {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(emptied.err().unwrap_or_else(|| errno.into())),
    }
}

/// Opens a directory and gives its owner all rights to it. Fails for links and other files.
pub(in super::super) fn open_closed(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(AT_FDCWD, path)?)
}

/// Removes the contents of an open directory.
pub(in super::super) fn empty(folder: &impl AsFd) -> io::Result<()> {
    let top = folder.as_fd();
    permit(top);
    let mut removal = Removal { top, folders: Vec::new(), failure: None };
    removal.clear(top, |_, name| Ok(name));
    while let Some(name) = removal.folders.pop() {
        let removed = open(top, name.as_c_str()).and_then(|folder| {
            removal.clear(folder.as_fd(), |removal, name| removal.raise(folder.as_fd(), &name));
            unlinkat(top, name.as_c_str(), UnlinkatFlags::RemoveDir)
        });
        removal.note(removed);
    }
    removal.failure.map_or(Ok(()), |errno| Err(errno.into()))
}

struct Removal<'a> {
    top: BorrowedFd<'a>,
    /// Directories in `top` that are left.
    folders: Vec<CString>,
    failure: Option<Errno>,
}

impl Removal<'_> {
    /// Removes the files of a directory. `place` returns the name of a subdirectory in `top`.
    fn clear(&mut self, folder: BorrowedFd<'_>, place: impl Fn(&Self, CString) -> Result<CString, Errno>) {
        let mut entries = match Dir::openat(folder, ".", FOLDER, Mode::empty()) {
            Ok(entries) => entries,
            Err(errno) => return self.note(Err(errno)),
        };
        for entry in entries.iter() {
            let name = match entry {
                Ok(entry) => entry.file_name().to_owned(),
                Err(errno) => return self.note(Err(errno)),
            };
            if matches!(name.as_bytes(), b"." | b"..") {
                continue;
            }
            match unlinkat(folder, name.as_c_str(), UnlinkatFlags::NoRemoveDir) {
                Err(errno) if errno == IS_FOLDER => match place(self, name) {
                    Ok(name) => self.folders.push(name),
                    Err(errno) => self.note(Err(errno)),
                },
                removed => self.note(removed),
            }
        }
    }

    /// Moves a subdirectory of `folder` to the top, under an unguessable name.
    fn raise(&self, folder: BorrowedFd<'_>, name: &CString) -> Result<CString, Errno> {
        let raised = CString::new(Uuid::new_v4().simple().to_string()).map_err(|_nul| Errno::EINVAL)?;
        let rename = || renameat(folder, name.as_c_str(), self.top, raised.as_c_str());
        match rename() {
            // A directory that moves must be writable itself.
            Err(Errno::EACCES | Errno::EPERM) => {
                open(folder, name.as_c_str())?;
                rename()?;
            }
            renamed => renamed?,
        }
        Ok(raised)
    }

    fn note(&mut self, done: Result<(), Errno>) {
        if let Err(errno) = done
            && errno != Errno::ENOENT
        {
            self.failure.get_or_insert(errno);
        }
    }
}

fn open<P: NixPath + ?Sized>(at: BorrowedFd<'_>, name: &P) -> Result<OwnedFd, Errno> {
    let folder = match openat(at, name, FOLDER, Mode::empty()) {
        Err(Errno::EACCES) => {
            fchmodat(at, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)?;
            openat(at, name, FOLDER, Mode::empty())?
        }
        opened => opened?,
    };
    permit(folder.as_fd());
    Ok(folder)
}

/// Fails only for a directory of another user, whose removal then reports the error.
fn permit(folder: BorrowedFd<'_>) {
    let has_rights = fstat(folder).is_ok_and(|stat| stat.st_mode & 0o700 == 0o700);
    if !has_rights {
        let (Ok(()) | Err(_)) = fchmod(folder, Mode::S_IRWXU);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use nix::sys::stat::mkdirat;
    use nix::unistd::{Gid, Uid};

    use super::super::as_owner;
    use super::*;

    const OTHER_USER: u32 = 12_345;

    /// Modes apply to other users than root only.
    fn without_rights<T>(act: impl FnOnce() -> T) -> T {
        if nix::unistd::geteuid().is_root() {
            as_owner((Uid::from_raw(OTHER_USER), Gid::from_raw(OTHER_USER)), act).unwrap()
        } else {
            act()
        }
    }

    fn give_away(path: &Path) {
        if nix::unistd::geteuid().is_root() {
            chown(path, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Folders without rights, with files and a link in them.
    fn closed_tree(top: &Path, target: &Path) {
        let folders =
            ["", "read", "read/only", "read/only/deep", "none", "none/in", "write", "write/in", "open"];
        for folder in folders {
            let folder = top.join(folder);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("file"), "x").unwrap();
            symlink(target, folder.join("link")).unwrap();
            give_away(&folder);
        }
        for (folder, mode) in [
            ("read/only/deep", 0o400),
            ("read/only", 0o500),
            ("read", 0o555),
            ("none/in", 0),
            ("none", 0),
            ("write/in", 0o200),
            ("write", 0o300),
        ] {
            set_mode(&top.join(folder), mode);
        }
    }

    #[test]
    fn directory_without_rights_is_removed() {
        let place = tempfile::tempdir().unwrap();
        set_mode(place.path(), 0o777);
        let precious = place.path().join("precious");
        fs::create_dir(&precious).unwrap();
        fs::write(precious.join("file"), "x").unwrap();
        give_away(&precious);
        set_mode(&precious, 0o500);
        let top = place.path().join("top");
        for mode in [0o700, 0o500, 0] {
            closed_tree(&top, &precious);
            set_mode(&top, mode);
            without_rights(|| remove(&top)).unwrap();
            assert!(!top.exists(), "{mode:o}");
        }
        closed_tree(&top, &precious);
        let folder = fs::File::open(&top).unwrap();
        set_mode(&top, 0);
        without_rights(|| empty(&folder)).unwrap();
        assert_eq!(fs::read_dir(&top).unwrap().count(), 0);
        let link = place.path().join("link");
        symlink(&precious, &link).unwrap();
        without_rights(|| open_closed(&link)).unwrap_err();
        without_rights(|| remove(&link)).unwrap();
        assert!(!link.is_symlink());
        assert_eq!(fs::metadata(&precious).unwrap().permissions().mode() & 0o777, 0o500);
        assert_eq!(fs::read(precious.join("file")).unwrap(), b"x");
    }

    #[test]
    fn very_deep_tree_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        fs::create_dir(&top).unwrap();
        let mut folder = open_closed(&top).unwrap();
        // Deeper than the usual limit of open files, and longer than any path.
        for _ in 0..3_000 {
            mkdirat(&folder, "deep", Mode::S_IRWXU).unwrap();
            folder = open(folder.as_fd(), "deep").unwrap();
        }
        remove(&top).unwrap();
        assert!(!top.exists());
    }

    /// Two workers that start remove the directories of the same dead worker.
    #[test]
    fn tree_is_removed_by_two_processes_at_once() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().join("top");
        for folder in 0..300 {
            fs::create_dir_all(top.join(format!("{folder}/in"))).unwrap();
            fs::write(top.join(format!("{folder}/in/file")), "x").unwrap();
        }
        std::thread::scope(|scope| {
            let both = [(); 2].map(|()| scope.spawn(|| remove(&top)));
            // One call may miss a directory that the other one moves.
            let removed = both.map(|one| one.join().unwrap());
            assert!(removed.iter().any(Result::is_ok), "{removed:?}");
        });
        assert!(!top.exists());
    }

    #[test]
    fn removal_continues_after_an_error() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: it takes root to have files of two users");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        set_mode(place.path(), 0o777);
        let top = place.path().join("top");
        closed_tree(&top, place.path());
        let foreign = top.join("open/foreign");
        fs::create_dir(&foreign).unwrap();
        fs::write(foreign.join("file"), "x").unwrap();
        let error = without_rights(|| remove(&top)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let left = fs::read_dir(&top).unwrap().count();
        assert!(left <= 2 && !top.join("read").exists() && !top.join("none").exists(), "{left} are left");
    }
}
