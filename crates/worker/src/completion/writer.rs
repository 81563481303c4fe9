//! Storing one batch of results, with retries and notifications.
//!
//! Rejected results are stored without the content of their handler; results without an answer are
//! stored again ([`RetryBudget`]). A result with an unknown outcome is read back before it counts
//! as lost.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sched_model::domain::attempt::{AttemptDecision, AttemptOutcome};
use sched_model::domain::ids::{ClaimToken, DispatchId};
use sched_model::domain::run_state::DispatchEvent;
use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::Notify;

use super::counted;
use super::{CompleterHandle, Message};
use crate::attempt::counters::Counters;
use crate::backend::{Backend, DbError, Ended, Record};
use crate::completion::open_claims::by_claim;
use crate::completion::retry_budget::RetryBudget;

#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) backend: Backend,
    pub(super) counters: Arc<Counters>,
    pub(super) wake: Arc<Notify>,
    pub(super) handle: CompleterHandle,
}

impl Writer {
    /// Also notifies the workers and frees the permits.
    pub(super) async fn write(self, batch: Vec<Message>) {
        let ends = by_claim(&batch);
        let finished = self.handle.open_claims.finished_by(&ends);
        let tokens: Vec<ClaimToken> = batch.iter().map(|message| message.ended.token).collect();
        let handed_over: Vec<Instant> = batch.iter().map(|message| message.at).collect();
        let (ended, held): (Vec<Ended>, Vec<_>) =
            batch.into_iter().map(|message| (message.ended, message.held)).unzip();
        let started = ended.iter().filter(|one| one.has_started()).count();
        let waits_again: Vec<Duration> = ended.iter().filter_map(|one| one.verdict.wait).collect();
        self.store(ended, &finished).await;
        self.handle.stored.notify_one();
        let seconds = metrics::histogram!("sched_completion_seconds");
        let stored_at = monotonic();
        for at in handed_over {
            seconds.record(stored_at.saturating_duration_since(at).as_secs_f64());
        }
        self.counters.running.remove(&tokens);
        self.counters.count_processed(started);
        let is_last = self.handle.count_written(tokens.len());
        if self.handle.open_claims.stored(&ends, &finished) && is_last {
            self.release_claims().await;
        }
        self.notify_released(&waits_again).await;
        self.notify_room(&self.counters.limited.take(&tokens)).await;
        drop(held);
    }

    /// Releases finished claims when no further batch would release them.
    async fn release_claims(&self) {
        let claims = self.handle.open_claims.finished_by(&HashMap::new());
        if let Err(error) = self.backend.release(&claims).await {
            tracing::debug!(
                error = error.with_causes(),
                "failed to release finished claims; the leader deletes them"
            );
        }
    }

    /// Wakes the poller of this worker. Notifies other workers only of runs that are due at once,
    /// because a stopping worker released them.
    async fn notify_released(&self, waits_again: &[Duration]) {
        if waits_again.is_empty() {
            return;
        }
        self.wake.notify_one();
        if waits_again.contains(&Duration::ZERO)
            && let Err(error) = self.backend.notify_released().await
        {
            tracing::debug!(
                error = error.with_causes(),
                "NOTIFY failed; workers find the runs on their next poll"
            );
        }
    }

    /// Notifies all workers that queues with limits have room.
    async fn notify_room(&self, queues: &[String]) {
        if queues.is_empty() {
            return;
        }
        self.wake.notify_one();
        if let Err(error) = self.backend.notify_queues(queues).await {
            tracing::debug!(
                error = error.with_causes(),
                "NOTIFY failed; workers find the room on their next poll"
            );
        }
    }

    /// Stores results and retries without limit.
    async fn store(&self, mut ended: Vec<Ended>, finished_claims: &[i64]) {
        let mut budget = RetryBudget::new();
        let mut is_unknown = false;
        while !ended.is_empty() {
            let error = match self.backend.finish(&ended, finished_claims).await {
                Ok(held) => {
                    let held: HashSet<DispatchId> = held.into_iter().collect();
                    let (stored, rejected): (Vec<Ended>, Vec<Ended>) =
                        ended.into_iter().partition(|one| held.contains(&one.dispatch_id));
                    counted::count(&stored);
                    return self.count_rejected(&rejected, is_unknown).await;
                }
                Err(error) => error,
            };
            // Any error may hide a commit that took effect.
            is_unknown = true;
            metrics::counter!("sched_completion_failures_total").increment(1);
            if budget.is_unanswered(&error) && ended.len() > 1 {
                // The batch may be too large. If the database is unavailable, each half waits for
                // it.
                let rest = ended.split_off(ended.len() / 2);
                for half in [ended, rest] {
                    Box::pin(self.store(half, finished_claims)).await;
                }
                return;
            }
            if !budget.is_permanent(&error) {
                tracing::warn!(
                    error = error.with_causes(),
                    results = ended.len(),
                    "failed to store results; keeping them and retrying"
                );
                budget.pause().await;
            } else if ended.len() > 1 {
                // One of them is rejected: store each alone.
                for one in std::mem::take(&mut ended) {
                    Box::pin(self.store(vec![one], finished_claims)).await;
                }
            } else {
                tracing::error!(
                    error = error.with_causes(),
                    "the database rejects a result; storing it without its content"
                );
                ended = ended.into_iter().map(|one| bare(one, &error)).collect();
                budget.pause().await;
            }
        }
    }

    /// Counts rejected results: an earlier try without an answer stored them, or their claims were
    /// lost.
    async fn count_rejected(&self, rejected: &[Ended], is_unknown: bool) {
        let mut lost = rejected.len();
        if is_unknown && let Some(since) = rejected.iter().map(|one| one.record.started_at).min() {
            let attempts: Vec<_> = rejected.iter().map(|one| one.record.execution_id).collect();
            match self.backend.finished(&attempts, since).await {
                Ok(stored) => {
                    lost = lost.saturating_sub(stored.len());
                    counted::count(rejected.iter().filter(|one| stored.contains(&one.record.execution_id)));
                }
                Err(error) => {
                    tracing::warn!(error = error.with_causes(), "failed to read back stored results")
                }
            }
        }
        if lost > 0 {
            tracing::warn!(
                results = lost,
                "results rejected because their claims were taken away; stored nothing of them"
            );
            metrics::counter!("sched_claims_lost_total").increment(u64::try_from(lost).unwrap_or(0));
        }
    }
}

/// A failure without the content of the handler. The run is not retried, because its handler has
/// run.
fn bare(ended: Ended, error: &DbError) -> Ended {
    let verdict = AttemptDecision { event: DispatchEvent::GiveUp, wait: None };
    let message =
        format!("the attempt ended as {}, but its result could not be stored: {error}", ended.outcome);
    Ended {
        outcome: AttemptOutcome::Failed,
        verdict,
        record: Record {
            result: None,
            error_class: Some("result_not_storable".into()),
            error_message: Some(message),
            traceback: None,
            metrics: None,
            output: Vec::new(),
            ..ended.record
        },
        ..ended
    }
}
