//! Attempts and their output are found in the schema of the job's scope.

use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{ExecutionId, TenantId};
use sched_model::domain::job::{JobSettings, Scope};
use sched_model::running::attempts::OutputChunk;
use sched_model::running::claims::Claimed;
use sched_model::running::executions::{self, Filter};
use test_support::fixture::{Fixture, TENANT, ended};
use uuid::Uuid;

async fn begin(world: &Fixture, name: &str, scope: Scope) -> Claimed {
    world.function(name).save().await;
    let project = (scope == Scope::Project).then(|| "default".to_owned());
    let in_scope = |settings: &mut JobSettings| {
        settings.scope = scope;
        settings.project = project;
    };
    let job = world.job(name).function(name).settings(in_scope).save().await;
    world.runs(job.id).insert().await;
    let worker = world.worker().await;
    world.claim(worker, 1).await.pop().unwrap()
}

async fn run(world: &Fixture, name: &str, scope: Scope, outcome: AttemptOutcome) -> ExecutionId {
    let claimed = begin(world, name, scope).await;
    let mut ended = ended(&claimed, outcome).max_attempts(1).build();
    ended.record.output =
        vec![OutputChunk { stream: "stderr", chunk: 0, content: name.into(), dropped_bytes: 0 }];
    let id = ended.record.execution_id;
    assert_eq!(world.end(&[ended], &[]).await.len(), 1);
    id
}

