//! The directory of `schedctl dev`: its lock, its parts, and the description for other commands.
//!
//! The system releases the lock on `dev.lock` at any end of the process. The description `dev.toml`
//! exists while `dev` runs, and is replaced atomically. After a `kill -9` it stays, and its process
//! ids show the next `dev` which processes to wait for.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::sys::signal::kill;
use nix::unistd::Pid;
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, Serialize};

use crate::secret_keys::new_key;

const DESCRIPTION: &str = "dev.toml";
const LOCK: &str = "dev.lock";
const SECRET_KEYS: &str = "secrets.key";
const API_KEY: &str = "api.key";
const HEADER: &str = "# Written by `schedctl dev` while it runs; other commands find it here.\n";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) api_url: String,
    pub(crate) database_url: String,
    /// `schedctl` first.
    #[serde(default)]
    pub(crate) processes: Vec<ProcessEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessEntry {
    pub(crate) name: String,
    pub(crate) pid: i32,
    /// `None` for `schedctl` itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) health_url: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    #[error(
        "`schedctl dev` already runs in {}{}; use it, stop it, or choose another directory with --data-dir",
        .dir.display(), .owner.map(|pid| format!(" (process {pid})")).unwrap_or_default()
    )]
    Owned { dir: PathBuf, owner: Option<i32> },
    #[error("could not {action} {}", .path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is damaged; remove it, the next `schedctl dev` writes it again", .path.display())]
    Damaged {
        path: PathBuf,
        #[source]
        source: Box<toml::de::Error>,
    },
    #[error("could not write the description of the processes in {}", .path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: toml::ser::Error,
    },
}

fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError::File { action, path, source }
}

/// Does not try the lock, which a starting `dev` may need at this moment.
pub(crate) fn is_running(description: &Path) -> bool {
    let described = read_description(description).ok().flatten();
    let owner = described.and_then(|found| found.processes.into_iter().next());
    owner.is_some_and(|owner| kill(Pid::from_raw(owner.pid), None).is_ok())
}

/// Owned by this process while the value lives.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: PathBuf,
    _lock: File,
}

impl Folder {
    /// Also creates the directory.
    pub(crate) fn own(dir: &Path) -> Result<Self, FolderError> {
        if !dir.is_dir() {
            fs::create_dir_all(dir).map_err(file("create", dir))?;
            // As root, PostgreSQL runs as another user, which needs to traverse the directory.
            let mode = if nix::unistd::geteuid().is_root() { 0o711 } else { 0o700 };
            fs::set_permissions(dir, Permissions::from_mode(mode))
                .map_err(file("change the mode of", dir))?;
        }
        let dir = fs::canonicalize(dir).map_err(file("resolve", dir))?;
        let path = dir.join(LOCK);
        let lock = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let lock = lock.map_err(file("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // The owner of the lock may not have written the description yet.
                let described = read_description(&description_of(&dir)).ok().flatten();
                let owner = described.and_then(|found| found.processes.first().map(|first| first.pid));
                return Err(FolderError::Owned { dir, owner });
            }
            Err(TryLockError::Error(source)) => return Err(file("lock", &path)(source)),
        }
        let folder = Self { dir, _lock: lock };
        let ignore = folder.dir.join(".gitignore");
        if !ignore.exists() {
            fs::write(&ignore, "*\n").map_err(file("write", &ignore))?;
        }
        Ok(folder)
    }

    /// Absolute, without symbolic links.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn postgres(&self) -> PathBuf {
        self.dir.join("pg")
    }

    pub(crate) fn backups(&self) -> Result<PathBuf, FolderError> {
        let path = self.dir.join("backups");
        if !path.is_dir() {
            fs::create_dir(&path).map_err(file("create", &path))?;
            fs::set_permissions(&path, Permissions::from_mode(0o700))
                .map_err(file("change the mode of", &path))?;
        }
        Ok(path)
    }

    /// Created if it is missing, with access only for its owner.
    pub(crate) fn secret_keys(&self) -> Result<PathBuf, FolderError> {
        let path = self.dir.join(SECRET_KEYS);
        if !path.exists() {
            write_private(&path, &new_key("dev"))?;
        }
        Ok(path)
    }

    /// The file may not exist yet.
    pub(crate) fn api_key(&self) -> PathBuf {
        self.dir.join(API_KEY)
    }

    /// Stores the API key of the owner. Only the user has access.
    pub(crate) fn store_api_key(&self, key: &SecretString) -> Result<(), FolderError> {
        let line = SecretString::from(format!("{}\n", key.expose_secret()));
        write_private(&self.api_key(), &line)
    }

    pub(crate) fn leftover_processes(&self) -> Result<Vec<ProcessEntry>, FolderError> {
        Ok(read_description(&description_of(&self.dir))?.map(|found| found.processes).unwrap_or_default())
    }

    pub(crate) fn describe(&self, description: &Description) -> Result<(), FolderError> {
        write_description(&self.dir, description)
    }

    pub(crate) fn forget(&self) -> Result<(), FolderError> {
        remove(&description_of(&self.dir), |path| fs::remove_file(path))
    }

    /// PostgreSQL must not run.
    pub(crate) fn clear(&self) -> Result<(), FolderError> {
        remove(&self.postgres(), |path| fs::remove_dir_all(path))?;
        remove(&self.dir.join("backups"), |path| fs::remove_dir_all(path))?;
        remove(&self.dir.join(SECRET_KEYS), |path| fs::remove_file(path))?;
        remove(&self.api_key(), |path| fs::remove_file(path))?;
        self.forget()
    }
}

pub(crate) fn description_of(dir: &Path) -> PathBuf {
    dir.join(DESCRIPTION)
}

