//! The cost of many workers: 10,000 jobs of one second on 1,000 workers, against ten.
//!
//! The workers are instances in one process (`bench-worker --crowd`), each with its own identity,
//! registration, lease, heartbeat connection, poller and completer. They share the connection pool
//! and the listener. All are idle when the jobs are written, which become claimable some seconds
//! later. The figure is the processor time of PostgreSQL per job, from then until the last end. The
//! count of handler starts and the history show that no job ran twice.

use std::time::Duration;

use super::backlog::{self, Earlier, Function};
use super::cpu;
use super::hosted::{self, Hosted, Program};
use crate::figures::{Bar, Figure, Goal, Reference, median};
use crate::rows::Bench;
use crate::sql::{Db, Polling};

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let (many, jobs) = (bench.scale.pick(1_000, 100), bench.scale.pick(10_000, 1_000));
    let (mut with_many, mut with_few, mut twice) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..bench.scale.pick(3, 1) {
        for (workers, costs) in [(10, &mut with_few), (many, &mut with_many)] {
            let db = bench.workspace.database().await?;
            backlog::prepare(&db, Function { handler_type: "native", config: r#"{"handler": "second"}"# })
                .await?;
            let run = run(bench, &db, workers, jobs).await?;
            costs.push(run.milliseconds_each);
            twice += run.more_than_jobs;
        }
    }
    let reference = Reference::value("the same by 10 workers, same run", median(&with_few));
    Ok(vec![
        Figure::new(
            "crowd_database_cpu",
            "ms/job",
            &with_many,
            Goal { reference, bar: Bar::RatioAtMost(2.0) },
        )
        .also("workers", many as f64, ""),
        Figure::new(
            "crowd_run_twice",
            "jobs",
            &[twice],
            Goal { reference: Reference::none("attempts minus jobs"), bar: Bar::Exactly(0.0) },
        ),
    ])
}

struct Run {
    milliseconds_each: f64,
    more_than_jobs: f64,
}

/// A wrong second attempt would start within this wait.
const AFTERWARDS: Duration = Duration::from_secs(3);

async fn run(bench: &Bench<'_>, db: &Db, workers: usize, jobs: usize) -> anyhow::Result<Run> {
    let postmaster = bench.workspace.postmaster()?;
    let size = format!("--crowd={workers}");
    let settings = [("LOG_LEVEL", "info,sched_worker=warn"), ("DATABASE_POOL_SIZE", "16")];
    let crowd = Hosted::start_with(Program::Native, db, &settings, &[&size]).await?;
    hosted::wait_registered(db, workers).await?;
    // The cost of starting is over then.
    tokio::time::sleep(Duration::from_secs(5)).await;
    backlog::fill_claimable(db, jobs, Earlier::Nothing, "now() + interval '8 seconds'").await?;
    db.run("NOTIFY sched_dispatch, 'default'").await?;
    let before = cpu::of_server(postmaster)?;
    backlog::wait_executed(std::slice::from_ref(&crowd), jobs).await?;
    let stored = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'";
    db.wait_count(
        stored,
        i64::try_from(jobs)?,
        Polling { step: Duration::from_millis(200), limit: Duration::from_secs(60) },
    )
    .await?;
    let after = cpu::of_server(postmaster)?;
    tokio::time::sleep(AFTERWARDS).await;
    let executed = crowd.executed().await?;
    crowd.stop().await;
    backlog::check(db, jobs).await?;
    Ok(Run {
        milliseconds_each: (after - before) * 1e3 / jobs as f64,
        more_than_jobs: executed - jobs as f64,
    })
}
