//! Expiry before the first attempt and never after it, and queues without workers.

use std::time::Duration;

use sched_model::cluster::health::{self, Fleet};
use sched_model::dispatching::trigger::Fate;
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::WorkerId;
use sched_model::domain::job::{JobSettings, Scope};
use sched_model::running::expiry::{self, Expired, ServedQueue, UnservedQueue};
use sched_model::{Conn, DbError, transact};
use test_support::fixture::{BEGIN, Fixture, QUEUE, ended};

async fn expire(world: &Fixture) -> Vec<Expired> {
    transact(&mut world.conn().await, "test_expire", async |conn: &mut Conn| expiry::expire(conn, 100).await)
        .await
        .unwrap()
}

async fn has_expired(world: &Fixture) -> bool {
    expiry::pending_work(&mut world.conn().await, Duration::from_secs(10)).await.unwrap().has_expired
}

async fn let_time_pass(world: &Fixture) {
    world
        .sql("UPDATE job_dispatch SET expires_at = now() - interval '1 second' WHERE expires_at IS NOT NULL")
        .await;
}

async fn expiring(world: &Fixture, name: &str, count: i64) {
    let job = world.job(name).start_within_seconds(3_600).save().await;
    world.runs(job.id).count(count).insert().await;
    world
        .sql(&format!(
            "UPDATE job_dispatch SET expires_at = available_at + interval '1 hour' WHERE job_id = '{}'",
            job.id
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_run_fails_with_a_reason() {
    let world = Fixture::new().await;
    expiring(&world, "urgent", 2).await;
    let patient = world.job("patient").save().await;
    world.runs(patient.id).insert().await;
    assert!(!has_expired(&world).await);
    assert!(expire(&world).await.is_empty());
    let_time_pass(&world).await;
    assert!(has_expired(&world).await);
    let expired = expire(&world).await;
    assert_eq!(expired.len(), 2);
    assert!(expired.iter().all(|one| one.job_name == "urgent"
        && one.queue == QUEUE
        && one.project_id.is_some()
        && !one.has_line));
    assert!(!has_expired(&world).await);
    assert!(expire(&world).await.is_empty(), "once");

    let states =
        "SELECT j.name, d.status, d.attempt, d.completed_at IS NOT NULL, d.error_message FROM job_dispatch d
                  JOIN scheduled_jobs j ON j.id = d.job_id ORDER BY j.name";
    let rows = world.rows(states).await;
    assert_eq!(rows[0], ["patient", "PENDING", "0", "f", "-"]);
    assert_eq!(rows[1][..4], ["urgent", "FAILED", "0", "t"]);
    assert_eq!(rows[1][4], expired[0].message);
    for part in [
        "expired: no worker started the run by",
        "in queue \"default\" since",
        "which no living worker serves",
    ] {
        assert!(rows[1][4].contains(part), "{part}: {}", rows[1][4]);
    }
    let history = "SELECT l.status, l.attempt, l.error_class, l.error_message = d.error_message, l.worker_id, l.completed_at = d.completed_at,
                          l.project_id = j.project_id
                   FROM job_execution_log l JOIN job_dispatch d ON d.id = l.dispatch_id JOIN scheduled_jobs j ON j.id = l.job_id";
    let record = ["EXPIRED", "1", "expired", "t", "-", "t", "t"];
    assert_eq!(world.rows(history).await, [record, record]);
    let minutes = "SELECT status, sum(attempts)::bigint FROM attempt_minutes GROUP BY status";
    assert_eq!(world.rows(minutes).await, [["EXPIRED", "2"]]);
    let jobs = "SELECT name, active_dispatches, last_status, last_run_at FROM scheduled_jobs ORDER BY name";
    assert_eq!(world.rows(jobs).await, [["patient", "1", "-", "-"], ["urgent", "0", "FAILED", "-"]]);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_backup_is_recorded_apart() {
    let world = Fixture::new().await;
    let apart = |settings: &mut JobSettings| {
        (settings.scope, settings.project) = (Scope::BackupInfrastructure, None);
    };
    let job = world.job("backup").start_within_seconds(60).settings(apart).save().await;
    world.runs(job.id).insert().await;
    world.sql("UPDATE job_dispatch SET expires_at = now() - interval '1 second'").await;
    assert_eq!(expire(&world).await.len(), 1);
    let records = "SELECT (SELECT count(*) FROM job_execution_log), (SELECT count(*) FROM maintenance.job_execution_log WHERE status = 'EXPIRED')";
    assert_eq!(world.rows(records).await, [["0", "1"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_run_is_never_claimed() {
    let world = Fixture::new().await;
    expiring(&world, "urgent", 1).await;
    let worker = world.worker().await;
    let_time_pass(&world).await;
    assert!(world.claim(worker, 1).await.is_empty());
    world.sql("UPDATE job_dispatch SET expires_at = now() + interval '1 minute'").await;
    assert_eq!(world.claim(worker, 1).await.len(), 1, "in time");
    let_time_pass(&world).await;
    assert!(expire(&world).await.is_empty(), "it runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_first_attempt_can_expire() {
    let world = Fixture::new().await;
    expiring(&world, "urgent", 1).await;
    let worker = world.worker().await;
    let claimed = world.claim(worker, 1).await;
    let_time_pass(&world).await;
    world.end(&[ended(&claimed[0], AttemptOutcome::Failed).build()], &[]).await;
    world.skip_waits().await;
    assert!(!has_expired(&world).await);
    assert!(expire(&world).await.is_empty());
    assert_eq!(world.claim(worker, 1).await.len(), 1, "its retry is claimed");
}

#[tokio::test(flavor = "multi_thread")]
async fn released_unstarted_run_can_still_expire() {
    let world = Fixture::new().await;
    expiring(&world, "urgent", 2).await;
    let worker = world.worker().await;
    let claimed = world.claim(worker, 2).await;
    let mut unstarted = ended(&claimed[0], AttemptOutcome::Released).build();
    unstarted.record.duration = Duration::ZERO;
    let stopped = ended(&claimed[1], AttemptOutcome::Released).build();
    assert!(stopped.has_started() && !unstarted.has_started());
    world.end(&[unstarted], &[]).await;
    assert_eq!(world.text("SELECT last_run_at FROM scheduled_jobs").await, "-", "nothing has run");
    world.end(&[stopped], &[]).await;
    assert_ne!(world.text("SELECT last_run_at FROM scheduled_jobs").await, "-");
    let counts =
        "SELECT attempt, unstarted_count, expires_at IS NOT NULL FROM job_dispatch ORDER BY unstarted_count";
    assert_eq!(world.rows(counts).await, [["1", "0", "t"], ["1", "1", "t"]]);
    let_time_pass(&world).await;
    assert!(has_expired(&world).await);
    let again = world.claim(worker, 2).await;
    assert_eq!(again.len(), 1, "only the started run is claimed");
    assert_eq!(again[0].dispatch_id, claimed[1].dispatch_id);
    assert_eq!(expire(&world).await.len(), 1);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_queued_run_updates_the_counters() {
    let world = Fixture::new().await;
    expiring(&world, "urgent", 3).await;
    world
        .sql(
            "UPDATE job_dispatch SET claimable_at = 'infinity' WHERE id IN (SELECT id FROM job_dispatch LIMIT 2);
             UPDATE scheduled_jobs SET queued_dispatches = 2;
             UPDATE job_dispatch SET expires_at = NULL WHERE id = (SELECT id FROM job_dispatch WHERE claimable_at = 'infinity' LIMIT 1)",
        )
        .await;
    let_time_pass(&world).await;
    let expired = expire(&world).await;
    assert_eq!(expired.len(), 2);
    assert!(expired.iter().all(|one| one.has_line), "one is left in it");
    assert_eq!(
        expired.iter().filter(|one| one.message.contains("queued behind other runs of its job")).count(),
        1
    );
    let counters = "SELECT active_dispatches, queued_dispatches FROM scheduled_jobs";
    assert_eq!(world.rows(counters).await, [["1", "1"]]);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_does_not_wait_for_locks() {
    let world = Fixture::new().await;
    expiring(&world, "held", 1).await;
    expiring(&world, "claimed", 1).await;
    expiring(&world, "free", 1).await;
    let_time_pass(&world).await;
    let other = world.db.client().await;
    let lock = format!(
        "{BEGIN}; SELECT 1 FROM scheduled_jobs WHERE name = 'held' FOR NO KEY UPDATE;
         SELECT 1 FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id WHERE j.name = 'claimed' FOR UPDATE OF d"
    );
    other.batch_execute(&lock).await.unwrap();
    let names: Vec<String> = expire(&world).await.into_iter().map(|one| one.job_name).collect();
    assert_eq!(names, ["free"]);
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(expire(&world).await.len(), 2);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_expires_by_the_job_setting() {
    let world = Fixture::new().await;
    let job = world.job("urgent").start_within_seconds(90).save().await;
    let patient = world.job("patient").save().await;
    for job in [job.id, patient.id] {
        let triggered = world.trigger(job, None).await;
        assert!(matches!(triggered, Fate::Created(_)), "{triggered:?}");
    }
    let spans = "SELECT expires_at - available_at FROM job_dispatch ORDER BY expires_at NULLS LAST";
    assert_eq!(world.rows(spans).await, [["00:01:30"], ["-"]]);
}

pub(crate) async fn unserved(world: &Fixture) -> Vec<String> {
    expiry::pending_work(&mut world.conn().await, Duration::from_secs(10)).await.unwrap().unserved
}

async fn record_unserved(world: &Fixture) -> (Vec<String>, Vec<(String, bool)>) {
    let noted: Result<(Vec<UnservedQueue>, Vec<ServedQueue>), DbError> =
        transact(&mut world.conn().await, "test_note", async |conn: &mut Conn| {
            let found = expiry::pending_work(conn, Duration::from_secs(10)).await?;
            expiry::note_unserved(conn, &found.unserved).await
        })
        .await;
    let (begun, over) = noted.unwrap();
    (
        begun.into_iter().map(|begun| begun.queue).collect(),
        over.into_iter().map(|over| (over.queue, over.has_live_worker)).collect(),
    )
}

pub(crate) async fn serve(world: &Fixture, worker: WorkerId, queue: &str, status: &str) {
    world
        .sql(&format!(
            "UPDATE worker_registration SET queues = '{{{queue}}}', status = '{status}',
                 offline_since = CASE WHEN '{status}' = 'OFFLINE' THEN now() END
             WHERE worker_id = '{worker}'"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_is_unserved_without_workers() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    for queue in ["a", "b", "later", "line", "new"] {
        world.queue(queue).await;
        world.runs(job.id).queue(queue).count(3).insert().await;
    }
    world
        .sql(
            "UPDATE job_dispatch SET claimable_at = now() + interval '1 hour' WHERE queue = 'later';
             UPDATE job_dispatch SET claimable_at = 'infinity' WHERE queue = 'line';
             UPDATE job_dispatch SET claimable_at = now() WHERE queue = 'new'",
        )
        .await;
    let worker = world.worker().await;
    serve(&world, worker, "b", "BUSY").await;
    assert_eq!(
        unserved(&world).await,
        ["a"],
        "the others are served, or nothing in them could have been claimed for long"
    );
    for status in ["OFFLINE", "DRAINING"] {
        serve(&world, worker, "b", status).await;
        assert_eq!(unserved(&world).await, ["a", "b"], "{status}");
    }
    let shown = "SELECT queue, count(*), bool_and(job_name = 'hourly') FROM unserved_dispatches GROUP BY queue ORDER BY queue";
    assert_eq!(world.rows(shown).await, [["a", "3", "t"], ["b", "3", "t"], ["new", "3", "t"]]);
    let depth = "SELECT queue, waiting, waiting_for_their_time, waiting_in_line, oldest_claimable_at IS NULL, has_live_worker
                 FROM queue_depth WHERE queue IN ('later', 'line') ORDER BY queue";
    assert_eq!(
        world.rows(depth).await,
        [["later", "3", "3", "0", "f", "f"], ["line", "3", "0", "3", "t", "f"]]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn fleet_counts_workers_and_finds_oldest_run() {
    let world = Fixture::new().await;
    let fleet = async || health::fleet(&mut world.conn().await).await.unwrap();
    assert_eq!(fleet().await, Fleet { idle: 0, busy: 0, draining: 0, oldest_pending: 0.0 });
    for status in ["IDLE", "BUSY", "BUSY", "DRAINING", "OFFLINE"] {
        let worker = world.worker().await;
        serve(&world, worker, QUEUE, status).await;
    }
    let job = world.job("hourly").save().await;
    let other = "INSERT INTO tenants (slug, name) VALUES ('other', 'Other') RETURNING id";
    world.text(other).await;
    for queue in ["a", "b", "c"] {
        world.queue(queue).await;
        world.runs(job.id).queue(queue).count(9).insert().await;
    }
    world
        .sql(
            "SET session_replication_role = replica;
             UPDATE job_dispatch d SET priority = n.n % 3, tenant_id = CASE WHEN n.n % 9 < 3 THEN t.id ELSE d.tenant_id END
             FROM (SELECT id, row_number() OVER (ORDER BY queue, id) AS n FROM job_dispatch) AS n, tenants t
             WHERE n.id = d.id AND t.slug = 'other'",
        )
        .await;
    let lines = "SELECT DISTINCT ON (queue, tenant_id, priority) id FROM job_dispatch ORDER BY queue, tenant_id, priority, id";
    let lines = world.rows(lines).await.concat();
    assert_eq!(lines.len(), 18);
    for one in lines {
        world
            .sql(&format!(
                "UPDATE job_dispatch SET claimable_at = now() - CASE WHEN id = '{one}' THEN 500 ELSE 60 END * interval '1 s'"
            ))
            .await;
        let found = fleet().await;
        assert_eq!((found.idle, found.busy, found.draining), (1, 2, 1));
        assert!((500.0..540.0).contains(&found.oldest_pending), "{found:?} of {one}");
    }
    for (claimable_at, what) in
        [("now() + interval '1 h'", "its time is to come"), ("'infinity'", "the run is queued")]
    {
        world.sql(&format!("UPDATE job_dispatch SET claimable_at = {claimable_at}")).await;
        assert!(fleet().await.oldest_pending.abs() < f64::EPSILON, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unserved_queue_is_reported_once() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    for queue in ["a", "b"] {
        world.queue(queue).await;
        world.runs(job.id).queue(queue).count(2).insert().await;
    }
    assert_eq!(record_unserved(&world).await, (vec!["a".into(), "b".into()], vec![]));
    assert_eq!(record_unserved(&world).await, (vec![], vec![]), "the queue is recorded already");
    assert!(expiry::pending_work(&mut world.conn().await, Duration::from_secs(10)).await.unwrap().is_noted());
    let since = "SELECT count(*) FROM unserved_queues WHERE since < now() - interval '50 seconds'";
    assert_eq!(world.number(since).await, 2);
    let worker = world.worker().await;
    serve(&world, worker, "a", "IDLE").await;
    world.sql("UPDATE job_dispatch SET status = 'CANCELLED', claimable_at = NULL, completed_at = now() WHERE queue = 'b'").await;
    let (begun, mut over) = record_unserved(&world).await;
    over.sort();
    assert_eq!((begun, over), (vec![], vec![("a".into(), true), ("b".into(), false)]));
    assert_eq!(record_unserved(&world).await, (vec![], vec![]));
    serve(&world, worker, "a", "OFFLINE").await;
    assert_eq!(record_unserved(&world).await.0, ["a"], "a second time");
}
