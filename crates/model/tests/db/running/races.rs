//! Concurrent ends: no deadlock, and correct counters.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::running::attempts;
use sched_model::running::claims::Claimed;
use test_support::fixture::{Fixture, ended};

#[tokio::test(flavor = "multi_thread")]
async fn workers_ending_attempts_of_the_same_jobs_in_opposite_order_do_not_deadlock() {
    const ROUNDS: usize = 50;
    let world = Fixture::new().await;
    for name in ["one", "two", "three"] {
        let job = world.job(name).save().await;
        world.runs(job.id).count(2 * ROUNDS as i64).insert().await;
    }
    let worker = world.worker().await;
    let mut of_each_job: [Vec<Claimed>; 3] = Default::default();
    for claimed in world.claim(worker, 1_000).await {
        let job = ["one", "two", "three"].iter().position(|name| *name == claimed.job.name).unwrap();
        of_each_job[job].push(claimed);
    }
    let mut one = world.conn().await;
    let mut other = world.conn().await;
    for _ in 0..ROUNDS {
        let mut batch = || {
            of_each_job
                .each_mut()
                .map(|job| ended(&job.pop().unwrap(), AttemptOutcome::Completed).max_attempts(1).build())
        };
        let (forth, mut back) = (batch(), batch());
        back.reverse();
        let (forth, back) =
            tokio::join!(attempts::end(&mut one, &forth, &[]), attempts::end(&mut other, &back, &[]));
        assert_eq!((forth.unwrap().len(), back.unwrap().len()), (3, 3));
    }
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'tests'";
    assert_eq!(world.number(ours).await, 2);
    drop((one, other));
    // A session reports its statistics before it ends.
    world.wait_for_count("the sessions have ended", ours, 0).await;
    world.count_ends().await;
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(
        world.number(deadlocks).await,
        0,
        "transactions are run again after a deadlock, which hides it"
    );
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'").await, 300);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_locked_before_dispatches_and_in_order() {
    let world = Fixture::new().await;
    let (one, other) = (world.running("one").await, world.running("other").await);
    let (low, high) = if one.job_id < other.job_id { (one, other) } else { (other, one) };
    let holder = world.db.client().await;
    let hold = format!("BEGIN; SELECT FROM scheduled_jobs WHERE id = '{}' FOR UPDATE", low.job_id);
    holder.batch_execute(&hold).await.unwrap();

    let batch =
        [&high, &low].map(|claimed| ended(claimed, AttemptOutcome::Completed).max_attempts(1).build());
    let look = async {
        world.wait_for_blocked(1).await;
        let free = async |rows: &str| {
            world
                .number(&format!("SELECT count(*) FROM (SELECT FROM {rows} FOR UPDATE SKIP LOCKED) AS free"))
                .await
        };
        assert_eq!(free("job_dispatch").await, 2, "no dispatch is locked while a job is waited for");
        let later = format!("scheduled_jobs WHERE id = '{}'", high.job_id);
        assert_eq!(free(&later).await, 1, "no job is locked before one that comes earlier");
        holder.batch_execute("COMMIT").await.unwrap();
    };
    let (held, ()) = tokio::join!(world.end(&batch, &[]), look);
    assert_eq!(held.len(), 2);
}

async fn step(world: &Fixture, random: &mut StdRng, running: &mut Vec<Claimed>, done: &mut Vec<Claimed>) {
    const OUTCOMES: &[AttemptOutcome] = AttemptOutcome::ALL;
    match random.random_range(0..10) {
        0..2 => {
            let job = world.job(["one", "two", "three"][random.random_range(0..3)]).save().await;
            world.runs(job.id).count(random.random_range(1..5)).insert().await;
        }
        2..4 => {
            let worker = world.worker().await;
            running.extend(world.claim(worker, random.random_range(1..6)).await);
        }
        4 => world.skip_waits().await,
        5 if !done.is_empty() => {
            let late = &done[random.random_range(0..done.len())];
            let held = world.end(&[ended(late, AttemptOutcome::Completed).build()], &[]).await;
            assert!(held.is_empty(), "a claim that has ended does not hold");
        }
        _ => {
            let count = random.random_range(0..=running.len().min(4));
            let some: Vec<Claimed> = running.drain(..count).collect();
            let outcome = OUTCOMES[random.random_range(0..OUTCOMES.len())];
            let batch: Vec<_> = some.iter().map(|claimed| ended(claimed, outcome).build()).collect();
            assert_eq!(world.end(&batch, &[]).await.len(), count);
            done.extend(some);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn job_counters_stay_correct() {
    for seed in 1..=3 {
        let world = Fixture::new().await;
        let mut random = StdRng::seed_from_u64(seed);
        let (mut running, mut done) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            step(&world, &mut random, &mut running, &mut done).await;
        }
        assert!(done.len() > 10, "seed {seed} ends no more than {}", done.len());
        world.assert_counters_are_true().await;
        let attempts = world.number("SELECT count(*) FROM job_execution_log").await;
        assert_eq!(usize::try_from(attempts).unwrap(), done.len(), "seed {seed}: one row for each attempt");
    }
}
