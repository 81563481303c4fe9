//! Blockers of runs and jobs, and their part in the overview.

use std::time::Duration;

use crate::dispatching::dependencies::{Chain, job};
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::dependency::{After, AfterCondition};
use sched_model::domain::explain::{DispatchRecord, Wait, waits::of_job};
use sched_model::domain::ids::{DispatchId, JobId, TenantId};
use sched_model::domain::job::OverlapPolicy;
use sched_model::domain::lease::Leadership;
use sched_model::jobs::{self, Shown};
use sched_model::running::claims::{self, ClaimRequest};
use sched_model::{
    cluster::overview,
    definitions::built_in,
    dispatching::{cancellations, dispatches},
    explain::{blockers, history},
};
use test_support::fixture::{Fixture, QUEUE, TENANT};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(5);

const LEADER: &str =
    "INSERT INTO scheduler_instances (id, hostname, pid, version, is_leader, leader_since, term)
     VALUES (gen_random_uuid(), 'leads', 41, '1.0', true, clock_timestamp(), 7)";

async fn oldest(world: &Fixture) -> DispatchId {
    world
        .text("SELECT id FROM job_dispatch ORDER BY scheduled_for, created_at, id LIMIT 1")
        .await
        .parse()
        .unwrap()
}

async fn waits_of(world: &Fixture, id: DispatchId) -> Vec<Wait> {
    let mut conn = world.conn().await;
    blockers::of_dispatches(&mut conn, TENANT, &[id]).await.unwrap().remove(&id).unwrap_or_default()
}

async fn waits_of_job(world: &Fixture, name: &str) -> Vec<Wait> {
    let mut conn = world.conn().await;
    let job = jobs::by_name(&conn, TENANT, name).await.unwrap().unwrap();
    of_job(&blockers::job_facts(&mut conn, TENANT, &job, LEASE).await.unwrap())
}

fn kinds(waits: &[Wait]) -> Vec<&'static str> {
    waits.iter().map(Wait::as_str).collect()
}

fn sentences(waits: &[Wait]) -> String {
    waits.iter().map(Wait::sentence).collect::<Vec<_>>().join("; ")
}

