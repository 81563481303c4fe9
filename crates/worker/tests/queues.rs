//! A worker and its queues: weights, limits, and polling without notifications, on a real database.

#![expect(clippy::unwrap_used, reason = "a test that cannot get what it needs fails, and says where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sched_model::domain::ids::DEFAULT_TENANT;
use sched_runtime::config::{self, MapSource};
use sched_runtime::daemon::Context;
use sched_runtime::exit::ExitError;
use sched_runtime::shutdown::Shutdown;
use sched_runtime::tasks::{OwnedTask, spawn_owned};
use sched_runtime::telemetry;
use sched_runtime::traces::Traces;
use sched_runtime::tracker::Tracker;
use sched_worker::{Builder, Config, Ctx, HandlerError, PROGRAM, Worker};
use serde_json::Value;
use test_support::{Client, TestDatabase, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

/// A database with a function `noop` and its job, and workers on it.
struct World {
    db: TestDatabase,
    client: Client,
    shutdown: Shutdown,
    workers: Vec<OwnedTask<Result<(), ExitError>>>,
}

impl World {
    async fn new() -> Self {
        let db = TestDatabase::new().await;
        let world = Self { client: db.client().await, db, shutdown: Shutdown::new(), workers: Vec::new() };
        world
            .sql(&format!(
                "INSERT INTO task_functions (tenant_id, name, display_name, handler_type, handler_config)
                 VALUES ('{DEFAULT_TENANT}', 'noop', 'noop', 'native', '{{\"handler\": \"noop\"}}');
                 INSERT INTO scheduled_jobs (tenant_id, project_id, name, task_function_id, job_type, schedule_config)
                 SELECT f.tenant_id, p.id, f.name, f.id, 'manual', '{{}}'
                 FROM task_functions f JOIN projects p ON p.tenant_id = f.tenant_id WHERE f.name = 'noop'"
            ))
            .await;
        world
    }

    async fn sql(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap();
    }

    /// Creates a queue with so many waiting runs.
    async fn queue(&self, name: &str, waiting: usize) {
        self.sql(&format!(
            "INSERT INTO queues (tenant_id, name) VALUES ('{DEFAULT_TENANT}', '{name}') ON CONFLICT DO NOTHING;
             INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, triggered_by,
                                       trigger_id, args)
             SELECT u.id, j.tenant_id, j.id, now(), now(), now(), '{name}', 'api', u.id, '{{}}'
             FROM scheduled_jobs j CROSS JOIN (SELECT gen_random_uuid() AS id FROM generate_series(1, {waiting})) AS u
             WHERE j.name = 'noop';
             UPDATE scheduled_jobs SET active_dispatches = active_dispatches + {waiting}"
        ))
        .await;
    }

    fn start(&mut self, builder: Builder, settings: &[(&str, &str)]) {
        let fixed = [
            ("DATABASE_URL", self.db.url()),
            ("HEALTH_PORT", "0"),
            ("WORKER_POLL_INTERVAL", "100ms"),
            ("WORKER_MAX_POLL_INTERVAL", "500ms"),
        ];
        let source: MapSource = fixed.iter().chain(settings).copied().collect();
        let mut values =
            config::load(&PROGRAM, sched_worker::config::GROUPS, ["sched-worker"], &source).unwrap();
        let config = Config::read(&mut values);
        values.finish().unwrap();
        let context = Context {
            program: PROGRAM,
            shutdown: self.shutdown.clone(),
            metrics: telemetry::metrics_recorder().unwrap(),
            traces: Traces::default(),
            tracker: Tracker::default(),
        };
        self.workers.push(spawn_owned("worker", builder.build().unwrap().run(config, context)));
    }

    async fn number(&self, query: &str) -> i64 {
        self.client.query_one(&format!("SELECT ({query})::bigint"), &[]).await.unwrap().get(0)
    }

    async fn wait_for(&self, query: &str, wanted: i64) {
        wait_for(query, PATIENCE, async || match self.number(query).await {
            found if found == wanted => Ok(()),
            found => Err(format!("{found}, not {wanted}")),
        })
        .await;
    }

    async fn stop(self) {
        self.shutdown.trigger();
        for worker in self.workers {
            worker.await.unwrap().unwrap();
        }
    }
}

const COMPLETED: &str = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'";

