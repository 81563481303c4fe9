//! Claims: each run goes to one worker, in order, and only where allowed.

use std::collections::HashSet;

use futures_util::future::join_all;
use sched_model::definitions::functions::FunctionSettings;
use sched_model::domain::function::HandlerType;
use sched_model::domain::ids::{DispatchId, TenantId, WorkerId};
use sched_model::domain::job::RunDetails;
use sched_model::running::claims::{self, ClaimRequest, Claimed};
use serde_json::json;
use test_support::fixture::{Fixture, QUEUE, TENANT, new_worker};
use uuid::Uuid;

fn names(claimed: &[Claimed]) -> Vec<&str> {
    claimed.iter().map(|c| c.job.name.as_str()).collect()
}

async fn waiting(world: &Fixture, name: &str, priority: i16, minutes: i32) {
    let job = world.job(name).save().await;
    world.runs(job.id).priority(priority).waiting_since_minutes(minutes).insert().await;
}

async fn claim_all(world: &Fixture, limit: u32) -> Vec<(WorkerId, Claimed)> {
    let worker = world.worker().await;
    let mut conn = world.conn().await;
    let mut all = Vec::new();
    loop {
        let claimed = claims::claim(&mut conn, worker, &[QUEUE.to_owned()], limit).await.unwrap();
        if claimed.is_empty() {
            return all;
        }
        assert!(claimed.len() <= limit as usize);
        all.extend(claimed.into_iter().map(|c| (worker, c)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_workers_claim_every_dispatch_once() {
    let world = Fixture::new().await;
    let job = world.job("busy").save().await;
    world.runs(job.id).count(2_000).insert().await;
    let claimed: Vec<(WorkerId, Claimed)> =
        join_all((1..=8).map(|limit| claim_all(&world, limit * 3))).await.into_iter().flatten().collect();
    assert_eq!(claimed.len(), 2_000);
    let dispatches: HashSet<_> = claimed.iter().map(|(_, c)| c.dispatch_id).collect();
    let tokens: HashSet<_> = claimed.iter().map(|(_, c)| c.token).collect();
    assert_eq!((dispatches.len(), tokens.len()), (2_000, 2_000));

    let stored =
        world.rows("SELECT id, worker_id, claim_token, status, attempt FROM job_dispatch ORDER BY id").await;
    let mut told: Vec<Vec<String>> = claimed
        .iter()
        .map(|(worker, c)| {
            let numbers = [c.token.0.to_string(), "IN_PROGRESS".to_owned(), c.attempt.to_string()];
            [vec![c.dispatch_id.to_string(), worker.to_string()], numbers.to_vec()].concat()
        })
        .collect();
    told.sort();
    assert_eq!(stored, told, "the database agrees with the workers");
    let noted = "SELECT count(DISTINCT u.id) FROM worker_claims c CROSS JOIN unnest(c.dispatch_ids) AS u (id)
                 JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id";
    assert_eq!(world.number(noted).await, 2_000, "every running dispatch is named by a claim of its worker");
}

#[tokio::test(flavor = "multi_thread")]
async fn priority_comes_before_waiting_time() {
    let world = Fixture::new().await;
    for (name, priority, minutes) in [
        ("late-low", 90, 1),
        ("early-low", 90, 9),
        ("late-high", 10, 1),
        ("early-high", 10, 9),
        ("standard", 50, 5),
    ] {
        waiting(&world, name, priority, minutes).await;
    }
    let worker = world.worker().await;
    let mut order = names(&world.claim(worker, 2).await).join(" ");
    assert_eq!(order, "early-high late-high");
    order = names(&world.claim(worker, 10).await).join(" ");
    assert_eq!(order, "standard early-low late-low");
}

#[tokio::test(flavor = "multi_thread")]
async fn run_that_is_not_due_waits() {
    let world = Fixture::new().await;
    waiting(&world, "due", 50, 1).await;
    waiting(&world, "later", 50, -60).await;
    let worker = world.worker().await;
    let mut conn = world.conn().await;
    let mut claim = async |queue: &str, limit: u32| {
        let queues = [queue.to_owned()];
        let last = TenantId(Uuid::max());
        let wanted = ClaimRequest { worker, queues: &queues, limit, last, lease_ms: None };
        let outcome = claims::claim_unlimited(&mut conn, &wanted).await.unwrap();
        (names(&outcome.claimed).join(" "), outcome.next_claimable)
    };
    assert_eq!(claim("other", 10).await, (String::new(), None));
    assert_eq!(claim(QUEUE, 1).await, ("due".to_owned(), None), "no slot is free");
    let (claimed, wait) = claim(QUEUE, 1).await;
    assert_eq!(claimed, "");
    assert!((3_500..=3_600).contains(&wait.unwrap().as_secs()), "{wait:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_queue_gives_no_runs() {
    let world = Fixture::new().await;
    waiting(&world, "waiting", 50, 1).await;
    let worker = world.worker().await;
    world.sql("UPDATE queues SET is_paused = true").await;
    assert!(world.claim(worker, 10).await.is_empty());
    world.sql("UPDATE queues SET is_paused = false").await;
    assert_eq!(world.claim(worker, 10).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_claims_only_from_its_queues() {
    let world = Fixture::new().await;
    for queue in ["one", "two", "three"] {
        world.queue(queue).await;
        let job = world.job(queue).save().await;
        world.runs(job.id).queue(queue).count(3).insert().await;
    }
    world.sql("UPDATE job_dispatch SET priority = 10 WHERE queue = 'two'").await;
    let worker = world.worker().await;
    let mut conn = world.conn().await;
    let queues = ["one".to_owned(), "two".to_owned()];
    let claimed = claims::claim(&mut conn, worker, &queues, 4).await.unwrap();
    assert_eq!(names(&claimed), ["two", "two", "two", "one"], "one limit and one order across the queues");
    assert_eq!(claims::claim(&mut conn, worker, &queues, 100).await.unwrap().len(), 2);
    assert_eq!(
        world.number("SELECT count(*) FROM job_dispatch WHERE status = 'PENDING' AND queue = 'three'").await,
        3
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn offline_and_unknown_workers_claim_nothing() {
    let world = Fixture::new().await;
    waiting(&world, "waiting", 50, 1).await;
    let worker = world.worker().await;
    world
        .sql(&format!(
            "UPDATE worker_registration SET status = 'OFFLINE', offline_since = now() WHERE worker_id = '{worker}'"
        ))
        .await;
    assert!(world.claim(worker, 10).await.is_empty());
    assert!(world.claim(new_worker().worker_id, 10).await.is_empty());
    assert_eq!(world.number("SELECT count(*) FROM worker_claims").await, 0);
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE attempt > 0").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn claim_returns_data_to_run_it() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    assert_eq!((claimed.tenant_id, claimed.job.name.as_str(), claimed.attempt), (TENANT, "hourly", 1));
    assert_eq!(claimed.args, serde_json::json!({}));
    assert_eq!((claimed.handler_type.as_str(), claimed.timeout.as_secs()), ("process", 60));
    assert_eq!(claimed.handler_config, serde_json::json!({"command": ["true"]}));
    assert!(claimed.scheduled_for <= claimed.created_at && claimed.created_at <= claimed.claimed_at);
    let stored = "SELECT id, worker_id IS NOT NULL, claimable_at FROM job_dispatch";
    assert_eq!(world.rows(stored).await, [[&DispatchId::to_string(&claimed.dispatch_id), "t", "-"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_function_or_project_gives_no_runs() {
    let world = Fixture::new().await;
    world.function("other").save().await;
    let stopped = world.job("stopped").save().await;
    world.runs(stopped.id).count(4).insert().await;
    let worker = world.worker().await;
    let mut conn = world.conn().await;
    let queues = [QUEUE.to_owned()];
    let wanted =
        ClaimRequest { worker, queues: &queues, limit: 1, last: TenantId(Uuid::max()), lease_ms: None };
    for switch in ["task_functions SET is_paused = %s WHERE name = 'noop'", "projects SET is_paused = %s"] {
        let switch = |on: &str| format!("UPDATE {}", switch.replace("%s", on));
        world.sql(&switch("true")).await;
        assert!(world.claim(worker, 1).await.is_empty(), "{}", switch("true"));
        world.sql("UPDATE queues SET max_running = 9").await;
        assert!(claims::claim_limited(&mut conn, &wanted).await.unwrap().claimed.is_empty());
        world.sql(&switch("false")).await;
        assert_eq!(claims::claim_limited(&mut conn, &wanted).await.unwrap().claimed.len(), 1);
        world.sql("UPDATE queues SET max_running = NULL").await;
        assert_eq!(world.claim(worker, 1).await.len(), 1);
    }
    world.sql("UPDATE task_functions SET is_paused = true WHERE name = 'other'").await;
    assert!(world.claim(worker, 1).await.is_empty(), "all are claimed");
    world.runs(stopped.id).insert().await;
    assert_eq!(world.claim(worker, 1).await.len(), 1, "another function is paused");
}

/// Details cost lookups, so only handlers that need them get them.
#[tokio::test(flavor = "multi_thread")]
async fn claim_reads_details_for_handlers_that_need_them() {
    let world = Fixture::new().await;
    world.function("plain").native("plain").save().await;
    let with_context = |settings: &mut FunctionSettings| {
        settings.handler_type = HandlerType::Native;
        settings.handler_config = json!({"handler": "curious", "context": true});
    };
    world.function("curious").settings(with_context).save().await;
    for (name, function) in [("plain", "plain"), ("curious", "curious"), ("process", "noop")] {
        let job = world.job(name).cron("0 2 * * *").function(function).save().await;
        world.trigger(job.id, None).await;
    }
    let worker = world.worker().await;
    let mut claimed = world.claim(worker, 10).await;
    claimed.sort_by(|a, b| a.job.name.cmp(&b.job.name));
    assert_eq!(names(&claimed), ["curious", "plain", "process"]);
    let expected = RunDetails {
        tenant: "default".into(),
        project: Some("default".into()),
        queue: QUEUE.into(),
        user: Some("tests".into()),
        schedule: Some("0 2 * * *".into()),
    };
    assert_eq!(claimed[0].details.as_deref(), Some(&expected));
    assert_eq!(claimed[1].details, None);
    assert_eq!(claimed[2].details.as_deref(), Some(&expected));
}
