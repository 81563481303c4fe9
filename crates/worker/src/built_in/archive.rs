//! `sched.archive`: copies detached months of history to a folder or to S3, and drops them only
//! after that.
//!
//! A month becomes one object, gzipped lines of JSON, with a checksum file beside it. The job reads
//! the object back. It stores the checksum only if it equals that of the written data and the
//! number of lines equals the number of rows, and then drops the month. If the process dies before
//! the drop, the next run finds the month. Without a checksum file, it overwrites the object; with
//! one, it verifies the object again.
//!
//! # Design notes
//! - The name of an object contains the table's OID, so a month that returns from a backup has
//!   another name. If the name exists and the numbers of rows differ, the job rejects the month.
//! - Objects appear completely or not at all: by multipart uploads of S3, or by renaming in a
//!   folder.

mod target;
mod verify;
mod write;

use sched_model::Conn;
use sched_model::domain::retention::HistoryExpiry;
use sched_model::retention::archive::{self, DetachedMonth};
use serde::{Deserialize, Serialize};

use super::{System, housekeeping_settings};
use crate::handlers::native::{Ctx, HandlerError};
use target::Store;

pub use target::ArchiveTarget;

/// Blocks of a month that one statement counts: 512 MiB, which a slow disk reads within the
/// statement timeout.
const COUNTED_BLOCKS: i64 = 65_536;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {}

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    archived: Vec<Archived>,
    rows: u64,
    bytes: u64,
    /// Months that remain because the run was cancelled.
    left: usize,
}

#[derive(Debug, Serialize)]
struct Archived {
    table: String,
    object: String,
    rows: u64,
    bytes: u64,
    sha256: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Content {
    rows: u64,
    bytes: u64,
    sha256: String,
}

pub(super) async fn run(system: &System, ctx: &Ctx, _: Args) -> Result<Report, HandlerError> {
    let Some(target) = &system.settings.archive else {
        let text = "ARCHIVE_URL is not set on this worker";
        return Err(HandlerError::new("not_configured", text).no_retry());
    };
    let store = target.open().await?;
    let mut conn = system.conn().await?;
    let months = archive::months(&mut conn).await?;
    if months.is_empty() && housekeeping_settings(&mut conn).await?.expiry == HistoryExpiry::Drop {
        ctx.log("no months to archive: HISTORY_EXPIRY of the schedulers is drop, not detach");
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
                ctx.log(format!("{} was not archived: {error}", month.name));
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

/// Archives one month and drops it. `None` if it was cancelled before the drop.
async fn one(
    conn: &mut Conn,
    ctx: &Ctx,
    store: &Store,
    month: &DetachedMonth,
) -> Result<Option<Archived>, HandlerError> {
    let rows = archive::count(conn, month, COUNTED_BLOCKS).await?;
    let name = format!("{}-{}.jsonl.gz", month.name.replace('.', "/"), month.oid);
    let content = match existing_content(store, &name, rows).await? {
        Some(content) => content,
        None => {
            let object = write::Object::new(store, &name);
            let Some(written) = write::write(conn, ctx, month, object).await? else { return Ok(None) };
            let found = verify::read_back(store, &name).await?;
            if found != written || found.rows != rows {
                let text = format!(
                    "{name} differs from the written data: {} of {rows} rows, checksum {} instead of {}",
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

/// The archive of this month from an earlier run, if it is intact.
async fn existing_content(store: &Store, name: &str, rows: u64) -> Result<Option<Content>, HandlerError> {
    let Some(checksum) = store.checksum(name).await? else { return Ok(None) };
    // Written again: its rows still exist.
    let Ok(found) = verify::read_back(store, name).await else { return Ok(None) };
    if found.sha256 != checksum {
        return Ok(None);
    }
    if found.rows != rows {
        let text = format!(
            "{name} is the archive of another month: it holds {} rows, not {rows}; use a separate location for each installation",
            found.rows
        );
        return Err(HandlerError::new("archive_conflict", text).no_retry());
    }
    Ok(Some(found))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
