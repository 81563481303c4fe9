//! Releases queued runs whose job has room, queues waiting runs of paused projects and functions,
//! and clears the flag of pauses and limits after the last of them.
//!
//! Normally the transaction that closes a waiting run or counts an end releases the next one
//! ([`sched_model::dispatching::overlap_queue`]). Exceptions are a limit raised with plain SQL, and
//! runs queued for a pause that is over. Claims enforce pauses on their own; paused runs are moved,
//! in pages, only so that claims need not read them.

use std::time::Duration;

use sched_model::{
    Conn, DbError,
    dispatching::{overlap_queue, tick},
    running::claim_restrictions,
    transact,
};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, notify_workers, within};

pub const PERIOD: Duration = Duration::from_secs(10);
const RUN_LIMIT: Duration = Duration::from_secs(30);
/// Maximum number of jobs per pass.
const BATCH: i64 = 500;
/// Maximum number of runs queued in one pass.
const HELD_AT_ONCE: i64 = 5_000;
/// Time until the next pass when there may be more to do.
const SOON: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Lines {
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
        let (held, queues, is_lifted) = transact(&mut conn, "release_lines", async |conn: &mut Conn| {
            tick::fence(conn, self.scope.instance, self.scope.term).await?;
            let held = overlap_queue::queue_paused(conn, HELD_AT_ONCE).await?;
            let queues = overlap_queue::release_stranded(conn, BATCH).await?;
            Ok::<_, DbError>((held, queues, claim_restrictions::lift(conn).await?))
        })
        .await?;
        if is_lifted {
            tracing::debug!("nothing is paused or limited any more");
        }
        if held == 0 && queues.is_empty() {
            return Ok(Report::idle());
        }
        notify_workers(&mut conn, &queues).await;
        Ok(Report::worked(json!({"held": held, "queues": queues})).next_in(SOON))
    }
}
