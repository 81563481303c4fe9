//! The PostgreSQL server of a test run.
//!
//! Nextest's setup script sets its URL. Without a URL, this process starts its own server at first
//! use. That server's owner is a static and never dropped: the guard stops the server at the end of
//! the process.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use devdb::{Cluster, OpenOptions};

/// The URL of the server's `postgres` database.
pub const URL_VARIABLE: &str = "SCHED_TEST_DATABASE_URL";

/// A temporary server for tests.
///
/// # Errors
///
/// If the server cannot be started.
pub fn throw_away() -> Result<Cluster, devdb::DevDbError> {
    let options = OpenOptions { max_connections: 300, ..OpenOptions::throw_away(std::env::temp_dir()) };
    Cluster::open(options)
}

/// Path of a PostgreSQL program such as `pg_dump`.
///
/// # Panics
///
/// If there is no installation.
#[must_use]
pub fn server_program(name: &str) -> PathBuf {
    devdb::find_server(None)
        .unwrap_or_else(|error| panic!("no PostgreSQL for the tests: {error}"))
        .program(name)
}

/// URL of the `postgres` database. Blocks while a server starts.
pub(crate) fn admin_url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| {
        #[expect(
            clippy::disallowed_methods,
            reason = "the test runner hands the URL over in the environment"
        )]
        let given = std::env::var(URL_VARIABLE).ok();
        given.unwrap_or_else(start_own)
    })
}

fn start_own() -> String {
    static OWN: Mutex<Option<Cluster>> = Mutex::new(None);
    let cluster = throw_away().unwrap_or_else(|error| panic!("no PostgreSQL for the tests: {error}"));
    let url = cluster.url("postgres");
    // A poisoned lock is safe: no code between these two lines can panic.
    *OWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(cluster);
    url
}
