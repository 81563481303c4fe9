//! Lateness at a steady 200 fires per second: 200 jobs that fire every second, at offsets spread
//! over the second.
//!
//! No worker runs. The overlap policy is `allow`, because `skip` would skip every second fire.
//! Lateness is commit minus fire time, plus the flush of a small commit, minus the round trip of an
//! empty transaction, measured at the same time. The figure is the median over windows of equal
//! length. A fire without a dispatch fails the row.

use std::time::Duration;

use anyhow::ensure;

use super::Bench;
use crate::burst::Flush;
use crate::curves::{Curve, Shown};
use crate::daemon;
use crate::figures::{Bar, Figure, Goal, Reference, largest, median, percentile};
use crate::seed::{self, Jobs};
use crate::sql::{Db, SECOND, instant};

const JOBS: usize = 200;
const WINDOWS: usize = 5;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let seconds = i64::try_from(bench.scale.pick(60, 5))?;
    let db = bench.workspace.database().await?;
    seed::tenants(&db, 1).await?;
    let flush = Flush::measure(&db, 1).await?;
    let scheduler = daemon::start_leading(&db).await?;
    let first = (db.now().await? / SECOND + 5) * SECOND;
    let fire = format!("{} + (n - 1) * interval '5 milliseconds'", instant(first));
    let config = format!(
        r#"jsonb_build_object('seconds', 1, 'anchor', to_char(({fire}) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))"#
    );
    let jobs = Jobs {
        prefix: "steady",
        count: JOBS,
        config: &config,
        overlap: "allow",
        next: &fire,
        settled_before: "interval '1 microsecond'",
        ..Jobs::default()
    };
    seed::jobs(&db, &jobs).await?;
    ensure!(db.now().await? < first, "creating {JOBS} jobs took longer than four seconds");

    // The first seconds do not count.
    let (from, until) = (first + 3 * SECOND, first + (3 + seconds) * SECOND);
    db.wait_until(from).await?;
    let trips = round_trips(&db).await?;
    db.wait_until(until + 3 * SECOND).await?;
    scheduler.stop().await;
    let late = db
        .numbers(&format!(
            "SELECT extract(epoch FROM pg_xact_commit_timestamp(xmin) - scheduled_for) * 1000 FROM job_dispatch
             WHERE scheduled_for >= {} AND scheduled_for < {} ORDER BY scheduled_for",
            instant(from),
            instant(until)
        ))
        .await?;
    let trip = median(&trips);
    let late: Vec<f64> = late.iter().map(|late| late + flush.0 * 1e3 - trip).collect();
    let fires = JOBS * usize::try_from(seconds)?;
    ensure!(late.len() == fires, "{} of {fires} fires have a dispatch", late.len());
    let windows = |share| -> Vec<f64> {
        late.chunks(fires.div_ceil(WINDOWS)).map(|window| percentile(window, share)).collect()
    };
    let reference =
        || Reference::none(&format!("minus {trip:.2} ms, the round trip of an empty transaction, same run"));
    let p50 = Figure::new(
        "lateness_p50",
        "ms",
        &windows(0.5),
        Goal { reference: reference(), bar: Bar::AtMost(20.0) },
    );
    let p99 = Figure::new(
        "lateness_p99",
        "ms",
        &windows(0.99),
        Goal { reference: reference(), bar: Bar::AtMost(100.0) },
    )
    .also("largest", largest(&late), "ms")
    .also("runs", late.len() as f64, "rows")
    .curve(Curve::distribution(Shown::Lateness, format!("{JOBS} fires per second"), &late));
    Ok(vec![p50, p99])
}

/// Milliseconds of empty transactions under the load.
async fn round_trips(db: &Db) -> anyhow::Result<Vec<f64>> {
    let mut trips = Vec::new();
    for _ in 0..100 {
        let started = sched_runtime::monotonic_clock::monotonic();
        db.run("BEGIN").await?;
        db.run("COMMIT").await?;
        trips.push(started.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    Ok(trips)
}
