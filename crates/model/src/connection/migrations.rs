//! The schema version: applies, reverts and checks migrations.
//!
//! Only `schedctl migrate` changes the schema. Daemons refuse to start on a missing, older or newer
//! schema ([`check`]). Migrations run on their own connection under an advisory lock, so two
//! operators cannot migrate at once. The lock ends with the connection, even after a crash.

use std::time::Duration;

use diesel::migration::{Migration, MigrationSource, MigrationVersion};
use diesel::pg::Pg;
use diesel_async::{AsyncMigrationHarness, RunQueryDsl, SimpleAsyncConnection};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use crate::connection::role_error::RoleError;
use crate::{Conn, Database, DbError, DbResult};

const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations");

/// Key of the advisory lock for migrations: "sched" in ASCII.
const MIGRATION_LOCK: i64 = 495_589_025_124;
/// Number of tries for the lock: about ten seconds in all.
const MIGRATION_LOCK_LOOKS: u32 = 100;
const MIGRATION_LOCK_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationState {
    pub version: String,
    /// Includes the version.
    pub name: String,
    pub is_applied: bool,
    /// Whether this program knows the migration; false for migrations of a newer release.
    pub is_known: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("the database has no schema yet; run `schedctl migrate up`")]
    Missing,
    #[error(
        "the database schema is {pending} migration{} behind this program; run `schedctl migrate up`",
        if *.pending == 1 { "" } else { "s" }
    )]
    Older { pending: usize },
    #[error(
        "the database schema is newer than this program (it has {newest}); install the release that created it, or revert it \
         with that release's `schedctl migrate down`"
    )]
    Newer { newest: String },
    /// Two concurrent connections shared one session of the server.
    #[error(
        "connections to the database share sessions, as through a pooler in transaction or statement mode, and so would share timeouts \
         and prepared statements; set the pooler to session mode, or connect to the server directly"
    )]
    SharedSessions,
    #[error(transparent)]
    Role(#[from] RoleError),
    #[error(transparent)]
    Database(#[from] DbError),
}

/// Why a migration failed.
///
/// Earlier migrations stay applied, and the failed one left nothing, also if it was the first one.
/// There is one exception: a concurrent index build leaves an invalid index, which the operator
/// must drop (`migrations/README.md`).
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    #[error("a migration failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the migration task panicked")]
    Task(#[source] tokio::task::JoinError),
    #[error(transparent)]
    Database(#[from] DbError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    Some(usize),
    /// Down to an empty database.
    All,
}

/// Applies every pending migration; returns the names, oldest first. Needs a multi-threaded
/// runtime.
pub async fn up(database: &Database) -> Result<Vec<String>, MigrationError> {
    let mut conn = locked(database).await?;
    let is_first = !has_migration_table(&mut conn).await?;
    let mut harness = AsyncMigrationHarness::new(conn);
    let (applied, mut conn) = in_blocking(move || {
        let applied = harness
            .run_pending_migrations(MIGRATIONS)
            .map(|versions| versions.iter().map(ToString::to_string).collect());
        Ok((applied, harness.into_inner()))
    })
    .await?;
    // The library creates its table before the first migration.
    if is_first
        && applied.is_err()
        && let Err(error) = conn.batch_execute(FORGET_MIGRATION_TABLE).await.map_err(DbError::from)
    {
        tracing::debug!(error = error.with_causes(), "the empty table of migrations stays");
    }
    applied.map_err(MigrationError::Failed)
}

/// Reverts the latest `steps`; returns the names, newest first. Needs a multi-threaded runtime.
pub async fn down(database: &Database, steps: Steps) -> Result<Vec<String>, MigrationError> {
    let mut harness = AsyncMigrationHarness::new(locked(database).await?);
    in_blocking(move || {
        let mut reverted = Vec::new();
        let wanted = match steps {
            Steps::Some(count) => count,
            Steps::All => usize::MAX,
        };
        while reverted.len() < wanted && !harness.applied_migrations()?.is_empty() {
            reverted.push(harness.revert_last_migration(MIGRATIONS)?.to_string());
        }
        Ok(reverted)
    })
    .await
}

/// Every migration that this program or the database knows, oldest first.
pub async fn status(conn: &mut Conn) -> DbResult<Vec<MigrationState>> {
    let applied = applied_versions(conn).await?;
    let known = known_migrations();
    let mut states: Vec<MigrationState> = known
        .iter()
        .map(|(version, name)| MigrationState {
            version: version.clone(),
            name: name.clone(),
            is_applied: applied.contains(version),
            is_known: true,
        })
        .collect();
    let unknown = applied.iter().filter(|version| !known.iter().any(|(known, _)| known == *version));
    states.extend(unknown.map(|version| MigrationState {
        version: version.clone(),
        name: version.clone(),
        is_applied: true,
        is_known: false,
    }));
    states.sort_by(|a, b| a.version.cmp(&b.version));
    Ok(states)
}

/// Checks whether this program can run on the current schema.
pub async fn check(conn: &mut Conn) -> Result<(), SchemaError> {
    check_states(&status(conn).await?)
}

/// Checks whether this program can run on a schema with these migrations.
///
/// # Errors
/// The error names the command that fixes the schema.
pub fn check_states(states: &[MigrationState]) -> Result<(), SchemaError> {
    if let Some(newest) = states.iter().rfind(|state| !state.is_known) {
        return Err(SchemaError::Newer { newest: newest.name.clone() });
    }
    match states.iter().filter(|state| !state.is_applied).count() {
        0 => Ok(()),
        pending if pending == states.len() => Err(SchemaError::Missing),
        pending => Err(SchemaError::Older { pending }),
    }
}

/// A separate connection with the lock for migrations.
async fn locked(database: &Database) -> DbResult<Conn> {
    let mut conn = database.dedicated().await?;
    // A migration may take longer than the statement timeout of a daemon.
    conn.batch_execute("SET statement_timeout = 0").await?;
    let mut looks = MIGRATION_LOCK_LOOKS;
    // Polls instead of waiting in the server: a concurrent index build waits for every statement in
    // progress, and so for one that waits for the lock.
    while let Err(error) = lock(&mut conn).await {
        looks -= 1;
        if looks == 0 || !matches!(error, DbError::TimedOut(_)) {
            return Err(error);
        }
        tokio::time::sleep(MIGRATION_LOCK_PAUSE).await;
    }
    Ok(conn)
}

async fn lock(conn: &mut Conn) -> DbResult<()> {
    let lock = format!(
        "SET lock_timeout = '10ms'; SELECT pg_advisory_lock({MIGRATION_LOCK}); SET lock_timeout = '3s'"
    );
    Ok(conn.batch_execute(&lock).await?)
}

/// The migration harness blocks, which is allowed only outside the async threads.
async fn in_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Box<dyn std::error::Error + Send + Sync>> + Send + 'static,
) -> Result<T, MigrationError> {
    tokio::task::spawn_blocking(work).await.map_err(MigrationError::Task)?.map_err(MigrationError::Failed)
}

fn known_migrations() -> Vec<(String, String)> {
    let migrations: Vec<Box<dyn Migration<Pg>>> = MIGRATIONS.migrations().unwrap_or_default();
    let mut known: Vec<(String, String)> = migrations
        .iter()
        .map(|migration| {
            let version: MigrationVersion<'_> = migration.name().version();
            (version.to_string(), migration.name().to_string())
        })
        .collect();
    known.sort();
    known
}

diesel::table! {
    __diesel_schema_migrations (version) {
        version -> Text,
        run_on -> Timestamp,
    }
}

statement! {
    HasMigrationTable = "migrations/has_migration_table.sql", () -> diesel::sql_types::Bool
}

const FORGET_MIGRATION_TABLE: &str = include_str!("migrations/forget_migration_table.sql");

async fn has_migration_table(conn: &mut Conn) -> DbResult<bool> {
    Ok(HasMigrationTable {}.get_result(conn).await?)
}

async fn applied_versions(conn: &mut Conn) -> DbResult<Vec<String>> {
    use diesel::QueryDsl;
    if !has_migration_table(conn).await? {
        return Ok(Vec::new());
    }
    let table = __diesel_schema_migrations::table;
    Ok(table.select(__diesel_schema_migrations::version).load(conn).await?)
}
