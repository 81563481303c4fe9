//! `sched.backup`: dumps the scheduler's own database with `pg_dump` into a folder of the worker's
//! machine.
//!
//! The worker reads the dump from a pipe into a file `….part`. It syncs the file, renames it, and
//! writes the checksum beside it. If the worker dies, the next run removes the file, and `pg_dump`
//! exits at its broken pipe. `pg_dump` reads the password from its environment, never from its
//! command line.
//!
//! # Design notes
//! - The custom format is compressed and permits selective restore. Backups do not end in `.dump`,
//!   so that scripts that clean up by that suffix ignore them.

mod connection;
mod folder;
mod pg_dump;

use sched_model::{connection::database_clock, retention::archive};
use sched_runtime::monotonic_clock::monotonic;
use serde::{Deserialize, Serialize};

use super::System;
use crate::handlers::native::{Ctx, HandlerError};
use connection::Connection;
use folder::Folder;
use pg_dump::PgDump;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Args {
    /// The default is `BACKUP_KEEP` of the worker.
    keep: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    path: String,
    bytes: u64,
    sha256: String,
    seconds: f64,
    removed: Vec<String>,
    server_version: u32,
}

pub(super) async fn run(system: &System, ctx: &Ctx, args: Args) -> Result<Report, HandlerError> {
    let Some(dir) = &system.settings.backup_dir else {
        let text = "BACKUP_DIR is not set on this worker";
        return Err(HandlerError::new("not_configured", text).no_retry());
    };
    let keep = args.keep.unwrap_or(system.settings.backup_keep);
    if keep == 0 {
        return Err(HandlerError::invalid_args("keep must be at least 1"));
    }
    let began = monotonic();
    let connection = Connection::of(&system.database_url, system.ca_file.as_deref())?;
    let mut conn = system.conn().await?;
    let (server_version, now) =
        (archive::server_version(&mut conn).await?, database_clock::now(&conn).await?);
    // A dump may take long.
    drop(conn);
    let program = PgDump::find(system.settings.pg_bin_dir.as_deref(), server_version).await?;
    let folder = Folder::open(dir).await?;
    folder.remove_unfinished().await?;
    let mut file = folder.begin(now, ctx.attempt_id()).await?;
    ctx.log(format!("writing {}", file.path().display()));
    if let Err(error) = program.dump(&connection, ctx, &mut file).await {
        if let Err(left) = file.discard().await {
            ctx.log(format!("an unfinished file is left: {left}"));
        }
        return Err(error);
    }
    let done = file.finish().await?;
    let removed = folder.keep_newest(keep).await?;
    for name in &removed {
        ctx.log(format!("removed {name}"));
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok(Report { path: done.path, bytes: done.bytes, sha256: done.sha256, seconds, removed, server_version })
}
