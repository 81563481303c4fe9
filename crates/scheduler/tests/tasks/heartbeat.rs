//! The outgoing heartbeat against a scripted receiver.

use std::sync::Arc;
use std::time::Duration;

use sched_runtime::driver::{Activation, Driver, Report, TaskStatus};
use sched_runtime::http_targets::{AllowEntry, TargetUrl};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use sched_scheduler::leader_scope::{Board, Running};
use sched_scheduler::tasks::Scope;
use sched_scheduler::tasks::heartbeat::{Heartbeat, HeartbeatStyle, Receiver};
use scripted_http::{Request, Response, Server};
use test_support::wait_for;
use tokio::sync::watch;

use crate::leader::{Leader, assert_refused, run};

const OVERDUE_AFTER: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(10);

struct Dispatch;

impl Activation for Dispatch {
    fn name(&self) -> &'static str {
        "dispatch"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        Ok(Report::idle())
    }
}

/// The board of a leader that dispatches all the time, or has not dispatched yet.
fn board(dispatches: bool) -> Arc<Board> {
    let driver = Driver::new(Dispatch, Duration::from_secs(1));
    let mut status: TaskStatus = driver.status().borrow().clone();
    status.last_success = monotonic().checked_add(Duration::from_secs(3600)).filter(|_| dispatches);
    let (_, status) = watch::channel(status);
    Arc::new(Board::new(vec![Running { name: "dispatch", wake: driver.wake_handle(), status }]))
}

struct Monitor {
    server: Server,
    style: HeartbeatStyle,
}

impl Monitor {
    fn new(style: HeartbeatStyle) -> Self {
        Self { server: Server::start(Response::new(200)), style }
    }

    fn task(&self, scope: Scope, board: Arc<Board>) -> Heartbeat {
        let url = TargetUrl::parse(&self.server.url("/key")).unwrap();
        let allow: AllowEntry = "127.0.0.1".parse().unwrap();
        let receiver = Receiver::new(url, self.style, [allow].into_iter().collect()).unwrap();
        Heartbeat::new(scope, board, receiver, OVERDUE_AFTER)
    }

    /// Method, path and text of each call so far.
    fn calls(&self) -> Vec<String> {
        let call = |request: &Request| format!("{} {} {}", request.method, request.path, request.text());
        self.server.requests().iter().map(call).collect()
    }
}

/// Runs the task until its grace for the begin of the term is over and it reports work.
async fn run_past_grace(task: &mut Heartbeat) -> Report {
    wait_for("the end of the grace", PATIENCE, async || {
        let latest = run(task).await;
        let is_early = latest == Report::idle().next_in(Duration::from_secs(5)) || latest == Report::idle();
        if is_early { Err(format!("{latest:?}")) } else { Ok(latest) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_without_overdue_work_calls_the_url() {
    let leader = Leader::new().await;
    leader.job_with_runs("young", 1).await;
    leader.sql("UPDATE job_dispatch SET claimable_at = now() + interval '1 hour'").await;
    let monitor = Monitor::new(HeartbeatStyle::Healthchecks);
    let mut task = monitor.task(leader.scope.clone(), board(true));
    assert_eq!(run(&mut task).await, Report::idle());
    assert_eq!(monitor.calls(), ["GET /key "]);
}

#[tokio::test(flavor = "multi_thread")]
async fn standby_does_not_call_the_url() {
    let leader = Leader::new().await;
    let monitor = Monitor::new(HeartbeatStyle::Healthchecks);
    let mut task = monitor.task(leader.deposed(), board(true));
    assert_refused(&task.run_once().await);
    assert!(monitor.calls().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn overdue_job_is_reported_in_place_of_a_heartbeat() {
    let leader = Leader::new().await;
    leader.job("late").every_hours(1).save().await;
    leader
        .sql("UPDATE scheduled_jobs SET next_run_at = now() - interval '90 seconds' WHERE name = 'late'")
        .await;
    for (style, expected) in [
        (HeartbeatStyle::Healthchecks, "POST /key/fail a job has been due for 9"),
        (HeartbeatStyle::Cronitor, "GET /key?state=fail&message=a+job+has+been+due+for+9"),
    ] {
        let monitor = Monitor::new(style);
        let mut task = monitor.task(leader.scope.clone(), board(true));
        assert_eq!(run(&mut task).await.next_in, Some(Duration::from_secs(5)), "a new leader has time");
        assert!(monitor.calls().is_empty());
        assert!(run_past_grace(&mut task).await.worked);
        let calls = monitor.calls();
        assert!(calls.iter().all(|call| call.starts_with(expected)) && !calls.is_empty(), "{calls:?}");
    }
    let monitor = Monitor::new(HeartbeatStyle::Plain);
    assert!(run_past_grace(&mut monitor.task(leader.scope.clone(), board(true))).await.worked);
    assert!(monitor.calls().is_empty(), "silence is the alarm");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_run_is_overdue_unless_it_is_paused() {
    let leader = Leader::new().await;
    let job = leader.job("waits").manual().save().await;
    leader.runs(job.id).waiting_since_minutes(3).insert().await;
    let monitor = Monitor::new(HeartbeatStyle::Healthchecks);
    let mut task = monitor.task(leader.scope.clone(), board(true));
    run_past_grace(&mut task).await;
    let calls = monitor.calls();
    assert!(calls[0].starts_with("POST /key/fail a run has waited for a worker for 18"), "{calls:?}");
    for (pause, resume) in [
        ("UPDATE tenants SET is_paused = true", "UPDATE tenants SET is_paused = false"),
        ("UPDATE task_functions SET is_paused = true", "UPDATE task_functions SET is_paused = false"),
        ("UPDATE projects SET is_paused = true", "UPDATE projects SET is_paused = false"),
        ("UPDATE queues SET is_paused = true", "UPDATE queues SET is_paused = false"),
        ("UPDATE queues SET max_running = 1", "UPDATE queues SET max_running = NULL"),
    ] {
        let before = monitor.calls().len();
        leader.sql(pause).await;
        assert_eq!(run(&mut task).await, Report::idle(), "{pause}");
        assert_eq!(monitor.calls()[before..], ["GET /key "], "{pause}");
        leader.sql(resume).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_that_does_not_dispatch_is_reported() {
    let leader = Leader::new().await;
    let monitor = Monitor::new(HeartbeatStyle::Healthchecks);
    run_past_grace(&mut monitor.task(leader.scope.clone(), board(false))).await;
    assert_eq!(monitor.calls(), ["POST /key/fail the leader has not dispatched in its term"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_call_is_an_error_of_the_task() {
    let leader = Leader::new().await;
    let monitor = Monitor { server: Server::start(Response::new(500)), style: HeartbeatStyle::Healthchecks };
    let mut task = monitor.task(leader.scope.clone(), board(true));
    let error = task.run_once().await.unwrap_err().to_string();
    assert_eq!(error, "the server answers with status 500");
    wait_for("the leader's connection", PATIENCE, async || match leader.scope.database.conn().await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    })
    .await;
}
