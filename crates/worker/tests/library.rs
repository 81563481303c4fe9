//! A worker from the builder, on a real database.

#![expect(clippy::unwrap_used, reason = "a test that cannot get what it needs fails, and says where")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

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
use serde::Deserialize;
use serde_json::{Value, json};
use test_support::{Fixture, Login, wait_for};
use tokio::sync::Notify;

const PATIENCE: Duration = Duration::from_secs(60);

struct RunningWorker {
    fixture: Fixture,
    shutdown: Shutdown,
    task: Option<OwnedTask<Result<(), ExitError>>>,
}

impl RunningWorker {
    async fn start(builder: Builder) -> Self {
        let mut worker = Self { fixture: Fixture::installed().await, shutdown: Shutdown::new(), task: None };
        let context = Context {
            program: PROGRAM,
            shutdown: worker.shutdown.clone(),
            metrics: telemetry::metrics_recorder().unwrap(),
            traces: Traces::default(),
            tracker: Tracker::default(),
            service: ServiceManager::default(),
        };
        let run = builder.build().unwrap().run(worker.config(), context);
        worker.task = Some(spawn_owned("worker", run));
        worker
    }

    fn config(&self) -> Config {
        let url = self.fixture.db.url_of(Login::Worker);
        let settings = [
            ("DATABASE_URL", url.as_str()),
            ("HEALTH_PORT", "0"),
            ("WORKER_OFFLINE_THRESHOLD", "2s"),
            ("WORKER_HEARTBEAT_INTERVAL", "200ms"),
            ("WORKER_MAX_POLL_INTERVAL", "1s"),
            ("WORKER_DRAIN_TIMEOUT", "200ms"),
            ("MAX_RETRY_ATTEMPTS", "3"),
        ];
        let source: MapSource = settings.into_iter().collect();
        let mut values =
            config::load(&PROGRAM, sched_worker::config::GROUPS, ["sched-worker"], &source).unwrap();
        let config = Config::read(&mut values);
        values.finish().unwrap();
        config
    }

    async fn dispatch(&self, handler: &str, args: &Value) {
        self.dispatches(handler, args, 1).await;
    }

    /// Creates a native function, a manual job of it and `count` waiting runs.
    async fn dispatches(&self, handler: &str, args: &Value, count: i64) {
        self.fixture.function(handler).native(handler).save().await;
        let job = self.fixture.job(handler).function(handler).manual().save().await;
        let runs = self.fixture.runs(job.id).args(args.clone()).waiting_since_minutes(0);
        runs.count(count).insert().await;
    }

    /// NULL, or no row, is `-`.
    async fn text(&self, query: &str) -> String {
        self.fixture.text(&format!("SELECT ({query})::text")).await
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
        self.task.take().unwrap().await.unwrap()
    }
}

fn status_of(job: &str) -> String {
    format!(
        "SELECT d.status FROM job_dispatch d JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
         WHERE j.name = '{job}'"
    )
}

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
    let worker = RunningWorker::start(
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
    worker.dispatch("add", &json!({"a": 40, "b": 2})).await;
    worker.dispatch("fails", &json!({})).await;
    worker.dispatch("panics", &json!({})).await;

    worker.wait_for(&status_of("add"), "COMPLETED").await;
    let expected = r#"{"job": "add", "sum": 42, "attempt": 1}"#;
    assert_eq!(worker.text(&attempt_of("add", "result")).await, expected);
    assert_eq!(worker.text(&attempt_of("add", "metrics")).await, r#"{"terms": 2}"#);
    let line = "SELECT o.stream || ': ' || o.content FROM job_execution_output o JOIN job_execution_log l ON l.id = o.execution_id
         JOIN scheduled_jobs j ON j.id = l.job_id WHERE j.name = 'add'";
    assert_eq!(worker.text(line).await, "log: adding 40 and 2\n");
    // The handler rules out a retry.
    worker.wait_for(&status_of("fails"), "DEAD_LETTER").await;
    assert_eq!(worker.text(&attempt_of("fails", "error_class")).await, "closed");
    assert_eq!(worker.text(&attempt_of("fails", "error_message")).await, "the account is closed");
    // The run waits for its next attempt.
    worker.wait_for(&attempt_of("panics", "error_class"), "panic").await;
    let traceback = worker.text(&attempt_of("panics", "traceback")).await;
    assert!(traceback.starts_with("panicked at ") && traceback.contains("library.rs:"), "{traceback}");
    worker.wait_for(&status_of("panics"), "PENDING").await;
    worker.stop().await.unwrap();
}

/// A handler that blocks its thread until the test sends a message, and the signal of its begin.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn heartbeats_continue_while_a_handler_blocks_all_threads() {
    let (release, _, builder) = blocking_its_thread();
    let worker = RunningWorker::start(builder).await;
    worker.dispatch("block", &json!({})).await;
    worker.wait_for(BEATS_SINCE_CLAIM, "true").await;
    assert_eq!(worker.text(&status_of("block")).await, "IN_PROGRESS");
    release.send(()).unwrap();
    worker.wait_for(&status_of("block"), "COMPLETED").await;
    assert_eq!(worker.text(&attempt_of("block", "attempt")).await, "1");
    worker.stop().await.unwrap();
}

