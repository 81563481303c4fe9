//! Reads a file with keys or passwords, only if no other user can read it.
//!
//! The mode is that of the opened file, so an exchange between check and read has no effect. The
//! owner is not checked: service managers pass credentials in files of root. A credential may show a
//! read bit for its group, which is the mask of the list that admits the user of the service.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use secrecy::SecretString;

const LONGEST: u64 = 64 * 1024;
const OF_OTHERS: u32 = 0o077;
const MASK_OF_CREDENTIALS: u32 = 0o040;

#[derive(Debug, thiserror::Error)]
pub enum PrivateFileError {
    #[error("{} cannot be read", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A directory or a device.
    #[error("{} is not a regular file", .path.display())]
    NotAFile { path: PathBuf },
    /// Other users may read or change the file.
    #[error("{} is accessible to other users (mode {mode:03o}); remove their access: chmod 600", .path.display())]
    OpenToOthers { path: PathBuf, mode: u32 },
    #[error("{} is longer than {LONGEST} bytes", .path.display())]
    TooLong { path: PathBuf },
}

/// Returns the text of a private file.
///
/// # Errors
/// If group or world has any permission on it, or it cannot be read.
pub fn read(path: &Path) -> Result<SecretString, PrivateFileError> {
    let unreadable = |source| PrivateFileError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(PrivateFileError::NotAFile { path: path.to_owned() });
    }
    let mode = metadata.permissions().mode() & 0o777;
    let permitted = if is_credential(path) { MASK_OF_CREDENTIALS } else { 0 };
    if mode & OF_OTHERS & !permitted != 0 {
        return Err(PrivateFileError::OpenToOthers { path: path.to_owned(), mode });
    }
    let mut text = String::new();
    let length = file.take(LONGEST + 1).read_to_string(&mut text).map_err(unreadable)?;
    if length as u64 > LONGEST {
        return Err(PrivateFileError::TooLong { path: path.to_owned() });
    }
    Ok(text.into())
}

fn is_credential(path: &Path) -> bool {
    #[expect(
        clippy::disallowed_methods,
        reason = "set by the service manager and not a setting of the operator"
    )]
    let folder = std::env::var_os("CREDENTIALS_DIRECTORY");
    is_in_folder(path, folder.as_deref().map(Path::new))
}

/// Rejects a relative folder, and a path that leaves the folder.
fn is_in_folder(path: &Path, folder: Option<&Path>) -> bool {
    let is_plain = path.components().all(|part| part != Component::ParentDir);
    folder.is_some_and(|folder| folder.is_absolute() && is_plain && path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use secrecy::ExposeSecret as _;

    use super::*;

    fn file(mode: u32, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_of_the_owner_alone_is_read() {
        for mode in [0o400, 0o600, 0o700] {
            let (_folder, path) = file(mode, b"a key");
            assert_eq!(read(&path).unwrap().expose_secret(), "a key");
        }
    }

    #[test]
    fn a_file_that_others_may_touch_is_refused_with_its_mode() {
        for mode in [0o640, 0o604, 0o620, 0o601, 0o666] {
            let (_folder, path) = file(mode, b"canary");
            let text = read(&path).unwrap_err().to_string();
            assert!(text.contains(&format!("{mode:o}")) && text.contains("chmod 600"), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_a_key_file_is_refused_without_being_shown() {
        let (folder, path) = file(0o600, &b"canary\n".repeat(10_000));
        assert!(matches!(read(&path), Err(PrivateFileError::TooLong { .. })));
        assert!(matches!(read(folder.path()), Err(PrivateFileError::NotAFile { .. })));
        assert!(matches!(read(&folder.path().join("none")), Err(PrivateFileError::Unreadable { .. })));
        let (_folder, path) = file(0o600, b"canary \xff");
        let error = read(&path).unwrap_err();
        assert!(!crate::exit::describe(&error).contains("canary"));
    }

    #[test]
    fn only_files_of_the_credentials_folder_are_credentials() {
        let folder = Some(Path::new("/run/credentials/sched-api.service"));
        for (path, folder, expected) in [
            ("/run/credentials/sched-api.service/secrets-key", folder, true),
            ("/run/credentials/sched-api.service/../key", folder, false),
            ("/run/credentials/sched-worker.service/key", folder, false),
            ("/run/credentials/sched-api.service/secrets-key", None, false),
            ("key", Some(Path::new("")), false),
        ] {
            assert_eq!(is_in_folder(Path::new(path), folder), expected, "{path}");
        }
    }
}
