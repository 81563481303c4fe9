//! What can go wrong between "no server installed" and "the server takes connections".
//!
//! Variants say what the caller can do about it; messages name the folder and the fix.

use std::{io, path::PathBuf, process::ExitStatus, time::Duration};

use crate::server::OLDEST_SERVER;

/// Why a private PostgreSQL could not be found, made, started, used or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevDbError {
    /// No usable server is installed.
    #[error(
        "no PostgreSQL server of version {OLDEST_SERVER} or newer found{}; install one: \
         `apt-get install postgresql` (Debian, Ubuntu) or `brew install postgresql@17` (macOS), \
         or name the folder that holds `initdb` and `postgres`",
        list_too_old(.too_old)
    )]
    ServerNotFound {
        /// Servers that are installed but older than we support.
        too_old: Vec<String>,
    },
    /// The folder given holds no server programs.
    #[error(
        "{} holds no PostgreSQL server: `initdb` and `postgres` are expected there; \
         name the `bin` folder of an installed server",
        .dir.display()
    )]
    NotAServer {
        /// The folder given.
        dir: PathBuf,
    },
    /// The server in the folder given is older than we support.
    #[error("the PostgreSQL server in {} is version {version}; {OLDEST_SERVER} or newer is needed", .dir.display())]
    ServerTooOld {
        /// The folder given.
        dir: PathBuf,
        /// What it reports.
        version: String,
    },
    /// The data folder was made by a major version that is not installed.
    #[error(
        "the data in {} was made by PostgreSQL {needed}, which is not installed; install it \
         (`apt-get install postgresql-{needed}` or `brew install postgresql@{needed}`), or move the folder away \
         to start with an empty database",
        .dir.display()
    )]
    OtherMajorVersion {
        /// The folder given.
        dir: PathBuf,
        /// The major version that can read the data.
        needed: u32,
    },
    /// We are root, and there is neither a `postgres` user that reaches the folder nor a user namespace.
    #[error(
        "PostgreSQL refuses to run as root, there is no user `postgres` that can reach {}, and user namespaces \
         are not available; run this as an ordinary user, or put the folder where `postgres` can reach it",
        .dir.display()
    )]
    NoAccountForRoot {
        /// The folder given.
        dir: PathBuf,
    },
    /// A file operation failed.
    #[error("could not {action} {}", .path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A program could not be started at all.
    #[error("could not run {}", .program.display())]
    Run {
        /// Which one.
        program: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A PostgreSQL program ran and failed.
    #[error("{} failed ({status}): {output}", .program.display())]
    Program {
        /// Which one.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        output: String,
    },
    /// The server ended while starting.
    #[error("the PostgreSQL server in {} ended while starting ({status}): {log}", .dir.display())]
    StartFailed {
        /// The cluster's folder.
        dir: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    /// The server, or the process that owns it, did not come up in time.
    #[error("the PostgreSQL server in {} was not ready within {} s; see {}", .dir.display(), .limit.as_secs(), .dir.join("log").display())]
    NotReady {
        /// The cluster's folder.
        dir: PathBuf,
        /// How long we waited.
        limit: Duration,
    },
    /// The server ignored every signal.
    #[error("the PostgreSQL server in {} (process {pid}) did not stop", .dir.display())]
    NotStopped {
        /// The cluster's folder.
        dir: PathBuf,
        /// The server's process.
        pid: i32,
    },
}

impl DevDbError {
    /// Turns an I/O error into one that says what was tried on which path.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

fn list_too_old(found: &[String]) -> String {
    if found.is_empty() { String::new() } else { format!(" (too old: {})", found.join(", ")) }
}
