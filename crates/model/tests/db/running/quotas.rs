//! Quotas of tenants: running runs and kept output.

use futures_util::future::join_all;
use sched_model::connection::row_security::Scope;
use sched_model::connection::transaction::transact_in;
use sched_model::definitions::projects::{self, DeleteError, DeletedProject};
use sched_model::definitions::resources::{ChangeError, Expected};
use sched_model::dispatching::cancellations::Order;
use sched_model::dispatching::quotas::{self, QuotaUsage, Quotas};
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{TenantId, WorkerId};
use sched_model::running::attempts::{self, OutputChunk};
use sched_model::running::claims::{self, ClaimRequest, Claimed};
use sched_model::{Conn, running::workers, transact};
use test_support::fixture::{BEGIN, Fixture, QUEUE, TENANT, ended, new_worker};
use uuid::Uuid;

const RUNNING: &str = "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS'";

async fn quota(world: &Fixture, quotas: &str) {
    world.sql(&format!("UPDATE tenants SET quotas = '{quotas}' WHERE id = '{TENANT}'")).await;
}

async fn claim_once(world: &Fixture, worker: WorkerId, queues: &[&str], limit: u32) -> claims::ClaimOutcome {
    let queues: Vec<String> = queues.iter().map(|queue| (*queue).to_owned()).collect();
    let wanted = ClaimRequest { worker, queues: &queues, limit, last: TenantId(Uuid::nil()), lease_ms: None };
    claims::claim_limited(&mut world.conn().await, &wanted).await.unwrap()
}

