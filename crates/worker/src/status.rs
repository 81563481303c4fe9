//! Readiness and status of the worker: from shared state, never from the database.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use sched_runtime::health_endpoint::{Readiness, StatusSource};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::attempt::counters::Counters;
use crate::config::Config;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The database was not usable yet.
    WaitingForDatabase,
    Running,
    Draining,
}

#[derive(Debug)]
pub(crate) struct WorkerStatus {
    pub(crate) config: Arc<Config>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) counters: Arc<Counters>,
}

impl StatusSource for WorkerStatus {
    fn ready(&self) -> Readiness {
        match *self.phase.borrow() {
            Phase::WaitingForDatabase => Readiness::NotReady("the database is not usable yet".into()),
            Phase::Draining => Readiness::NotReady("the worker is draining".into()),
            Phase::Running if self.counters.session.borrow().is_none() => {
                Readiness::NotReady("the worker is not registered".into())
            }
            Phase::Running => Readiness::Ready,
        }
    }

    fn status(&self) -> Value {
        let running: Vec<Value> = self
            .counters
            .running
            .jobs()
            .into_iter()
            .map(|(run, job)| json!({"run_id": run, "job_name": job}))
            .collect();
        json!({
            "worker_id": *self.counters.session.borrow(),
            "queues": self.config.queues,
            "concurrency": self.config.concurrency,
            "listening": self.counters.is_listening.load(Ordering::Relaxed),
            "running": running,
            "attempts_processed": self.counters.processed.load(Ordering::Relaxed),
            "draining": *self.phase.borrow() == Phase::Draining,
        })
    }
}
