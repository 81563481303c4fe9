use std::ops::Deref;
use std::time::Duration;

use sched_model::domain::ids::Term;
use sched_model::running::claims::Claimed;
use sched_runtime::driver::{Activation, Report};
use sched_runtime::tasks::BoxError;
use sched_runtime::traces::Traces;
use sched_scheduler::tasks::Scope;
use test_support::Fixture;
use tokio_util::sync::CancellationToken;

pub(crate) const LEASE: Duration = Duration::from_secs(30);

pub(crate) struct Leader {
    fixture: Fixture,
    pub(crate) scope: Scope,
}

impl Deref for Leader {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.fixture
    }
}

impl Leader {
    pub(crate) async fn new() -> Self {
        let fixture = Fixture::new().await;
        let test_support::fixture::Leader { instance, term } = fixture.lead().await;
        let (database, stop) = (fixture.database.clone(), CancellationToken::new());
        Self { fixture, scope: Scope { database, instance, term, stop, traces: Traces::default() } }
    }

    /// The scope of a former leader.
    pub(crate) fn deposed(&self) -> Scope {
        Scope { term: Term(self.scope.term.0 - 1), ..self.scope.clone() }
    }

    /// A manual job with `runs` waiting runs.
    pub(crate) async fn job_with_runs(&self, name: &str, runs: i64) {
        let job = self.job(name).manual().save().await;
        self.runs(job.id).count(runs).insert().await;
    }

    pub(crate) async fn claim_as_new_worker(&self, limit: u32) -> Vec<Claimed> {
        let worker = self.worker().await;
        self.claim(worker, limit).await
    }

    /// The event types without the takeover and the start of workers, oldest first.
    pub(crate) async fn events(&self) -> Vec<String> {
        let told = "SELECT event_type FROM event_stream WHERE event_type NOT IN ('leader_changed', 'worker_online') ORDER BY id";
        self.rows(told).await.into_iter().flatten().collect()
    }
}

pub(crate) async fn run(task: &mut impl Activation) -> Report {
    task.run_once().await.unwrap()
}

/// Asserts that the fence rejected a task of a former leader.
#[track_caller]
pub(crate) fn assert_refused(result: &Result<Report, BoxError>) {
    let text = result.as_ref().map_err(ToString::to_string);
    assert_eq!(text.map(drop), Err("the term of leadership is over".to_owned()));
}
