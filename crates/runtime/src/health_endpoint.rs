//! Health, status and metrics over HTTP: `/`, `/health`, `/health/live`, `/health/ready`, `/status`
//! and `/metrics`.
//!
//! Responses come from memory alone, so a hung database makes a daemon unready but neither blocks
//! the pages nor affects liveness. There is no authentication: the listener belongs on loopback or
//! a private network.
//!
//! The scheduler and the worker use a [`HealthServer`] on a separate thread. The API daemon mounts
//! the pages beside its routes with [`configure`].

mod pages;
mod server;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::Value;

pub use pages::{PATHS, configure, configure_without_root};
pub use server::{HealthServer, ListenError};

use crate::config::Program;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// The reason why the daemon does not work; it may recover automatically.
    NotReady(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    /// The loop is stuck permanently: the supervisor should restart the process.
    Stuck(String),
}

/// A daemon's report. Runs on the listener's thread: no waiting, no database.
pub trait StatusSource: Send + Sync {
    fn ready(&self) -> Readiness;

    /// Whether the main loop makes progress. A response alone proves that the process runs.
    fn live(&self) -> Liveness {
        Liveness::Alive
    }

    fn status(&self) -> Value;
}

#[derive(Clone)]
pub struct HealthState {
    program: Program,
    started: Instant,
    source: Arc<dyn StatusSource>,
    metrics: PrometheusHandle,
}

impl fmt::Debug for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HealthState").field("program", &self.program.name).finish_non_exhaustive()
    }
}

impl HealthState {
    #[must_use]
    pub fn new(program: &Program, source: Arc<dyn StatusSource>, metrics: PrometheusHandle) -> Self {
        metrics::gauge!("sched_build_info", "version" => program.version, "daemon" => program.table())
            .set(1.0);
        metrics::describe_gauge!("sched_build_info", "Always 1; the labels identify the build.");
        metrics::describe_gauge!("sched_process_uptime_seconds", "Seconds since the daemon started.");
        Self { program: *program, started: crate::monotonic_clock::monotonic(), source, metrics }
    }

    /// Renews histograms, which would grow otherwise. A daemon without a [`HealthServer`] calls it
    /// every few seconds.
    pub fn upkeep(&self) {
        self.metrics.run_upkeep();
    }
}
