//! A revocation beside ends: the ends of a worker arrive while recovery revokes its claims.
//!
//! The proxy of the worker holds them until the lease of the worker has ended and a leader, or
//! another worker, has marked it OFFLINE. Recovery then ends the attempts as lost in its next
//! transaction. Each attempt must end once, with one event.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use sched_runtime::monotonic_clock::monotonic;
use tokio::time::sleep;

use super::Victims;
use crate::plan::{Kind, NetworkState, Target};
use crate::timeline::{FaultRecord, now};
use crate::workspace::Workspace;

const REVOKE: &str = "revoke";

const TRIES: usize = 40;
const PAUSE: Duration = Duration::from_millis(250);
/// The lease of a worker, the lease of a leader, and a take-over.
const LIMIT: Duration = Duration::from_secs(25);
/// Recovery needs a few milliseconds from the first transaction to the second.
const LOOK: Duration = Duration::from_millis(5);

/// The registration of a process with the number of its running attempts.
const BUSY: &str = "SELECT w.worker_id::text, count(*) FROM worker_registration w
    JOIN job_dispatch d ON d.worker_id = w.worker_id AND d.status = 'IN_PROGRESS'
    WHERE w.process_id = $1 AND w.status <> 'OFFLINE' GROUP BY w.worker_id ORDER BY 2 DESC LIMIT 1";
const IS_OFFLINE: &str =
    "SELECT status = 'OFFLINE' FROM worker_registration WHERE worker_id = $1::text::uuid";

impl Victims {
    pub(super) async fn revoke_beside_ends(&self, number: usize) {
        let Some(daemon) = self.fleet.of(Target { kind: Kind::Worker, number }) else { return };
        let mut busy = None;
        let mut why = String::new();
        for _ in 0..TRIES {
            match busy_worker(&self.workspace, daemon.pid()).await {
                Ok(found) => {
                    busy = Some(found);
                    break;
                }
                Err(error) => why = format!("{error:#}"),
            }
            sleep(PAUSE).await;
        }
        let Some((worker, attempts)) = busy else {
            self.timeline.record_omitted(REVOKE, &daemon.name, &why);
            return;
        };
        let process = daemon.pid();
        let (mut began, mut is_revoked) = (now(), false);
        let lasting = async {
            began = now();
            is_revoked = is_revoked_within(&self.workspace, &worker, LIMIT).await;
        };
        let was_felt = daemon.proxy.make(NetworkState::Held, lasting).await;
        let detail = format!("{attempts} attempts of {worker}");
        match (is_revoked, was_felt) {
            (true, true) => self.timeline.fault_of(
                Some(process),
                FaultRecord { kind: REVOKE, target: &daemon.name, began, detail: &detail },
            ),
            // The held network is a fault too.
            (false, true) => self.timeline.fault(FaultRecord {
                kind: NetworkState::Held.name(),
                target: &daemon.name,
                began,
                detail: &format!("{detail}, not revoked"),
            }),
            (_, false) => self.timeline.record_omitted(REVOKE, &daemon.name, "nothing passed meanwhile"),
        }
    }
}

/// Id and number of running attempts of the worker with this process.
async fn busy_worker(workspace: &Workspace, process: i32) -> anyhow::Result<(String, i64)> {
    let row = workspace.client().await?.query_opt(BUSY, &[&process]).await?;
    let row = row.context("the worker runs nothing")?;
    Ok((row.get(0), row.get(1)))
}

/// Returns when the worker is OFFLINE, or false after `limit`.
async fn is_revoked_within(workspace: &Workspace, worker: &str, limit: Duration) -> bool {
    let until = monotonic() + limit;
    while monotonic() < until {
        // The database may be down.
        if wait_offline(workspace, worker, until).await.is_ok() {
            return true;
        }
        sleep(PAUSE).await;
    }
    false
}

/// Waits on one connection.
async fn wait_offline(workspace: &Workspace, worker: &str, until: Instant) -> anyhow::Result<()> {
    let sql = workspace.client().await?;
    loop {
        let row = sql.query_opt(IS_OFFLINE, &[&worker]).await?;
        // A registration is removed after its claims.
        if row.is_none_or(|row| row.get(0)) {
            return Ok(());
        }
        ensure!(monotonic() < until, "the worker is still registered");
        sleep(LOOK).await;
    }
}
