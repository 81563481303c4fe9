#![expect(clippy::unwrap_used, reason = "a test that cannot get what it needs fails, and says where")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sched_model::domain::ids::JobId;
use sched_runtime::config::{self, MapSource};
use sched_runtime::daemon::Context;
use sched_runtime::exit::ExitError;
use sched_runtime::service_manager::ServiceManager;
use sched_runtime::shutdown::Shutdown;
use sched_runtime::tasks::{OwnedTask, spawn_owned};
use sched_runtime::telemetry;
use sched_runtime::traces::Traces;
use sched_runtime::tracker::Tracker;
use sched_worker::{Builder, Config, Ctx, HandlerError, PROGRAM, Worker};
use serde_json::{Value, json};
use test_support::{Fixture, Login};

struct Workers {
    fixture: Fixture,
    job: JobId,
    shutdown: Shutdown,
    running: Vec<OwnedTask<Result<(), ExitError>>>,
}

impl Workers {
    async fn new() -> Self {
        let fixture = Fixture::installed().await;
        fixture.function("noop").native("noop").save().await;
        let job = fixture.job("noop").manual().save().await.id;
        Self { fixture, job, shutdown: Shutdown::new(), running: Vec::new() }
    }

    async fn queue(&self, name: &str, waiting: i64) {
        self.fixture.queue(name).await;
        let runs = self.fixture.runs(self.job).queue(name).waiting_since_minutes(0);
        runs.count(waiting).insert().await;
    }

    fn start(&mut self, builder: Builder, settings: &[(&str, &str)]) {
        let url = self.fixture.db.url_of(Login::Worker);
        let fixed = [
            ("DATABASE_URL", url.as_str()),
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
            service: ServiceManager::default(),
        };
        self.running.push(spawn_owned("worker", builder.build().unwrap().run(config, context)));
    }

    async fn wait_for(&self, query: &str, wanted: i64) {
        self.fixture.wait_for_count(query, query, wanted).await;
    }

    async fn stop(self) {
        self.shutdown.trigger();
        for worker in self.running {
            worker.await.unwrap().unwrap();
        }
    }
}

const COMPLETED: &str = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'";

#[derive(Debug, Default)]
struct Gauge {
    now: AtomicUsize,
    most: AtomicUsize,
}

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
    let mut workers = Workers::new().await;
    workers.queue("critical", 90).await;
    workers.queue("bulk", 120).await;
    workers.queue("idle", 0).await;
    let builder = taking(Duration::from_millis(60), &Arc::default());
    workers.start(builder, &[("WORKER_QUEUES", "critical=3,bulk=1,idle=9"), ("WORKER_CONCURRENCY", "4")]);
    workers.wait_for(COMPLETED, 210).await;
    // At the end of the heavier queue, the lighter one had received a third of its attempts.
    let meanwhile = "SELECT count(*) FROM job_dispatch
                     WHERE queue = 'bulk' AND claimed_at < (SELECT max(claimed_at) FROM job_dispatch WHERE queue = 'critical')";
    let meanwhile = workers.fixture.number(meanwhile).await;
    assert!((25..=36).contains(&meanwhile), "{meanwhile} of the light queue beside 90 of the heavy one");
    workers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_limit_holds_across_workers() {
    let mut workers = Workers::new().await;
    workers.queue("narrow", 40).await;
    workers.queue("wide", 40).await;
    workers.fixture.sql("UPDATE queues SET max_running = 2 WHERE name = 'narrow'").await;
    let (gauge, unlimited) = (Arc::default(), Arc::default());
    for _ in 0..3 {
        workers.start(taking(Duration::from_millis(20), &gauge), &[("WORKER_QUEUES", "narrow")]);
    }
    workers.start(taking(Duration::from_millis(1), &unlimited), &[("WORKER_QUEUES", "wide")]);
    workers.wait_for(COMPLETED, 80).await;
    assert_eq!(gauge.most.load(Ordering::SeqCst), 2, "reached and not exceeded");
    assert_eq!(workers.fixture.number("SELECT count(*) FROM job_dispatch WHERE attempt <> 1").await, 0);
    workers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_without_listen_finds_work_by_polling() {
    let mut workers = Workers::new().await;
    let builder = taking(Duration::ZERO, &Arc::default());
    workers.start(builder, &[("WORKER_LISTEN", "false")]);
    workers.wait_for("SELECT count(*) FROM worker_registration", 1).await;
    workers.queue("default", 20).await;
    workers.wait_for(COMPLETED, 20).await;
    let listening =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    assert_eq!(workers.fixture.number(listening).await, 0);
    workers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prefetched_runs_are_released_once() {
    let mut workers = Workers::new().await;
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
    workers.start(builder, &[("WORKER_CONCURRENCY", "2")]);
    workers.queue("default", 3_000).await;
    workers.wait_for(COMPLETED, 3_000).await;
    // The worker sees all at once and begins the two that wait first.
    workers.fixture.sql("BEGIN").await;
    for (waits, priority, count) in [(true, 1, 2), (false, 3, 400)] {
        let runs = workers.fixture.runs(workers.job).args(json!({"waits": waits})).priority(priority);
        runs.waiting_since_minutes(0).count(count).insert().await;
    }
    workers.fixture.sql("COMMIT").await;
    let released = "FROM job_execution_log WHERE status = 'RELEASED'";
    let later = format!(
        "SELECT coalesce(clock_timestamp() - min(completed_at) > interval '4 seconds', false)::integer {released}"
    );
    workers.wait_for(&later, 1).await;
    let most =
        format!("SELECT max(times) FROM (SELECT count(*) AS times {released} GROUP BY dispatch_id) AS t");
    assert_eq!(workers.fixture.number(&most).await, 1, "each at most once");
    assert_eq!(
        workers.fixture.number("SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'").await,
        2
    );
    gate.cancel();
    workers.wait_for(COMPLETED, 3_402).await;
    workers.stop().await;
}
