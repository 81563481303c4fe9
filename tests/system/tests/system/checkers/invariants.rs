//! The checker of the invariants can fail: each invariant is broken behind the product's back, and
//! the checker must report it.
//!
//! Where SQL can do it, guards are removed beneath the running programs. Each invariant has at
//! least one row that breaks it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use system_tests::{Installation, every, shell_jobs};

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

fn is_among(name: &str, broken: &[String]) -> bool {
    broken.iter().any(|found| found.starts_with(name))
}

/// Without the fence and the election there are two leaders at once. The checker finds only their
/// terms: the unique key and the compare-and-set still keep every fire single.
#[tokio::test(flavor = "multi_thread")]
async fn failover_without_a_fence_is_found_and_still_doubles_no_fire() {
    let mut system = Installation::with(0, 1).await;
    let jobs: Vec<Value> = (0..20).map(|n| every(&format!("job-{n}"), 1)).collect();
    system.apply(&shell_jobs("true", &jobs)).await;
    let apart = "CREATE SCHEMA apart; CREATE TABLE apart.scheduler_instances (LIKE public.scheduler_instances INCLUDING ALL);
                 GRANT USAGE ON SCHEMA apart TO PUBLIC; GRANT ALL ON apart.scheduler_instances TO PUBLIC";
    system.execute(apart).await;
    let one_by_one = ("SCHEDULER_BATCH_SIZE", "1");
    system.start_scheduler(&[one_by_one]).await;
    // The second scheduler sees a separate table: no other leader, and no fence for which another
    // session would wait.
    let apart = format!("{}?options=-csearch_path%3Dapart,public", system.database.url());
    system.start_scheduler(&[one_by_one, ("DATABASE_URL", &apart)]).await;
    let busy = "SELECT count(*) FROM (SELECT term FROM job_dispatch GROUP BY term HAVING count(*) >= 20) t";
    system.wait_count("two leaders at work", busy, 2).await;
    assert_eq!(system.count("SELECT count(*) FROM leader_terms WHERE ended_at IS NULL").await, 2);
    let broken = system.broken_invariants().await;
    assert!(is_among("1: terms never overlap", &broken), "{broken:#?}");
    let others: Vec<&String> = broken.iter().filter(|found| !found.starts_with("1: ")).collect();
    assert!(others.is_empty(), "fires must stay single without leadership: {others:#?}");
}

/// With the unique key, a cursor that is set back does nothing; without it, fires are doubled and
/// found.
#[tokio::test(flavor = "multi_thread")]
async fn failover_without_the_unique_key_is_found() {
    const DOUBLED: &str = "3: no fire time twice";
    let system = Installation::with(1, 1).await;
    let job = json!({"name": "a", "job_type": "interval", "schedule_config": {"seconds": 1}, "overlap_policy": "allow",
                     "misfire_policy": "fire_all", "max_instances": 100});
    system.apply(&shell_jobs("true", &[job])).await;
    system.wait_count("fires", COMPLETED, 3).await;
    let set_back = "UPDATE scheduled_jobs j SET next_run_at = d.scheduled_for, settled_until = d.scheduled_for - interval '1 second'
                    FROM (SELECT max(scheduled_for) AS scheduled_for FROM job_dispatch) d";
    system.execute(set_back).await;
    let before = system.count(COMPLETED).await;
    system.wait_count("fires go on", COMPLETED, before + 2).await;
    let broken = system.broken_invariants().await;
    assert!(!is_among(DOUBLED, &broken), "the unique key did not hold: {broken:#?}");

    // Fires have no trigger_id, and NULLs are distinct: this key rejects nothing.
    system
        .execute(
            "ALTER TABLE job_dispatch DROP CONSTRAINT job_dispatch_job_id_scheduled_for_key;
             CREATE UNIQUE INDEX refuses_nothing ON job_dispatch (job_id, scheduled_for, trigger_id)",
        )
        .await;
    system.execute(set_back).await;
    let doubled = "SELECT count(*) - count(DISTINCT scheduled_for) FROM job_dispatch";
    system.wait_count("a doubled fire", doubled, 1).await;
    let broken = system.broken_invariants().await;
    assert!(is_among(DOUBLED, &broken), "{broken:#?}");
}