#[test]
fn idle_interval_is_bounded_by_its_neighbours() {
    let read = |interval: &'static str| {
        let settings = [
            ("DATABASE_URL", "postgres://127.0.0.1/none"),
            ("WORKER_HEARTBEAT_INTERVAL", "2s"),
            ("WORKER_OFFLINE_THRESHOLD", "20s"),
            ("WORKER_IDLE_HEARTBEAT_INTERVAL", interval),
        ];
        let source: MapSource = settings.into_iter().filter(|(_, value)| !value.is_empty()).collect();
        let mut values =
            config::load(&PROGRAM, sched_worker::config::GROUPS, ["sched-worker"], &source).unwrap();
        let interval = Config::read(&mut values).idle_heartbeat_interval;
        values.finish().map(|()| interval.as_secs()).map_err(|error| error.to_string())
    };
    for (interval, seconds) in [("", 10), ("2s", 2), ("20s", 20)] {
        assert_eq!(read(interval).unwrap(), seconds, "{interval}");
    }
    for (interval, fix) in [
        ("1s", "must not be shorter than worker-heartbeat-interval (2s); remove it"),
        ("21s", "must not be longer than worker-offline-threshold (20s)"),
    ] {
        let error = read(interval).unwrap_err().to_lowercase().replace('_', "-");
        assert!(error.contains("idle-heartbeat-interval") && error.contains(fix), "{error}");
    }
}

