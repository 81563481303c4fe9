//! Recovery by the leader, or by a worker while there is no leader.

use std::time::Duration;

use sched_model::domain::instance::WorkerStatus;
use sched_model::recovery::lost_attempts::{Losses, Recovered, Recoverer, Recovery};
use sched_model::running::claims::Claimed;
use sched_model::running::live_output::{self, LiveUpdate, Piece};
use sched_model::running::workers::{self, Beat, BeatOutcome};
use sched_model::{Conn, DbError, transact};
use test_support::fixture::Fixture;

use crate::cluster::leadership::{candidate, lead};

const LEASE: Duration = Duration::from_secs(30);

fn recovery(by: Recoverer) -> Recovery {
    Recovery { by, lease: LEASE, losses: Losses { max_attempts: 3 } }
}

async fn silence(world: &Fixture, table: &str, seconds: i32) {
    let ago = format!("clock_timestamp() - {seconds} * interval '1 second'");
    world.sql(&format!("UPDATE {table} SET last_heartbeat = {ago}")).await;
}

async fn may_recover(conn: &mut Conn) -> bool {
    sched_model::recovery::dead_workers::may_recover_alone(conn, LEASE).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_worker_recovers_without_a_leader() {
    let world = Fixture::new().await;
    let (mut one, mut other) = (world.conn().await, world.conn().await);
    transact(&mut one, "test_alone", async |one: &mut Conn| {
        assert!(may_recover(one).await, "there is no leader");
        assert!(!may_recover(&mut world.conn().await).await, "another is at it");
        Ok::<_, DbError>(())
    })
    .await
    .unwrap();
    assert!(may_recover(&mut other).await, "it has ended");
    let scheduler = candidate(&mut one).await;
    assert!(may_recover(&mut other).await, "a standby recovers nothing");
    lead(&mut one, scheduler).await;
    assert!(!may_recover(&mut other).await);
    silence(&world, "scheduler_instances", 31).await;
    assert!(may_recover(&mut other).await, "its row is all that is left of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_heartbeat_returns_leader_silence() {
    let world = Fixture::new().await;
    let worker = world.worker().await;
    let mut conn = world.conn().await;
    let beat =
        Beat { status: WorkerStatus::Idle, running: 0, jobs_processed: 0, lease_ms: 1, count_up_to: 1 };
    let mut silent_for = async || match workers::heartbeat(&mut conn, worker, beat).await.unwrap() {
        BeatOutcome::Renewed { leader_silence, .. } => leader_silence,
        BeatOutcome::LeaseLost => panic!("the worker lives"),
    };
    assert_eq!(silent_for().await, None);
    let mut leads = world.conn().await;
    let scheduler = candidate(&mut leads).await;
    assert_eq!(silent_for().await, None, "it does not lead yet");
    lead(&mut leads, scheduler).await;
    assert!(silent_for().await.unwrap() < Duration::from_secs(20));
    silence(&world, "scheduler_instances", 100).await;
    let seconds = silent_for().await.unwrap().as_secs();
    assert!((100..130).contains(&seconds), "{seconds}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_recoveries_end_each_attempt_once() {
    let world = Fixture::new().await;
    for number in 0..20 {
        world.running(&format!("job-{number}")).await;
    }
    silence(&world, "worker_registration", 31).await;
    // The leader was silent long enough for a worker to recover, and acts now, still in its term.
    let mut conn = world.conn().await;
    let instance = candidate(&mut conn).await;
    let term = lead(&mut conn, instance).await;
    silence(&world, "scheduler_instances", 31).await;
    let all = async |by: Recoverer| {
        let mut conn = world.conn().await;
        recovery(by).run(&mut conn, || false).await.unwrap()
    };
    let (one, other) = tokio::join!(all(Recoverer::Leader { instance, term }), all(Recoverer::Worker));
    assert_eq!(one.attempts + other.attempts, 20, "{one:?} {other:?}");
    assert_eq!(one.workers + other.workers, 20, "{one:?} {other:?}");
    let told = "SELECT event_type, count(*), count(DISTINCT payload) FROM events
                WHERE event_type IN ('worker_offline', 'schedule_execution_lost') GROUP BY 1 ORDER BY 1";
    let expected = [["schedule_execution_lost", "20", "20"], ["worker_offline", "20", "20"]];
    assert_eq!(world.rows(told).await, expected);
    assert_eq!(world.number("SELECT count(*) FROM job_execution_log WHERE status = 'LOST'").await, 20);
    assert_eq!(world.number("SELECT count(*) FROM uncounted_ends").await, 0, "each recovery counts its ends");
    assert_eq!(all(Recoverer::Worker).await, Recovered::default());
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_without_permission_changes_nothing() {
    let world = Fixture::new().await;
    world.running("kept").await;
    silence(&world, "worker_registration", 31).await;
    let mut conn = world.conn().await;
    let instance = candidate(&mut conn).await;
    lead(&mut conn, instance).await;
    let refused = recovery(Recoverer::Worker).run(&mut conn, || false).await.unwrap();
    assert_eq!(refused, Recovered::default());
    assert_eq!(world.number("SELECT count(*) FROM worker_registration WHERE status = 'OFFLINE'").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'").await, 1);
}

async fn write_live(world: &Fixture, claimed: &Claimed, pieces: &[(i64, &'static str, i64, &str)]) {
    let pieces = pieces.iter().map(|&(seq, stream, starts_at, content)| Piece {
        seq,
        stream,
        starts_at,
        content: content.to_owned(),
    });
    let update = LiveUpdate {
        dispatch_id: claimed.dispatch_id,
        token: claimed.token,
        pieces: pieces.collect(),
        keep_from: 0,
        progress: None,
    };
    let held = live_output::write(&mut world.conn().await, &[update]).await.unwrap();
    assert_eq!(held, [claimed.token]);
}

const OUTPUT: &str = "SELECT j.name, o.stream, o.chunk, o.dropped_bytes, o.content
    FROM job_execution_output o JOIN job_execution_log l ON l.id = o.execution_id
    JOIN scheduled_jobs j ON j.id = l.job_id
    ORDER BY j.name, o.stream, o.chunk";

#[tokio::test(flavor = "multi_thread")]
async fn lost_attempt_keeps_its_live_output() {
    let world = Fixture::new().await;
    let (talks, alive) = (world.running("talks").await, world.running("alive").await);
    world.running("silent").await;
    write_live(&world, &talks, &[(3, "stdout", 10, "one\n"), (4, "stderr", 0, "oops\n")]).await;
    write_live(&world, &talks, &[(5, "stdout", 14, "two\n"), (6, "stdout", 30, "end")]).await;
    write_live(&world, &alive, &[(1, "stdout", 0, "still here\n")]).await;
    world
        .sql(&format!(
            "UPDATE worker_registration SET last_heartbeat = clock_timestamp() - interval '31 seconds'
             WHERE worker_id NOT IN (SELECT worker_id FROM job_dispatch WHERE id = '{}')",
            alive.dispatch_id
        ))
        .await;
    let recovered = recovery(Recoverer::Worker).run(&mut world.conn().await, || false).await.unwrap();
    assert_eq!(recovered.attempts, 2);
    let expected = [
        ["talks", "stderr", "0", "0", "oops\n"],
        ["talks", "stdout", "0", "10", "one\ntwo\n"],
        ["talks", "stdout", "1", "12", "end"],
    ];
    assert_eq!(world.rows(OUTPUT).await, expected);
    let bytes =
        "SELECT j.name, l.output_bytes FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id
                 WHERE l.status = 'LOST' ORDER BY 1";
    assert_eq!(world.rows(bytes).await, [["silent", "0"], ["talks", "38"]]);
}

/// Output beyond the bound of a transaction goes into further ones.
#[tokio::test(flavor = "multi_thread")]
async fn many_lost_attempts_keep_all_their_output() {
    let world = Fixture::new().await;
    let job = world.job("talks").save().await;
    world.runs(job.id).count(5).insert().await;
    let worker = world.worker().await;
    let megabytes = "x".repeat(3 << 20);
    for claimed in &world.claim(worker, 5).await {
        write_live(&world, claimed, &[(1, "stdout", 0, &megabytes)]).await;
    }
    silence(&world, "worker_registration", 31).await;
    let recovered = recovery(Recoverer::Worker).run(&mut world.conn().await, || false).await.unwrap();
    assert_eq!(recovered.attempts, 5);
    let kept = "SELECT count(*), min(length(content)), max(length(content)) FROM job_execution_output";
    let length = megabytes.len().to_string();
    assert_eq!(world.rows(kept).await, [["5", length.as_str(), length.as_str()]]);
}
