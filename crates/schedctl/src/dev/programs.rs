//! Finds the programs of the daemons. Programs next to `schedctl` take precedence, as they were
//! installed together.

use std::path::{Path, PathBuf};

use sched_runtime::config::{ProcessEnvironment, Source as _};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    pub(super) api: PathBuf,
    pub(super) scheduler: PathBuf,
    pub(super) worker: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramsMissing {
    #[error(
        "{} neither next to schedctl ({}) nor in PATH; install all programs together, or build them with \
         `cargo build --workspace --bins`",
        missing(.names), .beside.display()
    )]
    Ours { names: Vec<&'static str>, beside: PathBuf },
    #[error("--worker-program {} is not a file", .path.display())]
    Worker { path: PathBuf },
}

fn missing(names: &[&str]) -> String {
    match names {
        [one] => format!("the program {one} is"),
        many => format!("the programs {} are", many.join(", ")),
    }
}

impl Programs {
    /// `worker` replaces `sched-worker`.
    pub(super) fn find(worker: Option<PathBuf>) -> Result<Self, ProgramsMissing> {
        // Without the path of this program, PATH remains.
        let own = std::env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
        let path = ProcessEnvironment.get("PATH").unwrap_or_default();
        let ours = Self::find_in(own.parent().unwrap_or(Path::new("")), &path)?;
        match worker {
            Some(path) if !path.is_file() => Err(ProgramsMissing::Worker { path }),
            Some(worker) => Ok(Self { worker, ..ours }),
            None => Ok(ours),
        }
    }

    fn find_in(beside: &Path, path: &str) -> Result<Self, ProgramsMissing> {
        let folders: Vec<PathBuf> =
            std::iter::once(beside.to_owned()).chain(std::env::split_paths(path)).collect();
        let mut names = Vec::new();
        let mut find = |name| {
            let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
            if found.is_none() {
                names.push(name);
            }
            found.unwrap_or_default()
        };
        let programs =
            Self { api: find("sched-api"), scheduler: find("sched-scheduler"), worker: find("sched-worker") };
        if names.is_empty() {
            Ok(programs)
        } else {
            Err(ProgramsMissing::Ours { names, beside: beside.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_beside_schedctl_come_before_those_in_path() {
        let root = tempfile::tempdir().unwrap();
        let (beside, other) = (root.path().join("beside"), root.path().join("other"));
        for (folder, names) in [
            (&beside, &["sched-api", "sched-worker"][..]),
            (&other, &["sched-api", "sched-scheduler", "sched-worker"]),
        ] {
            std::fs::create_dir(folder).unwrap();
            names.iter().for_each(|name| std::fs::write(folder.join(name), "").unwrap());
        }
        let found = Programs::find_in(&beside, other.to_str().unwrap()).unwrap();
        assert_eq!(found.api, beside.join("sched-api"));
        assert_eq!(found.scheduler, other.join("sched-scheduler"));
        let error = Programs::find_in(&beside, "").unwrap_err().to_string();
        assert!(error.starts_with("the program sched-scheduler is neither"), "{error}");
    }
}