/// The interval of idle workers is half of the offline threshold, so their lease is three seconds.
#[tokio::test(flavor = "multi_thread")]
async fn idle_worker_announces_a_longer_lease() {
    let (release, _, builder) = blocking_its_thread();
    let worker = RunningWorker::start(builder).await;
    let lease = "SELECT lease_ms FROM worker_registration";
    worker.wait_for(lease, "3000").await;
    let renewed_at = "SELECT last_heartbeat FROM worker_registration";
    let first = worker.text(renewed_at).await;
    wait_for("the next renewal", PATIENCE, async || match worker.text(renewed_at).await {
        now if now == first => Err(now),
        _ => Ok(()),
    })
    .await;
    let apart = format!("SELECT last_heartbeat - '{first}' >= interval '400 ms' FROM worker_registration");
    assert_eq!(worker.text(&apart).await, "true", "an ordinary interval is at most 200 ms");
    assert_eq!(worker.text("SELECT is_silent FROM worker_utilisation").await, "false");
    worker.dispatch("block", &json!({})).await;
    worker.wait_for(&status_of("block"), "IN_PROGRESS").await;
    worker.wait_for(lease, "2000").await;
    worker.wait_for("SELECT status FROM worker_registration", "BUSY").await;
    release.send(()).unwrap();
    worker.wait_for(&status_of("block"), "COMPLETED").await;
    worker.wait_for(lease, "3000").await;
    worker.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_without_lease_and_unkillable_work_exits() {
    let (release, _, builder) = blocking_its_thread();
    let mut worker = RunningWorker::start(builder).await;
    worker.dispatch("block", &json!({})).await;
    worker.wait_for(&status_of("block"), "IN_PROGRESS").await;
    let offline = "UPDATE worker_registration SET status = 'OFFLINE', offline_since = now(), running = 0";
    worker.fixture.sql(offline).await;
    let ended = tokio::time::timeout(PATIENCE, worker.task.take().unwrap()).await.unwrap().unwrap();
    let text = ended.unwrap_err().describe();
    assert!(text.contains("so that no run executes twice at once"), "{text}");
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn running_work_of_a_stopping_worker_is_not_released() {
    let (release, begun, builder) = blocking_its_thread();
    let mut worker = RunningWorker::start(builder).await;
    worker.dispatch("block", &json!({})).await;
    begun.notified().await;
    worker.shutdown.trigger();
    let ended = tokio::time::timeout(PATIENCE, worker.task.take().unwrap()).await.unwrap().unwrap();
    let text = ended.unwrap_err().describe();
    assert!(text.contains("after the stop of the worker"), "{text}");
    // If the run were released, or the lease given up, another worker would begin it while it still
    // runs.
    assert_eq!(worker.text(&status_of("block")).await, "IN_PROGRESS");
    assert_eq!(worker.text("SELECT count(*) FROM job_execution_log").await, "0");
    assert_eq!(worker.text("SELECT status FROM worker_registration").await, "DRAINING");
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn second_signal_kills_attempts_and_reports_them() {
    let begun = Arc::new(Notify::new());
    let begins = begun.clone();
    let mut worker = RunningWorker::start(Worker::builder().handler("waits", move |_, _: Value| {
        begins.notify_one();
        std::future::pending::<Result<(), HandlerError>>()
    }))
    .await;
    worker.dispatch("waits", &json!({})).await;
    begun.notified().await;
    worker.shutdown.trigger();
    worker.shutdown.trigger();
    let ended = tokio::time::timeout(PATIENCE, worker.task.take().unwrap()).await.unwrap().unwrap();
    let error = ended.unwrap_err();
    assert_eq!(
        (error.code(), error.describe().starts_with("1 attempts were killed")),
        (1, true),
        "{error:?}"
    );
    // No handler runs, so the run is recovered at once.
    assert_eq!(worker.text("SELECT status FROM worker_registration").await, "OFFLINE");
    assert_eq!(worker.text(&status_of("waits")).await, "IN_PROGRESS");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_metrics_count_stored_results() {
    let shown = || telemetry::metrics_recorder().unwrap().render();
    let count = |line: &str| shown().lines().any(|shown| shown == line);
    let worker = RunningWorker::start(Worker::builder().handler("add", add).handler(
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
    worker.dispatch("add", &json!({"a": 40, "b": 2})).await;
    worker.dispatch("fails", &json!({})).await;
    worker.wait_for(&status_of("add"), "COMPLETED").await;
    worker.wait_for(&attempt_of("fails", "status"), "FAILED").await;
    worker.stop().await.unwrap();
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

/// Unstored results are kept up to a bound, beyond which the worker claims nothing. No result is
/// lost, and no run executes twice.
#[tokio::test(flavor = "multi_thread")]
async fn unstorable_results_are_kept_and_stop_claims() {
    // Ten slots, and four times the maximum prefetch.
    const PLACES: i64 = 10 + 4_000;
    const ALL: i64 = PLACES + 490;
    let ran = Arc::new(AtomicI64::new(0));
    let counted = ran.clone();
    let worker = RunningWorker::start(Worker::builder().handler("quick", move |_, _: Value| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok::<_, HandlerError>(()) }
    }))
    .await;
    worker.wait_for("SELECT count(*) FROM worker_registration", "1").await;
    // Blocks the history, which claims do not need.
    let locked = worker.fixture.client().await;
    locked.batch_execute("BEGIN; LOCK TABLE job_execution_log IN ACCESS EXCLUSIVE MODE").await.unwrap();
    worker.dispatches("quick", &json!({}), ALL).await;
    let of = |status: &str| format!("SELECT count(*) FROM job_dispatch WHERE status = '{status}'");
    worker.wait_for(&of("IN_PROGRESS"), &PLACES.to_string()).await;
    wait_for("everything that was claimed to have run", PATIENCE, async || {
        match ran.load(Ordering::Relaxed) {
            PLACES => Ok(()),
            seen => Err(format!("{seen}")),
        }
    })
    .await;
    // Fifteen heartbeats are three times the longest pause between two polls.
    let beat = "SELECT last_heartbeat FROM worker_registration";
    for _ in 0..15 {
        let before = worker.text(beat).await;
        wait_for("the next heartbeat", PATIENCE, async || match worker.text(beat).await {
            now if now == before => Err(now),
            _ => Ok(()),
        })
        .await;
    }
    assert_eq!(worker.text(&of("IN_PROGRESS")).await, PLACES.to_string(), "nothing more was claimed");
    assert_eq!(worker.text(&of("PENDING")).await, (ALL - PLACES).to_string());
    locked.batch_execute("COMMIT").await.unwrap();
    worker.wait_for(&of("COMPLETED"), &ALL.to_string()).await;
    let history =
        "SELECT count(*) || ' ' || count(DISTINCT dispatch_id) || ' ' || max(attempt) FROM job_execution_log";
    assert_eq!(worker.text(history).await, format!("{ALL} {ALL} 1"));
    assert_eq!(ran.load(Ordering::Relaxed), ALL, "each ran once");
    worker.stop().await.unwrap();
}
