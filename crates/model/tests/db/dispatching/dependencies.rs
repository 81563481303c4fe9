//! Jobs that run after others: writes, rejections, and the effect of ends.

use futures_util::future::join_all;
use sched_model::dispatching::dependents::{self, DependentsResult, Limits};
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::dependency::{After, AfterCondition, AfterMode};
use sched_model::domain::ids::{DispatchId, WorkerId};
use sched_model::domain::job::{JobSettings, OverlapPolicy};
use sched_model::domain::run_state::DispatchStatus;
use sched_model::domain::timetable::{JobType, SkipReason};
use sched_model::domain::trace::TraceContext;
use sched_model::jobs::{self, Job, SaveError, SaveMode, Writing};
use sched_model::running::upstream::{self, Upstream};
use sched_model::{Conn, transact};
use serde_json::json;
use test_support::fixture::{Fixture, Leader, QUEUE, TENANT, ended, settings};

const LIMITS: Limits = Limits { ends: 100, dependents: 1_000 };

/// A manual job that depends on other jobs. `a b! c?` means: the success of a, the failure of b,
/// any end of c.
pub(crate) fn job(name: &str, after: &str) -> JobSettings {
    let entry = |word: &str| {
        let on = match word.chars().last().unwrap() {
            '!' => AfterCondition::Failure,
            '?' => AfterCondition::Completion,
            _ => AfterCondition::Success,
        };
        After { job: word.trim_end_matches(['!', '?']).to_owned(), on }
    };
    JobSettings {
        job_type: JobType::Manual,
        schedule_config: json!({}),
        after: after.split_whitespace().map(entry).collect(),
        ..settings(name)
    }
}

pub(super) async fn save(conn: &mut Conn, settings: &JobSettings) -> Result<Job, SaveError> {
    let saved = transact(conn, "test_save", async |conn: &mut Conn| {
        jobs::save(conn, TENANT, settings, Writing::new(SaveMode::Upsert, "tests")).await
    })
    .await?;
    Ok(saved.job)
}

pub(super) async fn refused(world: &Fixture, settings: &JobSettings) -> String {
    match save(&mut world.conn().await, settings).await {
        Err(SaveError::Database(error)) => panic!("{error:?}"),
        Err(error) => error.to_string(),
        Ok(job) => panic!("{job:?}"),
    }
}

/// Jobs that run after others, with a leader and a worker.
pub(crate) struct Chain {
    pub(crate) fixture: Fixture,
    pub(super) leader: Leader,
    pub(super) worker: WorkerId,
}

impl Chain {
    pub(crate) async fn with(jobs: &[JobSettings]) -> Self {
        let fixture = Fixture::new().await;
        let (leader, worker) = (fixture.lead().await, fixture.worker().await);
        for job in jobs {
            fixture.save(job).await;
        }
        Self { fixture, leader, worker }
    }

    pub(crate) async fn finish(&self, name: &str, outcome: AttemptOutcome) -> DispatchId {
        self.start(name).await;
        self.end(outcome, 1).await
    }

    pub(super) async fn start(&self, name: &str) {
        let job = jobs::by_name(&self.fixture.conn().await, TENANT, name).await.unwrap().unwrap();
        self.fixture.runs(job.id).insert().await;
    }

    pub(crate) async fn end(&self, outcome: AttemptOutcome, max_attempts: u32) -> DispatchId {
        let claimed = self.fixture.claim(self.worker, 1).await.remove(0);
        self.fixture.end(&[ended(&claimed, outcome).max_attempts(max_attempts).build()], &[]).await.remove(0)
    }

    pub(crate) async fn follow(&self) -> DependentsResult {
        self.follow_some(LIMITS).await
    }

    pub(super) async fn follow_some(&self, limits: Limits) -> DependentsResult {
        let Leader { instance, term } = self.leader;
        let mut conn = self.fixture.conn().await;
        transact(&mut conn, "test_follow", async |conn: &mut Conn| {
            dependents::run_dependents(conn, instance, term, limits).await
        })
        .await
        .unwrap()
    }

    pub(crate) async fn ran(&self) -> String {
        let ran = "SELECT coalesce(string_agg(j.name, ' ' ORDER BY d.scheduled_for, j.name), '')
                   FROM job_dispatch d JOIN scheduled_jobs j ON j.id = d.job_id WHERE d.triggered_by = 'dependency'";
        self.fixture.text(ran).await
    }

