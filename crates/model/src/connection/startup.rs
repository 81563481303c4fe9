//! Startup of a daemon: wait for the database, then check the connections, the schema and the role.
//!
//! A daemon may start before its database and waits without limit. A schema that does not fit ends
//! the start.

use std::time::Duration;

use super::migrations::{self, SchemaError};
use crate::{Conn, Database, DbError, connection::row_security};

/// The pause between two tries grows from the first to the second value.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Waits for the database without limit. Then checks that connections have their own sessions, that
/// the schema fits this program, and that the role sees the required rows and no more.
///
/// # Errors
/// The schema or the role does not fit, or a pooler shares sessions.
pub async fn wait_until_usable(database: &Database) -> Result<(), SchemaError> {
    wait(database, Needs::Rows).await
}

/// As [`wait_until_usable`], for workers.
///
/// # Errors
/// As there.
pub async fn wait_until_usable_for_runs(database: &Database) -> Result<(), SchemaError> {
    wait(database, Needs::Runs).await
}

/// As [`wait_until_usable`], for schedulers, which also create and drop partitions.
///
/// # Errors
/// As there, and if the login may not do that.
pub async fn wait_until_usable_as_owner(database: &Database) -> Result<(), SchemaError> {
    wait(database, Needs::Tables).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Rows,
    /// Writes what a worker writes.
    Runs,
    /// Also creates and drops tables.
    Tables,
}

async fn wait(database: &Database, needs: Needs) -> Result<(), SchemaError> {
    let mut pause = PAUSES.0;
    loop {
        match check(database, needs).await {
            Err(SchemaError::Database(error)) => {
                let cause = error.with_causes();
                tracing::warn!(error = cause, retry_in = ?pause, "the database cannot be used yet; trying again");
            }
            result => return result,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

async fn check(database: &Database, needs: Needs) -> Result<(), SchemaError> {
    if database.shares_sessions().await? {
        return Err(SchemaError::SharedSessions);
    }
    // The pool's role comes with the schema.
    let mut conn = database.dedicated().await?;
    let fits = migrations::check(&mut conn).await;
    if matches!(fits, Ok(()) | Err(SchemaError::Database(DbError::NoPermission(_)))) {
        // Without its role the login cannot read the version of the schema; the grant is the fix.
        check_role(&mut conn, needs, database.role()).await?;
    }
    fits
}

async fn check_role(conn: &mut Conn, needs: Needs, role: Option<&str>) -> Result<(), SchemaError> {
    match (needs, role) {
        (Needs::Rows, Some(role)) => row_security::check_api(conn, role).await,
        (Needs::Runs, _) => row_security::check_worker(conn).await,
        (Needs::Tables, _) => {
            row_security::check_owner(conn).await?;
            row_security::check_daemon(conn).await
        }
        (Needs::Rows, None) => row_security::check_daemon(conn).await,
    }
}
