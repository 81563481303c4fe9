//! A worker process: the standard program, or the one with the native handlers of the benchmark.
//!
//! Both programs are beside the running program, so all come from one build. A worker is killed
//! when its handle is dropped, and by a guard when the benchmark is killed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use test_support::{Process, http};

use super::cpu;
use crate::sql::{Db, Polling};

const START_LIMIT: Duration = Duration::from_secs(60);

/// Settings of the tuned drain: slots for several full claims, and no log line per attempt.
pub(super) const TUNED: [(&str, &str); 2] =
    [("WORKER_CONCURRENCY", "2000"), ("LOG_LEVEL", "info,sched_worker=warn")];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    Standard,
    Native,
}

impl Program {
    pub(crate) fn path(self) -> anyhow::Result<PathBuf> {
        let name = match self {
            Self::Standard => "sched-worker",
            Self::Native => "bench-worker",
        };
        let path = std::env::current_exe()?.with_file_name(name);
        ensure!(path.is_file(), "{} is missing; scripts/bench builds it", path.display());
        Ok(path)
    }
}

pub(super) struct Hosted {
    process: Process,
    health: SocketAddr,
}

impl Hosted {
    pub(super) async fn start(program: Program, db: &Db, settings: &[(&str, &str)]) -> anyhow::Result<Self> {
        Self::start_with(program, db, settings, &[]).await
    }

    pub(super) async fn start_with(
        program: Program,
        db: &Db,
        settings: &[(&str, &str)],
        arguments: &[&str],
    ) -> anyhow::Result<Self> {
        let launch = Process::at(&program.path()?)
            .args(arguments)
            .env("DATABASE_URL", db.url())
            .env("LOG_FORMAT", "json")
            .env("HEALTH_PORT", "0");
        let mut process =
            settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value)).start();
        let health = process.health_addr().await;
        Ok(Self { process, health })
    }

    /// By its own metrics; 0 without the metric.
    pub(super) async fn executed(&self) -> anyhow::Result<f64> {
        let page = http::get(self.health, "/metrics").await.context("failed to read /metrics")?;
        let counts = page.body.lines().filter(|line| line.starts_with("sched_execution_seconds_count"));
        Ok(counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
    }

    /// Processor seconds of the process so far.
    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        cpu::of_process(self.process.id())
    }

    pub(super) async fn stop(mut self) {
        self.process.stop_gracefully(Duration::from_secs(60)).await;
    }
}

pub(super) async fn wait_registered(db: &Db, workers: usize) -> anyhow::Result<()> {
    let registered = "SELECT count(*) FROM worker_registration WHERE status <> 'OFFLINE'";
    db.wait_count(
        registered,
        i64::try_from(workers)?,
        Polling { step: Duration::from_millis(100), limit: START_LIMIT },
    )
    .await
    .context("not all workers have registered")
}
