//! The work of dead workers is found, ended as lost, and cannot return.

use std::time::Duration;

use sched_model::domain::attempt::{AttemptEnd, AttemptOutcome, decide};
use sched_model::domain::ids::{ClaimToken, DispatchId, WorkerId};
use sched_model::domain::instance::WorkerStatus;
use sched_model::domain::retry::RetryPolicy;
use sched_model::recovery::dead_workers::{self, OpenAttempt};
use sched_model::running::workers::{self, Beat, BeatOutcome};
use sched_model::{Conn, transact};
use test_support::fixture::{Fixture, ended};

const LEASE: Duration = Duration::from_secs(30);
const BEAT: Beat =
    Beat { status: WorkerStatus::Busy, running: 1, jobs_processed: 0, lease_ms: 1, count_up_to: 1 };

async fn busy(
    world: &Fixture,
    worker: WorkerId,
    name: &str,
    count: u32,
) -> Vec<sched_model::running::claims::Claimed> {
    let job = world.job(name).save().await;
    world.runs(job.id).count(count.into()).insert().await;
    let claimed = world.claim(worker, count).await;
    assert_eq!(claimed.len(), count as usize);
    claimed
}

pub(crate) async fn silence(world: &Fixture, worker: WorkerId, seconds: i32) {
    world
        .sql(&format!(
            "UPDATE worker_registration SET last_heartbeat = clock_timestamp() - {seconds} * interval '1 second'
             WHERE worker_id = '{worker}'"
        ))
        .await;
}

pub(crate) async fn expire(world: &Fixture) -> Vec<WorkerId> {
    let expired = dead_workers::expire_workers(&mut world.conn().await, LEASE).await.unwrap();
    expired.into_iter().map(|(worker, _)| worker).collect()
}

async fn status(world: &Fixture, worker: WorkerId) -> String {
    world.text(&format!("SELECT status FROM worker_registration WHERE worker_id = '{worker}'")).await
}

pub(crate) async fn recover(world: &Fixture) -> Vec<OpenAttempt> {
    transact(&mut world.conn().await, "test_recover", async |conn: &mut Conn| {
        let lost = dead_workers::lost_attempts(conn, 100).await?;
        let ends: Vec<_> = lost.iter().map(end_as_lost).collect();
        let held = dead_workers::end_lost(conn, &ends).await?;
        assert_eq!(held.len(), lost.len());
        Ok::<_, sched_model::DbError>(lost)
    })
    .await
    .unwrap()
}

