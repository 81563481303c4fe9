//! Somebody holds an old snapshot of the database: what was deleted since stays, and vacuum removes nothing.
//!
//! The transaction only reads. It ends with the connection, however that ends.

use std::time::Duration;

use sched_runtime::monotonic_clock;
use tokio::time::sleep;

use crate::place::Place;

/// How often whoever holds it shows that he is there.
const SIGN: Duration = Duration::from_secs(1);

/// Holds one for so long, or until the database ends it; `held` is called as soon as it is there.
///
/// # Errors
/// When the database is away, or goes away meanwhile.
pub(crate) async fn hold(place: &Place, lasts: Duration, held: impl FnOnce()) -> anyhow::Result<()> {
    let sql = place.client().await?;
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
