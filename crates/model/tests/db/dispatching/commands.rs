//! Cancellations by command, also concurrent with a claim or an end.

use sched_model::dispatching::cancellations::{self, Cancelled, CancelledRuns, ClaimEndReason, Order};
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{ClaimToken, DispatchId, JobId, TenantId};
use sched_model::domain::job::OverlapPolicy;
use sched_model::domain::run_state::DispatchStatus;
use sched_model::running::attempts;
use sched_model::{Conn, transact};
use test_support::fixture::{BEGIN, Fixture, QUEUE, TENANT, ended};
use uuid::Uuid;

const ORDER: Order<'static> = Order { by: "tests", reason: Some("wrong data") };

pub(crate) async fn cancel_as(world: &Fixture, tenant: TenantId, id: DispatchId) -> Cancelled {
    let mut conn = world.conn().await;
    transact(&mut conn, "test_cancel", async |conn: &mut Conn| {
        cancellations::cancel(conn, tenant, id, &ORDER).await
    })
    .await
    .unwrap()
}

pub(crate) async fn cancel(world: &Fixture, id: DispatchId) -> Cancelled {
    cancel_as(world, TENANT, id).await
}

async fn cancel_of_job(world: &Fixture, job: JobId) -> (CancelledRuns, bool) {
    let mut conn = world.conn().await;
    let done = transact(&mut conn, "test_cancel", async |conn: &mut Conn| {
        cancellations::cancel_of_job(conn, TENANT, job, &ORDER).await
    })
    .await
    .unwrap();
    let (_, stopped, has_more) = done.unwrap();
    (stopped, has_more)
}

fn stopped(cancelled: Cancelled) -> CancelledRuns {
    let Cancelled::Stopped(_, stopped) = cancelled else { panic!("{cancelled:?}") };
    stopped
}

pub(crate) async fn the_dispatch(world: &Fixture) -> DispatchId {
    DispatchId(world.text("SELECT id FROM job_dispatch").await.parse().unwrap())
}

async fn with_line(world: &Fixture, in_line: i64) -> JobId {
    let job = world.job("line").overlap(OverlapPolicy::Queue).save().await.id;
    world.runs(job).count(1 + in_line).insert().await;
    world
        .sql(&format!(
            "UPDATE job_dispatch SET claimable_at = 'infinity' WHERE id <> (SELECT min(id::text)::uuid FROM job_dispatch);
             UPDATE scheduled_jobs SET queued_dispatches = {in_line} WHERE id = '{job}'"
        ))
        .await;
    job
}

const LINE: &str = "SELECT active_dispatches, queued_dispatches,
                           (SELECT count(*) FROM job_dispatch WHERE claimable_at = 'infinity'), last_status FROM scheduled_jobs";

