//! A run belongs to an existing job, without a foreign key.

use test_support::fixture::{BEGIN, Fixture, QUEUE};

fn triggered(job: &str) -> String {
    format!(
        "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, args, triggered_by, trigger_id)
         SELECT gen_random_uuid(), tenant_id, {job}, version, now(), now(), now(), '{QUEUE}', '{{}}', 'manual', gen_random_uuid() FROM scheduled_jobs"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_a_missing_job_is_rejected() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    let client = world.db.client().await;
    for statement in [
        triggered("gen_random_uuid()"),
        format!("{}; UPDATE job_dispatch SET job_id = gen_random_uuid()", triggered("id")),
    ] {
        let error = client.batch_execute(&statement).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "23503", "{error}");
        assert_eq!(error.constraint(), Some("job_dispatch_job_check"));
        assert_eq!(world.number("SELECT count(*) FROM job_dispatch").await, 0);
    }
    world.sql(&triggered("id")).await;
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_deleted_with_their_job() {
    let world = Fixture::new().await;
    for name in ["kept", "gone"] {
        let job = world.job(name).save().await;
        world.runs(job.id).count(3).insert().await;
    }
    world.sql("DELETE FROM scheduled_jobs WHERE name = 'gone'").await;
    let left =
        "SELECT count(*), count(DISTINCT name) FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id";
    assert_eq!(world.rows(left).await, [["3", "1"]]);
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_deletion_includes_concurrent_runs() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    let dispatcher = world.db.client().await;
    // As the tick: lock the job, insert, commit later.
    dispatcher
        .batch_execute(&format!("{BEGIN}; SELECT FROM scheduled_jobs FOR NO KEY UPDATE; {}", triggered("id")))
        .await
        .unwrap();
    let deleter = world.db.client().await;
    let deleting = deleter.batch_execute("DELETE FROM scheduled_jobs");
    let commits = async {
        world.wait_for_blocked(1).await;
        dispatcher.batch_execute("COMMIT").await.unwrap();
    };
    let (deleted, ()) = tokio::join!(deleting, commits);
    deleted.unwrap();
    assert_eq!(
        world.rows("SELECT (SELECT count(*) FROM scheduled_jobs), count(*) FROM job_dispatch").await,
        [["0", "0"]]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn job_being_deleted_gets_no_run() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    let deleter = world.db.client().await;
    deleter.batch_execute(&format!("{BEGIN}; DELETE FROM scheduled_jobs")).await.unwrap();
    let other = world.db.client().await;
    let statement = triggered("id");
    let inserting = other.batch_execute(&statement);
    let commits = async {
        world.wait_for_blocked(1).await;
        deleter.batch_execute("COMMIT").await.unwrap();
    };
    let (inserted, ()) = tokio::join!(inserting, commits);
    assert_eq!(inserted.unwrap_err().code().map(|code| code.code()), Some("23503"));
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch").await, 0);
}
