//! The result file of a program, which may be hostile.
//!
//! The file is opened without following links and without waiting, must be a regular file, and is
//! read up to a limit.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::Uid;
use serde_json::Value;

use super::super::storable;

const MAX_RESULT_BYTES: u64 = 1024 * 1024;

pub(super) const RESULT: &str = "result.json";

/// The file of the program was ignored.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileProblem {
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

/// The file must belong to `owner`, if given.
pub(super) fn read_result(folder: &OwnedFd, owner: Option<Uid>) -> Result<Option<Value>, FileProblem> {
    let Some(file) = open_program_file(folder, RESULT, owner)? else { return Ok(None) };
    let bytes = read_limited(file)?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    serde_json::from_slice(&bytes).map(|value| Some(storable::json(value))).map_err(FileProblem::NotJson)
}

/// The program may have written the file. It must be a regular file, and belong to `owner`, if
/// given.
pub(super) fn open_program_file(
    folder: &OwnedFd,
    name: &str,
    owner: Option<Uid>,
) -> Result<Option<File>, FileProblem> {
    // O_NONBLOCK: opening a FIFO would wait for a writer forever.
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match openat(folder, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::ENOENT) => return Ok(None),
        Err(Errno::ELOOP) => return Err(FileProblem::NotAFile),
        Err(error) => return Err(FileProblem::Unreadable(error.into())),
    };
    let metadata = file.metadata().map_err(FileProblem::Unreadable)?;
    if !metadata.is_file() {
        return Err(FileProblem::NotAFile);
    }
    if owner.is_some_and(|owner| owner.as_raw() != metadata.uid()) {
        return Err(FileProblem::NotItsOwn);
    }
    Ok(Some(file))
}

fn read_limited(file: File) -> Result<Vec<u8>, FileProblem> {
    let mut bytes = Vec::new();
    // One byte beyond the limit detects a large file. A size could change after a check.
    file.take(MAX_RESULT_BYTES + 1).read_to_end(&mut bytes).map_err(FileProblem::Unreadable)?;
    if bytes.len() as u64 > MAX_RESULT_BYTES { Err(FileProblem::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::super::workspace::open_folder;
    use super::*;

    fn result_of(write: impl FnOnce(&Path)) -> Result<Option<Value>, String> {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join(RESULT));
        read_result(&open_folder(dir.path()).unwrap(), None).map_err(|problem| problem.to_string())
    }

    #[test]
    fn result_is_read_and_storable() {
        assert_eq!(result_of(|_| ()), Ok(None));
        assert_eq!(result_of(|path| fs::write(path, " \n").unwrap()), Ok(None));
        assert_eq!(result_of(|path| fs::write(path, "[1]").unwrap()), Ok(Some(serde_json::json!([1]))));
        let nul = result_of(|path| fs::write(path, r#"{"a": "\u0000"}"#).unwrap());
        assert_eq!(nul, Ok(Some(serde_json::json!({"a": "\u{FFFD}"}))));
    }

    #[test]
    fn links_pipes_and_directories_are_rejected() {
        let refused = Err("it is not a regular file".to_owned());
        assert_eq!(result_of(|path| std::os::unix::fs::symlink("/etc/hostname", path).unwrap()), refused);
        assert_eq!(result_of(|path| nix::unistd::mkfifo(path, Mode::S_IRWXU).unwrap()), refused);
        assert_eq!(result_of(|path| fs::create_dir(path).unwrap()), refused);
    }

    #[test]
    fn result_file_owned_by_another_user_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open_folder(dir.path()).unwrap();
        fs::write(dir.path().join(RESULT), "1").unwrap();
        let own = nix::unistd::geteuid();
        assert_eq!(read_result(&folder, Some(own)).unwrap(), Some(serde_json::json!(1)));
        let refused = read_result(&folder, Some(Uid::from_raw(own.as_raw() + 1))).unwrap_err();
        assert_eq!(refused.to_string(), "it belongs to another user than the program");
    }

    #[test]
    fn result_is_read_in_the_opened_directory() {
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
    fn size_limit_of_results_is_exact() {
        let text = |length: u64| format!("\"{}\"", "x".repeat(usize::try_from(length).unwrap() - 2));
        assert!(result_of(|path| fs::write(path, text(MAX_RESULT_BYTES)).unwrap()).unwrap().is_some());
        let over = result_of(|path| fs::write(path, text(MAX_RESULT_BYTES + 1)).unwrap());
        assert_eq!(over, Err("it is larger than 1048576 bytes".to_owned()));
    }

    #[test]
    fn broken_json_is_rejected() {
        assert!(result_of(|path| fs::write(path, "{").unwrap()).unwrap_err().starts_with("it is not JSON"));
        let deep = "[".repeat(200_000);
        assert!(result_of(|path| fs::write(path, deep).unwrap()).unwrap_err().starts_with("it is not JSON"));
    }
}
