//! Lines that stand although there is room: released.
//!
//! Whoever closes a dispatch lets the next of its job go in the same transaction ([`sched_model::db::line`]), so normally there is
//! nothing to do here. What is found was changed past that code, such as a limit that was raised by hand.

use std::time::Duration;

use sched_model::db::{Conn, DbError, line, tick, transact};
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
        let queues = transact(&mut conn, "release_lines", async |conn: &mut Conn| {
            tick::fence(conn, self.scope.instance, self.scope.term).await?;
            line::release_stranded(conn, BATCH).await
        })
        .await?;
        if queues.is_empty() {
            return Ok(Report::idle());
        }
        tell_waiting(&mut conn, &queues).await;
        Ok(Report::worked(json!({"queues": queues})))
    }
}
