//! Finds the installed PostgreSQL server programs.
//!
//! Distributions keep these programs off `PATH`, so the usual places are first. The newest version
//! among those wins.

use std::{
    cmp::Reverse,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::DevDbError;

/// The oldest tested major version.
pub const OLDEST_SERVER: u32 = 15;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerBinaries {
    dir: PathBuf,
    major: u32,
    version: String,
}

impl ServerBinaries {
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn major(&self) -> u32 {
        self.major
    }

    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn probe(dir: &Path) -> Option<Self> {
        if !dir.join("initdb").is_file() {
            return None;
        }
        let output = Command::new(dir.join("postgres")).arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // `postgres (PostgreSQL) 15.18 (Debian 15.18-1)`, `postgres (PostgreSQL) 19devel`.
        let version = text.split_whitespace().nth(2)?.to_owned();
        let major = version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        Some(Self { dir: dir.to_owned(), major, version })
    }
}

/// The server in `explicit`, otherwise the newest installed one.
///
/// Searches the folders of Debian, Homebrew and Postgres.app, `pg_config --bindir`, and `PATH`.
///
/// # Errors
///
/// If no server of version [`OLDEST_SERVER`] or newer exists; the message names the package.
pub fn find_server(explicit: Option<&Path>) -> Result<ServerBinaries, DevDbError> {
    choose(explicit, None, &Places::of_this_machine())
}

/// Like [`find_server`], for the major version of the data in `dir`.
pub(crate) fn find_server_for(
    explicit: Option<&Path>,
    major: u32,
    dir: &Path,
) -> Result<ServerBinaries, DevDbError> {
    let wrong = || DevDbError::OtherMajorVersion { dir: dir.to_owned(), needed: major };
    match choose(explicit, Some(major), &Places::of_this_machine()) {
        Ok(server) if server.major == major => Ok(server),
        Ok(_) => Err(wrong()),
        Err(DevDbError::ServerNotFound { .. }) => Err(wrong()),
        Err(error) => Err(error),
    }
}

struct Places {
    /// Folders with one sub-folder per version, and the path below it.
    versioned: Vec<(PathBuf, &'static str)>,
    path: OsString,
}

impl Places {
    fn of_this_machine() -> Self {
        #[expect(
            clippy::disallowed_methods,
            reason = "PATH is no setting of ours; programs are looked up on it"
        )]
        let path = std::env::var_os("PATH").unwrap_or_default();
        let versioned = vec![
            (PathBuf::from("/usr/lib/postgresql"), "bin"),
            (PathBuf::from("/opt/homebrew/opt"), "bin"),
            (PathBuf::from("/usr/local/opt"), "bin"),
            (PathBuf::from("/Applications/Postgres.app/Contents/Versions"), "bin"),
        ];
        Self { versioned, path }
    }

    /// Candidate `bin` folders: newest version first, then `pg_config`, then `PATH`.
    fn candidates(&self) -> Vec<PathBuf> {
        let mut versioned: Vec<(u32, PathBuf)> = Vec::new();
        for (root, below) in &self.versioned {
            for entry in fs::read_dir(root).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                // Debian and Postgres.app name the folder `17`, Homebrew `postgresql@17`.
                // `postgresql` is Homebrew's alias of one of those.
                if let Ok(major) = name.trim_start_matches("postgresql@").parse() {
                    versioned.push((major, entry.path().join(below)));
                }
            }
        }
        versioned.sort_by_key(|(major, _)| Reverse(*major));
        let mut found: Vec<PathBuf> = versioned.into_iter().map(|(_, dir)| dir).collect();
        found.extend(self.pg_config());
        found.extend(std::env::split_paths(&self.path).filter(|dir| dir.join("postgres").is_file()));
        found
    }

    fn pg_config(&self) -> Option<PathBuf> {
        let program =
            std::env::split_paths(&self.path).map(|dir| dir.join("pg_config")).find(|p| p.is_file())?;
        let output = Command::new(program).arg("--bindir").output().ok()?;
        Some(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    }
}

