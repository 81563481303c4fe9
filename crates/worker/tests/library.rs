//! A worker from the builder, on a real database.

#![expect(clippy::unwrap_used, reason = "a test that cannot get what it needs fails, and says where")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
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
use serde::Deserialize;
use serde_json::{Value, json};
use test_support::{Client, TestDatabase, wait_for};
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_secs(60);

/// A database with a worker on it.
struct World {
    db: TestDatabase,
    client: Client,
    shutdown: Shutdown,
    worker: Option<OwnedTask<Result<(), ExitError>>>,
}

impl World {
    /// Starts the worker with a short lease.
    async fn start(builder: Builder) -> Self {
        let db = TestDatabase::new().await;
        let mut world = Self { client: db.client().await, db, shutdown: Shutdown::new(), worker: None };
        let context = Context {
            program: PROGRAM,
            shutdown: world.shutdown.clone(),
            metrics: telemetry::metrics_recorder().unwrap(),
            traces: Traces::default(),
            tracker: Tracker::default(),
        };
        let run = builder.build().unwrap().run(world.config(), context);
        world.worker = Some(spawn_owned("worker", run));
        world
    }

    fn config(&self) -> Config {
        let settings = [
            ("DATABASE_URL", self.db.url()),
            ("HEALTH_PORT", "0"),
            ("WORKER_OFFLINE_THRESHOLD", "2s"),
            ("WORKER_HEARTBEAT_INTERVAL", "200ms"),
            ("WORKER_MAX_POLL_INTERVAL", "1s"),
            ("WORKER_DRAIN_TIMEOUT", "200ms"),
        ];
        let source: MapSource = settings.into_iter().collect();
        let mut values =
            config::load(&PROGRAM, sched_worker::config::GROUPS, ["sched-worker"], &source).unwrap();
        let config = Config::read(&mut values);
        values.finish().unwrap();
        config
    }

    /// Creates a native function, a manual job of the same name and one waiting run.
    async fn dispatch(&self, handler: &str, args: &Value) {
        self.dispatches(handler, args, 1).await;
    }

    /// The same with `count` runs.
    async fn dispatches(&self, handler: &str, args: &Value, count: usize) {
        let config = json!({"handler": handler, "grace_seconds": 0});
        let sql = format!(
            "INSERT INTO task_functions (tenant_id, name, display_name, handler_type, handler_config, default_timeout_seconds)
             VALUES ('{DEFAULT_TENANT}', '{handler}', '{handler}', 'native', '{config}', 60);
             INSERT INTO scheduled_jobs (tenant_id, project_id, name, task_function_id, job_type, schedule_config, active_dispatches)
             SELECT f.tenant_id, p.id, f.name, f.id, 'manual', '{{}}', {count}
             FROM task_functions f JOIN projects p ON p.tenant_id = f.tenant_id WHERE f.name = '{handler}';
             INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, triggered_by,
                                       trigger_id, args)
             SELECT u.id, j.tenant_id, j.id, now(), now(), now(), 'default', 'api', u.id, '{args}'
             FROM scheduled_jobs j CROSS JOIN (SELECT gen_random_uuid() AS id FROM generate_series(1, {count})) AS u WHERE j.name = '{handler}'"
        );
        self.client.batch_execute(&sql).await.unwrap();
    }

    /// Returns the single text of a query, or an empty text without a row.
    async fn text(&self, query: &str) -> String {
        let row = self.client.query_opt(&format!("SELECT ({query})::text"), &[]).await.unwrap();
        row.and_then(|row| row.get::<_, Option<String>>(0)).unwrap_or_default()
    }

    /// Waits until a query returns that text.
    async fn wait_for(&self, query: &str, wanted: &str) {
        wait_for(query, PATIENCE, async || match self.text(query).await {
            found if found == wanted => Ok(()),
            found => Err(format!("{found:?}, not {wanted:?}")),
        })
        .await;
    }

    async fn stop(mut self) -> Result<(), ExitError> {
        self.shutdown.trigger();
        self.worker.take().unwrap().await.unwrap()
    }
}

fn status_of(job: &str) -> String {
    format!(
        "SELECT d.status FROM job_dispatch d JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
         WHERE j.name = '{job}'"
    )
}

/// A column of the only attempt of a job.
fn attempt_of(job: &str, column: &str) -> String {
    format!(
        "SELECT l.{column} FROM job_execution_log l JOIN scheduled_jobs j ON j.id = l.job_id WHERE j.name = '{job}'"
    )
}

#[derive(Deserialize)]
struct Add {
    a: i64,
    b: i64,
}

async fn add(ctx: Ctx, args: Add) -> Result<Value, HandlerError> {
    ctx.log(format!("adding {} and {}", args.a, args.b));
    ctx.metric("terms", 2);
    Ok(json!({"sum": args.a + args.b, "job": ctx.job_name(), "attempt": ctx.attempt()}))
}

