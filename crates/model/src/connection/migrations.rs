//! The schema's version: applying, reverting and checking migrations.
//!
//! Only `schedctl migrate` changes the schema. Daemons call [`check`] when they start and refuse to run on a schema that
//! is missing, older or newer than theirs. Migrations run on a connection of their own under an advisory lock, so that
//! two operators cannot migrate at once; the lock ends with the connection, however that ends.

use std::time::Duration;

use diesel::migration::{Migration, MigrationSource, MigrationVersion};
use diesel::pg::Pg;
use diesel_async::{AsyncMigrationHarness, RunQueryDsl, SimpleAsyncConnection};
use diesel_migrations::{EmbeddedMigrations, MigrationHarness, embed_migrations};

use crate::connection::row_security::RoleError;
use crate::{Conn, Database, DbError, DbResult};

/// The migrations this program was built with.
const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations");

/// Key of the advisory lock that one migrating process holds: "sched" in ASCII.
const MIGRATION_LOCK: i64 = 495_589_025_124;
/// How often it is looked for, and the pause between two looks: about ten seconds.
const MIGRATION_LOCK_LOOKS: u32 = 100;
const MIGRATION_LOCK_PAUSE: Duration = Duration::from_millis(100);

/// One migration and whether the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationState {
    /// Version, which orders migrations.
    pub version: String,
    /// Name, version included.
    pub name: String,
    /// Whether the database has it.
    pub is_applied: bool,
    /// Whether this program knows it; false for migrations of a newer release.
    pub is_known: bool,
}

/// Why a daemon cannot run on the schema it found, or on the way to it.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// The database has no schema of ours.
    #[error("the database has no schema yet; run `schedctl migrate up`")]
    Missing,
    /// Migrations are pending.
    #[error("the database schema is {pending} migrations behind this program; run `schedctl migrate up`")]
    Older {
        /// How many migrations are pending.
        pending: usize,
    },
    /// The database has migrations this program does not know.
    #[error(
        "the database schema is newer than this program (it has {newest}); install the release that made it, or go back \
         with that release's `schedctl migrate down`"
    )]
    Newer {
        /// The newest unknown migration.
        newest: String,
    },
    /// Two connections at once were one session of the server.
    #[error(
        "the connections to the database are not sessions of their own, as through a pooler in transaction or statement mode: time-outs \
         and prepared statements of one would be another's; set the pooler to session mode, or connect to the server itself"
    )]
    SharedSessions,
    /// The role in the database sees too much, or too little.
    #[error(transparent)]
    Role(#[from] RoleError),
    /// The database could not be asked.
    #[error(transparent)]
    Database(#[from] DbError),
}

/// Why migrating failed.
///
/// What had been applied before stays applied; the failed migration left nothing, but for one that
/// makes an index beside those who write: its index is invalid then, and is to be dropped (`migrations/README.md`).
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// A migration failed.
    #[error("a migration failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The task that ran the migrations died.
    #[error("the migrating task died")]
    Task(#[source] tokio::task::JoinError),
    /// The database could not be asked.
    #[error(transparent)]
    Database(#[from] DbError),
}

/// How far to go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// This many migrations.
    Some(usize),
    /// To an empty database.
    All,
}

/// Applies every pending migration; returns their names, oldest first.
///
/// # Errors
/// When a migration fails or the database cannot be reached. Needs a multi-threaded runtime.
pub async fn up(database: &Database) -> Result<Vec<String>, MigrationError> {
    let mut harness = harness(database).await?;
    let applied = in_blocking(move || {
        harness
            .run_pending_migrations(MIGRATIONS)
            .map(|versions| versions.iter().map(ToString::to_string).collect())
    })
    .await?;
    Ok(applied)
}

/// Reverts the latest `steps` migrations; returns their names, newest first.
///
/// # Errors
/// When a migration fails or the database cannot be reached. Needs a multi-threaded runtime.
pub async fn down(database: &Database, steps: Steps) -> Result<Vec<String>, MigrationError> {
    let mut harness = harness(database).await?;
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

/// Every migration this program or the database knows, oldest first.
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

/// Whether this program can run on the schema as it is.
///
/// # Errors
/// When it cannot, with the command that mends it.
pub async fn check(conn: &mut Conn) -> Result<(), SchemaError> {
    judge(&status(conn).await?)
}

/// Whether this program can run on a schema with these migrations.
///
/// # Errors
/// When it cannot, with the command that mends it.
pub fn judge(states: &[MigrationState]) -> Result<(), SchemaError> {
    if let Some(newest) = states.iter().rfind(|state| !state.is_known) {
        return Err(SchemaError::Newer { newest: newest.name.clone() });
    }
    match states.iter().filter(|state| !state.is_applied).count() {
        0 => Ok(()),
        pending if pending == states.len() => Err(SchemaError::Missing),
        pending => Err(SchemaError::Older { pending }),
    }
}

async fn harness(database: &Database) -> DbResult<AsyncMigrationHarness<Conn>> {
    let mut conn = database.dedicated().await?;
    // Building a schema may take longer than the statements of a daemon are given.
    conn.batch_execute("SET statement_timeout = 0").await?;
    let mut looks = MIGRATION_LOCK_LOOKS;
    // Looked for now and then, not waited for: an index that is built concurrently waits for every statement that is under way, and so
    // for the one that would wait for its builder.
    while let Err(error) = lock(&mut conn).await {
        looks -= 1;
        if looks == 0 || !matches!(error, DbError::TimedOut(_)) {
            return Err(error);
        }
        tokio::time::sleep(MIGRATION_LOCK_PAUSE).await;
    }
    Ok(AsyncMigrationHarness::new(conn))
}

async fn lock(conn: &mut Conn) -> DbResult<()> {
    let lock = format!(
        "SET lock_timeout = '10ms'; SELECT pg_advisory_lock({MIGRATION_LOCK}); SET lock_timeout = '3s'"
    );
    Ok(conn.batch_execute(&lock).await?)
}

/// The harness drives an async connection from synchronous code and may only do so off the async threads.
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
    /// Kept by the migration library.
    __diesel_schema_migrations (version) {
        /// Version of an applied migration.
        version -> Text,
        /// When it was applied.
        run_on -> Timestamp,
    }
}

statement! {
    /// Whether the library's table exists.
    HasMigrationTable = "migrations/has_migration_table.sql", () -> diesel::sql_types::Bool
}

async fn applied_versions(conn: &mut Conn) -> DbResult<Vec<String>> {
    use diesel::QueryDsl;
    let exists: bool = HasMigrationTable {}.get_result(conn).await?;
    if !exists {
        return Ok(Vec::new());
    }
    let table = __diesel_schema_migrations::table;
    Ok(table.select(__diesel_schema_migrations::version).load(conn).await?)
}
