//! What every daemon does before it works: wait for the database, then check the way to it, the schema and the role.
//!
//! A daemon may start before its database and waits for it without end, saying so. A schema that does not fit cannot
//! mend itself while waiting, so that ends the start.

use std::time::Duration;

use super::migrations::{self, SchemaError};
use crate::{Database, connection::row_security};

/// Pauses between two looks for the database grow from the first to the second of these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Waits until the database answers, however long, and checks that connections are sessions that its schema is the one this program
/// needs, and that its role sees what it has to see and no more.
///
/// # Errors
/// When the schema or the role does not fit, or a pooler hands sessions round.
pub async fn wait_until_usable(database: &Database) -> Result<(), SchemaError> {
    wait(database, Needs::Rows).await
}

/// As [`wait_until_usable`], for schedulers, which make and drop the months of history besides.
///
/// # Errors
/// As there, and when whoever signs in may not.
pub async fn wait_until_usable_as_owner(database: &Database) -> Result<(), SchemaError> {
    wait(database, Needs::Tables).await
}

/// What a daemon does in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Reads and writes rows.
    Rows,
    /// Makes and drops tables, too.
    Tables,
}

async fn wait(database: &Database, needs: Needs) -> Result<(), SchemaError> {
    let mut pause = PAUSES.0;
    loop {
        match check(database, needs).await {
            Err(SchemaError::Database(error)) => {
                let cause = error.with_causes();
                tracing::warn!(error = cause, retry_in = ?pause, "The database cannot be used yet; trying again.");
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
    // As the role that signs in: the one of the pool comes with the schema.
    let mut conn = database.dedicated().await?;
    migrations::check(&mut conn).await?;
    if needs == Needs::Tables {
        row_security::check_owner(&mut conn).await?;
    }
    match database.role() {
        Some(role) => row_security::check_api(&mut conn, role).await,
        None => row_security::check_daemon(&mut conn).await,
    }
}
