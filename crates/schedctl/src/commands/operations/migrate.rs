//! `migrate`: the database schema. The commands connect to the database, because they must work
//! without the API. A revert drops data, so it prompts; without a terminal it continues and prints
//! a notice. Each migration is one transaction.

use std::time::Duration;

use anyhow::anyhow;
use clap::Subcommand;
use sched_model::connection::migrations::{self, MigrationError, MigrationState, SchemaError, Steps};
use sched_model::{Conn, Database, DatabaseSettings, DbError, definitions::built_in};
use sched_runtime::exit::{self, ExitError};
use sched_runtime::monotonic_clock::monotonic;
use serde::Serialize;

use crate::commands::Session;
use crate::consent;
use crate::endpoint::{self, Source};
use crate::failure::{CommandResult, database as unreachable, failure, schema, usage};
use crate::globals::DatabaseArgs;
use crate::output::{Column, print_notice};
use crate::values::within;

#[derive(Debug, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Apply all pending migrations, and create missing built-in jobs
    Up {
        #[command(flatten)]
        database: DatabaseArgs,
    },
    /// Revert migrations, newest first; this drops their data
    Down {
        #[command(flatten)]
        database: DatabaseArgs,
        /// Number of migrations to revert
        #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = within(1, u16::MAX))]
        steps: u16,
        /// Revert all migrations
        #[arg(long, conflicts_with = "steps")]
        all: bool,
        /// Skip the confirmation
        #[arg(long, short)]
        yes: bool,
    },
    /// Show each migration and whether it is applied; exit code 4 unless exactly all are
    Status {
        #[command(flatten)]
        database: DatabaseArgs,
    },
}

const PAUSE: Duration = Duration::from_secs(1);

#[derive(Debug, Serialize)]
struct Row {
    version: String,
    name: String,
    state: &'static str,
}

const ROWS: &[Column<Row>] = &[
    Column::new("MIGRATION", |row| row.name.clone()),
    Column::new("STATE", |row| row.state.to_owned()),
    Column::wide("VERSION", |row| row.version.clone()),
];

pub(crate) async fn run(command: MigrateCommand, session: &Session) -> CommandResult {
    match command {
        MigrateCommand::Up { database } => {
            let (database, mut conn, _) = connect(&database, session).await?;
            check_known(&mut conn).await?;
            let before = names(migrations::status(&mut conn).await.map_err(database_error)?);
            let applied = up(&database).await?;
            install(&database).await?;
            let rows = rows(&applied, &before, "applied");
            session.output.list(&rows, ROWS, "the schema is already up to date")?;
        }
        MigrateCommand::Down { database, steps, all, yes } => {
            let (database, mut conn, _) = connect(&database, session).await?;
            check_known(&mut conn).await?;
            let before = names(migrations::status(&mut conn).await.map_err(database_error)?);
            let steps = if all { Steps::All } else { Steps::Some(steps.into()) };
            if !yes {
                let what = if all { "all migrations" } else { "migrations" };
                consent::confirm(
                    &format!("reverting {what} drops the data they hold"),
                    "--yes",
                    consent::WithoutTerminal::Continue,
                )?;
            }
            let reverted = migrations::down(&database, steps).await.map_err(migration_error)?;
            let rows = rows(&reverted, &before, "reverted");
            session.output.list(&rows, ROWS, "there is nothing to revert")?;
        }
        MigrateCommand::Status { database } => return status(&database, session).await,
    }
    Ok(exit::OK)
}

pub(crate) async fn up(database: &Database) -> Result<Vec<String>, ExitError> {
    migrations::up(database).await.map_err(migration_error)
}

pub(crate) async fn install(database: &Database) -> Result<(), ExitError> {
    let mut conn = database.dedicated().await.map_err(unreachable)?;
    let installed = built_in::install(&mut conn).await.map_err(failure)?;
    if !installed.jobs.is_empty() {
        print_notice(&format!(
            "created the built-in jobs {}; `schedctl jobs list --all` shows them",
            installed.jobs.join(", ")
        ));
    }
    for name in installed.taken {
        print_notice(&format!("the built-in job {name} was not created: its name is in use"));
    }
    Ok(())
}

