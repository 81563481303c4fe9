//! Counts the ends of attempts, and the runs of triggers, into the counters of their jobs
//! ([`job_counters`]).
//!
//! The transaction needs no fence: it deletes the rows that it counts, so two leaders count
//! different rows. An idle leader polls every few seconds. The notification of the next run wakes
//! it, and the leader then polls often again. If the notification is lost, a run is counted a few
//! seconds late; the worker that stores the next end counts that end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sched_model::DbError;
use sched_model::running::job_counters;
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, within};

/// Poll interval while attempts end or runs are triggered.
pub const PERIOD: Duration = Duration::from_millis(500);
/// Poll interval after [`POLLS`] polls that found nothing.
const IDLE_PERIOD: Duration = Duration::from_secs(5);
const POLLS: u32 = 10;
const RUN_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Counters {
    pub scope: Scope,
    /// Polls since the last one that found something.
    empty_polls: u32,
    /// Set while the task polls rarely. A notification of a run then wakes it.
    is_idle: Arc<AtomicBool>,
}

impl Counters {
    #[must_use]
    pub const fn new(scope: Scope, is_idle: Arc<AtomicBool>) -> Self {
        Self { scope, empty_polls: 0, is_idle }
    }
}

impl Activation for Counters {
    fn name(&self) -> &'static str {
        "counters"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Counters {
    async fn run(&mut self) -> Result<Report, DbError> {
        // Before the query: a notification that arrives later finds the flag.
        self.is_idle.store(self.empty_polls >= POLLS, Ordering::Relaxed);
        let mut conn = self.scope.database.conn().await?;
        let counted = job_counters::count_and_notify(&mut conn).await?;
        if counted.jobs == 0 {
            self.empty_polls = self.empty_polls.saturating_add(1);
            let pause = if self.empty_polls > POLLS { IDLE_PERIOD } else { PERIOD };
            return Ok(Report::idle().next_in(pause));
        }
        self.empty_polls = 0;
        self.is_idle.store(false, Ordering::Relaxed);
        Ok(Report::worked(json!({"jobs": counted.jobs, "queues": counted.released_queues})))
    }
}