async fn list(world: &Fixture, filter: &Filter, limit: i64) -> Vec<ExecutionId> {
    let found = executions::list(&world.conn().await, TENANT, filter, limit).await.unwrap();
    found.into_iter().map(|execution| execution.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn backups_are_recorded_apart_and_read_together() {
    let world = Fixture::new().await;
    let first = run(&world, "first", Scope::Project, AttemptOutcome::Completed).await;
    let backup = run(&world, "backup", Scope::BackupInfrastructure, AttemptOutcome::Failed).await;
    let last = run(&world, "last", Scope::System, AttemptOutcome::Completed).await;

    for table in ["job_execution_log", "job_execution_output"] {
        let column = if table == "job_execution_log" { "id" } else { "execution_id" };
        let rows = async |schema: &str| {
            let query = format!("SELECT {column} FROM {schema}.{table} ORDER BY {column}");
            world.rows(&query).await.concat()
        };
        assert_eq!(rows("maintenance").await, [backup.to_string()], "{table}");
        assert_eq!(rows("public").await, [first.to_string(), last.to_string()], "{table}");
    }

    let conn = world.conn().await;
    assert_eq!(list(&world, &Filter::default(), 10).await, [last, backup, first], "newest first");
    for (id, name) in [(first, "first"), (backup, "backup"), (last, "last")] {
        let execution = executions::by_id(&conn, TENANT, id).await.unwrap().unwrap();
        assert_eq!((execution.id, execution.job_name.as_deref()), (id, Some(name)));
        let output = executions::output(&conn, TENANT, id).await.unwrap();
        let output: Vec<_> = output.iter().map(|o| (o.stream.as_str(), o.content.as_str())).collect();
        assert_eq!(output, [("stderr", name)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_paged_and_filtered() {
    let world = Fixture::new().await;
    let first = run(&world, "first", Scope::Project, AttemptOutcome::Failed).await;
    let backup = run(&world, "backup", Scope::BackupInfrastructure, AttemptOutcome::Failed).await;
    let last = run(&world, "last", Scope::Project, AttemptOutcome::Completed).await;

    assert_eq!(list(&world, &Filter::default(), 2).await, [last, backup]);
    let next = Filter { after: Some(backup), ..Filter::default() };
    assert_eq!(list(&world, &next, 2).await, [first]);
    let oldest_first = Filter { oldest_first: true, ..Filter::default() };
    assert_eq!(list(&world, &oldest_first, 2).await, [first, backup]);
    assert_eq!(list(&world, &Filter { oldest_first: true, ..next }, 2).await, [last]);
    let failed = Filter { status: &[AttemptOutcome::Failed], ..Filter::default() };
    assert_eq!(list(&world, &failed, 10).await, [backup, first]);
    let either = Filter { status: &[AttemptOutcome::Failed, AttemptOutcome::Completed], ..Filter::default() };
    assert_eq!(list(&world, &either, 10).await, [last, backup, first]);

    let conn = world.conn().await;
    let execution = executions::by_id(&conn, TENANT, first).await.unwrap().unwrap();
    let of_job = Filter { job: Some(execution.job_id), ..Filter::default() };
    let of_dispatch = Filter { dispatch: Some(execution.dispatch_id), ..Filter::default() };
    assert_eq!(list(&world, &of_job, 10).await, [first]);
    let again = run(&world, "first", Scope::Project, AttemptOutcome::Completed).await;
    assert_eq!(list(&world, &of_job, 10).await, [again, first]);
    let oldest_first = Filter { oldest_first: true, ..of_job };
    assert_eq!(list(&world, &oldest_first, 10).await, [first, again]);
    assert_eq!(list(&world, &Filter { after: Some(first), ..oldest_first }, 10).await, [again]);
    let since = executions::by_id(&conn, TENANT, again).await.unwrap().unwrap().started_at;
    let late = Filter { since: Some(since), oldest_first: true, ..Filter::default() };
    assert_eq!(list(&world, &late, 10).await, [again], "without earlier attempts");
    assert_eq!(list(&world, &of_dispatch, 10).await, [first]);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_isolated_by_tenant() {
    let world = Fixture::new().await;
    let id = run(&world, "first", Scope::Project, AttemptOutcome::Completed).await;
    let stranger = TenantId(Uuid::new_v4());
    let conn = world.conn().await;
    assert!(executions::list(&conn, stranger, &Filter::default(), 10).await.unwrap().is_empty());
    assert!(executions::by_id(&conn, stranger, id).await.unwrap().is_none());
    assert!(executions::output(&conn, stranger, id).await.unwrap().is_empty());
    assert_eq!(executions::output(&conn, TENANT, id).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn attempt_has_the_trace_of_its_run() {
    let world = Fixture::new().await;
    let id = run(&world, "first", Scope::Project, AttemptOutcome::Completed).await;
    let trace = async || {
        let execution = executions::by_id(&world.conn().await, TENANT, id).await.unwrap().unwrap();
        (execution.dispatch_id.0.simple().to_string(), execution.trace().map(|trace| trace.trace_id()))
    };
    for (made_by, traceparent, is_gone) in [
        ("scheduler", "NULL", false),
        ("api", "NULL", false),
        ("api", "'00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'", false),
        ("api", "NULL", true),
        ("scheduler", "NULL", true),
    ] {
        world.sql(&format!("UPDATE job_dispatch SET traceparent = {traceparent}")).await;
        world.sql(&format!("UPDATE job_execution_log SET triggered_by = '{made_by}'")).await;
        if is_gone {
            world.sql("DELETE FROM job_dispatch").await;
        }
        let (own, found) = trace().await;
        let expected = match (made_by, traceparent, is_gone) {
            ("api", "NULL", true) => None,
            (_, "NULL", _) => Some(own),
            _ => Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
        };
        assert_eq!(found, expected, "{made_by} {traceparent} {is_gone}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_tells_in_numbers_and_of_its_failure_is_kept_wherever_history_lies() {
    let world = Fixture::new().await;
    for scope in [Scope::Project, Scope::BackupInfrastructure] {
        let claimed = begin(&world, scope.as_str(), scope).await;
        let mut told = ended(&claimed, AttemptOutcome::Failed).max_attempts(1).build();
        told.record.metrics = Some(serde_json::json!({"rows": 7}));
        told.record.traceback = Some("at line 1".into());
        let id = told.record.execution_id;
        assert_eq!(world.end(&[told], &[]).await.len(), 1);
        let conn = world.conn().await;
        let shown = executions::by_id(&conn, TENANT, id).await.unwrap().unwrap();
        assert_eq!(shown.metrics, Some(serde_json::json!({"rows": 7})));
        assert_eq!(shown.traceback.as_deref(), Some("at line 1"));
        let of_job = Filter { job: Some(claimed.job_id), ..Filter::default() };
        for filter in [of_job, Filter::default()] {
            let listed = executions::list(&conn, TENANT, &filter, 10).await.unwrap();
            assert_eq!((listed[0].id, &listed[0].metrics), (id, &shown.metrics));
            assert_eq!(listed[0].traceback, None, "lists omit long fields");
        }
    }
}
