//! A run without its own arguments uses those of its version of the job, also after changes.

use sched_model::dispatching::dispatches;
use sched_model::dispatching::retries::{self, Retried, RetryOrder};
use sched_model::dispatching::trigger::{self, Demands, Fate, Order};
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{DispatchId, JobId, TenantId, WorkerId};
use sched_model::domain::run_state::{DispatchEvent, Trigger};
use sched_model::running::claims::{self, ClaimRequest, Claimed};
use sched_model::running::dead_letters;
use sched_model::{Conn, transact};
use serde_json::{Value, json};
use test_support::fixture::{BEGIN, Fixture, QUEUE, TENANT, ended};
use uuid::Uuid;

/// The stored columns of all runs.
const STORED: &str = "SELECT job_version, args FROM job_dispatch ORDER BY created_at";

fn dispatched(fate: Fate) -> DispatchId {
    let Fate::Created(created) = fate else { panic!("{fate:?}") };
    created.dispatch
}

/// Job `a` in version 1, and a run of it.
async fn run_of_first_version(world: &Fixture, own: Option<&Value>) -> (JobId, DispatchId) {
    let job = world.job("a").args(json!({"of": "the job"})).save().await.id;
    (job, dispatched(world.trigger(job, own).await))
}

async fn change_args(world: &Fixture) {
    world.job("a").args(json!({"of": "version 2"})).save().await;
}

async fn retry(world: &Fixture, id: DispatchId) -> DispatchId {
    let order = RetryOrder { tenant: TENANT, by: "tests", traceparent: None };
    let work = async |conn: &mut Conn| retries::retry(conn, &order, id).await;
    let retried = transact(&mut world.conn().await, "test_retry", work).await.unwrap();
    let Retried::Created(made, _) = retried else { panic!("{retried:?}") };
    made.dispatch_id
}