#[tokio::test(flavor = "multi_thread")]
async fn results_errors_and_logs_of_native_handlers_are_stored() {
    let world = World::start(
        Worker::builder()
            .handler("add", add)
            .handler("panics", |_, _: Value| async {
                assert!(std::hint::black_box(false), "at once");
                Ok::<_, HandlerError>(())
            })
            .blocking_handler("fails", |_, _: Value| {
                Err::<(), _>(HandlerError::new("closed", "the account is closed").no_retry())
            }),
    )
    .await;
    world.dispatch("add", &json!({"a": 40, "b": 2})).await;
    world.dispatch("fails", &json!({})).await;
    world.dispatch("panics", &json!({})).await;

    world.wait_for(&status_of("add"), "COMPLETED").await;
    let expected = r#"{"job": "add", "sum": 42, "attempt": 1}"#;
    assert_eq!(world.text(&attempt_of("add", "result")).await, expected);
    assert_eq!(world.text(&attempt_of("add", "metrics")).await, r#"{"terms": 2}"#);
    let line = "SELECT o.stream || ': ' || o.content FROM job_execution_output o JOIN job_execution_log l ON l.id = o.execution_id
         JOIN scheduled_jobs j ON j.id = l.job_id WHERE j.name = 'add'";
    assert_eq!(world.text(line).await, "log: adding 40 and 2\n");
    // The default is three attempts, but the handler has ruled out a retry.
    world.wait_for(&status_of("fails"), "DEAD_LETTER").await;
    assert_eq!(world.text(&attempt_of("fails", "error_class")).await, "closed");
    assert_eq!(world.text(&attempt_of("fails", "error_message")).await, "the account is closed");
    // It waits for its next attempt.
    world.wait_for(&attempt_of("panics", "error_class"), "panic").await;
    let traceback = world.text(&attempt_of("panics", "traceback")).await;
    assert!(traceback.starts_with("panicked at ") && traceback.contains("library.rs:"), "{traceback}");
    world.wait_for(&status_of("panics"), "PENDING").await;
    world.stop().await.unwrap();
}

/// A handler that blocks its thread until the test sends a message, and a signal that the handler
/// has begun.
fn blocking_its_thread() -> (mpsc::Sender<()>, Arc<Notify>, Builder) {
    let (release, released) = mpsc::channel();
    let (released, begun) = (Arc::new(Mutex::new(released)), Arc::new(Notify::new()));
    let begins = begun.clone();
    let builder = Worker::builder().threads(1).handler("block", move |_, _: Value| {
        let (released, begins) = (released.clone(), begins.clone());
        async move {
            begins.notify_one();
            released.lock().unwrap().recv().map_err(HandlerError::from)
        }
    });
    (release, begun, builder)
}

/// Whether the worker sends heartbeats while the handler blocks all threads of handlers.
const BEATS_SINCE_CLAIM: &str = "SELECT w.last_heartbeat > d.claimed_at + interval '4 seconds'
     FROM worker_registration w JOIN job_dispatch d ON d.worker_id = w.worker_id";

// One thread fewer than a small machine has.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn heartbeats_continue_while_a_handler_blocks_all_threads() {
    let (release, _, builder) = blocking_its_thread();
    let world = World::start(builder).await;
    world.dispatch("block", &json!({})).await;
    // Twice the lease.
    world.wait_for(BEATS_SINCE_CLAIM, "true").await;
    assert_eq!(world.text(&status_of("block")).await, "IN_PROGRESS");
    release.send(()).unwrap();
    world.wait_for(&status_of("block"), "COMPLETED").await;
    assert_eq!(world.text(&attempt_of("block", "attempt")).await, "1");
    world.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_without_lease_and_unkillable_work_exits() {
    let (release, _, builder) = blocking_its_thread();
    let mut world = World::start(builder).await;
    world.dispatch("block", &json!({})).await;
    world.wait_for(&status_of("block"), "IN_PROGRESS").await;
    world
        .client
        .batch_execute(
            "UPDATE worker_registration SET status = 'OFFLINE', offline_since = now(), running = 0",
        )
        .await
        .unwrap();
    let ended = tokio::time::timeout(PATIENCE, world.worker.take().unwrap()).await.unwrap().unwrap();
    let text = ended.unwrap_err().describe();
    assert!(text.contains("so that no run executes twice at once"), "{text}");
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn running_work_of_a_stopping_worker_is_not_released() {
    let (release, begun, builder) = blocking_its_thread();
    let mut world = World::start(builder).await;
    world.dispatch("block", &json!({})).await;
    begun.notified().await;
    world.shutdown.trigger();
    let ended = tokio::time::timeout(PATIENCE, world.worker.take().unwrap()).await.unwrap().unwrap();
    let text = ended.unwrap_err().describe();
    assert!(text.contains("after the stop of the worker"), "{text}");
    // If the run were released, or the lease given up, another worker would begin it at once while
    // it still runs.
    assert_eq!(world.text(&status_of("block")).await, "IN_PROGRESS");
    assert_eq!(world.text("SELECT count(*) FROM job_execution_log").await, "0");
    assert_eq!(world.text("SELECT status FROM worker_registration").await, "DRAINING");
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn second_signal_kills_attempts_and_reports_them() {
    let begun = Arc::new(Notify::new());
    let begins = begun.clone();
    let mut world = World::start(Worker::builder().handler("waits", move |_, _: Value| {
        begins.notify_one();
        std::future::pending::<Result<(), HandlerError>>()
    }))
    .await;
    world.dispatch("waits", &json!({})).await;
    begun.notified().await;
    world.shutdown.trigger();
    world.shutdown.trigger();
    let ended = tokio::time::timeout(PATIENCE, world.worker.take().unwrap()).await.unwrap().unwrap();
    let error = ended.unwrap_err();
    assert_eq!(
        (error.code(), error.describe().starts_with("1 attempts were killed")),
        (1, true),
        "{error:?}"
    );
    // Nothing runs any more, so it is recovered at once.
    assert_eq!(world.text("SELECT status FROM worker_registration").await, "OFFLINE");
    assert_eq!(world.text(&status_of("waits")).await, "IN_PROGRESS");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_metrics_count_stored_results() {
    let shown = || telemetry::metrics_recorder().unwrap().render();
    let count = |line: &str| shown().lines().any(|shown| shown == line);
    let world = World::start(Worker::builder().handler("add", add).handler(
        "fails",
        |ctx: Ctx, _: Value| async move {
            ctx.log("x".repeat(300_000));
            Err::<(), HandlerError>("no".into())
        },
    ))
    .await;
    wait_for("the counters", PATIENCE, async || {
        match count("sched_attempts_total{status=\"timed_out\"} 0") {
            true => Ok(()),
            false => Err(shown()),
        }
    })
    .await;
    assert!(
        count("sched_retries_total 0") && count("sched_output_bytes_total{part=\"dropped\"} 0"),
        "{}",
        shown()
    );
    world.dispatch("add", &json!({"a": 40, "b": 2})).await;
    world.dispatch("fails", &json!({})).await;
    world.wait_for(&status_of("add"), "COMPLETED").await;
    world.wait_for(&attempt_of("fails", "status"), "FAILED").await;
    world.stop().await.unwrap();
    // 256 KiB of the log are kept, and the log of "add".
    for line in [
        "sched_attempts_total{status=\"succeeded\"} 1",
        "sched_attempts_total{status=\"failed\"} 1",
        "sched_retries_total 1",
        "sched_output_bytes_total{part=\"kept\"} 262160",
        "sched_output_bytes_total{part=\"dropped\"} 37857",
        "sched_completion_seconds_count 2",
    ] {
        assert!(count(line), "{line} is not in\n{}", shown());
    }
}

/// Results that cannot be stored are kept up to a bound. Beyond the bound the worker claims
/// nothing. No result is lost, and no run executes twice.
#[tokio::test(flavor = "multi_thread")]
async fn unstorable_results_are_kept_and_stop_claims() {
    // Ten slots, and four times the maximal prefetch.
    const PLACES: i64 = 10 + 4_000;
    const ALL: i64 = PLACES + 490;
    let ran = Arc::new(AtomicI64::new(0));
    let counted = ran.clone();
    let world = World::start(Worker::builder().handler("quick", move |_, _: Value| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, HandlerError>(()) }
    }))
    .await;
    world.wait_for("SELECT count(*) FROM worker_registration", "1").await;
    // History can be neither read nor written; claims do not need it.
    let locked = world.db.client().await;
    locked.batch_execute("BEGIN; LOCK TABLE job_execution_log IN ACCESS EXCLUSIVE MODE").await.unwrap();
    world.dispatches("quick", &json!({}), usize::try_from(ALL).unwrap()).await;
    let of = |status: &str| format!("SELECT count(*) FROM job_dispatch WHERE status = '{status}'");
    world.wait_for(&of("IN_PROGRESS"), &PLACES.to_string()).await;
    wait_for("everything that was claimed to have run", PATIENCE, async || {
        match ran.load(Ordering::Relaxed) {
            PLACES => Ok(()),
            seen => Err(format!("{seen}")),
        }
    })
    .await;
    // The worker is alive and would have polled: fifteen heartbeats are three times the longest
    // pause between two polls.
    let beat = "SELECT last_heartbeat FROM worker_registration";
    for _ in 0..15 {
        let before = world.text(beat).await;
        wait_for("the next heartbeat", PATIENCE, async || match world.text(beat).await {
            now if now == before => Err(now),
            _ => Ok(()),
        })
        .await;
    }
    assert_eq!(world.text(&of("IN_PROGRESS")).await, PLACES.to_string(), "nothing more was claimed");
    assert_eq!(world.text(&of("PENDING")).await, (ALL - PLACES).to_string());
    locked.batch_execute("COMMIT").await.unwrap();
    world.wait_for(&of("COMPLETED"), &ALL.to_string()).await;
    let history =
        "SELECT count(*) || ' ' || count(DISTINCT dispatch_id) || ' ' || max(attempt) FROM job_execution_log";
    assert_eq!(world.text(history).await, format!("{ALL} {ALL} 1"));
    assert_eq!(ran.load(Ordering::Relaxed), ALL, "each ran once");
    world.stop().await.unwrap();
}