/// The blockers of a run of `a` after a change; their sentence must contain a word.
#[tokio::test(flavor = "multi_thread")]
async fn each_blocker_of_a_run_is_found() {
    let (future, used) = ("clock_timestamp() + interval '1 hour'", "ARRAY[clock_timestamp()], ARRAY[2]");
    // The leader's treatment of waiting runs of a paused resource.
    let in_line = |table: &str| {
        format!(
            "UPDATE {table} SET is_paused = true; UPDATE job_dispatch SET claimable_at = 'infinity';
             UPDATE scheduled_jobs SET queued_dispatches = 1"
        )
    };
    let table = [
        ("SELECT 1", "turn", "next of its tenant in queue default; 1 worker serves it, 0 of 8 slots busy"),
        ("UPDATE worker_registration SET running = 9, status = 'BUSY'", "turn", "8 of 8 slots busy"),
        ("UPDATE projects SET is_paused = true, pause_reason = 'audit'", "project_paused turn", "project default is paused: audit"),
        ("UPDATE task_functions SET is_paused = true, pause_reason = 'leak'", "function_paused turn", "noop is paused: leak"),
        (&in_line("projects"), "project_paused", "project default is paused"),
        (&in_line("task_functions"), "function_paused", "noop is paused"),
        (
            &format!("{}; UPDATE scheduled_jobs SET max_instances = 1, overlap_policy = 'skip', active_dispatches = 2", in_line("projects")),
            "project_paused overlap",
            "other runs of the job must end first",
        ),
        ("UPDATE tenants SET is_paused = true", "tenant_paused turn", "the tenant is paused"),
        ("UPDATE queues SET is_paused = true, pause_reason = 'disk'", "queue_paused turn", "queue default is paused: disk"),
        ("UPDATE worker_registration SET queues = '{other}'", "no_worker turn", "no living worker serves the queue default"),
        ("UPDATE worker_registration SET status = 'OFFLINE', offline_since = now()", "no_worker turn", "no living worker"),
        ("UPDATE worker_registration SET status = 'DRAINING'", "no_worker turn", "(1 finishes its runs and claims nothing new)"),
        (
            "DELETE FROM worker_registration; INSERT INTO unserved_queues (queue, since) VALUES ('default', '2026-01-01T00:00:00Z')",
            "no_worker turn",
            "serves the queue default since 2026-01-01T00:00:00.000Z",
        ),
        (
            &format!("UPDATE queues SET rate_limit_count = 2, rate_limit_period_seconds = 3600;
                      INSERT INTO queue_usage (tenant_id, queue, claimed_at, claimed) SELECT tenant_id, name, {used} FROM queues"),
            "queue_rate turn",
            "2 of 2 claimed within 3600s; the next may be at",
        ),
        (
            &format!("UPDATE job_dispatch SET available_at = {future}, claimable_at = {future}, attempt = 1, retry_count = 1, error_message = 'exit code 3'"),
            "retry",
            "after: exit code 3",
        ),
        (&format!("UPDATE job_dispatch SET available_at = {future}, claimable_at = {future}"), "not_due", "it is due at"),
        ("UPDATE job_dispatch SET expires_at = now() - interval '1 second'", "expired turn", "and it will expire"),
    ];
    for (change, expected, text) in table {
        let world = Fixture::new().await;
        let job = world.job("a").save().await;
        world.runs(job.id).insert().await;
        world.worker().await;
        world.sql(change).await;
        let waits = waits_of(&world, oldest(&world).await).await;
        assert_eq!(kinds(&waits).join(" "), expected, "{change}");
        assert!(sentences(&waits).contains(text), "{change}: {}", sentences(&waits));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn full_queue_blocks_the_next_run() {
    let world = Fixture::new().await;
    let job = world.job("a").save().await;
    world.runs(job.id).count(3).insert().await;
    world.sql("UPDATE queues SET max_running = 2").await;
    let worker = world.worker().await;
    let queues = [QUEUE.to_owned()];
    let wanted =
        ClaimRequest { worker, queues: &queues, limit: 5, last: TenantId(Uuid::nil()), lease_ms: None };
    let claimed = claims::claim_limited(&mut world.conn().await, &wanted).await.unwrap().claimed;
    assert_eq!(claimed.len(), 2);
    let left = world.text("SELECT id FROM job_dispatch WHERE status = 'PENDING'").await.parse().unwrap();
    let waits = waits_of(&world, left).await;
    assert_eq!(kinds(&waits), ["queue_full", "turn"]);
    assert!(sentences(&waits).starts_with("the queue default is full: 2 of 2 run"), "{}", sentences(&waits));
    assert_eq!(waits_of(&world, claimed[0].dispatch_id).await, [], "a running run does not wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_position_is_counted_up_to_a_thousand() {
    let world = Fixture::new().await;
    let job = world.job("a").save().await;
    world.runs(job.id).count(1_200).insert().await;
    world
        .sql(
            "WITH last AS (SELECT id FROM job_dispatch ORDER BY id DESC LIMIT 1)
             UPDATE job_dispatch d SET priority = 90 FROM last WHERE d.id = last.id;
             WITH first AS (SELECT id FROM job_dispatch ORDER BY id LIMIT 3)
             UPDATE job_dispatch d SET priority = 10 FROM first WHERE d.id = first.id;
             -- Of those that are not due nobody goes before anybody.
             WITH later AS (SELECT id FROM job_dispatch WHERE priority = 10 ORDER BY id LIMIT 1)
             UPDATE job_dispatch d SET claimable_at = now() + interval '1 hour' FROM later WHERE d.id = later.id",
        )
        .await;
    let before = async |query: &str| {
        let id = world.text(&format!("SELECT id FROM job_dispatch WHERE {query}")).await.parse().unwrap();
        let waits = waits_of(&world, id).await;
        let found = waits.iter().find_map(Wait::before).unwrap();
        (found.to_string(), sentences(&waits))
    };
    let last = before("priority = 90").await;
    assert!(last.1.contains("1,000+ of its tenant are before it") || last.0 == "999+", "{last:?}");
    assert!(last.0.ends_with('+'));
    let second = "id = (SELECT id FROM job_dispatch WHERE priority = 50 ORDER BY id OFFSET 1 LIMIT 1)";
    assert_eq!(before(second).await.0, "3", "two of a better priority, one of its own");
}

async fn trigger(world: &Fixture, job: JobId) {
    crate::dispatching::line::trigger(world, job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_run_names_the_open_run() {
    let world = Fixture::new().await;
    world.sql(LEADER).await;
    let job = world.job("a").overlap(OverlapPolicy::Skip).save().await.id;
    for _ in 0..3 {
        trigger(&world, job).await;
    }
    let worker = world.worker().await;
    let run = world.claim(worker, 5).await.pop().unwrap().dispatch_id;
    let last = world
        .text("SELECT id FROM job_dispatch WHERE claimable_at = 'infinity' ORDER BY scheduled_for DESC, id DESC LIMIT 1")
        .await
        .parse()
        .unwrap();
    let waits = waits_of(&world, last).await;
    assert_eq!(kinds(&waits), ["overlap"]);
    assert_eq!(waits[0].dispatches(), [run]);
    assert_eq!(waits[0].before().unwrap().count, 1);
    assert!(sentences(&waits).contains(&format!("run {run} on test since")), "{}", sentences(&waits));
    let waits = waits_of_job(&world, "a").await;
    assert_eq!(kinds(&waits), ["overlap", "fire_time"]);
    assert!(sentences(&waits).starts_with("1 of 1 runs of the job are open (run "), "{}", sentences(&waits));
    assert!(sentences(&waits).contains("a new fire is skipped"), "{}", sentences(&waits));
}

/// The blockers of `a` after a change, beside its next fire.
#[tokio::test(flavor = "multi_thread")]
async fn each_blocker_of_a_job_is_found() {
    let table = [
        ("SELECT 1", "fire_time", "its next fire time is"),
        ("UPDATE scheduled_jobs SET next_run_at = now() - interval '1 minute'", "fire_time", "the leader decides about it"),
        (
            "UPDATE scheduled_jobs SET is_enabled = false, next_run_at = NULL, disabled_reason = 'no such zone'",
            "job_disabled",
            "has no fire times: no such zone",
        ),
        (
            "UPDATE scheduled_jobs SET is_paused = true, pause_reason = 'disk', paused_until = '2999-01-01T00:00:00Z'",
            "job_paused fire_time",
            "paused until 2999-01-01T00:00:00Z; its fires are skipped: disk",
        ),
        ("UPDATE projects SET is_paused = true", "project_paused fire_time", "the project default is paused"),
        ("UPDATE tenants SET is_paused = true", "tenant_paused fire_time", "the tenant is paused"),
        ("UPDATE queues SET is_paused = true", "queue_paused fire_time", "the queue default is paused"),
        ("UPDATE task_functions SET is_active = false", "function_inactive fire_time", "noop is inactive"),
        ("UPDATE task_functions SET is_paused = true, pause_reason = 'leak'", "function_paused fire_time", "noop is paused: leak"),
        ("UPDATE scheduler_instances SET last_heartbeat = now() - interval '1 minute'", "no_leader fire_time", "expired 5"),
        ("DELETE FROM scheduler_instances", "no_leader fire_time", "no scheduler leads"),
        ("DELETE FROM worker_registration", "no_worker fire_time", "no living worker serves the queue default"),
        ("UPDATE scheduled_jobs SET dispatch_lock_until = now() + interval '1 hour'", "held fire_time", "holds the job until"),
        (
            "UPDATE tenants SET quotas = '{\"dispatches_per_minute\": 2}';
             INSERT INTO tenant_usage (tenant_id, minute, dispatched) SELECT id, now() + interval '1 minute', 2 FROM tenants",
            "quota fire_time",
            "the tenant has dispatched 2 of 2 in this minute",
        ),
        (
            "UPDATE tenants SET quotas = '{\"dispatches_per_minute\": 2}';
             INSERT INTO tenant_usage (tenant_id, minute, dispatched) SELECT id, now() - interval '3 minutes', 2 FROM tenants",
            "fire_time",
            "its next fire time is",
        ),
    ];
    for (change, expected, text) in table {
        let world = Fixture::new().await;
        world.job("a").save().await;
        world.worker().await;
        world.sql(LEADER).await;
        world.sql(change).await;
        let waits = waits_of_job(&world, "a").await;
        assert_eq!(kinds(&waits).join(" "), expected, "{change}");
        assert!(sentences(&waits).contains(text), "{change}: {}", sentences(&waits));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calendars_and_dependencies_block_a_job() {
    let world = Fixture::new().await;
    world.worker().await;
    world.sql(LEADER).await;
    world
        .sql(&format!(
            "INSERT INTO calendars (tenant_id, name, definition)
             VALUES ('{TENANT}', 'freeze', jsonb_build_object('windows', jsonb_build_array(jsonb_build_object(
                         'from', to_char(now() AT TIME ZONE 'UTC' - interval '1 hour', 'YYYY-MM-DD\"T\"HH24:MI'),
                         'until', to_char(now() AT TIME ZONE 'UTC' + interval '90 minutes', 'YYYY-MM-DD\"T\"HH24:MI')))))"
        ))
        .await;
    world.job("a").calendar("freeze").save().await;
    let waits = waits_of_job(&world, "a").await;
    assert_eq!(kinds(&waits), ["calendar", "fire_time"], "{}", sentences(&waits));
    assert_eq!(waits[0].until(), waits[1].until(), "the next fire follows an excluded fire");
    let after = vec![After { job: "a".into(), on: AfterCondition::Failure }];
    world.job("b").manual().settings(|settings| settings.after = after).save().await;
    let waits = waits_of_job(&world, "b").await;
    assert_eq!(
        (kinds(&waits), sentences(&waits).as_str()),
        (vec!["dependency"], "other jobs must end first: job a to fail")
    );
    world.sql("UPDATE job_dependencies SET met_at = '2026-01-01T00:00:00Z'").await;
    assert_eq!(sentences(&waits_of_job(&world, "b").await), "other jobs must end first: job a to fail");
    world.sql("UPDATE job_dependencies SET met_by = gen_random_uuid()").await;
    assert!(sentences(&waits_of_job(&world, "b").await).contains("job a has at 2026-01-01T00:00:00.000Z"));
}

#[tokio::test(flavor = "multi_thread")]
async fn dependency_names_the_missing_job_after_each_run() {
    let chain = Chain::with(&[job("a", ""), job("b", ""), job("both", "a b"), job("one", "a")]).await;
    let dependency = async |name: &str| {
        let waits = waits_of_job(&chain.fixture, name).await;
        waits.iter().find(|wait| wait.as_str() == "dependency").map(Wait::sentence).unwrap_or_default()
    };
    let of_one = "other jobs must end first: job a to succeed";
    for round in 0..3 {
        let nothing = dependency("both").await;
        assert_eq!(nothing, "other jobs must end first: job a to succeed and job b to succeed", "{round}");
        assert_eq!(dependency("one").await, of_one, "{round}");
        chain.finish("a", AttemptOutcome::Completed).await;
        chain.follow().await;
        // The run of `one`.
        chain.end(AttemptOutcome::Completed, 1).await;
        assert_eq!(dependency("one").await, of_one, "{round}");
        let half = dependency("both").await;
        assert!(half.starts_with("other jobs must end first: job b to succeed; job a has at "), "{half}");
        chain.finish("b", AttemptOutcome::Completed).await;
        chain.follow().await;
        chain.end(AttemptOutcome::Completed, 1).await;
    }
    assert_eq!(chain.ran().await.matches("both").count(), 3);
}

async fn explained(world: &Fixture, id: DispatchId) -> DispatchRecord {
    let mut conn = world.conn().await;
    let row = dispatches::by_id(&mut conn, TENANT, id).await.unwrap().unwrap();
    history::dispatch(&mut conn, TENANT, &row).await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn replaced_run_names_its_replacement() {
    let world = Fixture::new().await;
    let job = world.job("a").overlap(OverlapPolicy::CancelOldest).save().await.id;
    trigger(&world, job).await;
    let first = oldest(&world).await;
    let room = cancellations::MakeRoom { tenant_id: TENANT, job_id: job, count: 1 };
    cancellations::cancel_oldest(&mut world.conn().await, &[room]).await.unwrap();
    let alone = explained(&world, first).await;
    assert!(alone.successor.is_none() && alone.sentence().contains("cancelled at "), "{}", alone.sentence());
    world
        .sql(&format!(
            "INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, triggered_by, args,
                                       term, scheduler_instance_id)
             SELECT gen_random_uuid(), tenant_id, id, version, clock_timestamp(), now(), now(), '{QUEUE}', 'scheduler', '{{}}', 1, gen_random_uuid()
             FROM scheduled_jobs"
        ))
        .await;
    let second: DispatchId =
        world.text("SELECT id FROM job_dispatch WHERE trigger_id IS NULL").await.parse().unwrap();
    let cancelled = explained(&world, first).await;
    assert_eq!(cancelled.successor.map(|successor| successor.id), Some(second));
    assert!(
        cancelled.sentence().contains(&format!("cancel_oldest): run {second} of ")),
        "{}",
        cancelled.sentence()
    );
    assert!(explained(&world, second).await.sentence().contains("no living worker serves the queue"));
}

#[tokio::test(flavor = "multi_thread")]
async fn overview_names_problems() {
    let world = Fixture::new().await;
    let job = world.job("a").save().await;
    world.job("broken").save().await;
    world.queue("idle").await;
    world.queue("paused").await;
    world.runs(job.id).count(2).insert().await;
    world.sql(LEADER).await;
    world
        .sql(
            "UPDATE queues SET is_paused = true, pause_reason = 'disk' WHERE name = 'paused';
             UPDATE queues SET max_running = 1 WHERE name = 'default';
             UPDATE scheduler_instances SET last_heartbeat = clock_timestamp() - interval '1 minute';
             UPDATE scheduled_jobs SET is_enabled = false, next_run_at = NULL, disabled_reason = 'no such zone', last_fire_at = now()
             WHERE name = 'broken'",
        )
        .await;
    let mut conn = world.conn().await;
    let counts = overview::counts(&mut conn, TENANT, LEASE).await.unwrap();
    assert_eq!((counts.jobs_active, counts.jobs_inactive, counts.jobs_quarantined), (1, 1, 1));
    assert!(matches!(Leadership::of(counts.leader_silence, LEASE), Leadership::Expired { .. }));
    let broken = overview::quarantined(&mut conn, TENANT, 10).await.unwrap();
    assert_eq!((broken.len(), broken[0].name.as_str()), (1, "broken"));
    let queues = overview::waiting(&mut conn, TENANT).await.unwrap();
    let found: Vec<_> = queues
        .iter()
        .map(|one| (one.queue.name.as_str(), one.waiting, one.queue.is_paused, one.queue.workers))
        .collect();
    assert_eq!(
        found,
        [("default", 2, false, 0), ("paused", 0, true, 0)],
        "one that is idle and free is not named"
    );
    assert!(!queues[0].queue.is_full() && queues[0].oldest_claimable_at.is_some());
    world.sql("UPDATE scheduler_instances SET last_heartbeat = clock_timestamp()").await;
    let counts = overview::counts(&mut conn, TENANT, LEASE).await.unwrap();
    assert_eq!(Leadership::of(counts.leader_silence, LEASE), Leadership::Live);
}

#[tokio::test(flavor = "multi_thread")]
async fn built_in_jobs_are_listed_on_request() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    built_in::install(&mut conn).await.unwrap();
    world.job("mine").save().await;
    world.job("sched.mine").function("sched.retention").save().await;
    let names = async |shown| {
        let found =
            jobs::list(&mut world.conn().await, TENANT, &jobs::List { shown, ..jobs::List::default() }, 100)
                .await
                .unwrap();
        found.into_iter().map(|job| job.settings.name).collect::<Vec<_>>()
    };
    assert_eq!(names(Shown::Own).await, ["mine", "sched.mine"]);
    assert_eq!(names(Shown::All).await.len(), 8);
    assert_eq!(overview::counts(&mut conn, TENANT, LEASE).await.unwrap().jobs_quarantined, 0);
}