/// The current and the maximal number of concurrent attempts.
#[derive(Debug, Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// A handler that takes that long and counts concurrent attempts.
fn taking(took: Duration, gauge: &Arc<Gauge>) -> Builder {
    let gauge = gauge.clone();
    Worker::builder().handler("noop", move |_: Ctx, _: Value| {
        let gauge = gauge.clone();
        async move {
            gauge.most.fetch_max(gauge.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(took).await;
            gauge.now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, HandlerError>(())
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_share_slots_by_weight() {
    let mut world = World::new().await;
    world.queue("critical", 90).await;
    world.queue("bulk", 120).await;
    world.queue("idle", 0).await;
    let builder = taking(Duration::from_millis(60), &Arc::default());
    world.start(builder, &[("WORKER_QUEUES", "critical=3,bulk=1,idle=9"), ("WORKER_CONCURRENCY", "4")]);
    world.wait_for(COMPLETED, 210).await;
    // When the heavier queue became empty, the lighter one had received a third of its attempts.
    let meanwhile = "SELECT count(*) FROM job_dispatch
                     WHERE queue = 'bulk' AND claimed_at < (SELECT max(claimed_at) FROM job_dispatch WHERE queue = 'critical')";
    let meanwhile = world.number(meanwhile).await;
    assert!((25..=36).contains(&meanwhile), "{meanwhile} of the light queue beside 90 of the heavy one");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_limit_holds_across_workers() {
    let mut world = World::new().await;
    world.queue("narrow", 40).await;
    world.queue("wide", 40).await;
    world.sql("UPDATE queues SET max_running = 2 WHERE name = 'narrow'").await;
    let (gauge, unlimited) = (Arc::default(), Arc::default());
    for _ in 0..3 {
        world.start(taking(Duration::from_millis(20), &gauge), &[("WORKER_QUEUES", "narrow")]);
    }
    world.start(taking(Duration::from_millis(1), &unlimited), &[("WORKER_QUEUES", "wide")]);
    world.wait_for(COMPLETED, 80).await;
    assert_eq!(gauge.most.load(Ordering::SeqCst), 2, "reached and not exceeded");
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE attempt <> 1").await, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_without_listen_finds_work_by_polling() {
    let mut world = World::new().await;
    let builder = taking(Duration::ZERO, &Arc::default());
    world.start(builder, &[("WORKER_LISTEN", "false")]);
    world.wait_for("SELECT count(*) FROM worker_registration", 1).await;
    world.queue("default", 20).await;
    world.wait_for(COMPLETED, 20).await;
    let listening =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    assert_eq!(world.number(listening).await, 0);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prefetched_runs_are_released_once() {
    let mut world = World::new().await;
    let gate = tokio_util::sync::CancellationToken::new();
    let opened = gate.clone();
    let builder = Worker::builder().handler("noop", move |_: Ctx, args: Value| {
        let (opened, waits) = (opened.clone(), args["waits"] == true);
        async move {
            if waits {
                opened.cancelled().await;
            }
            Ok::<_, HandlerError>(())
        }
    });
    world.start(builder, &[("WORKER_CONCURRENCY", "2")]);
    world.queue("default", 3_000).await;
    world.wait_for(COMPLETED, 3_000).await;
    world
        .sql(&format!(
            "WITH waiting AS (
                 INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, priority,
                                           triggered_by, trigger_id, args)
                 SELECT u.id, j.tenant_id, j.id, now(), now(), now(), 'default', least(u.n, 3), 'api', u.id,
                        jsonb_build_object('waits', u.n <= 2)
                 FROM scheduled_jobs j CROSS JOIN (SELECT n, gen_random_uuid() AS id FROM generate_series(1, 402) AS n) AS u
                 WHERE j.name = 'noop')
             UPDATE scheduled_jobs SET active_dispatches = active_dispatches + 402 WHERE tenant_id = '{DEFAULT_TENANT}'"
        ))
        .await;
    let released = "FROM job_execution_log WHERE status = 'RELEASED'";
    // Long enough for three rounds of releases.
    let later = format!(
        "SELECT coalesce(clock_timestamp() - min(completed_at) > interval '4 seconds', false)::integer {released}"
    );
    world.wait_for(&later, 1).await;
    let most =
        format!("SELECT max(times) FROM (SELECT count(*) AS times {released} GROUP BY dispatch_id) AS t");
    assert_eq!(world.number(&most).await, 1, "each at most once");
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'").await, 2);
    gate.cancel();
    world.wait_for(COMPLETED, 3_402).await;
    world.stop().await;
}