#[tokio::test(flavor = "multi_thread")]
async fn run_stores_only_different_arguments() {
    let world = Fixture::new().await;
    let own = json!({"of": "the trigger"});
    let (job, _) = run_of_first_version(&world, None).await;
    world.trigger(job, Some(&json!({"of": "the job"}))).await;
    world.trigger(job, Some(&own)).await;
    change_args(&world).await;
    world.trigger(job, None).await;
    let expected = [["1", "-"], ["1", "-"], ["1", r#"{"of": "the trigger"}"#], ["2", "-"]];
    assert_eq!(world.rows(STORED).await, expected);
    let shown = "SELECT r.job_version, r.has_own_args, r.args ->> 'of'
                 FROM run_arguments r JOIN job_dispatch d ON d.id = r.dispatch_id ORDER BY d.created_at";
    let expected =
        [["1", "f", "the job"], ["1", "f", "the job"], ["1", "t", "the trigger"], ["2", "f", "version 2"]];
    assert_eq!(world.rows(shown).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_without_stored_version_are_stored() {
    let world = Fixture::new().await;
    let job = world.job("a").save().await.id;
    world.sql("UPDATE scheduled_jobs SET task_args = '{\"of\": \"sql\"}'").await;
    assert_eq!(world.number("SELECT version FROM scheduled_jobs").await, 2, "a version of its own");
    world.trigger(job, None).await;
    assert_eq!(world.rows(STORED).await, [["2", r#"{"of": "sql"}"#]]);
}

async fn claim_general(world: &Fixture, worker: WorkerId) -> Vec<Claimed> {
    world.claim(worker, 10).await
}

async fn claim_lone(world: &Fixture, worker: WorkerId) -> Vec<Claimed> {
    let queues = [QUEUE.to_owned()];
    claims::claim_lone(&mut world.conn().await, worker, &queues, None).await.unwrap().claimed
}

async fn claim_limited(world: &Fixture, worker: WorkerId) -> Vec<Claimed> {
    world.sql("UPDATE queues SET max_running = 5").await;
    let queues = [QUEUE.to_owned()];
    let last = TenantId(Uuid::nil());
    let wanted = ClaimRequest { worker, queues: &queues, limit: 10, last, lease_ms: None };
    claims::claim_limited(&mut world.conn().await, &wanted).await.unwrap().claimed
}

/// Claims the run of [`run_of_first_version`] after an optional change of the job's arguments.
async fn claimed_args(
    claim: impl AsyncFn(&Fixture, WorkerId) -> Vec<Claimed>,
    own: Option<&Value>,
    is_changed: bool,
) -> Value {
    let world = Fixture::new().await;
    run_of_first_version(&world, own).await;
    if is_changed {
        change_args(&world).await;
    }
    let worker = world.worker().await;
    let mut claimed = claim(&world, worker).await;
    assert_eq!(claimed.len(), 1);
    claimed.remove(0).args
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_return_arguments_of_the_version() {
    let own = json!({"of": "the trigger"});
    for is_changed in [false, true] {
        for (args, expected) in [(None, json!({"of": "the job"})), (Some(&own), own.clone())] {
            assert_eq!(claimed_args(claim_general, args, is_changed).await, expected);
            assert_eq!(claimed_args(claim_lone, args, is_changed).await, expected);
            assert_eq!(claimed_args(claim_limited, args, is_changed).await, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_and_dead_letter_show_effective_arguments() {
    let world = Fixture::new().await;
    let (_, id) = run_of_first_version(&world, None).await;
    change_args(&world).await;
    let worker = world.worker().await;
    let claimed = world.claim(worker, 1).await.remove(0);
    let mut end = ended(&claimed, AttemptOutcome::Failed).max_attempts(2).build();
    end.verdict.event = DispatchEvent::GiveUp;
    end.verdict.wait = None;
    world.end(&[end], &[]).await;
    let mut conn = world.conn().await;
    let expected = json!({"of": "the job"});
    let one = dispatches::by_id(&mut conn, TENANT, id).await.unwrap().unwrap();
    assert_eq!(one.row.args, expected);
    let mut page = dispatches::list(&mut conn, TENANT, &dispatches::Filter::default(), 10).await.unwrap();
    assert_eq!((page.len(), page.remove(0).row.args), (1, expected.clone()));
    let filter = dead_letters::Filter::default();
    let mut letters = dead_letters::list(&mut conn, TENANT, &filter, 10).await.unwrap();
    assert_eq!((letters.len(), letters.remove(0).dispatch.args), (1, expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_keeps_the_arguments_of_its_run() {
    let world = Fixture::new().await;
    let (_, id) = run_of_first_version(&world, None).await;
    let worker = world.worker().await;
    let claimed = world.claim(worker, 1).await.remove(0);
    world.finish(&claimed, AttemptOutcome::Failed).await;
    let same = retry(&world, id).await;
    let claimed = world.claim(worker, 1).await.remove(0);
    assert_eq!((claimed.dispatch_id, &claimed.args), (same, &json!({"of": "the job"})));
    world.finish(&claimed, AttemptOutcome::Failed).await;
    change_args(&world).await;
    let other = retry(&world, same).await;
    let claimed = world.claim(worker, 1).await.remove(0);
    assert_eq!((claimed.dispatch_id, claimed.args), (other, json!({"of": "the job"})));
    assert_eq!(world.rows(STORED).await, [["1", "-"], ["1", "-"], ["2", r#"{"of": "the job"}"#]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_key_compares_effective_arguments() {
    let world = Fixture::new().await;
    world.job("a").args(json!({"of": "the job"})).save().await;
    let keyed = async || {
        let order = Order {
            job: "a",
            may_run_built_in: false,
            triggered_by: Trigger::Api,
            user: "tests",
            args: None,
            traceparent: None,
            actor: "tests via key",
            request: "r-1",
            address: None,
        };
        let demands = Demands { idempotency_key: Some("k"), ..Demands::default() };
        let work = async |conn: &mut Conn| trigger::trigger(conn, TENANT, &order, demands).await;
        transact(&mut world.conn().await, "test_trigger", work).await.unwrap()
    };
    let first = dispatched(keyed().await);
    assert_eq!(keyed().await, Fate::Duplicate(first));
    change_args(&world).await;
    assert_eq!(keyed().await, Fate::KeyReused(first));
}

const DELETE_FIRST: &str = "DELETE FROM scheduled_job_versions WHERE version = 1";

async fn assert_kept(world: &Fixture, statement: &str) {
    let error = world.client().await.batch_execute(statement).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.constraint(), Some("scheduled_job_versions_named_check"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn named_and_current_versions_are_kept() {
    let world = Fixture::new().await;
    run_of_first_version(&world, None).await;
    change_args(&world).await;
    for statement in [
        DELETE_FIRST,
        "DELETE FROM scheduled_job_versions WHERE version = 2",
        "UPDATE scheduled_job_versions SET settings = '{}' WHERE version = 1",
    ] {
        assert_kept(&world, statement).await;
    }
    world.sql(&format!("DELETE FROM job_dispatch; {DELETE_FIRST}")).await;
    assert_eq!(world.rows("SELECT version FROM scheduled_job_versions").await, [["2"]]);
    world.sql("DELETE FROM scheduled_jobs").await;
    assert_eq!(world.number("SELECT count(*) FROM scheduled_job_versions").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn version_is_kept_for_concurrent_run() {
    let world = Fixture::new().await;
    let job = world.job("a").save().await.id;
    let dispatcher = world.client().await;
    let insert = format!(
        "{BEGIN}; SELECT FROM scheduled_jobs FOR KEY SHARE;
         INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, triggered_by, trigger_id)
         SELECT gen_random_uuid(), tenant_id, id, version, now(), now(), now(), '{QUEUE}', 'manual', gen_random_uuid()
         FROM scheduled_jobs WHERE id = '{job}'"
    );
    dispatcher.batch_execute(&insert).await.unwrap();
    // A change by another client does not wait for the run.
    world.sql("UPDATE scheduled_jobs SET task_args = '{\"of\": \"sql\"}'").await;
    let deleting = assert_kept(&world, DELETE_FIRST);
    let commits = async {
        world.wait_for_blocked(1).await;
        dispatcher.batch_execute("COMMIT").await.unwrap();
    };
    tokio::join!(deleting, commits);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_arguments_have_a_new_version() {
    let world = Fixture::new().await;
    world.job("a").save().await;
    world.sql("UPDATE scheduled_jobs SET task_args = '{\"n\": 2}', version = version").await;
    world.sql("UPDATE scheduled_jobs SET task_args = '{\"n\": 2}', priority = 7").await;
    assert_eq!(world.number("SELECT version FROM scheduled_jobs").await, 2);
    let error =
        world.client().await.batch_execute("UPDATE scheduled_jobs SET version = 1").await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().constraint(), Some("scheduled_jobs_version_check"));
}