/// Damages to a sound history, and the expected findings. `{d}` is a completed dispatch, `{j}` its
/// job.
const DAMAGES: &[(&str, &str)] = &[
    // The write of a deposed leader.
    (
        "1: no dispatch was committed after the end of its term",
        "INSERT INTO leader_terms (term, instance_id, hostname, pid, started_at, ended_at, end_reason)
         VALUES (-1, gen_random_uuid(), 'x', 1, now() - interval '2 hours', now() - interval '1 hour', 'expired');
         SET CONSTRAINTS ALL IMMEDIATE;
         INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, args, triggered_by,
                                   scheduler_instance_id, term)
         SELECT gen_random_uuid(), tenant_id, job_id, job_version, scheduled_for - interval '1 day', now(), now(), queue, args, 'scheduler',
                scheduler_instance_id, -1
         FROM job_dispatch WHERE id = '{d}'",
    ),
    (
        "1: no record of a skip was committed after the end of its term",
        "INSERT INTO leader_terms (term, instance_id, hostname, pid, started_at, ended_at, end_reason)
         VALUES (-1, gen_random_uuid(), 'x', 1, now() - interval '2 hours', now() - interval '1 hour', 'expired');
         INSERT INTO skipped_fires (term, tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason)
         SELECT -1, tenant_id, job_id, now(), now(), 1, 'misfire' FROM job_dispatch WHERE id = '{d}';
         SET CONSTRAINTS ALL IMMEDIATE",
    ),
    (
        "1: no dispatch is older than its term",
        "UPDATE job_dispatch SET created_at = (SELECT min(started_at) FROM leader_terms) - interval '1 second' WHERE id = '{d}'",
    ),
    (
        "1: terms never overlap",
        "INSERT INTO leader_terms (term, instance_id, hostname, pid, started_at)
         SELECT max(term) + 1, gen_random_uuid(), 'x', 1, now() FROM leader_terms",
    ),
    (
        "1: terms begin in the order",
        "INSERT INTO leader_terms (term, instance_id, hostname, pid, started_at, ended_at, end_reason)
         SELECT max(term) + 1, gen_random_uuid(), 'x', 1, now() - interval '2 days', now() - interval '1 day', 'expired' FROM leader_terms",
    ),
    ("1: the open term is the leader's", "UPDATE leader_terms SET ended_at = now(), end_reason = 'expired'"),
    (
        "1: every dispatch of the schedule has an existing",
        "UPDATE job_dispatch SET scheduler_instance_id = gen_random_uuid() WHERE id = '{d}'",
    ),
    (
        "6: exactly the exhausted dispatches",
        "INSERT INTO dead_letters (dispatch_id, tenant_id, job_id, queue, died_at)
         SELECT id, tenant_id, job_id, queue, now() FROM job_dispatch WHERE id = '{d}'",
    ),
    // A blind write in place of the compare-and-set skips undispatched fires.
    (
        "2: every fire time up to settled_until",
        "UPDATE scheduled_jobs SET next_run_at = settled_until + interval '11 seconds', settled_until = settled_until + interval '10 seconds'
         WHERE id = '{j}'",
    ),
    (
        "2: settled_until is directly before",
        "UPDATE scheduled_jobs SET next_run_at = settled_until + interval '10 seconds' WHERE id = '{j}'",
    ),
    (
        "2: no fire time has both",
        "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason)
         SELECT tenant_id, job_id, scheduled_for, scheduled_for, 1, 'misfire' FROM job_dispatch WHERE id = '{d}'",
    ),
    // Skips with a false reason: the job was not paused, had no open dispatch, was not late,
    // excludes nothing, continues.
    ("2: the reason of every skip was true", "{skip}'paused_job'{end}"),
    ("2: the reason of every skip was true", "UPDATE scheduled_jobs SET max_instances = 50 WHERE id = '{j}'; {skip}'overlap'{end}"),
    ("2: the reason of every skip was true", "{skip}'misfire'{end}"),
    ("2: the reason of every skip was true", "{skip}'disabled'{end}"),
    ("2: the reason of every skip was true", "{skip}'calendar'{end}"),
    ("2: the reason of every skip was true", "{skip}'quota'{end}"),
    ("2: the reason of every skip was true", "{skip}'ended'{end}"),
    ("2: the reason of every skip was true", "{skip}'paused_queue'{end}"),
    ("2: the reason of every skip was true", "{skip}'dst_suppressed'{end}"),
    (
        "3: no fire time twice",
        "ALTER TABLE job_dispatch DROP CONSTRAINT job_dispatch_job_id_scheduled_for_key;
         UPDATE job_dispatch SET scheduled_for = (SELECT scheduled_for FROM job_dispatch WHERE id = '{d}') WHERE job_id = '{j}'",
    ),
    ("3: no claim token twice", "UPDATE job_execution_log SET claim_token = 1"),
    ("3: attempts are 1..n", "UPDATE job_execution_log SET attempt = 2 WHERE dispatch_id = '{d}'"),
    // The count equals the last number, but there is a gap: 1, 1, 3.
    (
        "3: attempts are 1..n",
        "INSERT INTO job_execution_log SELECT (jsonb_populate_record(l, jsonb_build_object('id', gen_random_uuid(), 'attempt', n.n, 'claim_token', -n.n))).*
         FROM job_execution_log l, (VALUES (1), (3)) n (n) WHERE l.dispatch_id = '{d}';
         UPDATE job_dispatch SET attempt = 3 WHERE id = '{d}'",
    ),
    (
        "4: attempts of a dispatch do not overlap",
        "UPDATE job_execution_log SET dispatch_id = '{d}', attempt = 2
         WHERE (id, started_at) = (SELECT id, started_at FROM job_execution_log WHERE dispatch_id <> '{d}' ORDER BY started_at DESC LIMIT 1);
         UPDATE job_execution_log SET completed_at = now() + interval '1 hour' WHERE dispatch_id = '{d}' AND attempt = 1",
    ),
    ("5: active_dispatches", "UPDATE scheduled_jobs SET active_dispatches = active_dispatches + 1 WHERE id = '{j}'"),
    (
        "6: every transition is legal",
        "UPDATE job_dispatch SET status = 'FAILED' WHERE id = '{d}'",
    ),
    (
        "6: each transition begins",
        "INSERT INTO witness.transitions (dispatch_id, was, became) VALUES ('{d}', 'PENDING', 'IN_PROGRESS')",
    ),
    ("6: the state of a dispatch", "UPDATE job_execution_log SET status = 'FAILED' WHERE dispatch_id = '{d}'"),
    ("7: COMPLETED has exactly", "DELETE FROM job_execution_log WHERE dispatch_id = '{d}'"),
    (
        "8: every running dispatch is named",
        "UPDATE job_dispatch SET status = 'IN_PROGRESS', completed_at = NULL WHERE id = '{d}'",
    ),
    // It ran without a claim, and has ended.
    (
        "8: every running dispatch is named",
        "UPDATE job_dispatch SET status = 'IN_PROGRESS', completed_at = NULL WHERE id = '{d}';
         SET CONSTRAINTS ALL IMMEDIATE;
         UPDATE job_dispatch SET status = 'COMPLETED', completed_at = now() WHERE id = '{d}'",
    ),
    (
        "9: never more attempts",
        "UPDATE job_execution_log SET dispatch_id = '{d}', attempt = 10 + extract(microsecond FROM started_at)::integer",
    ),
    (
        "9: no retry before",
        "UPDATE job_execution_log SET status = 'FAILED' WHERE dispatch_id = '{d}';
         UPDATE job_execution_log l SET dispatch_id = '{d}', attempt = 2, started_at = a.completed_at + interval '1 second'
         FROM (SELECT * FROM job_execution_log WHERE dispatch_id = '{d}') a
         WHERE (l.id, l.started_at) = (SELECT id, started_at FROM job_execution_log WHERE dispatch_id <> '{d}' ORDER BY started_at DESC LIMIT 1)",
    ),
    ("2: the ledger has no gap", "DELETE FROM job_dispatch WHERE id = '{d}'"),
    (
        "5: queued_dispatches is the number",
        "UPDATE scheduled_jobs SET active_dispatches = 1, queued_dispatches = 1 WHERE id = '{j}'",
    ),
    (
        "5: max_instances is never exceeded",
        "UPDATE job_execution_log SET completed_at = completed_at + interval '1 hour' WHERE dispatch_id = '{d}'",
    ),
    (
        "5: max_running of a queue is never exceeded",
        "UPDATE queues SET max_running = 1, updated_at = '2000-01-01';
         UPDATE job_execution_log SET completed_at = completed_at + interval '1 hour' WHERE dispatch_id = '{d}'",
    ),
    ("max_runs:", "UPDATE scheduled_jobs SET fired_count = fired_count + 1 WHERE id = '{j}'"),
    (
        "jitter:",
        "UPDATE job_dispatch SET available_at = scheduled_for - interval '1 second' WHERE id = '{d}'",
    ),
    ("10: the cursor", "UPDATE scheduled_jobs SET next_run_at = NULL WHERE id = '{j}'"),
    // The triggers that keep the versions of runs do not fire.
    (
        "11: every dispatch has its arguments",
        "SET LOCAL session_replication_role = replica; DELETE FROM scheduled_job_versions WHERE job_id = '{j}'",
    ),
];

