//! Planned fires: dispatched at the instant if nothing changed since the plan, else left to the tick.

use std::sync::Arc;

use chrono::TimeDelta;
use sched_model::connection::database_clock;
use sched_model::dispatching::insert::NewDispatch;
use sched_model::dispatching::planned::{self, DispatchedPlan, PlannedFire, Source};
use sched_model::dispatching::tick::{self, DueJob};
use sched_model::domain::ids::Term;
use sched_model::{Conn, DbError, DbResult};
use test_support::fixture::{BEGIN, Fixture, Leader};

use crate::dispatching::tick::{make_due, run_of};

const RUNS: &str = "SELECT count(*) FROM job_dispatch";

struct World {
    fixture: Fixture,
    leader: Leader,
    conn: Conn,
}

impl World {
    /// A leader and one due job.
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let leader = fixture.lead().await;
        fixture.job("hourly").save().await;
        make_due(&fixture).await;
        fixture.sql("UPDATE scheduled_jobs SET settled_until = next_run_at - interval '1 hour'").await;
        let conn = fixture.conn().await;
        Self { fixture, leader, conn }
    }

    /// Plans all jobs, as the leader does before they are due.
    async fn plan(&mut self) -> Vec<PlannedFire> {
        let now = database_clock::now(&self.conn).await.unwrap();
        let (past, future) = (now - TimeDelta::days(1), now + TimeDelta::days(1));
        let jobs = tick::read_ahead(&mut self.conn, (past, 0), future, 100).await.unwrap();
        let mut fires: Vec<PlannedFire> = jobs.into_iter().map(plan).collect();
        fires.sort_by_key(|fire| fire.run.job_id.0);
        fires
    }

    async fn dispatch(&mut self, fires: &[PlannedFire]) -> DbResult<DispatchedPlan> {
        planned::dispatch(&mut self.conn, self.leader.instance, self.leader.term, fires).await
    }

    async fn created(&mut self, fires: &[PlannedFire]) -> usize {
        self.dispatch(fires).await.unwrap().created.len()
    }
}

