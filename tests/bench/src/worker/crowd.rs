//! What many workers cost: 10,000 jobs of one second by 1,000 workers, against ten.
//!
//! The thousand are instances of the worker in one process (`bench-worker --crowd`), each with its own identity, registration, lease and
//! heartbeat on a connection of its own, its own poller and completer, and default settings; they share the pool of connections for their work and
//! the listener. The ten are hosted in the same way. All are idle and registered when the jobs are written, to be claimed some seconds
//! later. Compared is the processor time of all PostgreSQL's processes per job, from then until the last end. Every start of a
//! handler is counted, whatever became of it: that no job ran twice is the count, and what history says.

use std::time::Duration;

use super::backlog::{self, Earlier, Function};
use super::cpu;
use super::hosted::{self, Hosted, Program};
use crate::figures::{Bar, Figure, Reference, median};
use crate::rows::Bench;
use crate::sql::Db;

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let (many, jobs) = (bench.scale.pick(1_000, 100), bench.scale.pick(10_000, 1_000));
    let (mut with_many, mut with_few, mut twice) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..bench.scale.pick(3, 1) {
        for (workers, costs) in [(10, &mut with_few), (many, &mut with_many)] {
            let db = bench.place.database().await?;
            backlog::prepare(&db, Function { handler_type: "native", config: r#"{"handler": "second"}"# })
                .await?;
            let run = run(bench, &db, workers, jobs).await?;
            costs.push(run.milliseconds_each);
            twice += run.more_than_jobs;
        }
    }
    let reference = Reference::value("the same by 10 workers, same run", median(&with_few));
    Ok(vec![
        Figure::new("crowd_database_cpu", "ms/job", &with_many, reference, Bar::RatioAtMost(2.0)).also(
            "workers",
            many as f64,
            "",
        ),
        Figure::new(
            "crowd_run_twice",
            "jobs",
            &[twice],
            Reference::none("attempts in all, less jobs"),
            Bar::Exactly(0.0),
        ),
    ])
}

struct Run {
    milliseconds_each: f64,
    more_than_jobs: f64,
}

/// After the last job, for an attempt that should not have been.
const AFTERWARDS: Duration = Duration::from_secs(3);

async fn run(bench: &Bench<'_>, db: &Db, workers: usize, jobs: usize) -> anyhow::Result<Run> {
    let postmaster = bench.place.postmaster()?;
    let size = format!("--crowd={workers}");
    let settings = [("LOG_LEVEL", "info,sched_worker=warn"), ("DATABASE_POOL_SIZE", "16")];
    let crowd = Hosted::start_with(Program::Native, db, &settings, &[&size]).await?;
    hosted::wait_registered(db, workers).await?;
    // What starting has cost is over then.
    tokio::time::sleep(Duration::from_secs(5)).await;
    backlog::fill_claimable(db, jobs, Earlier::Nothing, "now() + interval '8 seconds'").await?;
    db.run("NOTIFY sched_dispatch, 'default'").await?;
    let before = cpu::of_server(postmaster)?;
    backlog::wait_executed(std::slice::from_ref(&crowd), jobs).await?;
    let stored = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'";
    db.wait_count(stored, i64::try_from(jobs)?, Duration::from_millis(200), Duration::from_secs(60)).await?;
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
