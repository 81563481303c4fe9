//! The state of the worker for heartbeats, health and status, and its attempts in progress.
//!
//! An attempt that the database holds and that is missing here is a claim whose answer was lost.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use sched_model::domain::ids::{ClaimToken, DispatchId, WorkerId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) processed: AtomicI64,
    pub(crate) session: watch::Sender<Option<WorkerId>>,
    pub(crate) running: Running,
    pub(crate) limited: LimitedClaims,
    pub(crate) is_listening: AtomicBool,
}

/// Claims from queues with limits. The end of such an attempt may make room in its queue.
#[derive(Debug, Default)]
pub(crate) struct LimitedClaims(Mutex<HashMap<ClaimToken, String>>);

/// From the answer of the claim until the result is stored.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashMap<ClaimToken, Attempt>>);

#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    id: DispatchId,
    job: String,
    cancel: CancellationToken,
    /// Kills the attempt: the claim was taken away.
    lost: CancellationToken,
    /// The handler has ended or will never run. The result waits to be stored.
    is_over: bool,
}

impl Attempt {
    /// An attempt that is about to run. `cancel` stops its handler softly.
    pub(crate) fn new(id: DispatchId, job: String, cancel: CancellationToken) -> Self {
        Self { id, job, cancel, lost: CancellationToken::new(), is_over: false }
    }
}

impl LimitedClaims {
    pub(crate) fn insert(&self, token: ClaimToken, queue: String) {
        self.locked(|map| drop(map.insert(token, queue)));
    }

    /// Returns their queues without duplicates.
    pub(crate) fn take(&self, tokens: &[ClaimToken]) -> Vec<String> {
        self.locked(|map| {
            if map.is_empty() {
                return Vec::new();
            }
            let queues: BTreeSet<String> = tokens.iter().filter_map(|token| map.remove(token)).collect();
            queues.into_iter().collect()
        })
    }

    fn locked<T>(&self, look: impl FnOnce(&mut HashMap<ClaimToken, String>) -> T) -> T {
        // A panic leaves the map consistent.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Running {
    /// The key is the token: the next attempt of a run may start before the end of this one.
    pub(crate) fn insert(&self, token: ClaimToken, attempt: Attempt) {
        self.locked(|map| drop(map.insert(token, attempt)));
    }

    /// `None` for an attempt that was stopped before.
    pub(crate) fn cancel(&self, token: ClaimToken) -> Option<String> {
        self.locked(|map| {
            let attempt = map.get(&token).filter(|attempt| !attempt.cancel.is_cancelled())?;
            attempt.cancel.cancel();
            Some(attempt.job.clone())
        })
    }

    /// Kills an attempt whose claim was taken away. Returns its job if it was running: an ended
    /// attempt may have lost its claim because its end is stored.
    pub(crate) fn lose(&self, token: ClaimToken) -> Option<String> {
        self.locked(|map| {
            let attempt =
                map.get(&token).filter(|attempt| !attempt.is_over && !attempt.lost.is_cancelled())?;
            attempt.lost.cancel();
            Some(attempt.job.clone())
        })
    }

    /// Never cancelled for an unknown attempt.
    pub(crate) fn loss(&self, token: ClaimToken) -> CancellationToken {
        self.locked(|map| map.get(&token).map(|attempt| attempt.lost.clone()).unwrap_or_default())
    }

    /// Call it before the end is sent to the completer.
    pub(crate) fn finish(&self, token: ClaimToken) {
        self.locked(|map| {
            if let Some(attempt) = map.get_mut(&token) {
                attempt.is_over = true;
            }
        });
    }

    pub(crate) fn held(&self) -> Vec<(DispatchId, ClaimToken)> {
        self.locked(|map| {
            let held = map.iter().filter(|(_, attempt)| !attempt.is_over);
            held.map(|(token, attempt)| (attempt.id, *token)).collect()
        })
    }

    /// A new token for an unknown attempt.
    pub(crate) fn cancellation(&self, token: ClaimToken) -> CancellationToken {
        self.locked(|map| map.get(&token).map(|attempt| attempt.cancel.clone()).unwrap_or_default())
    }

    pub(crate) fn remove(&self, token: ClaimToken) {
        self.locked(|map| drop(map.remove(&token)));
    }

    pub(crate) fn count(&self) -> usize {
        self.locked(|map| map.len())
    }

    pub(crate) fn tokens(&self) -> Vec<ClaimToken> {
        self.locked(|map| map.keys().copied().collect())
    }

    pub(crate) fn jobs(&self) -> Vec<(DispatchId, String)> {
        self.locked(|map| map.values().map(|attempt| (attempt.id, attempt.job.clone())).collect())
    }

    fn locked<T>(&self, look: impl FnOnce(&mut HashMap<ClaimToken, Attempt>) -> T) -> T {
        // A panic leaves the map consistent.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            processed: AtomicI64::new(0),
            session: watch::Sender::new(None),
            running: Running::default(),
            limited: LimitedClaims::default(),
            is_listening: AtomicBool::new(false),
        }
    }

    pub(crate) fn count_processed(&self, attempts: usize) {
        self.processed.fetch_add(i64::try_from(attempts).unwrap_or(0), Ordering::Relaxed);
    }
}

pub(crate) fn log_loss(job: &str, token: ClaimToken) {
    tracing::warn!(job.name = job, claim.token = token.0, "claim taken away; killing the attempt");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_attempt_cannot_lose_its_claim() {
        let running = Running::default();
        let tokens = [1, 2].map(ClaimToken);
        for token in tokens {
            let id = DispatchId(uuid::Uuid::nil());
            running.insert(token, Attempt::new(id, format!("job {}", token.0), CancellationToken::new()));
        }
        let [first, second] = tokens;
        let loss = tokens.map(|token| running.loss(token));
        running.finish(first);
        assert_eq!(running.held(), [(DispatchId(uuid::Uuid::nil()), second)]);
        assert_eq!((running.lose(first), running.lose(second)), (None, Some("job 2".to_owned())));
        assert_eq!(loss.map(|loss| loss.is_cancelled()), [false, true]);
        assert_eq!(running.lose(second), None, "lost before");
        assert_eq!(running.count(), 2, "both results wait to be stored");
    }
}
