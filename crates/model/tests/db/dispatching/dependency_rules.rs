//! Rules of dependencies between jobs.

use super::dependencies::{job, refused, save};
use diesel_async::SimpleAsyncConnection;
use sched_model::definitions::functions::Change;
use sched_model::domain::dependency::{AfterMode, MAX_FOLLOWERS};
use sched_model::domain::job::JobSettings;
use sched_model::jobs::{self, SaveMode, Writing};
use test_support::fixture::{BEGIN, Fixture, TENANT};

#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_runs_after_is_read_back_replaced_and_removed() {
    let world = Fixture::new().await;
    for name in ["a", "b", "c"] {
        world.save(&job(name, "")).await;
    }
    let both = JobSettings { after_mode: AfterMode::Any, ..job("d", "c! a") };
    let saved = world.save(&both).await.job;
    assert_eq!(saved.settings, both, "in the order in which it was written");
    assert_eq!(world.save(&both).await.change, Change::Unchanged);
    let flagged = "SELECT string_agg(DISTINCT a.name, ' ' ORDER BY a.name)
                   FROM job_dependencies d JOIN scheduled_jobs a ON a.id = d.after_job_id";
    assert_eq!(world.text(flagged).await, "a c");

    world.save(&job("d", "a b")).await;
    assert_eq!(world.text(flagged).await, "a b");
    world.save(&job("e", "b?")).await;
    world.save(&job("d", "")).await;
    assert_eq!(world.text(flagged).await, "b");
    assert_eq!(
        world.rows("SELECT condition, met_by, met_at FROM job_dependencies").await,
        [["completion", "-", "-"]]
    );
    let versions = "SELECT settings->'after'->0->>'job' FROM scheduled_job_versions WHERE version = 1 AND settings->>'name' = 'd'";
    assert_eq!(world.text(versions).await, "c");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_that_run_after_others_are_told_by_name() {
    let world = Fixture::new().await;
    let a = world.save(&job("a", "")).await.job.id;
    let b = world.save(&job("b", "")).await.job.id;
    for (name, after) in [("z", "a!"), ("c", "a b"), ("gone", "a")] {
        world.save(&job(name, after)).await;
    }
    world.sql("UPDATE scheduled_jobs SET deleted_at = now() WHERE name = 'gone'").await;
    let conn = world.conn().await;
    let followers = sched_model::definitions::dependencies::followers(&conn, TENANT, &[a, b]).await.unwrap();
    let told = |id| followers[&id].iter().map(|f| format!("{} {}", f.job, f.on)).collect::<Vec<_>>();
    assert_eq!(told(a), ["c success", "z failure"]);
    assert_eq!(told(b), ["c success"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_do_not_exist_or_wait_themselves_are_refused_and_nothing_is_written() {
    let world = Fixture::new().await;
    assert_eq!(refused(&world, &job("b", "a")).await, "after.0.job: there is no job named \"a\"");
    for (name, after) in [("a", ""), ("b", "a"), ("c", "b"), ("other", "")] {
        world.save(&job(name, after)).await;
    }
    assert_eq!(
        refused(&world, &job("a", "other c")).await,
        "after.1.job: the dependencies have a cycle: a → b → c → a"
    );
    assert_eq!(
        refused(&world, &job("b", "c!")).await,
        "after.0.job: the dependencies have a cycle: b → c → b"
    );
    assert_eq!(world.number("SELECT count(*) FROM job_dependencies").await, 2);
    assert_eq!(world.number("SELECT count(*) FROM scheduled_job_versions").await, 4);
    // Two paths to one job are no cycle.
    world.save(&job("c", "a b")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_circle_that_two_writers_close_together_is_refused_to_the_second() {
    let world = Fixture::new().await;
    for (name, after) in [("a", ""), ("x", "a"), ("y", ""), ("b", "y")] {
        world.save(&job(name, after)).await;
    }
    // Neither writes or locks a job of the other.
    let (mut first, mut second) = (world.conn().await, world.conn().await);
    first.batch_execute(BEGIN).await.unwrap();
    jobs::save(&mut first, TENANT, &job("a", "b"), Writing::new(SaveMode::Upsert, "tests")).await.unwrap();
    let late = job("y", "x");
    let commit = async {
        world.wait_for_blocked(1).await;
        first.batch_execute("COMMIT").await.unwrap();
    };
    let (refused, ()) = tokio::join!(save(&mut second, &late), commit);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.ends_with(": y → b → a → x → y"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_jobs_run_after_one_than_its_end_can_see_to() {
    let world = Fixture::new().await;
    world.save(&job("a", "")).await;
    world
        .sql(&format!(
            "INSERT INTO scheduled_jobs (tenant_id, scope, project_id, name, task_function_id, job_type, schedule_config)
             SELECT tenant_id, scope, project_id, name || n, task_function_id, job_type, schedule_config
             FROM scheduled_jobs, generate_series(1, {MAX_FOLLOWERS}) AS n;
             INSERT INTO job_dependencies (tenant_id, job_id, after_job_id, condition)
             SELECT j.tenant_id, j.id, a.id, 'success' FROM scheduled_jobs j JOIN scheduled_jobs a ON a.name = 'a' WHERE j.name <> 'a'"
        ))
        .await;
    assert_eq!(
        refused(&world, &job("last", "a")).await,
        "after.0.job: 1000 jobs already run after \"a\", which is the maximum"
    );
}