/// `None` if the file does not exist.
pub(crate) fn read_description(path: &Path) -> Result<Option<Description>, FolderError> {
    match fs::read_to_string(path) {
        Ok(text) => toml::from_str(&text)
            .map(Some)
            .map_err(|source| FolderError::Damaged { path: path.to_owned(), source: Box::new(source) }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(file("read", path)(source)),
    }
}

/// Replaces the description of a directory. Only the owner has access.
pub(crate) fn write_description(dir: &Path, description: &Description) -> Result<(), FolderError> {
    let path = description_of(dir);
    let text = toml::to_string(description)
        .map_err(|source| FolderError::Unwritable { path: path.clone(), source })?;
    let new = dir.join("dev.toml.new");
    // A file of an interrupted write keeps its mode, so it is not reused.
    remove(&new, |path| fs::remove_file(path))?;
    let opened = File::options().create_new(true).write(true).mode(0o600).open(&new);
    let mut writer = opened.map_err(file("create", &new))?;
    writer.write_all(format!("{HEADER}{text}").as_bytes()).map_err(file("write", &new))?;
    fs::rename(&new, &path).map_err(file("replace", &path))
}

/// The file may not exist.
fn remove(path: &Path, how: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), FolderError> {
    match how(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file("remove", path)(error)),
        _ => Ok(()),
    }
}

pub(crate) fn secret_keys_beside(description: &Path) -> PathBuf {
    description.with_file_name(SECRET_KEYS)
}

pub(crate) fn api_key_beside(description: &Path) -> PathBuf {
    description.with_file_name(API_KEY)
}

/// Only the owner has access. Replaces the file atomically.
fn write_private(path: &Path, text: &SecretString) -> Result<(), FolderError> {
    let new = path.with_added_extension("new");
    // A file of an interrupted start may contain half a key.
    remove(&new, |path| fs::remove_file(path))?;
    let opened = File::options().create_new(true).write(true).mode(0o600).open(&new);
    let mut writer = opened.map_err(file("create", &new))?;
    writer.write_all(text.expose_secret().as_bytes()).map_err(file("write", &new))?;
    writer.sync_all().map_err(file("write", &new))?;
    fs::rename(&new, path).map_err(file("replace", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description() -> Description {
        Description {
            api_url: "http://127.0.0.1:8080".into(),
            database_url: "postgresql://postgres@%2Ftmp%2Fx/sched".into(),
            processes: vec![
                ProcessEntry { name: "schedctl".into(), pid: 11, health_url: None },
                ProcessEntry {
                    name: "api".into(),
                    pid: 12,
                    health_url: Some("http://127.0.0.1:1/health".into()),
                },
            ],
        }
    }

    #[test]
    fn a_description_is_read_as_it_was_written_and_is_private() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::own(&root.path().join("data")).unwrap();
        assert!(folder.leftover_processes().unwrap().is_empty());
        folder.describe(&description()).unwrap();
        let path = description_of(folder.dir());
        assert_eq!(read_description(&path).unwrap(), Some(description()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(folder.leftover_processes().unwrap(), description().processes);
        folder.forget().unwrap();
        assert_eq!(read_description(&path).unwrap(), None);
        folder.forget().unwrap();
    }

    #[test]
    fn the_one_that_wrote_a_description_runs_as_long_as_its_process_does() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::own(root.path()).unwrap();
        let path = description_of(folder.dir());
        assert!(!is_running(&path), "nothing is described");
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut described = description();
        described.processes[0].pid = i32::try_from(child.id()).unwrap();
        folder.describe(&described).unwrap();
        assert!(is_running(&path));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_running(&path));
    }

    #[test]
    fn a_second_owner_is_told_who_the_first_is() {
        let root = tempfile::tempdir().unwrap();
        let first = Folder::own(root.path()).unwrap();
        first.describe(&description()).unwrap();
        let error = Folder::own(root.path()).unwrap_err().to_string();
        assert!(error.contains("runs in") && error.contains("process 11"), "{error}");
        drop(first);
        Folder::own(root.path()).unwrap();
    }

    #[test]
    fn the_keys_of_secrets_are_made_once_and_private() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::own(root.path()).unwrap();
        let path = folder.secret_keys().unwrap();
        let first = sched_runtime::private_file::read(&path).unwrap();
        sched_model::domain::secret::SecretKeys::parse(first.expose_secret()).unwrap();
        assert_eq!(folder.secret_keys().unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), first.expose_secret());
        folder.store_api_key(&"a key".to_owned().into()).unwrap();
        folder.store_api_key(&"another".to_owned().into()).unwrap();
        let kept = sched_runtime::private_file::read(&api_key_beside(&description_of(folder.dir()))).unwrap();
        assert_eq!(kept.expose_secret(), "another\n");
        folder.clear().unwrap();
        assert!(!folder.api_key().exists());
        assert!(!path.exists(), "what they open is gone as well");
    }

    #[test]
    fn clearing_removes_the_data_and_keeps_strangers_files() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::own(root.path()).unwrap();
        fs::create_dir_all(folder.postgres().join("data")).unwrap();
        folder.backups().unwrap();
        fs::write(folder.dir().join("notes.txt"), "mine").unwrap();
        folder.clear().unwrap();
        assert!(!folder.postgres().exists() && !folder.dir().join("backups").exists());
        assert!(folder.dir().join("notes.txt").exists());
        folder.clear().unwrap();
    }

    #[test]
    fn a_damaged_description_names_the_file_and_the_way_out() {
        let root = tempfile::tempdir().unwrap();
        let path = description_of(root.path());
        fs::write(&path, "api_url = 7").unwrap();
        let error = read_description(&path).unwrap_err();
        assert!(error.to_string().contains("remove it"), "{error}");
    }
}