/// Replaces a dispatch in the ledger by a skip, with the reason that follows.
const SKIP: &str = "CREATE TEMPORARY TABLE gone ON COMMIT DROP AS SELECT tenant_id, job_id, clock_timestamp() - interval '1 second' AS at FROM job_dispatch
     WHERE id = '{d}';
     INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason) SELECT tenant_id, job_id, at, at, 1, ";

/// Each damage is rolled back, so the next one finds a sound history.
#[tokio::test(flavor = "multi_thread")]
async fn failover_checks_can_fail_each_of_them() {
    let mut system = Installation::with(1, 1).await;
    system.apply(&shell_jobs("true", &[every("a", 1)])).await;
    system.wait_count("runs", COMPLETED, 5).await;
    // No process may write during the damages.
    for mut process in system.schedulers.drain(..).chain(system.workers.drain(..)) {
        process.pause();
        process.kill9().await;
    }
    system.check_invariants().await;
    let dispatch = "SELECT id::text, job_id::text FROM job_dispatch WHERE status = 'COMPLETED' ORDER BY scheduled_for OFFSET 2 LIMIT 1";
    let row = system.database.client().await.query_one(dispatch, &[]).await.unwrap();
    let (dispatch, job): (String, String) = (row.get(0), row.get(1));
    let mut shown = BTreeSet::new();
    for (invariant, damage) in DAMAGES {
        // Constraints and triggers at commit are executed at once.
        let damage =
            damage.replace("{skip}", SKIP).replace("{end}", " FROM gone; SET CONSTRAINTS ALL IMMEDIATE");
        let damage = damage.replace("{d}", &dispatch).replace("{j}", &job);
        system.execute(&format!("BEGIN; {damage}")).await;
        let broken = system.broken_invariants().await;
        assert!(is_among(invariant, &broken), "{invariant} was not found among {broken:#?}");
        shown.extend(Installation::invariants().into_iter().filter(|name| name.starts_with(invariant)));
        system.execute("ROLLBACK").await;
        system.check_invariants().await;
    }
    let all: BTreeSet<&str> = Installation::invariants().into_iter().collect();
    let never: Vec<&&str> = all.difference(&shown).collect();
    assert!(never.is_empty(), "nothing shows that these checks can fail: {never:#?}");
}