pub(crate) fn prepare(url: &str) -> Result<Database, ExitError> {
    Database::new(&DatabaseSettings::new(url, "schedctl")).map_err(usage)
}

pub(crate) async fn wait_for(database: &Database, limit: Duration) -> Result<Conn, ExitError> {
    let started = monotonic();
    loop {
        let error = match database.dedicated().await {
            Ok(conn) => return Ok(conn),
            Err(error) => error,
        };
        let left = limit.saturating_sub(started.elapsed());
        if left.is_zero() {
            let waited = humantime::format_duration(limit).to_string();
            return Err(unreachable(anyhow::Error::new(error).context(format!(
                "the database did not answer within {waited}; is it running, and is the address right?"
            ))));
        }
        print_notice(&format!(
            "waiting for the database: {}; trying for another {:.0} s",
            exit::describe(&error),
            left.as_secs_f64()
        ));
        tokio::time::sleep(PAUSE.min(left)).await;
    }
}

pub(crate) async fn connect(
    args: &DatabaseArgs,
    session: &Session,
) -> Result<(Database, Conn, Source), ExitError> {
    let (url, source) =
        endpoint::database(args.database_url.as_deref(), &session.globals, &session.here).map_err(usage)?;
    let database = prepare(&url)?;
    print_notice(&format!("database {} (from {source})", sched_runtime::config::redact::url(&url)));
    let conn = wait_for(&database, args.wait).await?;
    Ok((database, conn, source))
}

async fn status(args: &DatabaseArgs, session: &Session) -> CommandResult {
    let (_database, mut conn, _) = connect(args, session).await?;
    let states = migrations::status(&mut conn).await.map_err(database_error)?;
    let rows: Vec<Row> = states.into_iter().map(row).collect();
    session.output.list(&rows, ROWS, "")?;
    match migrations::check(&mut conn).await {
        Ok(()) => Ok(exit::OK),
        Err(SchemaError::Database(error)) => Err(database_error(error)),
        Err(error) => {
            print_notice(&error.to_string());
            Ok(exit::SCHEMA)
        }
    }
}

/// Fails on migrations unknown to this program, which could neither apply nor revert others.
async fn check_known(conn: &mut Conn) -> Result<(), ExitError> {
    match migrations::check(conn).await {
        Err(error @ SchemaError::Newer { .. }) => Err(schema(error)),
        Err(SchemaError::Database(error)) => Err(database_error(error)),
        Ok(())
        | Err(
            SchemaError::Missing
            | SchemaError::Older { .. }
            | SchemaError::SharedSessions
            | SchemaError::Role(_),
        ) => Ok(()),
    }
}

fn row(state: MigrationState) -> Row {
    let word = match (state.is_known, state.is_applied) {
        (false, _) => "unknown",
        (true, true) => "applied",
        (true, false) => "pending",
    };
    Row { version: state.version, name: state.name, state: word }
}

fn names(states: Vec<MigrationState>) -> Vec<(String, String)> {
    states.into_iter().map(|state| (state.version, state.name)).collect()
}

/// The rows of migrations that now have the given state.
fn rows(versions: &[String], names: &[(String, String)], state: &'static str) -> Vec<Row> {
    let name =
        |version: &String| names.iter().find(|(known, _)| known == version).map(|(_, name)| name.clone());
    versions
        .iter()
        .map(|version| Row {
            version: version.clone(),
            name: name(version).unwrap_or_else(|| version.clone()),
            state,
        })
        .collect()
}

fn migration_error(error: MigrationError) -> ExitError {
    match error {
        MigrationError::Database(error) => database_error(error),
        error @ (MigrationError::Failed(_) | MigrationError::Task(_)) => failure(error),
    }
}

fn database_error(error: DbError) -> ExitError {
    if error.is_outage() {
        unreachable(error)
    } else {
        failure(anyhow!(error).context("failed to read the version of the schema"))
    }
}
