//! `sched.archive`: months of history that retention has detached go to a folder or to S3, and only then away.
//!
//! A month becomes one object, gzip'd lines of JSON, and beside it a file with its checksum. The object is read back from where it
//! lies: only when its checksum is that of what was written, and its lines are as many as the month has rows, is the checksum stored, and only
//! when that is stored is the month dropped. Whatever dies at whatever line, the next run finds a month that is still there: without
//! its checksum file it is written again, over what may lie there; with it, it is verified again and dropped.
//!
//! # Design notes
//! - An object is named after its table and the table's number on the server, so a month that comes back (restored from a backup) does not
//!   meet the archive of its former self. Should it all the same, and the rows are not as many, it is refused instead of written over.
//! - Objects appear whole or not at all: storage sees to that, S3 by its multipart uploads, a folder by renaming.

mod target;
mod verify;
mod write;

use sched_model::Conn;
use sched_model::domain::retention::HistoryExpiry;
use sched_model::retention::archive::{self, DetachedMonth};
use serde::{Deserialize, Serialize};

use super::{System, told};
use crate::handlers::native::{Ctx, HandlerError};
use target::Store;

pub use target::ArchiveTarget;

/// Blocks of a month that are counted at once: half a gigabyte, which even a slow disk reads well within the time a statement has.
const COUNTED_BLOCKS: i64 = 65_536;

/// It takes none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {}

/// What a run archived.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    archived: Vec<Archived>,
    rows: u64,
    bytes: u64,
    /// Months that are still to be archived, because the run was cancelled.
    left: usize,
}

/// One month that is kept elsewhere now.
#[derive(Debug, Serialize)]
struct Archived {
    table: String,
    object: String,
    rows: u64,
    bytes: u64,
    sha256: String,
}

/// What an object holds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    rows: u64,
    /// As stored, compressed.
    bytes: u64,
    /// Of the object as stored, in hexadecimal.
    sha256: String,
}

pub(super) async fn run(system: &System, ctx: &Ctx, _: Args) -> Result<Report, HandlerError> {
    let Some(target) = &system.settings.archive else {
        let text = "ARCHIVE_URL is not set on the worker that was to archive";
        return Err(HandlerError::new("not_configured", text).no_retry());
    };
    let store = target.open().await?;
    let mut conn = system.conn().await?;
    let months = archive::months(&mut conn).await?;
    if months.is_empty() && told(&mut conn).await?.expiry == HistoryExpiry::Drop {
        ctx.log("There is nothing to archive, and there will not be: HISTORY_EXPIRY of the schedulers is drop, not detach.");
    }
    let (mut report, mut failures) = (Report { left: months.len(), ..Report::default() }, Vec::new());
    for month in &months {
        if ctx.is_cancelled() {
            break;
        }
        match one(&mut conn, ctx, &store, month).await {
            Ok(Some(archived)) => {
                ctx.log(format!("{}: {} rows in {}", archived.table, archived.rows, archived.object));
                report.left -= 1;
                report.rows += archived.rows;
                report.bytes += archived.bytes;
                report.archived.push(archived);
            }
            Ok(None) => break,
            Err(error) => {
                ctx.log(format!("{} stays where it is: {error}", month.name));
                failures.push(format!("{}: {error}", month.name));
            }
        }
    }
    if failures.is_empty() {
        return Ok(report);
    }
    let (done, failed) = (report.archived.len(), failures.len());
    let text = format!("{done} months were archived, {failed} were not: {}", failures.join("; "));
    Err(HandlerError::new("archive_failed", text))
}

/// Archives one month and drops it; `None` when it was cancelled before that.
async fn one(
    conn: &mut Conn,
    ctx: &Ctx,
    store: &Store,
    month: &DetachedMonth,
) -> Result<Option<Archived>, HandlerError> {
    let rows = archive::count(conn, month, COUNTED_BLOCKS).await?;
    let name = format!("{}-{}.jsonl.gz", month.name.replace('.', "/"), month.oid);
    let content = match kept(store, &name, rows).await? {
        Some(content) => content,
        None => {
            let Some(written) = write::write(conn, ctx, store, &name, month).await? else { return Ok(None) };
            let found = verify::read_back(store, &name).await?;
            if found != written || found.rows != rows {
                let text = format!(
                    "{name} does not hold what was to be written: {} rows of {rows}, checksum {} instead of {}",
                    found.rows, found.sha256, written.sha256
                );
                return Err(HandlerError::new("verification_failed", text));
            }
            store.put_checksum(&name, &found.sha256).await?;
            found
        }
    };
    archive::drop_month(conn, month).await?;
    metrics::counter!("sched_months_archived_total").increment(1);
    Ok(Some(Archived {
        table: month.name.clone(),
        object: store.describe(&name),
        rows,
        bytes: content.bytes,
        sha256: content.sha256,
    }))
}

/// What an earlier run has archived of this month, if it is whole.
async fn kept(store: &Store, name: &str, rows: u64) -> Result<Option<Content>, HandlerError> {
    let Some(checksum) = store.checksum(name).await? else { return Ok(None) };
    // One that cannot be read back is written again: its rows are still here.
    let Ok(found) = verify::read_back(store, name).await else { return Ok(None) };
    if found.sha256 != checksum {
        return Ok(None);
    }
    if found.rows != rows {
        let text = format!(
            "{name} is the archive of another month: it holds {} rows, not {rows}; give each installation a place of its own",
            found.rows
        );
        return Err(HandlerError::new("archive_conflict", text).no_retry());
    }
    Ok(Some(found))
}

/// Bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
