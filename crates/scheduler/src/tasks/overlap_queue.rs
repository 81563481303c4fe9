//! Lines that stand although there is room: released. And what a paused project or function keeps from being claimed: put in line.
//!
//! Whoever closes a dispatch lets the next of its job go in the same transaction ([`sched_model::dispatching::overlap_queue`]), so normally there is
//! nothing to do here. What is found was changed past that code, such as a limit that was raised by hand, or had been put in line because of a
//! pause that is over. Pauses are kept by the claims themselves; that what they hold is taken out of the waiting line, a page at a time, only
//! spares every claim from reading it.

use std::time::Duration;

use sched_model::{
    Conn, DbError,
    dispatching::{overlap_queue, tick},
    transact,
};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, tell_waiting, within};

/// Time between two looks.
pub const PERIOD: Duration = Duration::from_secs(10);
/// A run may take no longer.
const RUN_LIMIT: Duration = Duration::from_secs(30);
/// Jobs per run.
const BATCH: i64 = 500;
/// Dispatches that are put in line at once.
const HELD_AT_ONCE: i64 = 5_000;
/// Time until the next run when there may be more to do.
const SOON: Duration = Duration::from_millis(100);

/// Releases lines.
#[derive(Debug)]
pub struct Lines {
    /// The term it works in.
    pub scope: Scope,
}

impl Activation for Lines {
    fn name(&self) -> &'static str {
        "lines"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Lines {
    async fn run(&self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let (held, queues) = transact(&mut conn, "release_lines", async |conn: &mut Conn| {
            tick::fence(conn, self.scope.instance, self.scope.term).await?;
            let held = overlap_queue::hold(conn, HELD_AT_ONCE).await?;
            Ok::<_, DbError>((held, overlap_queue::release_stranded(conn, BATCH).await?))
        })
        .await?;
        if held == 0 && queues.is_empty() {
            return Ok(Report::idle());
        }
        tell_waiting(&mut conn, &queues).await;
        Ok(Report::worked(json!({"held": held, "queues": queues})).next_in(SOON))
    }
}
