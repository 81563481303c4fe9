//! Counting stored ends into the counters of their jobs, in place of the leader.
//!
//! The leader counts twice a second while attempts end ([`sched_model::running::job_counters`]). A
//! worker that has stored ends polls until all are counted, and counts those that the leader has
//! missed: there is no leader, or it was idle. So a job lags by at most [`PATIENCE`] and
//! [`PERIOD`] together, which is less than a second. A worker without ends does nothing. If the worker
//! dies, the next leader or another worker counts its ends.

use std::sync::Arc;
use std::time::Duration;

use sched_runtime::tasks::BoxError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;

/// Poll interval.
const PERIOD: Duration = Duration::from_millis(350);
/// Age of ends that the leader has missed: it counts every half second.
const PATIENCE: Duration = Duration::from_millis(600);

/// `stored` is notified after ends were stored.
pub(super) async fn run(
    backend: Backend,
    stored: Arc<Notify>,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    let mut has_uncounted = false;
    loop {
        if !has_uncounted {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = stored.notified() => {}
            }
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(PERIOD) => {}
        }
        has_uncounted = backend.count_ends(PATIENCE).await.unwrap_or_else(|error| {
            tracing::debug!(error = error.with_causes(), "counting ends failed; trying again");
            true
        });
    }
}