fn choose(
    explicit: Option<&Path>,
    major: Option<u32>,
    places: &Places,
) -> Result<ServerBinaries, DevDbError> {
    if let Some(dir) = explicit {
        let server =
            ServerBinaries::probe(dir).ok_or_else(|| DevDbError::NotAServer { dir: dir.to_owned() })?;
        if server.major < OLDEST_SERVER {
            return Err(DevDbError::ServerTooOld { dir: server.dir, version: server.version });
        }
        return Ok(server);
    }
    let mut too_old = Vec::new();
    for server in places.candidates().iter().filter_map(|dir| ServerBinaries::probe(dir)) {
        if server.major < OLDEST_SERVER {
            too_old.push(format!("{} in {}", server.version, server.dir.display()));
        } else if major.is_none_or(|wanted| wanted == server.major) {
            return Ok(server);
        }
    }
    Err(DevDbError::ServerNotFound { too_old })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Writes programs that answer `--version` like a server of `version`.
    fn fake_server(bin: &Path, version: &str) {
        fs::create_dir_all(bin).unwrap();
        for name in ["initdb", "postgres"] {
            let path = bin.join(name);
            fs::write(&path, format!("#!/bin/sh\necho '{name} (PostgreSQL) {version} (Test)'\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    fn places(root: &Path) -> Places {
        Places { versioned: vec![(root.to_owned(), "bin")], path: OsString::new() }
    }

    #[test]
    fn the_newest_version_is_chosen_by_number_not_by_name() {
        let root = tempfile::tempdir().unwrap();
        for version in ["9", "15", "18", "100"] {
            fake_server(&root.path().join(version).join("bin"), &format!("{version}.2"));
        }
        let server = choose(None, None, &places(root.path())).unwrap();
        assert_eq!((server.major(), server.version()), (100, "100.2"));
        assert_eq!(choose(None, Some(15), &places(root.path())).unwrap().major(), 15);
    }

    #[test]
    fn homebrew_folders_and_development_versions_are_understood() {
        let root = tempfile::tempdir().unwrap();
        fake_server(&root.path().join("postgresql@17").join("bin"), "19devel");
        let server = choose(None, None, &places(root.path())).unwrap();
        assert_eq!((server.major(), server.version()), (19, "19devel"));
    }

    #[test]
    fn a_server_on_the_path_is_the_last_resort() {
        let root = tempfile::tempdir().unwrap();
        fake_server(&root.path().join("tools"), "16.1");
        let places = Places { versioned: Vec::new(), path: root.path().join("tools").into_os_string() };
        assert_eq!(choose(None, None, &places).unwrap().major(), 16);
    }

    #[test]
    fn without_a_server_the_message_says_what_to_install() {
        let root = tempfile::tempdir().unwrap();
        fake_server(&root.path().join("13").join("bin"), "13.4");
        let error = choose(None, None, &places(root.path())).unwrap_err().to_string();
        for part in ["version 15 or newer", "13.4 in", "apt-get install postgresql", "brew install"] {
            assert!(error.contains(part), "{part:?} is missing in: {error}");
        }
    }

    #[test]
    fn an_explicit_folder_is_never_replaced_by_another() {
        let root = tempfile::tempdir().unwrap();
        fake_server(&root.path().join("17").join("bin"), "17.0");
        let empty = root.path().join("empty");
        assert!(matches!(
            choose(Some(&empty), None, &places(root.path())),
            Err(DevDbError::NotAServer { .. })
        ));
        let old = root.path().join("old");
        fake_server(&old, "12.1");
        assert!(matches!(
            choose(Some(&old), None, &places(root.path())),
            Err(DevDbError::ServerTooOld { .. })
        ));
    }

    #[test]
    fn data_of_a_version_that_is_not_installed_names_that_version() {
        let error = find_server_for(None, 8, Path::new("some/dir")).unwrap_err().to_string();
        assert!(error.contains("PostgreSQL 8"), "{error}");
        assert!(error.contains("some/dir"), "{error}");
    }
}
