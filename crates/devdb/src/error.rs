//! Errors of finding, starting and using a server; messages name the folder and the fix.

use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

use crate::server::OLDEST_SERVER;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevDbError {
    #[error(
        "no PostgreSQL server of version {OLDEST_SERVER} or newer found{}; install one: \
         `apt-get install postgresql` (Debian, Ubuntu) or `brew install postgresql@17` (macOS), \
         or name the folder that holds `initdb` and `postgres`",
        list_too_old(.too_old)
    )]
    ServerNotFound { too_old: Vec<String> },
    /// The given folder contains no server programs.
    #[error(
        "{} holds no PostgreSQL server: `initdb` and `postgres` are expected there; \
         name the `bin` folder of an installed server",
        .dir.display()
    )]
    NotAServer { dir: PathBuf },
    #[error("the PostgreSQL server in {} is version {version}; {OLDEST_SERVER} or newer is needed", .dir.display())]
    ServerTooOld { dir: PathBuf, version: String },
    /// The data folder needs a major version that is not installed.
    #[error(
        "the data in {} was created by PostgreSQL {needed}, which is not installed; install it \
         (`apt-get install postgresql-{needed}` or `brew install postgresql@{needed}`), or move the folder away \
         to start with an empty database",
        .dir.display()
    )]
    OtherMajorVersion {
        dir: PathBuf,
        /// The major version that can read the data.
        needed: u32,
    },
    /// This process is root, without a usable `postgres` user and without user namespaces.
    #[error(
        "PostgreSQL refuses to run as root, there is no user `postgres` that can reach {}, and user namespaces \
         are not available; run this as an ordinary user, or put the folder where `postgres` can reach it",
        .dir.display()
    )]
    NoAccountForRoot { dir: PathBuf },
    #[error("could not {action} {}", .path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not run {}", .program.display())]
    Run {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} failed ({status}): {output}", .program.display())]
    Program { program: PathBuf, status: ExitStatus, output: String },
    #[error("the PostgreSQL server in {} ended while starting ({status}): {log}", .dir.display())]
    StartFailed {
        dir: PathBuf,
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    /// The server or its owner was not ready in time.
    #[error("the PostgreSQL server in {} was not ready within {} s; see {}", .dir.display(), .limit.as_secs(), .dir.join("log").display())]
    NotReady { dir: PathBuf, limit: Duration },
    #[error("the PostgreSQL server in {} (process {pid}) did not stop", .dir.display())]
    NotStopped { dir: PathBuf, pid: i32 },
}

impl DevDbError {
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

fn list_too_old(found: &[String]) -> String {
    if found.is_empty() { String::new() } else { format!(" (too old: {})", found.join(", ")) }
}
