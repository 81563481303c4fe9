//! The outgoing heartbeat: calls a URL every minute while this scheduler leads, dispatches, and
//! nothing is overdue.
//!
//! A service outside of the installation expects the calls, so it also notices when every
//! scheduler, the database or the machine stops. The task writes nothing. It proves the term in the
//! transaction of its check, so a deposed leader does not call. It holds no connection during the
//! call, which has a time limit, so a receiver that hangs delays no other task. If the process dies
//! before a call, the next leader calls.
//!
//! A failed call fails the run of the task: the driver logs and counts it, and repeats it soon.

mod receiver;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sched_model::cluster::health::{self, Overdue};
use sched_model::{Conn, DbError, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::http_targets::CallError;
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use serde_json::json;

pub use receiver::{HeartbeatStyle, Receiver};

use super::{Scope, within};
use crate::leader_scope::{Board, since_last_dispatch};

pub const PERIOD: Duration = Duration::from_secs(60);
/// Time limit of a run of this task, longer than that of the call.
const RUN_LIMIT: Duration = Duration::from_secs(30);
/// Time until the next check while a new leader does the work of the time without a leader.
const SOON: Duration = Duration::from_secs(5);

pub(super) fn show_counters() {
    metrics::describe_counter!(
        "sched_heartbeat_calls_total",
        "Calls of the heartbeat URL: sent, failure_sent (the leader reported a failure), error."
    );
    for outcome in ["sent", "failure_sent", "error"] {
        count(outcome, 0);
    }
}

fn count(outcome: &'static str, calls: u64) {
    metrics::counter!("sched_heartbeat_calls_total", "outcome" => outcome).increment(calls);
}

/// Counts a call by its outcome.
fn counted(called: Result<Option<&'static str>, CallError>) -> Result<(), CallError> {
    if let Some(outcome) = called.as_ref().map_or(Some("error"), |outcome| *outcome) {
        count(outcome, 1);
    }
    called.map(drop)
}

#[derive(Debug)]
pub struct Heartbeat {
    scope: Scope,
    board: Arc<Board>,
    receiver: Receiver,
    overdue_after: Duration,
    began: Instant,
}

impl Activation for Heartbeat {
    fn name(&self) -> &'static str {
        "heartbeat"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Heartbeat {
    /// The term begins now. The board shows its latest successful dispatch.
    #[must_use]
    pub fn new(scope: Scope, board: Arc<Board>, receiver: Receiver, overdue_after: Duration) -> Self {
        Self { scope, board, receiver, overdue_after, began: monotonic() }
    }

    async fn run(&self) -> Result<Report, BoxError> {
        let Some(reason) = self.failure().await? else {
            counted(self.receiver.beat().await.map(|()| Some("sent")))?;
            return Ok(Report::idle());
        };
        // The work of the time without a leader is overdue at first.
        if self.began.elapsed() < self.overdue_after {
            return Ok(Report::idle().next_in(SOON));
        }
        tracing::warn!(error = reason, "no heartbeat, because the installation does not keep up");
        let is_sent = self.receiver.fail(&reason).await;
        counted(is_sent.map(|is_sent| is_sent.then_some("failure_sent")))?;
        Ok(Report::worked(json!({ "failure": reason })))
    }

    /// The reason for a missing heartbeat.
    async fn failure(&self) -> Result<Option<String>, DbError> {
        let Scope { database, instance, term, .. } = &self.scope;
        let mut conn = database.conn().await?;
        let overdue = transact(&mut conn, "heartbeat", async |conn: &mut Conn| {
            tick::fence(conn, *instance, *term).await?;
            health::overdue(conn, self.overdue_after).await
        })
        .await?;
        let since_dispatch = since_last_dispatch(&self.board.borrow());
        Ok(reason(since_dispatch, self.overdue_after, overdue))
    }
}

fn reason(since_dispatch: Option<Duration>, allowed: Duration, overdue: Overdue) -> Option<String> {
    let stalled = match since_dispatch {
        Some(age) if age <= allowed => None,
        Some(age) => Some(format!("the leader has not dispatched for {} s", age.as_secs())),
        None => Some("the leader has not dispatched in its term".to_owned()),
    };
    let due = overdue.due_job.map(|age| format!("a job has been due for {age:.0} s"));
    let waiting = overdue.waiting_run.map(|age| format!("a run has waited for a worker for {age:.0} s"));
    let reasons: Vec<String> = [stalled, due, waiting].into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_for_silence_is_named() {
        let allowed = Duration::from_secs(60);
        let overdue = |due_job, waiting_run| Overdue { due_job, waiting_run };
        for (since, overdue, expected) in [
            (Some(1), overdue(None, None), None),
            (Some(61), overdue(None, None), Some("the leader has not dispatched for 61 s")),
            (None, overdue(None, None), Some("the leader has not dispatched in its term")),
            (
                Some(60),
                overdue(Some(75.4), Some(130.0)),
                Some("a job has been due for 75 s; a run has waited for a worker for 130 s"),
            ),
        ] {
            let found = reason(since.map(Duration::from_secs), allowed, overdue);
            assert_eq!(found.as_deref(), expected);
        }
    }
}