fn end_as_lost(open: &OpenAttempt) -> sched_model::running::attempts::Ended {
    use sched_model::domain::ids::{ExecutionId, time_ordered};
    use sched_model::running::attempts::{Ended, Record};
    let policy = RetryPolicy::standard(3);
    Ended {
        dispatch_id: open.dispatch_id,
        tenant_id: open.tenant_id,
        job_id: open.job_id,
        job: open.job_columns(),
        token: open.token,
        outcome: AttemptOutcome::Lost,
        verdict: decide(
            AttemptEnd { outcome: AttemptOutcome::Lost, error_class: None },
            open.failures,
            &policy,
            0.0,
        ),
        record: Record {
            execution_id: ExecutionId(time_ordered(open.now)),
            started_at: open.claimed_at,
            duration: Duration::from_secs(1),
            exit_code: None,
            result: None,
            error_class: Some("worker_lost".into()),
            error_message: Some("the worker is gone".into()),
            traceback: None,
            metrics: None,
            output: Vec::new(),
            output_bytes: 0,
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_worker_loses_its_attempts() {
    let world = Fixture::new().await;
    let (silent, living) = (world.worker().await, world.worker().await);
    let lost = busy(&world, silent, "lost", 3).await;
    let kept = busy(&world, living, "kept", 2).await;
    // A claim names finished runs too.
    world.end(&[ended(&lost[0], AttemptOutcome::Completed).build()], &[]).await;
    silence(&world, silent, 31).await;
    silence(&world, living, 20).await;

    assert_eq!(expire(&world).await, [silent]);
    assert!(expire(&world).await.is_empty(), "reported once");
    let found = recover(&world).await;
    let mut wanted = [lost[1].dispatch_id, lost[2].dispatch_id];
    wanted.sort();
    assert_eq!(found.iter().map(|open| open.dispatch_id).collect::<Vec<_>>(), wanted);
    assert!(
        found.iter().all(|open| open.worker_id == silent && open.job_name == "lost" && open.attempt == 1)
    );

    let before = world.rows("SELECT * FROM job_dispatch ORDER BY id").await;
    let late: Vec<_> =
        lost[1..].iter().map(|claimed| ended(claimed, AttemptOutcome::Completed).build()).collect();
    assert!(world.end(&late, &[]).await.is_empty(), "its claims are invalid");
    assert_eq!(world.rows("SELECT * FROM job_dispatch ORDER BY id").await, before);
    let states = "SELECT j.name, d.status, d.lost_count, count(*) FROM job_dispatch d
                  JOIN scheduled_jobs j ON j.id = d.job_id GROUP BY 1, 2, 3 ORDER BY 1, 2";
    let expected =
        [["kept", "IN_PROGRESS", "0", "2"], ["lost", "COMPLETED", "0", "1"], ["lost", "PENDING", "1", "2"]];
    assert_eq!(world.rows(states).await, expected);
    assert_eq!(world.number("SELECT count(*) FROM job_execution_log WHERE status = 'LOST'").await, 2);
    world.assert_counters_are_true().await;
    assert_eq!(
        kept.len(),
        world
            .end(&kept.iter().map(|c| ended(c, AttemptOutcome::Completed).build()).collect::<Vec<_>>(), &[])
            .await
            .len()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_worker_cannot_heartbeat() {
    let world = Fixture::new().await;
    let worker = world.worker().await;
    let mut conn = world.conn().await;
    let renewed = BeatOutcome::Renewed { drain_requested: false, leader_silence: None, living: 1 };
    assert_eq!(workers::heartbeat(&mut conn, worker, BEAT).await.unwrap(), renewed);
    silence(&world, worker, 31).await;
    assert_eq!(
        workers::heartbeat(&mut conn, worker, BEAT).await.unwrap(),
        renewed,
        "no leader has marked the worker yet"
    );
    assert!(expire(&world).await.is_empty(), "the heartbeat renewed the lease");
    silence(&world, worker, 31).await;
    assert_eq!(expire(&world).await, [worker]);
    assert_eq!(workers::heartbeat(&mut conn, worker, BEAT).await.unwrap(), BeatOutcome::LeaseLost);
    assert_eq!(status(&world, worker).await, "OFFLINE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_from_the_future_counts_as_expired() {
    let world = Fixture::new().await;
    let worker = world.worker().await;
    silence(&world, worker, -20).await;
    assert!(expire(&world).await.is_empty(), "within the lease");
    silence(&world, worker, -40).await;
    assert_eq!(expire(&world).await, [worker]);
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_unknown_to_the_worker_are_found() {
    let world = Fixture::new().await;
    let (worker, other) = (world.worker().await, world.worker().await);
    let known: Vec<ClaimToken> = busy(&world, worker, "known", 2).await.iter().map(|c| c.token).collect();
    let unknown = busy(&world, worker, "unknown", 1).await;
    busy(&world, other, "elsewhere", 1).await;
    let mut conn = world.conn().await;
    let found = dead_workers::unknown_claims(&mut conn, worker, &known).await.unwrap();
    assert_eq!(
        found.iter().map(|o| (o.dispatch_id, o.token)).collect::<Vec<_>>(),
        [(unknown[0].dispatch_id, unknown[0].token)]
    );
    assert_eq!(dead_workers::unknown_claims(&mut conn, worker, &[]).await.unwrap().len(), 3);
    world.end(&[ended(&unknown[0], AttemptOutcome::Released).build()], &[]).await;
    assert!(dead_workers::unknown_claims(&mut conn, worker, &known).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_claim_with_an_unconfirmed_end_is_found() {
    let world = Fixture::new().await;
    let worker = world.worker().await;
    let first = busy(&world, worker, "twice", 1).await;
    world.end(&[ended(&first[0], AttemptOutcome::Failed).max_attempts(9).build()], &[]).await;
    world.skip_waits().await;
    let second = world.claim(worker, 1).await;
    assert_eq!(second[0].dispatch_id, first[0].dispatch_id);
    let mut conn = world.conn().await;
    // The worker did not receive the confirmation of its end.
    let found = dead_workers::unknown_claims(&mut conn, worker, &[first[0].token]).await.unwrap();
    assert_eq!(found.iter().map(|open| open.token).collect::<Vec<_>>(), [second[0].token]);
    assert!(dead_workers::unknown_claims(&mut conn, worker, &[second[0].token]).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_worker_is_removed_unless_it_holds_work() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let idle = world.worker().await;
    let finished = busy(&world, idle, "finished", 1).await;
    world.finish(&finished[0], AttemptOutcome::Completed).await;
    workers::unregister(&mut conn, idle).await.unwrap();
    assert_eq!(
        world.number("SELECT count(*) FROM worker_registration").await,
        0,
        "claims that are over do not count"
    );

    let holding = world.worker().await;
    let held = busy(&world, holding, "held", 1).await;
    workers::unregister(&mut conn, holding).await.unwrap();
    assert_eq!(status(&world, holding).await, "OFFLINE");
    let lost = recover(&world).await;
    assert_eq!(lost.iter().map(|open| open.dispatch_id).collect::<Vec<_>>(), [held[0].dispatch_id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_workers_without_work_are_removed() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (living, fresh, gone, holding) =
        (world.worker().await, world.worker().await, world.worker().await, world.worker().await);
    busy(&world, holding, "held", 1).await;
    for (worker, hours) in [(fresh, 0), (gone, 2), (holding, 2)] {
        world
            .sql(&format!(
                "UPDATE worker_registration SET status = 'OFFLINE', offline_since = now() - {hours} * interval '1 hour'
                 WHERE worker_id = '{worker}'"
            ))
            .await;
    }
    let hour = Duration::from_secs(3_600);
    assert_eq!(workers::remove_stale(&mut conn, hour).await.unwrap(), [gone]);
    assert_eq!(dead_workers::forget_finished_claims(&mut conn).await.unwrap(), 0, "its dispatch still runs");
    assert_eq!(recover(&world).await.len(), 1);
    assert_eq!(dead_workers::forget_finished_claims(&mut conn).await.unwrap(), 1);
    assert_eq!(workers::remove_stale(&mut conn, hour).await.unwrap(), [holding]);
    let mut left: Vec<WorkerId> = workers::list(&mut conn, &workers::Filter::default(), 10)
        .await
        .unwrap()
        .iter()
        .map(|w| w.worker_id)
        .collect();
    left.sort();
    let mut expected = [living, fresh];
    expected.sort();
    assert_eq!(left, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_with_a_running_run_is_kept() {
    let world = Fixture::new().await;
    let worker = world.worker().await;
    let claimed = busy(&world, worker, "pair", 2).await;
    assert_eq!(claimed[0].claim_id, claimed[1].claim_id);
    let first = ended(&claimed[0], AttemptOutcome::Completed).max_attempts(1).build();
    world.end(&[first], &[claimed[0].claim_id]).await;
    silence(&world, worker, 3600).await;
    expire(&world).await;
    let lost: Vec<DispatchId> = recover(&world).await.iter().map(|attempt| attempt.dispatch_id).collect();
    assert_eq!(lost, [claimed[1].dispatch_id]);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_is_kept_until_its_own_lease_expires() {
    let world = Fixture::new().await;
    let worker = world.worker().await;
    world.sql("UPDATE worker_registration SET lease_ms = 3600000").await;
    silence(&world, worker, 1800).await;
    assert_eq!(expire(&world).await, []);
    silence(&world, worker, 3700).await;
    assert_eq!(expire(&world).await, [worker]);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_in_two_claims_is_ended_once() {
    let world = Fixture::new().await;
    let worker = world.worker().await;
    // One of two runs of a claim fails, and the same worker claims it again.
    let claimed = busy(&world, worker, "pair", 2).await;
    world.end(&[ended(&claimed[0], AttemptOutcome::Failed).max_attempts(9).build()], &[]).await;
    world.skip_waits().await;
    let again = world.claim(worker, 1).await;
    assert_eq!(again[0].dispatch_id, claimed[0].dispatch_id);
    let naming =
        format!("SELECT count(*) FROM worker_claims WHERE '{}' = ANY (dispatch_ids)", again[0].dispatch_id);
    assert_eq!(world.number(&naming).await, 2);
    let mut conn = world.conn().await;
    assert_eq!(dead_workers::unknown_claims(&mut conn, worker, &[]).await.unwrap().len(), 2, "each once");

    silence(&world, worker, 31).await;
    assert_eq!(expire(&world).await, [worker]);
    assert_eq!(recover(&world).await.len(), 2);
    let attempts = "SELECT attempt, status FROM job_execution_log ORDER BY attempt, status";
    assert_eq!(world.rows(attempts).await, [["1", "FAILED"], ["1", "LOST"], ["2", "LOST"]]);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn recovery_check_reports_work() {
    let world = Fixture::new().await;
    let (silent, living) = (world.worker().await, world.worker().await);
    busy(&world, silent, "lost", 1).await;
    let mut conn = world.conn().await;
    let mut look = async || {
        let found = dead_workers::pending_work(&mut conn, LEASE).await.unwrap();
        (found.silent_workers, found.claims_of_the_lost)
    };
    assert_eq!(look().await, (false, false));
    silence(&world, silent, 31).await;
    assert_eq!(look().await, (true, false));
    assert_eq!(expire(&world).await, [silent]);
    assert_eq!(look().await, (false, true));
    assert_eq!(recover(&world).await.len(), 1);
    assert_eq!(dead_workers::forget_finished_claims(&mut world.conn().await).await.unwrap(), 1);
    assert_eq!(look().await, (false, false));
    assert_eq!(status(&world, living).await, "IDLE");
}
