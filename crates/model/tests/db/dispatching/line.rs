//! The overlap queue behind `max_instances`, and the events that make room in it.

use diesel_async::SimpleAsyncConnection as _;
use sched_model::dispatching::cancellations::{self, ClaimEndReason, MakeRoom};
use sched_model::dispatching::room::Instances;
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::JobId;
use sched_model::domain::job::OverlapPolicy;
use sched_model::running::attempts;
use sched_model::{Conn, dispatching::overlap_queue, transact};
use std::time::Duration;
use test_support::fixture::{Fixture, TENANT, ended};

pub(crate) async fn trigger(world: &Fixture, job: JobId) {
    world.trigger(job, None).await;
}

async fn with_room_for(world: &Fixture, max_instances: i32) -> JobId {
    world.job("narrow").max_instances(max_instances).overlap(OverlapPolicy::Skip).save().await.id
}

/// Open and queued runs, by the counters of the job and by the rows.
async fn counts(world: &Fixture) -> Vec<String> {
    let counts = "SELECT j.active_dispatches, j.queued_dispatches,
                         (SELECT count(*) FROM job_dispatch WHERE completed_at IS NULL),
                         (SELECT count(*) FROM job_dispatch WHERE claimable_at = 'infinity') FROM scheduled_jobs j";
    world.rows(counts).await.remove(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_beyond_max_instances_are_queued() {
    let world = Fixture::new().await;
    let job = with_room_for(&world, 2).await;
    for _ in 0..5 {
        trigger(&world, job).await;
    }
    assert_eq!(counts(&world).await, ["5", "3", "5", "3"]);
    let worker = world.worker().await;
    let mut running = world.claim(worker, 10).await;
    assert_eq!(running.len(), 2, "no more than max_instances");
    assert!(world.claim(worker, 10).await.is_empty());
    let mut conn = world.conn().await;
    let mut seen = Vec::new();
    for left in (0..5).rev() {
        let one = running.remove(0);
        seen.push(one.scheduled_for);
        let end = ended(&one, AttemptOutcome::Completed).build();
        attempts::end(&mut conn, &[end], &[]).await.unwrap();
        running.extend(world.claim(worker, 10).await);
        assert_eq!(running.len(), left.min(2));
    }
    assert!(seen.is_sorted(), "oldest first: {seen:?}");
    world.count_ends().await;
    assert_eq!(counts(&world).await, ["0", "0", "0", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn retried_attempt_keeps_its_instance() {
    let world = Fixture::new().await;
    let job = with_room_for(&world, 1).await;
    trigger(&world, job).await;
    trigger(&world, job).await;
    let worker = world.worker().await;
    let running = world.claim(worker, 10).await.remove(0);
    let mut conn = world.conn().await;
    let failed = ended(&running, AttemptOutcome::Failed).retry_after(Duration::from_secs(3600)).build();
    attempts::end(&mut conn, &[failed], &[]).await.unwrap();
    assert_eq!(counts(&world).await, ["2", "1", "2", "1"]);
    assert!(world.claim(worker, 10).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_overlap_queue_is_released() {
    let world = Fixture::new().await;
    let job = with_room_for(&world, 1).await;
    for _ in 0..4 {
        trigger(&world, job).await;
    }
    let mut conn = world.conn().await;
    let mut sweep = async || {
        transact(&mut conn, "test_sweep", async |conn: &mut Conn| {
            overlap_queue::release_stranded(conn, 10).await
        })
        .await
        .unwrap()
    };
    assert!(sweep().await.is_empty(), "there is no room");
    world.sql("UPDATE scheduled_jobs SET max_instances = 2").await;
    assert_eq!(sweep().await, ["default"]);
    assert_eq!(counts(&world).await, ["4", "2", "4", "2"]);
    world.sql("UPDATE scheduled_jobs SET overlap_policy = 'allow'").await;
    sweep().await;
    assert_eq!(counts(&world).await, ["4", "0", "4", "0"]);
    world.sql("UPDATE scheduled_jobs SET queued_dispatches = 3").await;
    sweep().await;
    assert_eq!(counts(&world).await, ["4", "0", "4", "0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn held_runs_return_after_the_pause() {
    let world = Fixture::new().await;
    world.function("other").save().await;
    let job = world.job("held").save().await;
    world.runs(job.id).count(5).insert().await;
    let mut conn = world.conn().await;
    let mut hold = async |limit| {
        transact(&mut conn, "test_hold", async |conn: &mut Conn| {
            overlap_queue::queue_paused(conn, limit).await
        })
        .await
        .unwrap()
    };
    let mut other = world.conn().await;
    let mut sweep = async || {
        transact(&mut other, "test_sweep", async |conn: &mut Conn| {
            overlap_queue::release_stranded(conn, 10).await
        })
        .await
        .unwrap()
    };
    let pauses = ["task_functions SET is_paused = %s WHERE name = 'noop'", "projects SET is_paused = %s"];
    for pause in pauses.map(|pause| format!("UPDATE {pause}")) {
        assert_eq!(hold(10).await, 0, "nothing is paused");
        world.sql(&pause.replace("%s", "true")).await;
        assert_eq!((hold(3).await, hold(10).await, hold(10).await), (3, 2, 0), "a page at a time");
        assert_eq!(counts(&world).await, ["5", "5", "5", "5"]);
        assert!(sweep().await.is_empty(), "it is still paused");
        assert!(
            overlap_queue::release(&mut world.conn().await, &[(TENANT, job.id)]).await.unwrap().is_empty()
        );
        world.sql(&pause.replace("%s", "false")).await;
        assert_eq!(sweep().await, ["default"]);
        assert_eq!(counts(&world).await, ["5", "0", "5", "0"]);
    }
    world.sql("UPDATE task_functions SET is_paused = true WHERE name = 'other'").await;
    assert_eq!(hold(10).await, 0, "another function is paused");
    let worker = world.worker().await;
    assert_eq!(world.claim(worker, 10).await.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_oldest_covers_waiting_and_running_runs() {
    let world = Fixture::new().await;
    let job = with_room_for(&world, 1).await;
    for _ in 0..3 {
        trigger(&world, job).await;
    }
    let worker = world.worker().await;
    let running = world.claim(worker, 10).await.remove(0);
    let mut conn = world.conn().await;
    let room = MakeRoom { tenant_id: TENANT, job_id: job, count: 2 };
    let mut make_room = async || {
        transact(&mut conn, "test_cancel", async |conn: &mut Conn| {
            cancellations::cancel_oldest(conn, &[room]).await
        })
        .await
        .unwrap()
    };
    assert_eq!(make_room().await, [worker]);
    assert_eq!(counts(&world).await, ["2", "1", "2", "1"]);
    let states = "SELECT status, cancel_requested_at IS NOT NULL FROM job_dispatch ORDER BY scheduled_for";
    assert_eq!(world.rows(states).await, [["IN_PROGRESS", "t"], ["CANCELLED", "t"], ["PENDING", "f"]]);
    let events = "SELECT e.event_type, d.status, e.payload ->> 'by' FROM events e JOIN job_dispatch d ON d.id = e.dispatch_id
                  WHERE e.event_type LIKE 'dispatch_cancel%' ORDER BY d.scheduled_for";
    assert_eq!(
        world.rows(events).await,
        [
            ["dispatch_cancel_requested", "IN_PROGRESS", "scheduler"],
            ["dispatch_cancelled", "CANCELLED", "scheduler"]
        ]
    );
    // No second request by the next fire.
    let again = "UPDATE job_dispatch SET error_message = 'cancelled by ada' WHERE status = 'IN_PROGRESS'";
    world.conn().await.batch_execute(again).await.unwrap();
    let message = "SELECT error_message FROM job_dispatch WHERE status = 'IN_PROGRESS'";
    let one = MakeRoom { count: 1, ..room };
    let mut conn = world.conn().await;
    let told = cancellations::cancel_oldest(&mut conn, &[one]).await.unwrap();
    assert_eq!((told.len(), world.rows(events).await.len()), (0, 2));
    assert_eq!(world.rows(message).await, [["cancelled by ada"]]);
    let held = [(running.dispatch_id, running.token)];
    let word = cancellations::claims_to_end(&mut conn, &held).await.unwrap();
    assert_eq!(word, [(running.token, ClaimEndReason::Cancelled)]);

    // A requested cancellation prevents its return.
    let lost = ended(&running, AttemptOutcome::Lost).retry_after(Duration::ZERO).build();
    attempts::end(&mut conn, &[lost], &[]).await.unwrap();
    assert_eq!(world.rows(states).await, [["CANCELLED", "t"], ["CANCELLED", "t"], ["PENDING", "f"]]);
    assert_eq!(counts(&world).await, ["1", "0", "1", "0"]);
    assert_eq!(world.claim(worker, 10).await.len(), 1, "the next queued run becomes claimable");
}

#[tokio::test(flavor = "multi_thread")]
async fn sql_and_rust_compute_the_same_room() {
    const ROOM: &str = include_str!("../../../src/dispatching/room/room.sql");
    let world = Fixture::new().await;
    let policies =
        [OverlapPolicy::Allow, OverlapPolicy::Skip, OverlapPolicy::Queue, OverlapPolicy::CancelOldest];
    let mut expected = Vec::new();
    for overlap_policy in policies {
        for (max_instances, active, queued) in [(1, 0, 0), (3, 5, 4), (2, 2, 0), (1, 4, 1)] {
            let name = format!("{overlap_policy:?}-{max_instances}-{active}-{queued}").to_lowercase();
            world.job(&name).max_instances(max_instances).overlap(overlap_policy).save().await;
            let counters = format!(
                "UPDATE scheduled_jobs SET active_dispatches = {active}, queued_dispatches = {queued} WHERE name = '{name}'"
            );
            world.sql(&counters).await;
            let room = Instances { overlap_policy, max_instances, active, queued }.room();
            expected.push(vec![name, room.map_or_else(|| "-".to_owned(), |room| room.to_string())]);
        }
    }
    expected.sort();
    let query = format!(
        "{ROOM} SELECT j.name, r.room FROM room r JOIN scheduled_jobs j ON j.id = r.id ORDER BY j.name COLLATE \"C\""
    );
    assert_eq!(world.rows(&query).await, expected);
}
