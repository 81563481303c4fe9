use std::collections::VecDeque;
use std::sync::Mutex;

use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::Instant as TokioInstant;

use super::*;
use crate::tasks::{OwnedTask, spawn_owned};

const PERIOD: Duration = Duration::from_secs(60);

type Step = Box<dyn FnMut() -> Result<Report, BoxError> + Send>;

struct Scripted {
    steps: VecDeque<Step>,
    gate: Option<Arc<Semaphore>>,
    runs: Arc<Mutex<Vec<TokioInstant>>>,
}

impl Activation for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        self.runs.lock().unwrap().push(now());
        if let Some(gate) = &self.gate {
            gate.acquire().await.unwrap().forget();
        }
        self.steps.pop_front().map_or_else(|| Ok(Report::idle()), |mut step| step())
    }
}

struct Rig {
    wake: Wake,
    status: watch::Receiver<TaskStatus>,
    runs: Arc<Mutex<Vec<TokioInstant>>>,
    cancel: CancellationToken,
    task: OwnedTask<Result<(), BoxError>>,
    started: TokioInstant,
}

impl Rig {
    fn start(steps: Vec<Step>, gate: Option<Arc<Semaphore>>) -> Self {
        let (runs, cancel) = (Arc::<Mutex<Vec<_>>>::default(), CancellationToken::new());
        let task = Scripted { steps: steps.into(), gate, runs: runs.clone() };
        let driver = Driver::new(task, PERIOD)
            .backoff(Backoff { initial: Duration::from_secs(4), cap: Duration::from_secs(10) });
        let (wake, status) = (driver.wake_handle(), driver.status());
        let started = now();
        let task = spawn_owned("driver", driver.run(cancel.clone()));
        Self { wake, status, runs, cancel, task, started }
    }

    async fn until(&mut self, condition: impl FnMut(&TaskStatus) -> bool) -> TaskStatus {
        let wait = self.status.wait_for(condition);
        tokio::time::timeout(10 * PERIOD, wait).await.expect("the status never came").unwrap().clone()
    }

    async fn iterations(&mut self, count: u64) -> TaskStatus {
        self.until(|status| status.iterations >= count && status.state == TaskState::Idle).await
    }

    fn seconds(&self) -> Vec<u64> {
        self.runs.lock().unwrap().iter().map(|run| run.duration_since(self.started).as_secs()).collect()
    }
}

#[expect(clippy::disallowed_methods, reason = "the paused clock of these tests is tokio's")]
fn now() -> TokioInstant {
    TokioInstant::now()
}

#[tokio::test(start_paused = true)]
async fn a_task_runs_at_once_and_after_every_period() {
    let mut rig = Rig::start(vec![], None);
    rig.iterations(3).await;
    assert_eq!(rig.seconds(), [0, 60, 120]);
}

#[tokio::test(start_paused = true)]
async fn a_report_can_ask_for_an_earlier_run_but_not_for_a_later_one() {
    let mut rig = Rig::start(
        vec![
            Box::new(|| Ok(Report::idle().next_in(Duration::ZERO))),
            Box::new(|| Ok(Report::worked(json!({"rows": 7})).next_in(Duration::from_secs(10)))),
            Box::new(|| Ok(Report::idle().next_in(2 * PERIOD))),
        ],
        None,
    );
    let status = rig.iterations(2).await;
    assert_eq!(status.last_report, Some(json!({"rows": 7})));
    rig.iterations(4).await;
    assert_eq!(rig.seconds(), [0, 0, 10, 70]);
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_runs_the_task_before_its_time() {
    let mut rig = Rig::start(vec![], None);
    rig.iterations(1).await;
    tokio::time::advance(Duration::from_secs(5)).await;
    rig.wake.wake();
    rig.iterations(2).await;
    assert_eq!(rig.seconds(), [0, 5]);
}

#[tokio::test(start_paused = true)]
async fn wake_ups_during_a_run_cause_exactly_one_more() {
    let gate = Arc::new(Semaphore::new(0));
    let mut rig = Rig::start(vec![], Some(gate.clone()));
    rig.until(|status| status.state == TaskState::Running).await;
    rig.wake.wake();
    rig.wake.wake();
    gate.add_permits(3);
    rig.iterations(3).await;
    assert_eq!(rig.seconds(), [0, 0, 60]);
}

#[tokio::test(start_paused = true)]
async fn errors_and_panics_are_counted_and_waited_out_even_when_woken() {
    let mut rig = Rig::start(
        vec![
            Box::new(|| Err("no database".into())),
            Box::new(|| panic!("a bug")),
            Box::new(|| Ok(Report::worked(json!({})))),
        ],
        None,
    );
    let status = rig.iterations(1).await;
    assert_eq!((status.failures, status.last_error.as_deref()), (1, Some("no database")));
    rig.wake.wake();
    let status = rig.iterations(2).await;
    assert_eq!((status.consecutive_failures, status.last_error.as_deref()), (2, Some("panicked: a bug")));
    assert!(status.failing_for().is_some() && status.failing_since < status.last_started, "{status:?}");
    let status = rig.iterations(3).await;
    assert_eq!((status.failures, status.consecutive_failures, status.failing_for()), (2, 0, None));
    let seconds = rig.seconds();
    let (first, second) = (seconds[1] - seconds[0], seconds[2] - seconds[1]);
    assert!((2..=4).contains(&first), "{first}");
    assert!((4..=8).contains(&second), "{second}");
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_asked_to_stop_lets_the_run_end() {
    let gate = Arc::new(Semaphore::new(0));
    let mut rig = Rig::start(vec![], Some(gate.clone()));
    rig.until(|status| status.state == TaskState::Running).await;
    rig.cancel.cancel();
    gate.add_permits(1);
    let status = rig.until(|status| status.state == TaskState::Stopped).await;
    assert_eq!(status.iterations, 1);
    rig.task.await.unwrap().unwrap();
}

#[test]
fn a_status_serialises_ages_instead_of_instants() {
    let mut status = TaskStatus::new("scripted");
    status.last_started = Some(crate::monotonic_clock::monotonic());
    let value = serde_json::to_value(&status).unwrap();
    assert_eq!(value["state"], "idle");
    assert!(value["last_started_ms_ago"].is_u64(), "{value}");
    assert!(value["last_success_ms_ago"].is_null(), "{value}");
}
