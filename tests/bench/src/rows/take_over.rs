//! The time without a leader, after a leader that stops, is killed, or freezes.
//!
//! Two schedulers with default settings. The time is from the database clock right before the
//! signal to the begin of the next term. The bound must hold always, so the worst repetition
//! decides.

use std::time::Duration;

use anyhow::Context;

use super::Bench;
use crate::daemon::{self, Scheduler};
use crate::figures::{Bar, Figure, Goal, Reference};
use crate::seed;
use crate::sql::{Db, Polling, micros};

/// The default lease, in seconds.
const LEASE: f64 = 5.0;

#[derive(Debug, Clone, Copy)]
enum End {
    Stopped,
    Killed,
    Frozen,
}

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let db = bench.workspace.database().await?;
    seed::tenants(&db, 1).await?;
    let mut figures = Vec::new();
    for (name, end, bar) in [
        ("takeover_graceful", End::Stopped, 0.5),
        ("takeover_kill9", End::Killed, LEASE + 1.0),
        ("takeover_sigstop", End::Frozen, LEASE + 1.0),
    ] {
        let mut runs = Vec::new();
        let mut leader = daemon::start_leading(&db).await?;
        for repetition in 0..bench.scale.pick(6, 1) {
            let standby = daemon::start(&db).await?;
            wait_registered(&db, &standby).await?;
            // A different offset within the heartbeat interval each time.
            tokio::time::sleep(Duration::from_millis(300 + 170 * u64::try_from(repetition)?)).await;
            runs.push(take_over(&db, leader, &standby, end).await?);
            leader = standby;
        }
        leader.stop().await;
        let reference = Reference::none(match end {
            End::Stopped => "no lease to wait for",
            End::Killed | End::Frozen => "lease 5 s, heartbeat 1 s (defaults)",
        });
        figures.push(Figure::new(name, "s", &runs, Goal { reference, bar: Bar::Below(bar) }).by_largest());
    }
    Ok(figures)
}

async fn wait_registered(db: &Db, scheduler: &Scheduler) -> anyhow::Result<()> {
    let pid = scheduler.process.id();
    let registered = format!("SELECT count(*) FROM scheduler_instances WHERE pid = {pid}");
    db.wait_count(&registered, 1, Polling { step: Duration::from_millis(50), limit: Duration::from_secs(30) })
        .await
        .context("the standby does not register")
}

async fn take_over(db: &Db, mut leader: Scheduler, standby: &Scheduler, end: End) -> anyhow::Result<f64> {
    let term = db.count("SELECT max(term) FROM leader_terms").await?;
    let signalled = db.now().await?;
    match end {
        End::Stopped => leader.process.term(),
        End::Killed => leader.process.kill9().await,
        End::Frozen => leader.process.pause(),
    }
    standby.wait_leading(db).await?;
    let begun = db
        .count(&format!("SELECT {} FROM leader_terms WHERE term > {term}", micros("min(started_at)")))
        .await?;
    match end {
        End::Stopped => leader.stop().await,
        // The process is killed when it is dropped.
        End::Killed | End::Frozen => drop(leader),
    }
    Ok((begun - signalled) as f64 / 1e6)
}
