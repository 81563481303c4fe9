//! Health, status and metrics over HTTP.
//!
//! Six read-only pages show what the daemon publishes about itself: `/`, `/health`, `/health/live`,
//! `/health/ready`, `/status` and `/metrics`. Responses come from memory alone (a [`StatusSource`]
//! reads `watch` channels). A hung database causes unreadiness of a daemon, but it can neither
//! block these pages nor affect the liveness of the daemon. There is no authentication: the
//! listener belongs on loopback or a private network.
//!
//! The scheduler and the worker serve the pages with a [`HealthServer`] on a separate thread,
//! independent of a busy runtime. The API daemon mounts them beside its routes with [`configure`].

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
    Ready,
    /// The daemon does not work at the moment, for this reason; it may recover automatically.
    NotReady(String),
}

/// Whether a daemon's main loop makes progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    /// The loop is stuck permanently, for this reason: the supervisor should restart the process.
    Stuck(String),
}

/// A daemon's report about itself. Called on the listener's thread: no waiting, no database.
pub trait StatusSource: Send + Sync {
    fn ready(&self) -> Readiness;

    /// Whether its main loop makes progress. A response alone proves that the process runs.
    fn live(&self) -> Liveness {
        Liveness::Alive
    }

    /// The complete status, an object.
    fn status(&self) -> Value;
}

/// The shared state of the pages. Clones share it.
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

    /// Renews histograms, which would grow otherwise. A [`HealthServer`] does this; a daemon that
    /// mounts the pages itself calls it every few seconds.
    pub fn upkeep(&self) {
        self.metrics.run_upkeep();
    }
}