    pub(super) async fn count_ends(&self) -> i64 {
        self.fixture.number("SELECT count(*) FROM job_ends").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_run_after_the_end_they_wait_for_and_no_other() {
    let jobs = [job("a", ""), job("well", "a"), job("badly", "a!"), job("anyhow", "a?")];
    let chain = Chain::with(&jobs).await;
    chain.finish("a", AttemptOutcome::Completed).await;
    let followed = chain.follow().await;
    assert_eq!((followed.ends, followed.dispatched, followed.skipped), (1, 2, vec![]));
    assert!(followed.queues.contains(QUEUE));
    assert_eq!(chain.ran().await, "anyhow well");

    for outcome in [AttemptOutcome::Failed, AttemptOutcome::Timeout] {
        chain.fixture.sql("DELETE FROM job_dispatch WHERE triggered_by = 'dependency'").await;
        chain.finish("a", outcome).await;
        chain.follow().await;
        assert_eq!(chain.ran().await, "anyhow badly", "{outcome}");
    }
    chain.finish("a", AttemptOutcome::Cancelled).await;
    assert_eq!(chain.count_ends().await, 0);
    assert_eq!(chain.follow().await, DependentsResult::default());
    chain.finish("well", AttemptOutcome::Completed).await;
    assert_eq!(chain.count_ends().await, 0, "the job has no dependents, so its end is not recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn dependent_and_its_retry_follow_the_same_run() {
    let chain = Chain::with(&[job("a", ""), job("b", "a?")]).await;
    for (outcome, status) in [
        (AttemptOutcome::Completed, DispatchStatus::Completed),
        (AttemptOutcome::Failed, DispatchStatus::Failed),
    ] {
        let run = chain.finish("a", outcome).await;
        chain.follow().await;
        let dependent = chain.end(AttemptOutcome::Failed, 1).await;
        let conn = chain.fixture.conn().await;
        let found = upstream::of_run(&conn, TENANT, dependent).await.unwrap();
        let expected = Upstream { run_id: run, job: "a".to_owned(), status, result: Some(json!({"n": 1})) };
        assert_eq!(found.as_ref(), Some(&expected));
        assert_eq!(upstream::of_run(&conn, TENANT, run).await.unwrap(), None);
        let retry = DispatchId(uuid::Uuid::now_v7());
        let copy = format!(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, status, scheduled_for, available_at, queue, priority, job_version,
                                       triggered_by, trigger_id, retry_of, created_at, completed_at)
             SELECT '{retry}', tenant_id, job_id, 'CANCELLED', scheduled_for, available_at, queue, priority, job_version,
                    'retry', id, id, created_at, now() FROM job_dispatch WHERE id = '{dependent}'"
        );
        chain.fixture.sql(&copy).await;
        assert_eq!(upstream::of_run(&conn, TENANT, retry).await.unwrap(), Some(expected));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatch_says_which_end_made_it_and_carries_the_term_of_the_leader() {
    let chain = Chain::with(&[job("a", ""), JobSettings { priority: Some(7), ..job("b", "a") }]).await;
    let dispatch = chain.finish("a", AttemptOutcome::Completed).await;
    chain.follow().await;
    let made = "SELECT d.trigger_id, d.scheduled_for = a.completed_at, d.available_at = a.completed_at, d.status, d.queue, d.priority,
                       d.args, d.term IS NOT NULL, d.follows, j.total_run_count, j.active_dispatches, j.fired_count
                FROM job_dispatch d JOIN job_dispatch a ON a.id = d.trigger_id JOIN scheduled_jobs j ON j.id = d.job_id
                WHERE d.triggered_by = 'dependency'";
    let expected = [&dispatch.to_string(), "t", "t", "PENDING", QUEUE, "7", "-", "t", "-", "1", "1", "0"]
        .map(str::to_owned);
    assert_eq!(chain.fixture.rows(made).await, [expected]);
    chain.fixture.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispatch_is_in_the_trace_of_the_one_whose_end_made_it() {
    let chain = Chain::with(&[job("a", ""), job("b", "a"), job("c", "b")]).await;
    let first = chain.finish("a", AttemptOutcome::Completed).await;
    chain.follow().await;
    let second = chain.end(AttemptOutcome::Completed, 1).await;
    chain.follow().await;
    let expected = TraceContext::of_dispatch(first, None);
    let found = "SELECT traceparent FROM job_dispatch WHERE triggered_by = 'dependency' ORDER BY id";
    let found: Vec<String> = chain.fixture.rows(found).await.into_iter().flatten().collect();
    assert_eq!(found, [expected.to_string(), expected.to_string()], "{first} {second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_are_retried_or_handed_back_count_nothing() {
    let chain = Chain::with(&[job("a", ""), job("b", "a?")]).await;
    chain.start("a").await;
    for outcome in [AttemptOutcome::Failed, AttemptOutcome::Released, AttemptOutcome::Lost] {
        chain.end(outcome, 4).await;
        assert_eq!(chain.count_ends().await, 0, "{outcome}");
        chain.fixture.skip_waits().await;
    }
    chain.end(AttemptOutcome::Failed, 3).await;
    assert_eq!(chain.fixture.text("SELECT status FROM job_ends").await, "DEAD_LETTER");
    chain.follow().await;
    assert_eq!(chain.ran().await, "b");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_waits_for_each_of_them_and_any_for_none() {
    let any = JobSettings { after_mode: AfterMode::Any, ..job("any", "a b") };
    let chain = Chain::with(&[job("a", ""), job("b", ""), job("all", "a b"), any]).await;
    for (name, ran) in [
        ("a", "any"),
        ("a", "any any"),
        ("b", "any any all any"),
        ("b", "any any all any any"),
        ("a", "any any all any any all any"),
    ] {
        chain.finish(name, AttemptOutcome::Completed).await;
        chain.follow().await;
        assert_eq!(chain.ran().await, ran);
    }
    let open = "SELECT count(*) FROM job_dependencies WHERE met_by IS NOT NULL";
    assert_eq!(chain.fixture.number(open).await, 0);
    chain.finish("b", AttemptOutcome::Completed).await;
    chain.follow().await;
    assert_eq!(chain.fixture.number(open).await, 1, "a met condition is kept until the other job has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_is_told_again_makes_no_second_dispatch() {
    let jobs = [job("a", ""), job("b", ""), job("one", "a"), job("both", "a b")];
    let chain = Chain::with(&jobs).await;
    chain.finish("a", AttemptOutcome::Completed).await;
    chain.finish("b", AttemptOutcome::Completed).await;
    assert_eq!(chain.follow().await.dispatched, 2);
    let again = "INSERT INTO job_ends (tenant_id, job_id, dispatch_id, status, ended_at)
                 SELECT d.tenant_id, d.job_id, d.id, d.status, d.completed_at FROM job_dispatch d WHERE d.status = 'COMPLETED'";
    for _ in 0..2 {
        chain.fixture.sql(again).await;
        let followed = chain.follow().await;
        assert_eq!((followed.ends, followed.dispatched), (2, 0));
    }
    assert_eq!(chain.ran().await, "one both");
    chain.fixture.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_leaders_at_once_make_each_dispatch_once() {
    const ENDS: i64 = 60;
    let chain = Chain::with(&[job("a", ""), job("b", "a")]).await;
    let job = jobs::by_name(&chain.fixture.conn().await, TENANT, "a").await.unwrap().unwrap();
    chain.fixture.runs(job.id).count(ENDS).insert().await;
    for claimed in chain.fixture.claim(chain.worker, 100).await {
        chain.fixture.finish(&claimed, AttemptOutcome::Completed).await;
    }
    assert_eq!(chain.count_ends().await, ENDS);
    let work = async || {
        let mut dispatched = 0;
        while chain.count_ends().await > 0 {
            dispatched += chain.follow_some(Limits { ends: 7, dependents: 100 }).await.dispatched;
        }
        i64::try_from(dispatched).unwrap()
    };
    let counts = join_all([work(), work(), work()]).await;
    assert_eq!(counts.iter().sum::<i64>(), ENDS, "{counts:?}");
    let causes = "SELECT count(DISTINCT trigger_id) FROM job_dispatch WHERE triggered_by = 'dependency'";
    assert_eq!(chain.fixture.number(causes).await, ENDS);
    chain.fixture.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_takes_no_more_dependents_than_it_should_but_always_an_end() {
    let chain = Chain::with(&[job("a", ""), job("b", "a"), job("c", "a"), job("d", "a")]).await;
    for _ in 0..3 {
        chain.finish("a", AttemptOutcome::Completed).await;
    }
    let mut taken = Vec::new();
    for dependents in [1, 4, 4] {
        taken.push(chain.follow_some(Limits { ends: 10, dependents }).await.ends);
    }
    assert_eq!(taken, [1, 2, 0]);
    assert_eq!(chain.ran().await, "b c d b c d b c d");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dependent_that_may_not_run_has_its_skip_recorded_and_chained() {
    let chain = Chain::with(&[job("a", ""), job("b", "a")]).await;
    let world = &chain.fixture;
    let dependent = "WHERE name = 'b'";
    let function = JobSettings { function: "other".into(), ..job("b", "a") };
    world.function("other").save().await;
    world.save(&function).await;
    for (table, of, column, reason, why) in [
        ("scheduled_jobs", dependent, "is_paused", SkipReason::PausedJob, "the job is paused"),
        ("projects", "", "is_paused", SkipReason::PausedProject, "its project is paused"),
        ("queues", "", "is_paused", SkipReason::PausedQueue, "its queue is paused"),
        (
            "task_functions",
            "WHERE name = 'other'",
            "is_paused",
            SkipReason::PausedFunction,
            "its task function is paused",
        ),
        ("tenants", "", "is_paused", SkipReason::PausedTenant, "its tenant is paused"),
        ("scheduled_jobs", dependent, "NOT is_enabled", SkipReason::Disabled, "the job is disabled"),
        (
            "task_functions",
            "WHERE name = 'other'",
            "NOT is_active",
            SkipReason::Disabled,
            "its task function is inactive",
        ),
    ] {
        chain.finish("a", AttemptOutcome::Completed).await;
        let dispatch = chain.finish("a", AttemptOutcome::Completed).await;
        let (column, on) = column.strip_prefix("NOT ").map_or((column, true), |column| (column, false));
        world.sql(&format!("UPDATE {table} SET {column} = {on} {of}")).await;
        let followed = chain.follow().await;
        world.sql(&format!("UPDATE {table} SET {column} = {} {of}", !on)).await;
        assert_eq!((followed.dispatched, followed.skipped), (0, vec![reason, reason]), "{why}");
        let detail = world.text("SELECT detail FROM skipped_fires ORDER BY id DESC LIMIT 1").await;
        assert_eq!(detail, format!("to run after a ended as succeeded (run {dispatch}), but {why}"));
    }
    world.sql("UPDATE scheduled_jobs SET deleted_at = now() WHERE name = 'b'").await;
    chain.finish("a", AttemptOutcome::Completed).await;
    assert_eq!(chain.follow().await.skipped, [SkipReason::Disabled]);
    assert_eq!(
        world.number("SELECT count(*) FROM skipped_fires WHERE term IS NOT NULL AND fire_count = 1").await,
        15
    );
    // They are no fire times: the ledger has no gap.
    assert_eq!(
        world
            .number("SELECT count(*) FROM skipped_fires WHERE trigger_id IS NULL OR follows IS NOT NULL")
            .await,
        0
    );
    assert_eq!(world.number("SELECT count(*) FROM ledger_gaps").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM occurrence_ledger").await, 0);
    assert_eq!(chain.ran().await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_max_instances_they_wait_in_line_unless_the_job_allows_more() {
    let narrow = JobSettings { overlap_policy: OverlapPolicy::Skip, ..job("narrow", "a") };
    let wide = JobSettings { overlap_policy: OverlapPolicy::Allow, ..job("wide", "a") };
    let chain = Chain::with(&[job("a", ""), narrow, wide]).await;
    for _ in 0..2 {
        chain.finish("a", AttemptOutcome::Completed).await;
    }
    chain.finish("a", AttemptOutcome::Completed).await;
    assert_eq!(chain.follow().await.dispatched, 6);
    let counts = "SELECT j.active_dispatches, j.queued_dispatches, count(*) FILTER (WHERE d.claimable_at = 'infinity')
                  FROM scheduled_jobs j JOIN job_dispatch d ON d.job_id = j.id WHERE j.name <> 'a' GROUP BY j.id, j.name, j.tenant_id
                  ORDER BY j.name";
    assert_eq!(chain.fixture.rows(counts).await, [["3", "2", "2"], ["3", "0", "0"]]);
    let mut ran = Vec::new();
    while let Some(claimed) = chain.fixture.claim(chain.worker, 1).await.pop() {
        chain.fixture.finish(&claimed, AttemptOutcome::Completed).await;
        ran.push(claimed.job.name.clone());
    }
    ran.sort();
    assert_eq!(ran, ["narrow", "narrow", "narrow", "wide", "wide", "wide"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_before_a_job_was_to_run_after_it_counts_nothing() {
    let chain = Chain::with(&[job("a", ""), job("b", "a")]).await;
    chain.finish("a", AttemptOutcome::Completed).await;
    chain.fixture.save(&job("late", "a")).await;
    // Only a change of its dependencies begins anew.
    chain.fixture.save(&JobSettings { description: "new".into(), ..job("b", "a") }).await;
    assert_eq!(chain.follow().await.dispatched, 1);
    assert_eq!(chain.ran().await, "b");
    chain.finish("a", AttemptOutcome::Completed).await;
    chain.fixture.save(&job("b", "a?")).await;
    chain.follow().await;
    assert_eq!(chain.ran().await, "b late");
}
