//! Time to read a job and a page of 50 executions with 10 million attempts, against the query
//! alone.
//!
//! One client reads over one connection. For comparison, the same process reads the same rows with
//! a prepared statement. Series alternate. The figure is the median of the 99th percentiles of the
//! series. The API additionally has the costs of HTTP, the key, permissions, a transaction that
//! names its tenant, row-level security and JSON.

use std::time::Duration;

use anyhow::Context;

use super::hosted::Api;
use crate::figures::{Bar, Figure, Goal, Reference, median, percentile};
use crate::rows::Bench;
use crate::seed::{self, Jobs};
use crate::sql::Db;

/// Reads before a series that do not count: they open connections, prepare statements and fill
/// caches.
const WARM_UP: usize = 200;

struct Read {
    name: &'static str,
    behind: &'static str,
    statement: &'static str,
}

const READS: [Read; 2] = [
    Read {
        name: "read_job_p99",
        behind: "",
        statement: "SELECT j.*, f.name, p.name FROM scheduled_jobs j
                    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
                    LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
                    WHERE j.tenant_id = bench.tenant(1) AND j.id = $1::text::uuid AND j.deleted_at IS NULL",
    },
    Read {
        name: "page_of_executions_p99",
        behind: "/attempts?limit=50",
        statement: "SELECT l.id, l.job_id, j.name, l.dispatch_id, l.attempt, l.status, l.scheduled_for, l.started_at, l.completed_at, l.duration_ms,
                           l.exit_code, l.result, l.error_class, l.error_message, l.output_bytes, l.worker_id, l.triggered_by
                    FROM job_execution_log l
                    LEFT JOIN scheduled_jobs j ON j.tenant_id = l.tenant_id AND j.id = l.job_id
                    WHERE l.tenant_id = bench.tenant(1) AND l.job_id = $1::text::uuid
                    ORDER BY l.id DESC LIMIT 51",
    },
];

pub(super) async fn measure(bench: &Bench<'_>) -> anyhow::Result<Vec<Figure>> {
    let db = bench.workspace.database().await?;
    seed::tenants(&db, 1).await?;
    seed::jobs(&db, &Jobs { count: bench.scale.pick(100_000, 2_000), ..Jobs::default() }).await?;
    seed::history(&db, 1..=100).await.context("failed to create the history")?;
    db.run(include_str!("../../sql/log.sql")).await.context("failed to create the log")?;
    db.run("VACUUM ANALYZE job_execution_log").await?;
    db.run("CHECKPOINT").await?;
    let attempts = db.number("SELECT count(*) FROM job_execution_log").await?;
    let jobs = db
        .rows(&format!(
            "SELECT id FROM scheduled_jobs ORDER BY hashtext(name) LIMIT {}",
            bench.scale.pick(2_000, 500)
        ))
        .await?;
    let jobs: Vec<String> = jobs.into_iter().flatten().collect();
    let api = Api::start(&db).await?;
    let mut figures = Vec::new();
    for read in &READS {
        let (mut ours, mut alone) = (Vec::new(), Vec::new());
        for _ in 0..bench.scale.pick(5, 2) {
            ours.push(through(&api, read, &jobs).await?);
            alone.push(directly(&db, read, &jobs).await?);
        }
        let p99 = |series: &[Vec<f64>]| series.iter().map(|one| percentile(one, 0.99)).collect::<Vec<_>>();
        let p50 =
            |series: &[Vec<f64>]| median(&series.iter().map(|one| percentile(one, 0.5)).collect::<Vec<_>>());
        let what = "the same query alone, prepared, same run";
        let figure = Figure::new(
            read.name,
            "ms",
            &p99(&ours),
            Goal { reference: Reference::value(what, median(&p99(&alone))), bar: Bar::RatioAtMost(3.0) },
        );
        figures.push(
            figure
                .also("50th percentile", p50(&ours), "ms")
                .also("50th percentile of the query alone", p50(&alone), "ms")
                .also("attempts in the table", attempts, "rows"),
        );
    }
    api.stop().await;
    Ok(figures)
}

/// Milliseconds of each read through the API.
async fn through(api: &Api, read: &Read, jobs: &[String]) -> anyhow::Result<Vec<f64>> {
    let mut client = api.client().await?;
    let paths: Vec<String> = jobs.iter().map(|job| format!("/jobs/{job}{}", read.behind)).collect();
    for path in paths.iter().take(WARM_UP) {
        client.get(path).await?;
    }
    let mut times = Vec::new();
    for path in &paths {
        let begun = sched_runtime::monotonic_clock::monotonic();
        client.get(path).await?;
        times.push(millis(begun.elapsed()));
    }
    Ok(times)
}

/// Milliseconds of each execution of the statement alone.
async fn directly(db: &Db, read: &Read, jobs: &[String]) -> anyhow::Result<Vec<f64>> {
    let statement = db.prepare(read.statement).await?;
    for job in jobs.iter().take(WARM_UP) {
        statement.rows(job).await?;
    }
    let mut times = Vec::new();
    for job in jobs {
        let begun = sched_runtime::monotonic_clock::monotonic();
        statement.rows(job).await?;
        times.push(millis(begun.elapsed()));
    }
    Ok(times)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
