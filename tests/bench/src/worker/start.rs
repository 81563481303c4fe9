//! Time from the commit of a trigger to the start of its handler, on an idle system: 200 triggers,
//! 50 ms apart.
//!
//! The benchmark triggers as the API does: in one transaction with a notification after its commit.
//! The worker process has waited longer than its first pauses. Its handler stamps its first line
//! with the machine's monotonic clock. A handler that starts before the answer to COMMIT counts as
//! 0. The figure is the median of the 50th percentiles of the series. Each series is followed by one
//! of the lower bound of the machine ([`super::floor`]), and the ratio compares the medians. With
//! peers, the median of the 99th percentiles is compared with the best peer.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Context, bail};
use sched_model::dispatching::trigger::{self, Created, Fate, Order};
use sched_model::domain::ids::{JobId, TenantId};
use sched_model::domain::run_state::Trigger;
use sched_model::{Conn, Database, DatabaseSettings};

use super::backlog::{self, Function};
use super::floor;
use super::hosted::{self, Hosted, Program};
use super::peers::Peers;
use crate::curves::{Curve, Shown};
use crate::figures::{Bar, Figure, Goal, Reference, median, percentile};
use crate::rows::Bench;
use crate::seed::{self, Jobs};
use crate::sql::{Db, Polling};
use crate::stamp;

const APART: Duration = Duration::from_millis(50);
/// Triggers before each series that do not count: they open connections and prepare statements.
const WARM_UP: usize = 5;

pub(super) async fn measure(bench: &Bench<'_>, peers: Option<&Peers>) -> anyhow::Result<Vec<Figure>> {
    let (count, runs) = (bench.scale.pick(200, 40), bench.scale.pick(5, 1));
    let db = bench.workspace.database().await?;
    backlog::prepare(&db, Function { handler_type: "native", config: r#"{"handler": "stamp"}"# }).await?;
    seed::jobs(&db, &Jobs { prefix: "trigger", count: 1, overlap: "allow", ..Jobs::default() }).await?;
    let worker = Hosted::start(Program::Native, &db, &[]).await?;
    hosted::wait_registered(&db, 1).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (mut p50, mut p99, mut all, mut floors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let waits = series(&db, count).await?;
        p50.push(percentile(&waits, 0.5));
        p99.push(percentile(&waits, 0.99));
        all.extend(waits);
        floors.push(median(&floor::measure(&db, count, APART).await?));
    }
    worker.stop().await;
    let reference =
        Reference::value("a bare notification, answered by a bare commit, same run", median(&floors));
    let figure = Figure::new("start_p50", "ms", &p50, Goal { reference, bar: Bar::RatioAtMost(1.2) })
        .curve(Curve::distribution(Shown::Waits, "sched", &all));
    let Some(peers) = peers else {
        return Ok(vec![figure.also("99th percentile", median(&p99), "ms").also(
            "published: 99th percentile of graphile-worker 0.18.0",
            3.5,
            "ms",
        )]);
    };
    let (best, theirs) = peers.best_start_p99(bench.workspace, count, bench.scale.pick(3, 1)).await?;
    let mut against =
        Figure::new("start_p99", "ms", &p99, Goal { reference: best, bar: Bar::RatioAtMost(1.0) });
    for (peer, waits) in theirs {
        against = against.curve(Curve::distribution(Shown::Waits, peer, &waits));
    }
    Ok(vec![figure, against])
}

/// Milliseconds from the commit of each trigger to the start of its handler.
async fn series(db: &Db, count: usize) -> anyhow::Result<Vec<f64>> {
    let job = db.text("SELECT id FROM scheduled_jobs WHERE name LIKE 'trigger-%'").await?;
    let tenant = db.text("SELECT bench.tenant(1)").await?;
    let (job, tenant) = (JobId(job.parse()?), TenantId(tenant.parse()?));
    let database = Database::new(&DatabaseSettings::new(db.url(), "bench"))?;
    let mut conn = database.conn().await?;
    let mut committed = HashMap::new();
    for position in 0..WARM_UP + count {
        let (dispatch, at) = trigger(&mut conn, tenant, job).await?;
        if position >= WARM_UP {
            committed.insert(dispatch, at);
        }
        tokio::time::sleep(APART).await;
    }
    let ids = committed.keys().map(|id| format!("'{id}'")).collect::<Vec<_>>().join(", ");
    let ended = format!("SELECT count(*) FROM job_execution_log WHERE dispatch_id IN ({ids})");
    db.wait_count(
        &ended,
        i64::try_from(count)?,
        Polling { step: Duration::from_millis(100), limit: Duration::from_secs(30) },
    )
    .await?;
    let stamps = db
        .rows(&format!(
            "SELECT dispatch_id, result ->> 'at' FROM job_execution_log WHERE dispatch_id IN ({ids})"
        ))
        .await?;
    let mut waits = Vec::new();
    for row in &stamps {
        let [dispatch, stamp] = row.as_slice() else { bail!("the query has two columns") };
        let stamp: i64 = stamp.parse().context("the handler returned no stamp")?;
        let at = committed.get(dispatch).context("the attempt belongs to another dispatch")?;
        waits.push((stamp - at).max(0) as f64 / 1e6);
    }
    Ok(waits)
}

/// Triggers as the API does; returns the dispatch and the instant of the answer to COMMIT.
async fn trigger(conn: &mut Conn, tenant: TenantId, job: JobId) -> anyhow::Result<(String, i64)> {
    let id = job.to_string();
    let order = Order {
        job: &id,
        may_run_built_in: false,
        triggered_by: Trigger::Api,
        user: "bench",
        args: None,
        traceparent: None,
        actor: "bench",
        request: "bench",
        address: None,
    };
    let batch = trigger::trigger_batch(conn, tenant, &[order], || true).await?;
    let at = stamp::now();
    let [Some(Fate::Created(Created { dispatch, .. }))] = batch.fates.as_slice() else {
        bail!("not triggered: {batch:?}")
    };
    Ok((dispatch.to_string(), at))
}
