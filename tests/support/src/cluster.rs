//! The PostgreSQL server of a test run.
//!
//! Its URL comes from the environment, which nextest's setup script sets. Without a URL this
//! process starts its own server at first use. The owner of that server is a static, which is never
//! dropped: the server's guard stops it when the process ends.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use devdb::{Cluster, OpenOptions};

/// Variable with the URL of the server's `postgres` database.
pub const URL_VARIABLE: &str = "SCHED_TEST_DATABASE_URL";

/// A temporary server for tests, in the folder for temporary files.
///
/// # Errors
///
/// When the server cannot be started.
pub fn throw_away() -> Result<Cluster, devdb::DevDbError> {
    let options = OpenOptions { max_connections: 300, ..OpenOptions::throw_away(std::env::temp_dir()) };
    Cluster::open(options)
}

/// Path of a program of the PostgreSQL installation, such as `pg_dump`.
///
/// # Panics
///
/// When there is no installation.
#[must_use]
pub fn server_program(name: &str) -> PathBuf {
    devdb::find_server(None)
        .unwrap_or_else(|error| panic!("no PostgreSQL for the tests: {error}"))
        .program(name)
}

/// URL of the server's `postgres` database. Blocks while a server is started.
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
