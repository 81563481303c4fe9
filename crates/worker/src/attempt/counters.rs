//! The state of the worker for heartbeats, health and status, and its attempts in progress.
//!
//! An attempt that the database holds and that is missing here is a claim whose answer was lost.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sched_model::domain::ids::{ClaimToken, DispatchId, WorkerId};
use tokio::sync::watch;

use crate::attempt::stops::Stops;
use crate::backend::JobColumns;
use crate::claiming::fleet::Fleet;

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) processed: AtomicI64,
    pub(crate) session: watch::Sender<Option<WorkerId>>,
    pub(crate) running: Running,
    pub(crate) limited: LimitedClaims,
    pub(crate) is_listening: AtomicBool,
    pub(crate) fleet: Fleet,
}

/// Claims from queues with limits. The end of such an attempt may make room in its queue.
#[derive(Debug, Default)]
pub(crate) struct LimitedClaims(Mutex<HashMap<ClaimToken, String>>);

/// The attempts in progress: from the answer of the claim until the result is stored.
#[derive(Debug, Default)]
pub(crate) struct Running(Mutex<HashMap<ClaimToken, Attempt>>);

#[derive(Debug)]
pub(crate) struct Attempt {
    id: DispatchId,
    job: Arc<JobColumns>,
    stops: Arc<Stops>,
}

impl Attempt {
    /// An attempt that is about to run.
    pub(crate) fn new(id: DispatchId, job: Arc<JobColumns>, stops: Arc<Stops>) -> Self {
        Self { id, job, stops }
    }

    /// An attempt that will never run. Its release waits to be stored.
    pub(crate) fn over(id: DispatchId, job: Arc<JobColumns>) -> Self {
        let stops = Stops::new(Arc::default());
        stops.finish();
        Self::new(id, job, Arc::new(stops))
    }
}

impl LimitedClaims {
    pub(crate) fn insert(&self, token: ClaimToken, queue: String) {
        self.locked(|map| drop(map.insert(token, queue)));
    }

    /// Removes claims; returns their queues without duplicates.
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
    pub(crate) fn insert(&self, attempts: impl IntoIterator<Item = (ClaimToken, Attempt)>) {
        self.locked(|map| map.extend(attempts));
    }

    /// Stops the attempt of a cancelled run and returns its job; `None` if it was stopped before.
    pub(crate) fn cancel(&self, token: ClaimToken) -> Option<String> {
        self.locked(|map| {
            let attempt = map.get(&token).filter(|attempt| attempt.stops.cancel())?;
            Some(attempt.job.name.clone())
        })
    }

    /// Kills an attempt whose claim was taken away. Returns its job if it was running: an ended
    /// attempt may have lost its claim because its end is stored.
    pub(crate) fn lose(&self, token: ClaimToken) -> Option<String> {
        self.locked(|map| {
            let attempt = map.get(&token).filter(|attempt| attempt.stops.lose())?;
            Some(attempt.job.name.clone())
        })
    }

    pub(crate) fn held(&self) -> Vec<(DispatchId, ClaimToken)> {
        self.locked(|map| {
            let held = map.iter().filter(|(_, attempt)| !attempt.stops.is_over());
            held.map(|(token, attempt)| (attempt.id, *token)).collect()
        })
    }

    pub(crate) fn remove(&self, tokens: &[ClaimToken]) {
        self.locked(|map| {
            for token in tokens {
                map.remove(token);
            }
        });
    }

    pub(crate) fn count(&self) -> usize {
        self.locked(|map| map.len())
    }

    pub(crate) fn tokens(&self) -> Vec<ClaimToken> {
        self.locked(|map| map.keys().copied().collect())
    }

    pub(crate) fn jobs(&self) -> Vec<(DispatchId, String)> {
        self.locked(|map| map.values().map(|attempt| (attempt.id, attempt.job.name.clone())).collect())
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
            fleet: Fleet::default(),
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
    use crate::attempt::fixture::job_columns;

    #[test]
    fn ended_attempt_cannot_lose_its_claim() {
        let (running, id) = (Running::default(), DispatchId(uuid::Uuid::nil()));
        let tokens = [1, 2].map(ClaimToken);
        let [first, second] = tokens;
        let stops = tokens.map(|_| Arc::new(Stops::new(Arc::default())));
        running.insert(tokens.into_iter().zip(&stops).map(|(token, stops)| {
            let job = job_columns(&format!("job {}", token.0));
            (token, Attempt::new(id, job, stops.clone()))
        }));
        stops[0].finish();
        assert_eq!(running.held(), [(id, second)]);
        assert_eq!((running.lose(first), running.lose(second)), (None, Some("job 2".to_owned())));
        assert_eq!(stops.map(|stops| stops.is_lost()), [false, true]);
        assert_eq!(running.lose(second), None, "lost before");
        assert_eq!(running.count(), 2, "both results wait to be stored");
        running.remove(&tokens);
        assert_eq!(running.count(), 0);
    }
}
