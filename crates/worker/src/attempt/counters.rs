//! What the worker is doing, for those who only look: heartbeats, health, status.
//!
//! Shared by all sessions of the process and written where the thing itself happens. Nothing is decided by it, except that a
//! claim whose answer was lost is told from the attempts that are known here.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use sched_model::domain::ids::{ClaimToken, DispatchId, WorkerId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// What health and status are told.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) processed: AtomicI64,
    pub(crate) session: watch::Sender<Option<WorkerId>>,
    pub(crate) running: Running,
    pub(crate) limited: LimitedClaims,
    /// Whether notifications are heard.
    pub(crate) is_listening: AtomicBool,
}

/// The claims from queues with limits, and the queues: when such an attempt has ended, others may have room.
#[derive(Debug, Default)]
pub(crate) struct LimitedClaims(Mutex<HashMap<ClaimToken, String>>);

/// The attempts in progress, from before their claim is known to anyone until their result is stored.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashMap<ClaimToken, Attempt>>);

/// An attempt in progress.
#[derive(Debug, Clone)]
struct Attempt {
    id: DispatchId,
    job: String,
    /// Stops its work softly.
    cancel: CancellationToken,
    /// Kills its work: the claim was taken away.
    lost: CancellationToken,
    /// Nothing of it runs any more, or ever will: its result waits to be stored.
    is_over: bool,
}

impl LimitedClaims {
    pub(crate) fn insert(&self, token: ClaimToken, queue: String) {
        self.locked(|map| drop(map.insert(token, queue)));
    }

    /// Forgets claims; returns the queues they were from, each once.
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
        // A panic while the lock was held cannot have left the map half-changed.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Running {
    /// By token and not by dispatch: the next attempt of a dispatch may begin before the end of the last is noted here.
    pub(crate) fn insert(&self, token: ClaimToken, id: DispatchId, job: String, cancel: CancellationToken) {
        self.locked(|map| {
            let lost = CancellationToken::new();
            drop(map.insert(token, Attempt { id, job, cancel, lost, is_over: false }))
        });
    }

    /// Stops the work of an attempt that somebody cancelled; returns the name of its job if that was news.
    pub(crate) fn cancel(&self, token: ClaimToken) -> Option<String> {
        self.locked(|map| {
            let attempt = map.get(&token).filter(|attempt| !attempt.cancel.is_cancelled())?;
            attempt.cancel.cancel();
            Some(attempt.job.clone())
        })
    }

    /// Kills the work of an attempt whose claim was taken away; returns the name of its job if it was known to run. One that is over has
    /// told its end meanwhile, perhaps, and does not hold its claim for that reason.
    pub(crate) fn lose(&self, token: ClaimToken) -> Option<String> {
        self.locked(|map| {
            let attempt =
                map.get(&token).filter(|attempt| !attempt.is_over && !attempt.lost.is_cancelled())?;
            attempt.lost.cancel();
            Some(attempt.job.clone())
        })
    }

    /// What tells that the claim of an attempt was taken away; never, if the attempt is not known.
    pub(crate) fn loss(&self, token: ClaimToken) -> CancellationToken {
        self.locked(|map| map.get(&token).map(|attempt| attempt.lost.clone()).unwrap_or_default())
    }

    /// Notes that nothing of an attempt runs any more; before its end is told to anybody.
    pub(crate) fn over(&self, token: ClaimToken) {
        self.locked(|map| {
            if let Some(attempt) = map.get_mut(&token) {
                attempt.is_over = true;
            }
        });
    }

    /// The claims under which something runs or is about to.
    pub(crate) fn held(&self) -> Vec<(DispatchId, ClaimToken)> {
        self.locked(|map| {
            let held = map.iter().filter(|(_, attempt)| !attempt.is_over);
            held.map(|(token, attempt)| (attempt.id, *token)).collect()
        })
    }

    /// What stops the work of an attempt; a token of its own if the attempt is not known.
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
        // A panic while the lock was held cannot have left the map half-changed.
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Seen {
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

/// Says that a claim was taken away.
pub(crate) fn tell_loss(job: &str, token: ClaimToken) {
    tracing::warn!(
        job.name = job,
        claim.token = token.0,
        "The claim of an attempt was taken away; its work is killed."
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_that_is_over_has_no_claim_to_lose() {
        let running = Running::default();
        let tokens = [1, 2].map(ClaimToken);
        for token in tokens {
            let id = DispatchId(uuid::Uuid::nil());
            running.insert(token, id, format!("job {}", token.0), CancellationToken::new());
        }
        let [first, second] = tokens;
        let loss = tokens.map(|token| running.loss(token));
        running.over(first);
        assert_eq!(running.held(), [(DispatchId(uuid::Uuid::nil()), second)]);
        assert_eq!((running.lose(first), running.lose(second)), (None, Some("job 2".to_owned())));
        assert_eq!(loss.map(|loss| loss.is_cancelled()), [false, true]);
        assert_eq!(running.lose(second), None, "it is no news");
        assert_eq!(running.count(), 2, "both have results to be stored");
    }
}
