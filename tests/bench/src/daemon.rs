//! The real `sched-scheduler` as a process with its default settings.
//!
//! The program is beside the running program, so both come from one build. The process is killed
//! when its handle is dropped, and by a guard when the benchmark is killed.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use test_support::{Process, http};

use crate::sql::{Db, Polling};

const START_LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Scheduler {
    pub(crate) process: Process,
    health: SocketAddr,
}

pub(crate) fn program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("sched-scheduler");
    ensure!(path.is_file(), "{} is missing; scripts/bench builds it", path.display());
    Ok(path)
}

pub(crate) async fn start(db: &Db) -> anyhow::Result<Scheduler> {
    start_with(db, &[]).await
}

async fn start_with(db: &Db, settings: &[(&str, &str)]) -> anyhow::Result<Scheduler> {
    let launch = Process::at(&program()?)
        .env("DATABASE_URL", db.url())
        .env("LOG_FORMAT", "json")
        .env("HEALTH_PORT", "0");
    let mut process = settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value)).start();
    let health = process.health_addr().await;
    Ok(Scheduler { process, health })
}

pub(crate) async fn start_leading(db: &Db) -> anyhow::Result<Scheduler> {
    let scheduler = start(db).await?;
    scheduler.wait_leading(db).await?;
    Ok(scheduler)
}

/// Starts a scheduler with one concurrent batch, and waits until it leads.
pub(crate) async fn start_leading_alone(db: &Db) -> anyhow::Result<Scheduler> {
    let scheduler = start_with(db, &[("SCHEDULER_LANES", "1")]).await?;
    scheduler.wait_leading(db).await?;
    Ok(scheduler)
}

impl Scheduler {
    pub(crate) async fn wait_leading(&self, db: &Db) -> anyhow::Result<()> {
        let leads = format!(
            "SELECT count(*) FROM scheduler_instances WHERE is_leader AND pid = {}",
            self.process.id()
        );
        db.wait_count(&leads, 1, Polling { step: Duration::from_millis(50), limit: START_LIMIT })
            .await
            .context("the scheduler does not lead")
    }

    /// Seconds and number of its tick transactions, from before BEGIN to the answer to COMMIT.
    pub(crate) async fn tick_seconds(&self) -> anyhow::Result<(f64, f64)> {
        let page = http::get(self.health, "/metrics").await.context("failed to read /metrics")?;
        let value = |series: &str| -> f64 {
            page.body
                .lines()
                .filter(|line| line.starts_with(series) && line.contains("transaction=\"tick\""))
                .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
                .sum()
        };
        Ok((value("sched_db_transaction_seconds_sum"), value("sched_db_transaction_seconds_count")))
    }

    /// MiB. Linux only.
    pub(crate) fn peak_memory(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(&path).with_context(|| format!("failed to read {path}"))?;
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<f64>().ok())
            .with_context(|| format!("no VmHWM in {path}"))?;
        Ok(kib / 1024.0)
    }

    pub(crate) async fn stop(mut self) {
        self.process.stop_gracefully(Duration::from_secs(30)).await;
    }
}
