//! Health, status and metrics over HTTP.
//!
//! Six read-only pages over what the daemon publishes about itself: `/`, `/health`, `/health/live`, `/health/ready`,
//! `/status` and `/metrics`. Answers come from memory alone (a [`StatusSource`] reads `watch` channels), so that a hung
//! database makes a daemon unready but can neither hang these pages nor make it look dead. There is no authentication:
//! the listener belongs on loopback or a private network.
//!
//! The scheduler and the worker serve the pages with a [`HealthServer`] on a thread of its own, out of reach of a busy
//! runtime; the API daemon mounts them beside its routes with [`configure`].

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

/// Whether a daemon does its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It does.
    Ready,
    /// It does not at the moment, for this reason; it may come back by itself.
    NotReady(String),
}

/// Whether a daemon's main loop goes round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    /// It does.
    Alive,
    /// It does not and will not, for this reason: whoever watches should restart the process.
    Stuck(String),
}

/// What a daemon tells about itself. Called on the listener's thread: no waiting, no database.
pub trait StatusSource: Send + Sync {
    /// Whether the daemon does its work.
    fn ready(&self) -> Readiness;

    /// Whether its main loop goes round. Answering at all proves that the process runs.
    fn live(&self) -> Liveness {
        Liveness::Alive
    }

    /// Everything worth knowing, an object.
    fn status(&self) -> Value;
}

/// All the pages need. Clones share it.
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
    /// The state of a daemon that starts now.
    #[must_use]
    pub fn new(program: &Program, source: Arc<dyn StatusSource>, metrics: PrometheusHandle) -> Self {
        metrics::gauge!("sched_build_info", "version" => program.version, "daemon" => program.table())
            .set(1.0);
        metrics::describe_gauge!("sched_build_info", "Always 1; the labels tell what runs.");
        metrics::describe_gauge!("sched_process_uptime_seconds", "Seconds since the daemon started.");
        Self { program: *program, started: crate::monotonic_clock::monotonic(), source, metrics }
    }

    /// Renews histograms, which else would grow. A [`HealthServer`] does it; who mounts the pages does it every few
    /// seconds.
    pub fn upkeep(&self) {
        self.metrics.run_upkeep();
    }
}