async fn complete(world: &Fixture, claimed: &[Claimed]) {
    let ends: Vec<_> = claimed.iter().map(|one| ended(one, AttemptOutcome::Completed).build()).collect();
    let claims: Vec<i64> = claimed.iter().map(|one| one.claim_id).collect();
    attempts::end(&mut world.conn().await, &ends, &claims).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_quota_holds_across_queues() {
    let world = Fixture::new().await;
    world.queue("other").await;
    quota(&world, r#"{"running_dispatches": 3}"#).await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(5).insert().await;
    world.runs(job.id).queue("other").count(5).insert().await;
    let worker = world.worker().await;
    assert!(world.claim(worker, 10).await.is_empty(), "the common claim passes the tenant over");
    let first = claim_once(&world, worker, &[QUEUE, "other"], 10).await.claimed;
    assert_eq!(first.len(), 3);
    assert!(
        first.iter().all(|one| one.limited_queue.as_deref() == Some("")),
        "there is room in any queue afterwards"
    );
    assert!(claim_once(&world, worker, &["other"], 10).await.claimed.is_empty());
    complete(&world, &first[..2]).await;
    assert_eq!(claim_once(&world, worker, &[QUEUE], 10).await.claimed.len(), 2);
    quota(&world, r#"{"running_dispatches": 0}"#).await;
    assert!(claim_once(&world, worker, &[QUEUE, "other"], 10).await.claimed.is_empty());
    quota(&world, "{}").await;
    let queues = [QUEUE.to_owned(), "other".to_owned()];
    let rest = claims::claim(&mut world.conn().await, worker, &queues, 10).await.unwrap();
    assert_eq!(rest.len(), 5, "without a quota it is claimed from like any other");
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_limit_holds_within_the_tenant_quota() {
    let world = Fixture::new().await;
    world.queue("narrow").await;
    world.sql("UPDATE queues SET max_running = 1 WHERE name = 'narrow'").await;
    quota(&world, r#"{"running_dispatches": 3}"#).await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(5).insert().await;
    world.runs(job.id).queue("narrow").count(5).insert().await;
    let worker = world.worker().await;
    let claimed = claim_once(&world, worker, &[QUEUE, "narrow"], 10).await.claimed;
    assert_eq!(claimed.len(), 3);
    let narrow = "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS' AND queue = 'narrow'";
    assert!(world.number(narrow).await <= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn quota_holds_for_concurrent_claims() {
    let world = Fixture::new().await;
    quota(&world, r#"{"running_dispatches": 4}"#).await;
    let job = world.job("busy").save().await;
    let queues: Vec<String> = (0..6).map(|n| format!("q{n}")).collect();
    for queue in &queues {
        world.queue(queue).await;
        world.runs(job.id).queue(queue).count(5).insert().await;
    }
    let claimers = queues.iter().map(|queue| async {
        let worker = world.worker().await;
        claim_once(&world, worker, &[queue.as_str()], 3).await.claimed.len()
    });
    let claimed: usize = join_all(claimers).await.into_iter().sum();
    assert_eq!(claimed, 4);
    assert_eq!(world.number(RUNNING).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_writers_do_not_block_claims() {
    let world = Fixture::new().await;
    quota(&world, r#"{"jobs": 100, "running_dispatches": 2}"#).await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(5).insert().await;
    let worker = world.worker().await;
    let writer = world.db.client().await;
    // As a writer of jobs, until its last one.
    writer.batch_execute(&format!("{BEGIN}; SELECT FROM tenants FOR NO KEY UPDATE")).await.unwrap();
    let plain = world.claim(worker, 5).await;
    assert!(plain.is_empty(), "the quota is not passed by");
    assert_eq!(claim_once(&world, worker, &[QUEUE], 5).await.claimed.len(), 2);
    assert!(claim_once(&world, worker, &[QUEUE], 5).await.claimed.is_empty());
    writer.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_worker_claims_nothing() {
    let world = Fixture::new().await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(3).insert().await;
    let worker = world.worker().await;
    let mut conn = world.conn().await;
    let (was, after) = workers::set_drain(&mut conn, worker, true).await.unwrap().unwrap();
    assert!(!was && after.drain_requested_at.is_some());
    assert!(world.claim(worker, 10).await.is_empty());
    let (was, after) = workers::set_drain(&mut conn, worker, false).await.unwrap().unwrap();
    assert!(was && after.drain_requested_at.is_none());
    assert_eq!(world.claim(worker, 10).await.len(), 3);
    assert!(workers::set_drain(&mut conn, WorkerId(Uuid::nil()), true).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn drain_survives_a_lost_lease() {
    let world = Fixture::new().await;
    let first = world.worker().await;
    let mut conn = world.conn().await;
    let next = async |conn: &mut Conn, before, was_draining| {
        let new = new_worker();
        let before = workers::Predecessor { worker_id: before, was_draining };
        (new.worker_id, workers::register(conn, &new, Some(before)).await.unwrap())
    };
    assert!(!next(&mut conn, first, false).await.1, "no drain was requested");
    workers::set_drain(&mut conn, first, true).await.unwrap();
    // Requested while the process could not receive it.
    let (second, is_draining) = next(&mut conn, first, false).await;
    assert!(is_draining);
    let job = world.job("busy").save().await;
    world.runs(job.id).insert().await;
    assert!(world.claim(second, 1).await.is_empty());
    let told = "SELECT count(*) FROM events WHERE event_type = 'worker_online' AND (payload ->> 'draining')::boolean";
    assert_eq!(world.number(told).await, 1);
    workers::unregister(&mut conn, second).await.unwrap();
    let (third, is_draining) = next(&mut conn, second, true).await;
    assert!(is_draining);
    workers::set_drain(&mut conn, third, false).await.unwrap();
    let (fourth, is_draining) = next(&mut conn, third, true).await;
    assert!(!is_draining);
    assert_eq!(world.claim(fourth, 1).await.len(), 1);
    workers::unregister(&mut conn, second).await.unwrap();
    let stopped = "SELECT count(*) FROM events WHERE event_type = 'worker_stopped'";
    assert_eq!(world.number(stopped).await, 1, "a removed worker stops only once");
}

/// The transaction names the tenant, as in the API.
async fn used(world: &Fixture) -> (Quotas, QuotaUsage) {
    let scope = Scope::tenant(TENANT).read_only();
    let mut conn = world.conn().await;
    transact_in(&mut conn, scope, "test_usage", async |conn: &mut Conn| quotas::usage(conn, TENANT).await)
        .await
        .unwrap()
}

async fn run_with_output(world: &Fixture, chunks: &[&str]) {
    let worker = world.worker().await;
    let claimed = world.claim(worker, 1).await.pop().unwrap();
    let mut end = ended(&claimed, AttemptOutcome::Completed).build();
    end.record.output = chunks
        .iter()
        .zip(0..)
        .map(|(content, chunk)| OutputChunk {
            stream: "stdout",
            chunk,
            content: (*content).to_owned(),
            dropped_bytes: 0,
        })
        .collect();
    attempts::end(&mut world.conn().await, &[end], &[claimed.claim_id]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn output_beyond_the_daily_quota_is_not_kept() {
    let world = Fixture::new().await;
    let job = world.job("talks").save().await;
    world.runs(job.id).count(5).insert().await;
    run_with_output(&world, &["free"]).await;
    assert_eq!(
        world.number("SELECT count(*) FROM tenant_log_usage").await,
        0,
        "nothing is counted without a quota"
    );
    quota(&world, r#"{"log_bytes": 10}"#).await;
    run_with_output(&world, &["12345", "678"]).await;
    run_with_output(&world, &["9", "toolong", "too"]).await;
    let kept = "SELECT o.content, o.dropped_bytes FROM job_execution_output o JOIN job_execution_log l ON l.id = o.execution_id
                ORDER BY l.completed_at, o.chunk";
    let marker = "[output not kept: the tenant's quota of 10 bytes per day is used up]";
    assert_eq!(
        world.rows(kept).await,
        [["free", "0"], ["12345", "0"], ["678", "0"], ["9", "0"], [marker, "10"]]
    );
    let (limits, spent) = used(&world).await;
    assert_eq!(limits.log_bytes, Some(10));
    assert_eq!((spent.log_bytes, spent.log_bytes_dropped), (Some(9), Some(10)));
    world.sql("UPDATE tenant_log_usage SET day = day - 1").await;
    run_with_output(&world, &["1234567890"]).await;
    let (_, used) = used(&world).await;
    assert_eq!(
        (used.log_bytes, used.log_bytes_dropped),
        (Some(10), Some(0)),
        "a day later there is room again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_quota_is_rejected() {
    let world = Fixture::new().await;
    let conn = world.db.client().await;
    for bad in [
        r#"{"job": 1}"#,
        r#"{"jobs": -1}"#,
        r#"{"jobs": "1"}"#,
        r#"{"log_bytes": 1.5}"#,
        r#"{"log_bytes": [1]}"#,
        r#"{"running_dispatches": null}"#,
    ] {
        let update = format!("UPDATE tenants SET quotas = '{bad}'");
        let error = conn.batch_execute(&update).await.unwrap_err();
        let constraint = error.as_db_error().unwrap().constraint().unwrap_or_default().to_owned();
        assert_eq!(constraint, "tenants_known_quotas_check", "{bad}");
    }
    let all = r#"{"jobs": 0, "dispatches_per_minute": 1, "running_dispatches": 2, "log_bytes": 3}"#;
    conn.batch_execute(&format!("UPDATE tenants SET quotas = '{all}'")).await.unwrap();
    let (limits, used) = used(&world).await;
    assert_eq!((limits.jobs, limits.log_bytes), (Some(0), Some(3)));
    assert_eq!((used.jobs, used.running, used.dispatches), (0, 0, Some(0)));
}

/// Deletes a project while another transaction adds a job to it; also returns the number of
/// remaining jobs.
async fn deleted_meanwhile(with_jobs: bool) -> (Result<DeletedProject, DeleteError>, i64) {
    let world = Fixture::new().await;
    world
        .sql(&format!(
            "INSERT INTO projects (tenant_id, name, display_name) VALUES ('{TENANT}', 'old', 'Old')"
        ))
        .await;
    let writer = world.db.client().await;
    writer.batch_execute(BEGIN).await.unwrap();
    writer.batch_execute("SELECT 1 FROM projects WHERE name = 'old' FOR KEY SHARE").await.unwrap();
    let mut conn = world.conn().await;
    let order = Order { by: "tests", reason: None };
    let expected = Expected::Any;
    let request =
        projects::DeleteRequest { tenant: TENANT, name: "old", expected, with_jobs, source: "tests", order };
    let deletion =
        transact(&mut conn, "test_delete", async |conn: &mut Conn| projects::delete(conn, &request).await);
    let into_it = async {
        world.wait_for_blocked(1).await;
        let job = format!(
            "INSERT INTO scheduled_jobs (tenant_id, project_id, name, task_function_id, job_type, schedule_config, settled_until)
             SELECT p.tenant_id, p.id, 'late', f.id, 'manual', '{{}}', now() FROM projects p, task_functions f
             WHERE p.name = 'old' AND f.name = 'noop' AND f.tenant_id = '{TENANT}'; COMMIT"
        );
        writer.batch_execute(&job).await.unwrap();
    };
    let (deleted, ()) = futures_util::future::join(deletion, into_it).await;
    let left = "SELECT count(*) FROM scheduled_jobs j JOIN projects p ON p.id = j.project_id WHERE p.name = 'old' AND j.deleted_at IS NULL";
    (deleted, world.number(left).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn project_being_deleted_gets_no_job() {
    let (refused, left) = deleted_meanwhile(false).await;
    let Err(DeleteError::Change(ChangeError::InUse(users))) = &refused else { panic!("{refused:?}") };
    assert_eq!((users.names.as_slice(), left), (&["late".to_owned()][..], 1));
    let (deleted, left) = deleted_meanwhile(true).await;
    let deleted = deleted.unwrap();
    let names: Vec<&str> = deleted.jobs.iter().map(|job| job.before.settings.name.as_str()).collect();
    assert_eq!((names, left), (vec!["late"], 0));
}