#[tokio::test(flavor = "multi_thread")]
async fn waiting_run_is_cancelled_at_once() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    world.runs(job.id).insert().await;
    let id = the_dispatch(&world).await;
    let done = stopped(cancel(&world, id).await);
    assert_eq!((done.closed, done.requested.len(), done.workers.len()), (vec![id], 0, 0));
    let kept =
        "SELECT status, claimable_at, completed_at IS NOT NULL, attempt, error_message FROM job_dispatch";
    assert_eq!(world.rows(kept).await, [["CANCELLED", "-", "t", "0", "cancelled by tests: wrong data"]]);
    assert_eq!(world.rows(LINE).await, [["0", "0", "0", "CANCELLED"]]);
    assert_eq!(cancel(&world, id).await, Cancelled::AlreadyCancelled);
    let worker = world.worker().await;
    assert!(world.claim(worker, 1).await.is_empty(), "a cancelled run is not claimable");
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn running_run_is_marked_and_ended_by_its_worker() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let done = stopped(cancel(&world, claimed.dispatch_id).await);
    assert_eq!((done.closed.len(), done.requested, done.workers.len()), (0, vec![claimed.dispatch_id], 1));
    let worker = done.workers[0];
    assert_eq!(cancel(&world, claimed.dispatch_id).await, Cancelled::AlreadyRequested(Some(worker)));
    let held = [(claimed.dispatch_id, claimed.token)];
    let told = cancellations::claims_to_end(&mut world.conn().await, &held).await.unwrap();
    assert_eq!(told, [(claimed.token, ClaimEndReason::Cancelled)]);
    world.end(&[ended(&claimed, AttemptOutcome::Cancelled).build()], &[]).await;
    let kept = "SELECT status, completed_at IS NOT NULL, error_message FROM job_dispatch";
    assert_eq!(world.rows(kept).await, [["CANCELLED", "t", "cancelled by tests: wrong data"]]);
    assert_eq!(cancel(&world, claimed.dispatch_id).await, Cancelled::AlreadyCancelled);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_learns_which_claims_are_lost() {
    let world = Fixture::new().await;
    let (kept, over, lost) =
        (world.running("kept").await, world.running("over").await, world.running("lost").await);
    world.end(&[ended(&over, AttemptOutcome::Completed).build()], &[]).await;
    let older = ClaimToken(lost.token.0 - 1_000_000);
    let gone = DispatchId(uuid::Uuid::from_u128(77));
    let mut conn = world.conn().await;
    let held = [(kept.dispatch_id, kept.token), (lost.dispatch_id, lost.token)];
    assert_eq!(cancellations::claims_to_end(&mut conn, &held).await.unwrap(), []);
    assert_eq!(cancellations::claims_to_end(&mut conn, &[]).await.unwrap(), []);
    let held = [
        (kept.dispatch_id, kept.token),
        (over.dispatch_id, over.token),
        (lost.dispatch_id, older),
        (gone, ClaimToken(-1)),
    ];
    let mut told = cancellations::claims_to_end(&mut conn, &held).await.unwrap();
    told.sort_by_key(|(token, _)| *token);
    assert_eq!(
        told,
        [
            (older, ClaimEndReason::Lost),
            (ClaimToken(-1), ClaimEndReason::Lost),
            (over.token, ClaimEndReason::Lost)
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_attempt_with_cancellation_is_not_retried() {
    for (outcome, max_attempts) in [
        (AttemptOutcome::Failed, 3),
        (AttemptOutcome::Failed, 1),
        (AttemptOutcome::Lost, 1),
        (AttemptOutcome::Timeout, 1),
    ] {
        let world = Fixture::new().await;
        let claimed = world.running("hourly").await;
        stopped(cancel(&world, claimed.dispatch_id).await);
        world.end(&[ended(&claimed, outcome).max_attempts(max_attempts).build()], &[]).await;
        let kept =
            "SELECT status, completed_at IS NOT NULL, (SELECT count(*) FROM dead_letters) FROM job_dispatch";
        assert_eq!(world.rows(kept).await, [["CANCELLED", "t", "0"]], "{outcome:?} of {max_attempts}");
        world.assert_counters_are_true().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_and_foreign_runs_are_left_unchanged() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let other = TenantId(Uuid::new_v4());
    assert_eq!(cancel_as(&world, other, claimed.dispatch_id).await, Cancelled::NoSuchDispatch);
    world.end(&[ended(&claimed, AttemptOutcome::Completed).build()], &[]).await;
    assert_eq!(cancel(&world, claimed.dispatch_id).await, Cancelled::Finished(DispatchStatus::Completed));
    assert_eq!(cancel(&world, DispatchId(Uuid::new_v4())).await, Cancelled::NoSuchDispatch);
    assert_eq!(world.text("SELECT status FROM job_dispatch").await, "COMPLETED");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_run_releases_the_next_queued_run() {
    let world = Fixture::new().await;
    with_line(&world, 2).await;
    let in_line =
        world.text("SELECT id FROM job_dispatch WHERE claimable_at = 'infinity' ORDER BY id LIMIT 1").await;
    let done = stopped(cancel(&world, DispatchId(in_line.parse().unwrap())).await);
    assert_eq!((done.closed.len(), done.released_queues.len()), (1, 0), "the place is taken still");
    assert_eq!(world.rows(LINE).await, [["2", "1", "1", "CANCELLED"]]);
    let first = world.text("SELECT id FROM job_dispatch WHERE claimable_at < 'infinity'").await;
    let done = stopped(cancel(&world, DispatchId(first.parse().unwrap())).await);
    assert_eq!((done.closed.len(), done.released_queues), (1, vec![QUEUE.to_owned()]));
    assert_eq!(world.rows(LINE).await, [["1", "0", "0", "CANCELLED"]]);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_runs_of_a_job_are_cancelled_by_page() {
    let world = Fixture::new().await;
    let job = with_line(&world, 1_204).await;
    let worker = world.worker().await;
    let running = world.claim(worker, 1).await.pop().unwrap();
    let (first, has_more) = cancel_of_job(&world, job).await;
    assert_eq!((first.closed.len() + first.requested.len(), has_more), (cancellations::MOST_AT_ONCE, true));
    assert!(first.released_queues.is_empty(), "the rest of the line is to be cancelled too");
    let (rest, has_more) = cancel_of_job(&world, job).await;
    assert_eq!((rest.closed.len() + rest.requested.len(), has_more), (205, false));
    assert_eq!(world.rows(LINE).await, [["1", "0", "0", "CANCELLED"]]);
    let (again, has_more) = cancel_of_job(&world, job).await;
    assert_eq!((again, has_more), (CancelledRuns::default(), false), "the running run is marked already");
    world.finish(&running, AttemptOutcome::Cancelled).await;
    assert_eq!(world.rows(LINE).await, [["0", "0", "0", "CANCELLED"]]);
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'CANCELLED'").await, 1_205);
    let (none, _) = cancel_of_job(&world, job).await;
    assert_eq!(none, CancelledRuns::default());
    world.assert_counters_are_true().await;
}

/// A run is claimed in a transaction that commits after the cancellation has started to wait for
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn concurrently_claimed_run_is_marked_and_not_closed() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    world.runs(job.id).insert().await;
    let id = the_dispatch(&world).await;
    let worker = world.worker().await;
    let claimer = world.db.client().await;
    let claim = format!(
        "{BEGIN}; UPDATE job_dispatch SET status = 'IN_PROGRESS', claimable_at = NULL, claimed_at = clock_timestamp(), attempt = 1,
             worker_id = '{worker}', claim_token = nextval('claim_token_seq');
         INSERT INTO worker_claims (worker_id, dispatch_ids, limit_seconds) VALUES ('{worker}', ARRAY['{id}'::uuid], ARRAY[60])"
    );
    claimer.batch_execute(&claim).await.unwrap();
    let (cancelled, ()) = tokio::join!(cancel(&world, id), async {
        world.wait_for_blocked(1).await;
        claimer.batch_execute("COMMIT").await.unwrap();
    });
    let done = stopped(cancelled);
    assert_eq!((done.closed.len(), done.requested, done.workers), (0, vec![id], vec![worker]));
    assert_eq!(world.text("SELECT status FROM job_dispatch").await, "IN_PROGRESS");
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellations_and_ends_are_serialized() {
    let world = Fixture::new().await;
    for round in 0..20 {
        let claimed = world.running(&format!("job-{round}")).await;
        let mut conn = world.conn().await;
        let batch = [ended(&claimed, AttemptOutcome::Completed).max_attempts(1).build()];
        let (one, other, held) = tokio::join!(
            cancel(&world, claimed.dispatch_id),
            cancel(&world, claimed.dispatch_id),
            attempts::end(&mut conn, &batch, &[]),
        );
        assert_eq!(held.unwrap(), [claimed.dispatch_id], "finished work counts despite the cancellation");
        let marked = [&one, &other].into_iter().filter(|c| matches!(c, Cancelled::Stopped(..))).count();
        assert!(marked <= 1, "{one:?} {other:?}");
    }
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'").await, 20);
    world.count_ends().await;
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn random_cancellations_and_claims_keep_counters_correct() {
    let world = Fixture::new().await;
    let job = world.job("hourly").save().await;
    world.runs(job.id).count(60).insert().await;
    let ids: Vec<DispatchId> = world
        .rows("SELECT id FROM job_dispatch")
        .await
        .iter()
        .map(|row| DispatchId(row[0].parse().unwrap()))
        .collect();
    let worker = world.worker().await;
    let claim = async {
        let mut claimed = Vec::new();
        loop {
            match world.claim(worker, 3).await {
                more if more.is_empty() => return claimed,
                more => claimed.extend(more),
            }
        }
    };
    let cancel = async {
        let mut done = CancelledRuns::default();
        for id in &ids {
            let one = stopped(cancel(&world, *id).await);
            done.closed.extend(one.closed);
            done.requested.extend(one.requested);
        }
        done
    };
    let (claimed, done) = tokio::join!(claim, cancel);
    assert_eq!((claimed.len(), done.closed.len()), (done.requested.len(), 60 - claimed.len()));
    let batch: Vec<_> =
        claimed.iter().map(|one| ended(one, AttemptOutcome::Cancelled).max_attempts(1).build()).collect();
    assert_eq!(world.end(&batch, &[]).await.len(), claimed.len());
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'CANCELLED'").await, 60);
    world.assert_counters_are_true().await;
}