fn plan(job: DueJob) -> PlannedFire {
    PlannedFire {
        run: NewDispatch { args: None, follows: job.last_fire_at, ..run_of(&job) },
        source: Arc::new(Source {
            tenant_id: job.tenant_id,
            function_id: job.function_id,
            queue: job.queue,
            project_id: job.project_id,
            edition: job.edition.unwrap(),
        }),
        job_name: job.name,
        valid_until: job.cursor + TimeDelta::days(1),
        next_run_at: job.cursor + TimeDelta::days(2),
        tzdata_version: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn planned_fire_is_dispatched_once() {
    let mut world = World::new().await;
    let fires = world.plan().await;
    let done = world.dispatch(&fires).await.unwrap();
    assert_eq!(done.created, [fires[0].run.id]);
    assert!(done.now >= fires[0].run.scheduled_for);
    assert_eq!(world.created(&fires).await, 0, "the cursor has moved");
    let state = "SELECT active_dispatches, queued_dispatches, total_run_count, fired_count, last_fire_at = settled_until,
                        next_run_at = last_fire_at + interval '2 days', last_dispatched_at IS NOT NULL
                 FROM scheduled_jobs";
    assert_eq!(world.fixture.records(state).await, ["(1,0,1,1,t,t,t)"]);
    let run = "SELECT d.status, d.triggered_by, d.queue, d.is_catch_up, d.claimable_at = d.scheduled_for, d.term IS NOT NULL,
                      d.scheduler_instance_id IS NOT NULL, d.follows IS NULL, d.expires_at IS NULL
               FROM job_dispatch d";
    assert_eq!(world.fixture.records(run).await, ["(PENDING,scheduler,default,f,t,t,t,t,t)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_job_is_left_to_tick() {
    let mut world = World::new().await;
    world.fixture.sql("UPDATE scheduled_jobs SET overlap_policy = 'skip'").await;
    let job = |change: &str| format!("UPDATE scheduled_jobs SET {change}");
    let paused = |table: &str| format!("UPDATE {table} SET is_paused = true");
    for (change, undo) in [
        (job("version = version + 1"), job("version = version")),
        (job("is_paused = true"), job("is_paused = false")),
        (job("is_enabled = false"), job("is_enabled = true")),
        (
            job("next_run_at = next_run_at + interval '1 s'"),
            job("next_run_at = next_run_at - interval '1 s'"),
        ),
        (job("deleted_at = now(), next_run_at = NULL"), {
            job("deleted_at = NULL, next_run_at = date_trunc('hour', now()) - interval '2 hours'")
        }),
        (job("dispatch_lock_until = now()"), job("dispatch_lock_until = NULL")),
        (job("active_dispatches = max_instances"), job("active_dispatches = 0")),
        (job("last_fire_at = now()"), job("last_fire_at = NULL")),
        (job("settled_until = next_run_at"), job("settled_until = next_run_at - interval '1 hour'")),
        (paused("tenants"), "UPDATE tenants SET is_paused = false".into()),
        (paused("projects"), "UPDATE projects SET is_paused = false".into()),
        (paused("task_functions"), "UPDATE task_functions SET is_paused = false".into()),
        (paused("queues"), "UPDATE queues SET is_paused = false".into()),
        ("UPDATE queues SET default_priority = 7".into(), "UPDATE queues SET default_priority = 50".into()),
        (
            r#"UPDATE tenants SET quotas = '{"dispatches_per_minute": 1}'"#.into(),
            "UPDATE tenants SET quotas = '{}'".into(),
        ),
    ] {
        let fires = world.plan().await;
        assert_eq!(fires.len(), 1, "before {change}");
        world.fixture.sql(&change).await;
        assert_eq!(world.created(&fires).await, 0, "{change}");
        world.fixture.sql(&undo).await;
    }
    assert_eq!(world.fixture.number(RUNS).await, 0);
    let fires = world.plan().await;
    assert_eq!(world.created(&fires).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_without_room_is_planned_if_overlap_is_allowed() {
    let mut world = World::new().await;
    world.fixture.sql("UPDATE scheduled_jobs SET overlap_policy = 'allow', active_dispatches = 9").await;
    let fires = world.plan().await;
    assert_eq!(world.created(&fires).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn database_clock_decides_whether_fires_are_due() {
    let mut world = World::new().await;
    world.fixture.job("later").save().await;
    let later = "UPDATE scheduled_jobs SET next_run_at = now() + interval '1 hour' WHERE name = 'later'";
    world.fixture.sql(later).await;
    let mut fires = world.plan().await;
    assert_eq!((fires.len(), world.created(&fires).await), (2, 1));
    let fired = "SELECT j.name FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id";
    assert_eq!(world.fixture.records(fired).await, ["(hourly)"]);

    make_due(&world.fixture).await;
    world
        .fixture
        .sql(
            "UPDATE scheduled_jobs SET next_run_at = next_run_at + interval '1 hour', active_dispatches = 0,
                                        settled_until = next_run_at",
        )
        .await;
    fires = world.plan().await;
    for fire in &mut fires {
        fire.valid_until = fire.run.scheduled_for;
    }
    assert_eq!((fires.len(), world.created(&fires).await), (2, 0), "too late for the plan");
}

#[tokio::test(flavor = "multi_thread")]
async fn former_leader_dispatches_no_planned_fire() {
    let mut world = World::new().await;
    let fires = world.plan().await;
    world.leader.term = Term(world.leader.term.0 - 1);
    assert!(matches!(world.dispatch(&fires).await, Err(DbError::TermOver)));
    world.leader.term = Term(world.leader.term.0 + 1);
    world
        .fixture
        .sql("UPDATE scheduler_instances SET is_leader = false, leader_since = NULL, term = NULL")
        .await;
    assert!(matches!(world.dispatch(&fires).await, Err(DbError::TermOver)));
    assert_eq!(world.fixture.number(RUNS).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn locked_job_fails_the_batch() {
    let mut world = World::new().await;
    world.fixture.job("free").save().await;
    make_due(&world.fixture).await;
    world.fixture.sql("UPDATE scheduled_jobs SET settled_until = next_run_at - interval '1 hour'").await;
    let fires = world.plan().await;
    let other = world.fixture.client().await;
    other.batch_execute(BEGIN).await.unwrap();
    other.batch_execute("SELECT FROM scheduled_jobs WHERE name = 'hourly' FOR UPDATE").await.unwrap();
    let error = world.dispatch(&fires).await.unwrap_err();
    assert!(!matches!(error, DbError::TermOver), "{error:?}");
    assert_eq!(world.fixture.number(RUNS).await, 0, "the batch is one transaction");
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(world.created(&fires).await, 2);
}

/// The dispatch waits for a change, and then finds the changed job. A wait that ends by the timeout
/// shows nothing, and is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_update_compares_changed_row() {
    let mut world = World::new().await;
    for _ in 0..20 {
        let fires = world.plan().await;
        assert_eq!(fires.len(), 1);
        let other = world.fixture.client().await;
        other.batch_execute(BEGIN).await.unwrap();
        other.batch_execute("UPDATE scheduled_jobs SET is_paused = true").await.unwrap();
        let leader = &world.leader;
        let dispatch = planned::dispatch(&mut world.conn, leader.instance, leader.term, &fires);
        let mut dispatch = std::pin::pin!(dispatch);
        let done = tokio::select! {
            done = &mut dispatch => done,
            () = world.fixture.wait_for_blocked(1) => {
                other.batch_execute("COMMIT").await.unwrap();
                dispatch.await
            }
        };
        if let Ok(done) = done {
            assert!(done.created.is_empty(), "the job is paused");
            assert_eq!(world.fixture.number(RUNS).await, 0);
            return;
        }
        drop(other);
        world.fixture.sql("UPDATE scheduled_jobs SET is_paused = false").await;
    }
    panic!("every wait for the change took longer than the timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn fire_time_with_run_rolls_batch_back() {
    let mut world = World::new().await;
    let first = world.plan().await;
    assert_eq!(world.created(&first).await, 1);
    make_due(&world.fixture).await;
    world
        .fixture
        .sql("UPDATE scheduled_jobs SET settled_until = next_run_at - interval '1 hour', active_dispatches = 0, last_fire_at = NULL")
        .await;
    let again = world.plan().await;
    assert_eq!(again[0].run.scheduled_for, first[0].run.scheduled_for);
    let error = world.dispatch(&again).await.unwrap_err();
    assert!(matches!(error, DbError::Corrupt { .. }), "{error:?}");
    let state = "SELECT next_run_at > now(), total_run_count FROM scheduled_jobs";
    assert_eq!(world.fixture.records(state).await, ["(f,1)"], "nothing has moved");
}
