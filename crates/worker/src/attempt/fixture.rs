//! Claims, sessions and ended attempts for tests.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use sched_model::domain::attempt::Failures;
use sched_model::domain::function::HandlerType;
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, TenantId, WorkerId};
use sched_model::domain::run_state::Trigger;
use sched_runtime::config::{self, MapSource};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::service_manager::ServiceManager;
use sched_runtime::traces::Traces;
use sched_runtime::tracker::Tracker;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::attempt::counters::Counters;
use crate::attempt::result::{Circumstances, ended};
use crate::backend::{Backend, Claimed, Ended, JobColumns};
use crate::claiming::prefetch::Prefetch;
use crate::completion::Completer;
use crate::config::Config;
use crate::handlers::native::{NativeHandler, Registry};
use crate::handlers::{ErrorClass, Handler, Handlers, Report};
use crate::meters::Meters;
use crate::session::trust::LeaseTrust;
use crate::session::{Session, Worker};

pub(crate) fn claimed() -> Claimed {
    Claimed {
        claim_id: 1,
        dispatch_id: DispatchId(Uuid::nil()),
        tenant_id: TenantId(Uuid::nil()),
        job_id: JobId(Uuid::nil()),
        job: job_columns("calls"),
        token: ClaimToken(1),
        attempt: 3,
        failures: Failures { retried: 2, lost: 0 },
        scheduled_for: DateTime::UNIX_EPOCH,
        created_at: DateTime::UNIX_EPOCH,
        available_at: DateTime::UNIX_EPOCH,
        claimed_at: DateTime::UNIX_EPOCH,
        triggered_by: Trigger::Api,
        is_catch_up: false,
        args: Value::Null,
        traceparent: None,
        handler_type: "http".into(),
        handler_config: Value::Null,
        timeout: Duration::from_secs(60),
        retry_policy: None,
        details: None,
        limited_queue: None,
    }
}

pub(crate) fn job_columns(name: &str) -> Arc<JobColumns> {
    Arc::new(JobColumns { name: name.into(), project_id: None, is_apart: false })
}

pub(crate) fn failed(claimed: &Claimed) -> Ended {
    let report = Report::failed(ErrorClass::ExitCode, "exit code 7");
    let circumstances = Circumstances { received: monotonic(), is_released: false, max_attempts: 3 };
    ended(claimed, ExecutionId(Uuid::nil()), report, &circumstances)
}

/// A session without a database, and the receiver of its results.
pub(crate) fn session(registry: Registry, slots: usize) -> (Arc<Session>, Completer) {
    let source: MapSource = [("DATABASE_URL", "postgres://unused@127.0.0.1:1/none")].into_iter().collect();
    let mut values = config::load(&crate::PROGRAM, crate::config::GROUPS, ["sched-worker"], &source).unwrap();
    let (backend, counters, wake) =
        (Backend::unreachable(), Arc::new(Counters::new()), Arc::<Notify>::default());
    let permits = Arc::new(Semaphore::new(slots));
    let (completer, handle) =
        Completer::new(backend.clone(), counters.clone(), wake.clone(), permits.clone());
    let native = Arc::new(NativeHandler::new(registry, 2).unwrap());
    let handlers = Handlers::default().with(HandlerType::Native, native.clone() as Arc<dyn Handler>);
    let worker = Worker {
        version: "test",
        config: Arc::new(Config::read(&mut values)),
        backend,
        handlers: Arc::new(handlers),
        native,
        secret_keys: None,
        completer: handle,
        slots: permits,
        places: Arc::new(Semaphore::new(slots)),
        prefetch: Arc::new(Prefetch::new(u32::try_from(slots).unwrap())),
        wake,
        beat_now: Arc::default(),
        counters,
        live_buffer: Arc::default(),
        meters: Meters::new(),
        traces: Traces::default(),
        tracker: Tracker::default(),
        service: ServiceManager::default(),
    };
    let trust = LeaseTrust::of_ordinary(Duration::from_secs(3600), monotonic());
    let session = Session {
        worker,
        id: WorkerId(Uuid::nil()),
        attempts: TaskTracker::new(),
        stop_claiming: CancellationToken::new(),
        draining: Arc::new(watch::Sender::new(false)),
        release: CancellationToken::new(),
        kill: CancellationToken::new(),
        trust: Arc::new(watch::Sender::new(trust)),
        no_leader: Arc::default(),
        left: Arc::default(),
    };
    (Arc::new(session), completer)
}
