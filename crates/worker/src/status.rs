//! What the worker tells about itself: read from shared state, never from the database.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sched_runtime::health_endpoint::{Readiness, StatusSource};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::attempt::counters::Seen;
use crate::config::Config;

/// How far the start has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The database has not been usable yet.
    WaitingForDatabase,
    /// Claims and runs.
    Running,
    /// Told to stop.
    Draining,
}

/// The sources of the answers.
#[derive(Debug)]
pub(crate) struct WorkerStatus {
    pub(crate) config: Arc<Config>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) seen: Arc<Seen>,
}

impl StatusSource for WorkerStatus {
    fn ready(&self) -> Readiness {
        match *self.phase.borrow() {
            Phase::WaitingForDatabase => Readiness::NotReady("the database cannot be used yet".into()),
            Phase::Draining => Readiness::NotReady("the worker is draining".into()),
            Phase::Running if self.seen.session.borrow().is_none() => {
                Readiness::NotReady("the worker is not registered".into())
            }
            Phase::Running => Readiness::Ready,
        }
    }

    fn status(&self) -> Value {
        let running: Vec<Value> = self
            .seen
            .running
            .jobs()
            .into_iter()
            .map(|(dispatch, job)| json!({"dispatch_id": dispatch, "job_name": job}))
            .collect();
        json!({
            "worker_id": *self.seen.session.borrow(),
            "queues": self.config.queues,
            "concurrency": self.config.concurrency,
            "listening": self.seen.is_listening.load(Ordering::Relaxed),
            "running": running,
            "attempts_processed": self.seen.processed.load(Ordering::Relaxed),
            "draining": *self.phase.borrow() == Phase::Draining,
        })
    }
}
