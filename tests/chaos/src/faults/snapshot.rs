//! A session that holds an old snapshot: vacuum removes no rows deleted since then.
//!
//! The transaction only reads. It ends with the connection.

use std::time::Duration;

use sched_runtime::monotonic_clock;
use tokio::time::sleep;

use crate::workspace::Workspace;

const SIGN: Duration = Duration::from_secs(1);

/// Holds a snapshot for this time, or until the database ends it; calls `held` once it exists.
pub(crate) async fn hold(workspace: &Workspace, lasts: Duration, held: impl FnOnce()) -> anyhow::Result<()> {
    let sql = workspace.client().await?;
    sql.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM scheduled_jobs").await?;
    held();
    let until = monotonic_clock::monotonic() + lasts;
    loop {
        let left = until.saturating_duration_since(monotonic_clock::monotonic());
        if left.is_zero() {
            return Ok(());
        }
        sleep(left.min(SIGN)).await;
        sql.batch_execute("SELECT 1").await?;
    }
}
