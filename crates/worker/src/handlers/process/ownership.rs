//! Files of programs that run as another user: accessed with that user's rights, never with the
//! worker's.
//!
//! The user may rename the private directory or replace it by a link, and so lead a worker with
//! more rights to any file. So while a thread accesses such a directory, it has the file rights of
//! that user only (`setfsuid`). It also drops the capabilities that bypass file permissions. It
//! gets its own rights back before it does anything else, also after a panic.

pub(super) mod removal;

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::unistd::{Gid, Uid};

/// Accesses files with the rights of their owner.
///
/// The supplementary groups remain the worker's, so a reader must check the owner of the files.
#[cfg(target_os = "linux")]
pub(super) fn as_owner<T>((uid, gid): (Uid, Gid), act: impl FnOnce() -> T) -> io::Result<T> {
    use nix::unistd::{setfsgid, setfsuid};
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

    /// Restores the thread's own rights, which is always allowed.
    struct OwnAgain(CapabilitySets);

    impl Drop for OwnAgain {
        fn drop(&mut self) {
            setfsuid(nix::unistd::geteuid());
            setfsgid(nix::unistd::getegid());
            // A permitted capability may become effective at any time.
            let (Ok(()) | Err(_)) = set_capabilities(None, self.0);
            hide();
        }
    }

    /// A change of credentials can make the process dumpable again.
    fn hide() {
        // Fails only for invalid values.
        let (Ok(()) | Err(_)) = sched_runtime::shield::hide_process();
    }

    let refused = || io::Error::from_raw_os_error(nix::libc::EPERM);
    if uid.is_root() {
        return Err(refused());
    }
    let own = capabilities(None)?;
    let _own_again = OwnAgain(own);
    // These calls return no error; an invalid number changes nothing.
    setfsgid(gid);
    setfsuid(uid);
    // For root, the kernel drops these automatically.
    let of_files = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::DAC_READ_SEARCH
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::LINUX_IMMUTABLE
        | CapabilitySet::MAC_OVERRIDE
        | CapabilitySet::MKNOD;
    set_capabilities(None, CapabilitySets { effective: own.effective.difference(of_files), ..own })?;
    hide();
    let now = (setfsuid(Uid::from_raw(u32::MAX)), setfsgid(Gid::from_raw(u32::MAX)));
    if now == (uid, gid) { Ok(act()) } else { Err(refused()) }
}

/// On other systems no program runs as another user.
#[cfg(not(target_os = "linux"))]
pub(super) fn as_owner<T>(_: (Uid, Gid), _: impl FnOnce() -> T) -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Removes a directory even if its user has moved it. `folder` is the open directory itself.
pub(super) fn remove(folder: &impl AsFd, path: &Path, owner: (Uid, Gid)) -> io::Result<()> {
    as_owner(owner, || removal::empty(folder))??;
    // In a directory like /tmp only the owner may remove it.
    std::os::unix::fs::fchown(
        folder,
        Some(nix::unistd::geteuid().as_raw()),
        Some(nix::unistd::getegid().as_raw()),
    )?;
    fs::remove_dir(path)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    const OTHER_USER: u32 = 12_345;

    #[test]
    fn thread_takes_owner_rights_and_restores_its_own() {
        let own = nix::unistd::geteuid();
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(place.path(), PermissionsExt::from_mode(0o711)).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let read = || as_owner((Uid::from_raw(OTHER_USER), Gid::from_raw(OTHER_USER)), || fs::read(&file));
        if own.is_root() {
            assert_eq!(read().unwrap().unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            let panicked = std::panic::catch_unwind(|| {
                as_owner::<()>((Uid::from_raw(OTHER_USER), Gid::from_raw(OTHER_USER)), || {
                    panic!("on the way")
                })
            });
            assert!(panicked.is_err());
        } else {
            assert!(read().is_err(), "without the right to change users the access fails");
        }
        assert_eq!(fs::read(&file).unwrap(), b"x");
        assert!(as_owner((Uid::from_raw(0), Gid::from_raw(0)), || ()).is_err(), "root is never an owner");
    }

    #[test]
    fn file_capabilities_are_dropped_while_acting_as_owner() {
        use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: it takes root to become a user with capabilities");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(place.path(), PermissionsExt::from_mode(0o711)).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        // The changes affect this thread only, which no other test uses afterwards.
        let tried = std::thread::spawn(move || {
            let held = CapabilitySet::DAC_OVERRIDE | CapabilitySet::SETUID | CapabilitySet::SETGID;
            let worker = rustix::thread::Uid::from_raw(OTHER_USER + 1);
            rustix::thread::set_keep_capabilities(true).unwrap();
            rustix::thread::set_thread_res_uid(worker, worker, worker).unwrap();
            let sets = capabilities(None).unwrap();
            set_capabilities(None, CapabilitySets { effective: held, permitted: held, ..sets }).unwrap();
            let other_user = (Uid::from_raw(OTHER_USER), Gid::from_raw(OTHER_USER));
            let read = || fs::read(&file);
            let before = read().map_err(|error| error.kind());
            let meanwhile = as_owner(other_user, read).unwrap().map_err(|error| error.kind());
            (
                before,
                meanwhile,
                read().map_err(|error| error.kind()),
                capabilities(None).unwrap().effective == held,
            )
        });
        let own = || Ok(b"x".to_vec());
        assert_eq!(tried.join().unwrap(), (own(), Err(io::ErrorKind::PermissionDenied), own(), true));
    }

    #[test]
    fn moved_directory_does_not_redirect_removal() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: it takes root to give a directory away");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), PermissionsExt::from_mode(0o1777)).unwrap();
        let (path, moved, precious) =
            (place.path().join("its"), place.path().join("moved"), place.path().join("precious"));
        for folder in [&path, &precious] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("args.json"), "x").unwrap();
        }
        let folder = fs::File::open(&path).unwrap();
        for given in [path.join("args.json"), path.clone()] {
            std::os::unix::fs::chown(given, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
        }
        fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        let removed = remove(&folder, &path, (Uid::from_raw(OTHER_USER), Gid::from_raw(OTHER_USER)));
        assert_eq!(removed.unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert!(precious.join("args.json").exists() && !moved.join("args.json").exists());
        assert_eq!(fs::metadata(&moved).unwrap().uid(), 0, "the directory belongs to root again");
    }
}
