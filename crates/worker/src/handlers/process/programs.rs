//! The programs that functions may start: the operator's list (`WORKER_PROGRAMS`).
//!
//! Without a list, functions start any program, as the worker's user or one of [`super::users`]. A
//! list includes the shell of `shell: true`. The check resolves all links, so neither another
//! spelling nor a tenant's link bypasses it. The worker then starts exactly this file under this
//! name. So a link that changes after the check has no effect, and a tenant cannot choose the name
//! by which a multi-call program selects its function. A link that is itself on the list is started
//! by its own name.
//!
//! The programs that a program starts are not restricted, so a list with interpreters or `env`
//! restricts nothing. Nothing is cached, so changes on the machine take effect with the next
//! attempt.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

/// All programs, or the programs of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProgramList(Option<Vec<Entry>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File(PathBuf),
    /// Every file directly in a folder: `/opt/jobs/*`.
    In(PathBuf),
    /// Every file below a folder: `/opt/jobs/**`.
    Below(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is neither an absolute path nor an absolute folder with /* (its files) or /** (all files below it)"
)]
pub struct ProgramListError(String);

#[derive(Debug, thiserror::Error)]
pub(super) enum ProgramRefused {
    #[error(
        "program {program:?} is {file:?}, which is not in WORKER_PROGRAMS of this worker ({permitted}); use a listed \
         program, or ask the operator to add this one"
    )]
    NotNamed { program: PathBuf, file: PathBuf, permitted: String },
    /// The file of the program cannot be determined.
    #[error("program {program:?} cannot be checked against WORKER_PROGRAMS of this worker")]
    Unknown { program: PathBuf, source: std::io::Error },
}

impl FromStr for Entry {
    type Err = ProgramListError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (path, of): (&str, fn(PathBuf) -> Self) =
            match (text.strip_suffix("/**"), text.strip_suffix("/*")) {
                (Some(folder), _) => (folder, Self::Below),
                (None, Some(folder)) => (folder, Self::In),
                (None, None) => (text, Self::File),
            };
        let is_folder = path.len() < text.len();
        let is_fit = path.starts_with('/') && !(path.ends_with('/') || path.contains(['*', '?', '\0']));
        // The root folder has an empty name.
        if is_fit || (is_folder && path.is_empty()) {
            Ok(of(PathBuf::from(if path.is_empty() { "/" } else { path })))
        } else {
            Err(ProgramListError(text.to_owned()))
        }
    }
}

impl Entry {
    /// Returns the name to start. `file` is the resolved file, and `link` the path that names it.
    fn admits<'a>(&self, link: &'a Path, file: &'a Path) -> Option<&'a Path> {
        // An unreadable entry matches nothing.
        match self {
            Self::File(path) => {
                let named = place_of(path).ok()?;
                [link, file].into_iter().find(|found| *found == named)
            }
            Self::In(folder) => (file.parent()? == folder.canonicalize().ok()?).then_some(file),
            Self::Below(folder) => file.starts_with(folder.canonicalize().ok()?).then_some(file),
        }
    }
}

impl ProgramList {
    /// An empty list permits nothing.
    ///
    /// # Errors
    /// The first invalid item. Files are checked when a program is started.
    pub fn parse<T: AsRef<str>>(items: &[T]) -> Result<Self, ProgramListError> {
        items.iter().map(|item| item.as_ref().parse()).collect::<Result<_, _>>().map(Some).map(Self)
    }

    /// Returns the path to start. `program` is absolute.
    pub(super) fn permits(&self, program: PathBuf) -> Result<PathBuf, ProgramRefused> {
        let Some(entries) = &self.0 else { return Ok(program) };
        let found = place_of(&program).and_then(|link| Ok((link, program.canonicalize()?)));
        let (link, file) = match found {
            Ok(found) => found,
            Err(source) => return Err(ProgramRefused::Unknown { program, source }),
        };
        match entries.iter().find_map(|entry| entry.admits(&link, &file)) {
            Some(path) => Ok(path.to_owned()),
            None => Err(ProgramRefused::NotNamed { program, file, permitted: self.to_string() }),
        }
    }
}

/// Keeps the last component if that is a link.
fn place_of(path: &Path) -> std::io::Result<PathBuf> {
    match (path.parent(), path.components().next_back()) {
        (Some(folder), Some(Component::Normal(name))) => Ok(folder.canonicalize()?.join(name)),
        _ => path.canonicalize(),
    }
}

impl fmt::Display for ProgramList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(entries) = &self.0 else { return f.write_str("all") };
        for (number, entry) in entries.iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let (path, suffix) = match entry {
                Entry::File(path) => (path, ""),
                Entry::In(path) => (path, "/*"),
                Entry::Below(path) => (path, "/**"),
            };
            write!(f, "{comma}{}{suffix}", path.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn program_list_accepts_absolute_paths_only() {
        for text in ["/bin/true", "/opt/jobs/*,/srv/**", "/a b"] {
            let items: Vec<&str> = text.split(',').collect();
            assert_eq!(ProgramList::parse(&items).unwrap().to_string(), text);
        }
        for wrong in ["true", "./true", "/opt/*/true", "/opt/jobs*", "/opt/", "/", "*", "/opt/***", ""] {
            let error = ProgramList::parse(&["/bin/true", wrong]).unwrap_err();
            assert!(error.to_string().contains(&format!("{wrong:?}")), "{wrong}: {error}");
        }
        assert!(ProgramList::parse(&["/**"]).is_ok(), "that is what no list means, said aloud");
    }

    /// Folders `jobs` (with `a`, `deep/b`) and `other` (with `x`), and links between them.
    fn machine() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("jobs/deep")).unwrap();
        fs::create_dir(root.join("other")).unwrap();
        for file in ["jobs/a", "jobs/deep/b", "other/x"] {
            fs::write(root.join(file), "").unwrap();
        }
        for (at, to) in [
            ("jobs/out", "../other/x"),
            ("other/in", "../jobs/a"),
            ("other/again", "in"),
            ("other/out", "../jobs/out"),
            ("same", "jobs"),
            ("other/loop", "loop"),
        ] {
            symlink(to, root.join(at)).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn resolved_file_is_compared_with_the_list() {
        let (_dir, root) = machine();
        let started = |list: &str, program: &str| {
            let items: Vec<String> =
                list.split_whitespace().map(|item| format!("{}/{item}", root.display())).collect();
            let permitted = ProgramList::parse(&items).unwrap().permits(root.join(program)).ok()?;
            Some(permitted.strip_prefix(&root).unwrap().to_str().unwrap().to_owned())
        };
        for (list, program, expected) in [
            ("jobs/a", "jobs/a", Some("jobs/a")),
            ("jobs/a", "jobs/../jobs/./a", Some("jobs/a")),
            ("jobs/a", "same/a", Some("jobs/a")),
            ("same/a", "jobs/a", Some("jobs/a")),
            // Any link to a listed program starts that program under its own name.
            ("jobs/a", "other/in", Some("jobs/a")),
            ("jobs/a", "other/again", Some("jobs/a")),
            ("jobs/*", "other/in", Some("jobs/a")),
            ("jobs/a", "jobs/deep/b", None),
            ("jobs/a", "jobs/../other/x", None),
            ("jobs/a", "jobs/a/../../other/x", None),
            ("jobs/*", "jobs/deep/b", None),
            ("jobs/**", "jobs/deep/b", Some("jobs/deep/b")),
            ("same/**", "jobs/deep/b", Some("jobs/deep/b")),
            ("jobs/**", "jobs/../other/x", None),
            // A link that leads out of a folder is refused, unless the link itself is listed.
            ("jobs/**", "jobs/out", None),
            ("jobs/out", "jobs/out", Some("jobs/out")),
            ("jobs/out", "other/x", None),
            ("jobs/out", "other/out", None),
            ("jobs/**", "other/loop", None),
            ("jobs/**", "jobs/absent", None),
            ("jobs/absent jobs/a", "jobs/a", Some("jobs/a")),
            ("jo/**", "jobs/a", None),
            ("", "jobs/a", None),
        ] {
            assert_eq!(started(list, program).as_deref(), expected, "{program} with {list}");
        }
        assert_eq!(ProgramList::default().permits("/no/such".into()).unwrap(), Path::new("/no/such"));
    }
}
