//! Storing a batch of results, however long that takes, and what follows from it.
//!
//! A result that the database refuses is told from one that it does not answer ([`Patience`]): the first is stored without what its handler gave, the
//! second is offered again. What is not known to be stored is read back before it counts as lost.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sched_model::domain::attempt::{AttemptOutcome, Verdict};
use sched_model::domain::dispatch::DispatchEvent;
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId};
use sched_model::running::attempts::{self, Ended, Record};
use sched_model::{Database, DbError, connection::notify};
use tokio::sync::Notify;

use crate::attempt::counters::Seen;

use super::counted;
use super::{CompleterHandle, Message};
use crate::completion::open_claims::by_claim;
use crate::completion::retry_budget::Patience;

/// Writes results.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) database: Database,
    pub(super) seen: Arc<Seen>,
    /// Wakes our own poller.
    pub(super) wake: Arc<Notify>,
    pub(super) handle: CompleterHandle,
}

impl Writer {
    /// Stores a batch, frees what it held, and tells whom it concerns.
    pub(super) async fn write(self, batch: Vec<Message>) {
        let ends = by_claim(&batch);
        let finished = self.handle.book.finished_by(&ends);
        let tokens: Vec<ClaimToken> = batch.iter().map(|message| message.ended.token).collect();
        let handed_over: Vec<Instant> = batch.iter().map(|message| message.at).collect();
        let (ended, held): (Vec<Ended>, Vec<_>) =
            batch.into_iter().map(|message| (message.ended, message.held)).unzip();
        let started = ended.iter().filter(|one| one.has_started()).count();
        let waits_again: Vec<Duration> = ended.iter().filter_map(|one| one.verdict.wait).collect();
        self.store(ended, &finished).await;
        let seconds = metrics::histogram!("sched_completion_seconds");
        for at in handed_over {
            seconds.record(at.elapsed().as_secs_f64());
        }
        for token in &tokens {
            self.seen.running.remove(*token);
        }
        self.seen.count_processed(started);
        let is_last = self.handle.count_written(tokens.len());
        if self.handle.book.stored(&ends, &finished) && is_last {
            self.release_claims().await;
        }
        self.tell(&waits_again).await;
        self.tell_of_room(&self.seen.limited.take(&tokens)).await;
        drop(held);
    }

    /// Nothing follows that would do it.
    async fn release_claims(&self) {
        let claims = self.handle.book.finished_by(&HashMap::new());
        let released = async { attempts::release_claims(&mut *self.database.conn().await?, &claims).await };
        if let Err(error) = released.await {
            tracing::debug!(
                error = error.with_causes(),
                "Forgetting finished claims failed; the leader does it."
            );
        }
    }

    /// Dispatches that wait again are found by our own poller when they are due; those due at once (handed back by a worker
    /// that stops) are told to the others too.
    async fn tell(&self, waits_again: &[Duration]) {
        if waits_again.is_empty() {
            return;
        }
        self.wake.notify_one();
        if waits_again.contains(&Duration::ZERO) {
            let told = async { notify::dispatches_wait_again(&mut *self.database.conn().await?).await };
            if let Err(error) = told.await {
                tracing::debug!(
                    error = error.with_causes(),
                    "Notifying the workers failed; they find the work when they poll."
                );
            }
        }
    }

    /// Queues with limits have room again: for ourselves, and for workers that wait for it.
    async fn tell_of_room(&self, queues: &[String]) {
        if queues.is_empty() {
            return;
        }
        self.wake.notify_one();
        let told = async { notify::dispatches_waiting(&mut *self.database.conn().await?, queues).await };
        if let Err(error) = told.await {
            tracing::debug!(
                error = error.with_causes(),
                "Notifying the workers failed; they find the room when they poll."
            );
        }
    }

    /// Stores results, however long that takes.
    async fn store(&self, mut ended: Vec<Ended>, finished_claims: &[i64]) {
        let mut patience = Patience::new();
        let mut is_unknown = false;
        while !ended.is_empty() {
            let error = match self.offer(&ended, finished_claims).await {
                Ok(held) => {
                    let held: HashSet<DispatchId> = held.into_iter().collect();
                    let (stored, refused): (Vec<Ended>, Vec<Ended>) =
                        ended.into_iter().partition(|one| held.contains(&one.dispatch_id));
                    counted::count(&stored);
                    return self.account_for_refused(&refused, is_unknown).await;
                }
                Err(error) => error,
            };
            // Whatever went wrong, the commit may have been on its way.
            is_unknown = true;
            metrics::counter!("sched_completion_failures_total").increment(1);
            if patience.is_unanswered(&error) && ended.len() > 1 {
                // Together they may be more than the database manages; if it is away, each half waits for it.
                let rest = ended.split_off(ended.len() / 2);
                for half in [ended, rest] {
                    Box::pin(self.store(half, finished_claims)).await;
                }
                return;
            }
            if !patience.is_over(&error) {
                tracing::warn!(
                    error = error.with_causes(),
                    results = ended.len(),
                    "Storing results failed; they are kept."
                );
                patience.pause().await;
            } else if ended.len() > 1 {
                // One of them is refused: offer each alone.
                for one in std::mem::take(&mut ended) {
                    Box::pin(self.store(vec![one], finished_claims)).await;
                }
            } else {
                tracing::error!(
                    error = error.with_causes(),
                    "The database refuses a result; it is stored without its content."
                );
                ended = ended.into_iter().map(|one| bare(one, &error)).collect();
                patience.pause().await;
            }
        }
    }

    async fn offer(&self, ended: &[Ended], finished_claims: &[i64]) -> Result<Vec<DispatchId>, DbError> {
        let mut conn = self.database.conn().await?;
        attempts::end(&mut conn, ended, finished_claims).await
    }

    /// Tells apart results that an earlier, unanswered offer had stored, and claims that were lost.
    async fn account_for_refused(&self, refused: &[Ended], is_unknown: bool) {
        let mut lost = refused.len();
        if is_unknown && let Some(since) = refused.iter().map(|one| one.record.started_at).min() {
            let executions: Vec<_> = refused.iter().map(|one| one.record.execution_id).collect();
            match self.stored_before(&executions, since).await {
                Ok(stored) => {
                    lost = lost.saturating_sub(stored.len());
                    counted::count(refused.iter().filter(|one| stored.contains(&one.record.execution_id)));
                }
                Err(error) => {
                    tracing::warn!(error = error.with_causes(), "Reading back stored results failed.")
                }
            }
        }
        if lost > 0 {
            tracing::warn!(
                results = lost,
                "Results were refused: their claims had been taken away. Nothing of them was stored."
            );
            metrics::counter!("sched_claims_lost_total").increment(u64::try_from(lost).unwrap_or(0));
        }
    }

    async fn stored_before(
        &self,
        executions: &[ExecutionId],
        since: DateTime<Utc>,
    ) -> Result<Vec<ExecutionId>, DbError> {
        let mut conn = self.database.conn().await?;
        attempts::was_ended(&mut conn, executions, since).await
    }
}

/// The result without what the handler gave, as a failure that says why. It is not retried: the program has run.
fn bare(ended: Ended, error: &DbError) -> Ended {
    let verdict = Verdict { event: DispatchEvent::GiveUp, wait: None };
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
