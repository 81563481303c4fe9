//! Claims of a queue take turns.

use sched_model::running::claims;
use test_support::Client;
use test_support::fixture::{Fixture, QUEUE};

/// Claims that wait for their turn.
const WAITING: &str =
    "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1935895653 AND NOT granted
                       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// A claim that took runs waits for this client before it ends: `worker_claims` refers to the worker.
async fn holder(world: &Fixture) -> Client {
    let holder = world.client().await;
    holder.batch_execute("BEGIN; SELECT FROM worker_registration FOR UPDATE").await.unwrap();
    holder
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_of_a_queue_never_overlap() {
    let world = Fixture::new().await;
    world.queue("other").await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(5).insert().await;
    let (one, two) = (world.worker().await, world.worker().await);
    let holder = holder(&world).await;
    let look = async {
        world.wait_for_blocked(2).await;
        world.wait_for_count("one waits for its turn", WAITING, 1).await;
        let mut conn = world.conn().await;
        let elsewhere = claims::claim(&mut conn, one, &["other".to_owned()], 3).await.unwrap();
        assert!(elsewhere.is_empty(), "a claim of another queue does not wait");
        let lone = claims::claim_lone(&mut conn, one, &[QUEUE.to_owned()], None).await.unwrap();
        assert!(lone.claimed.is_empty(), "the claim of a single run does not wait");
        holder.batch_execute("ROLLBACK").await.unwrap();
    };
    let (first, second, ()) = tokio::join!(world.claim(one, 3), world.claim(two, 3), look);
    let mut counts = [first.len(), second.len()];
    counts.sort_unstable();
    // The second sees what the first took, and skips no locked row.
    assert_eq!(counts, [2, 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_frozen_in_its_turn_is_cut_off() {
    let world = Fixture::new().await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(5).insert().await;
    let (frozen, other) = (world.worker().await, world.worker().await);
    let holder = holder(&world).await;
    let mut claim = Box::pin(world.claim(frozen, 3));
    tokio::select! {
        claimed = &mut claim => panic!("{claimed:?}"),
        () = world.wait_for_blocked(1) => {}
    }
    // Polled no more, it never commits.
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(world.claim(other, 5).await.len(), 5);
    assert_eq!(world.number("SELECT count(DISTINCT worker_id) FROM worker_claims").await, 1);
    drop(claim);
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_goes_without_a_turn_that_is_late() {
    let world = Fixture::new().await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(5).insert().await;
    let worker = world.worker().await;
    let holder = holder(&world).await;
    let key = "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = 1935895653
               AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    let hold = async {
        world.wait_for_blocked(1).await;
        let key = world.number(key).await;
        let keeper = world.client().await;
        let keep = format!("SELECT pg_advisory_lock(1935895653, ({key}::bigint::bit(32))::integer)");
        let kept = keeper.batch_execute(&keep);
        let free = async {
            world.wait_for_count("the keeper waits", WAITING, 1).await;
            holder.batch_execute("ROLLBACK").await.unwrap();
        };
        let (kept, ()) = tokio::join!(kept, free);
        kept.unwrap();
        keeper
    };
    let (first, keeper) = tokio::join!(world.claim(worker, 1), hold);
    assert_eq!(first.len(), 1);
    assert_eq!(world.claim(worker, 5).await.len(), 4);
    drop(keeper);
}
