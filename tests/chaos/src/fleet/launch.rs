//! The programs of the daemons and their settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use test_support::{Launch, Login, Process, http};
use tokio::time::sleep;

use crate::plan::Kind;

pub(crate) async fn ready(address: SocketAddr, limit: Duration) -> bool {
    let ask = async || http::get(address, "/health/ready").await.is_ok_and(|answer| answer.status == 200);
    let waiting = async {
        while !ask().await {
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(limit, waiting).await.is_ok()
}

pub(crate) const fn daemon_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Scheduler => "scheduler",
        Kind::Worker => "worker",
        Kind::Api => "api",
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Station<'a> {
    pub(crate) url: &'a str,
    pub(crate) address: SocketAddr,
    pub(crate) work: &'a Path,
}

/// A daemon from the programs beside this one, with a separate login. Leases are short, so that
/// faults of seconds expire them.
pub(crate) fn launch(kind: Kind, station: &Station<'_>) -> anyhow::Result<Launch> {
    launch_in(None, kind, station)
}

pub(super) fn launch_in(folder: Option<&Path>, kind: Kind, station: &Station<'_>) -> anyhow::Result<Launch> {
    std::fs::create_dir_all(station.work)?;
    let port = station.address.port().to_string();
    let name = format!("sched-{}", daemon_name(kind));
    let program = match folder {
        Some(folder) => program_in(folder, &name)?,
        None => program(&name)?,
    };
    let url = match folder {
        // Another build may not know the role of workers.
        Some(_) => station.url.to_owned(),
        None => Login::of(&name).in_url(station.url),
    };
    let launch = Process::at(&program).env("DATABASE_URL", url).env("LOG_FORMAT", "json");
    let settings: &[(&str, &str)] = match kind {
        Kind::Api => &[("API_PORT", &port)],
        Kind::Scheduler => &[
            ("HEALTH_PORT", &port),
            ("LEADER_LEASE", "3s"),
            ("LEADER_HEARTBEAT_INTERVAL", "300ms"),
            ("WORKER_OFFLINE_THRESHOLD", "5s"),
        ],
        Kind::Worker => &[
            ("HEALTH_PORT", &port),
            ("WORKER_OFFLINE_THRESHOLD", "5s"),
            ("WORKER_HEARTBEAT_INTERVAL", "500ms"),
            ("WORKER_MAX_POLL_INTERVAL", "2s"),
            ("WORKER_CONCURRENCY", "4"),
            ("WORKER_QUEUES", "default,narrow,side"),
            ("WORKER_DRAIN_TIMEOUT", "3s"),
        ],
    };
    let launch = launch.env("WORKER_TEMP_DIR", station.work);
    Ok(settings.iter().fold(launch, |launch, (name, value)| launch.env(name, value)))
}

pub(crate) fn program(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name(name);
    ensure!(path.is_file(), "{} is missing; scripts/chaos builds it", path.display());
    Ok(path)
}

pub(crate) fn program_in(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?.join(name);
    ensure!(path.is_file(), "{} is missing", path.display());
    Ok(path)
}
