//! The checker of a whole run can fail: each invariant is broken in a sound run, and the checker
//! must report it.
//!
//! The data of the run itself replaces the oracle and the clients, so that it is sound at first.

use std::collections::BTreeSet;

use serde_json::json;
use system_tests::{Installation, PATIENCE, every, shell_jobs};
use test_support::{OwnServer, wait_for};

/// The data of the oracle, the clients and the timeline.
const SOUND: &str = "
    INSERT INTO run.fires SELECT job_id, scheduled_for, 1, false FROM job_dispatch WHERE trigger_id IS NULL
        UNION SELECT s.job_id, f.at, 1, false FROM skipped_fires s
              CROSS JOIN LATERAL generate_series(s.first_fire_at, s.last_fire_at, interval '1 second') AS f (at) WHERE s.trigger_id IS NULL
        UNION SELECT id, next_run_at, 1, false FROM scheduled_jobs WHERE scope = 'project' AND next_run_at IS NOT NULL;
    INSERT INTO run.quiet SELECT min(next_run_at) FROM scheduled_jobs WHERE scope = 'project'";

/// An invariant, by the beginning of its name, and a statement that breaks it; `{d}` is a dispatch,
/// `{j}` its job.
const DAMAGES: &[(&str, &str)] = &[
    ("2: every fire time of the oracle has exactly", "INSERT INTO run.fires SELECT job_id, scheduled_for + interval '1 ms' FROM job_dispatch WHERE id = '{d}'"),
    ("2: every dispatch of a schedule has a fire time", "DELETE FROM run.fires WHERE (job_id, at) = (SELECT job_id, scheduled_for FROM job_dispatch WHERE id = '{d}')"),
    (
        "2: every skip has the recorded",
        "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason)
         SELECT tenant_id, job_id, scheduled_for, scheduled_for + interval '1 ms', 2, 'misfire' FROM job_dispatch WHERE id = '{d}'",
    ),
    ("2: a fire time is skipped", "UPDATE run.fires SET is_excluded = true WHERE job_id = '{j}'"),
    ("2: fire times are handled at least", "UPDATE run.quiet SET at = at + interval '1 hour'"),
    ("10: next_run_at is the first fire time", "DELETE FROM run.fires f USING scheduled_jobs j WHERE j.id = f.job_id AND f.at = j.next_run_at"),
    (
        "10: a job is disabled only",
        "UPDATE scheduled_jobs SET is_enabled = false, next_run_at = NULL, disabled_reason = 'x' WHERE id = '{j}'",
    ),
    (
        "10: a job is disabled only",
        "UPDATE scheduled_jobs SET is_enabled = false WHERE id = '{j}'; UPDATE scheduled_jobs SET is_enabled = true WHERE id = '{j}'",
    ),
    // A request changed the version, which does not explain the disabling.
    ("10: a job is disabled only", "UPDATE scheduled_jobs SET is_enabled = false, version = version + 1 WHERE id = '{j}'"),
    (
        "8: attempts that ran at the end of the faults",
        "UPDATE job_execution_log SET completed_at = completed_at + interval '1 hour' WHERE dispatch_id = '{d}'",
    ),
    ("2: each end has exactly one dispatch", "DELETE FROM job_dispatch WHERE trigger_id = '{d}'"),
    ("2: each end has exactly one dispatch", "UPDATE job_dispatch SET trigger_id = gen_random_uuid() WHERE trigger_id = '{d}'"),
    (
        "2: each end has exactly one dispatch",
        "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason, trigger_id)
         SELECT tenant_id, job_id, scheduled_for, scheduled_for, 1, 'paused_job', trigger_id FROM job_dispatch WHERE trigger_id = '{d}'",
    ),
    ("8: no dispatch is open at the end", "UPDATE job_dispatch SET status = 'PENDING', completed_at = NULL, available_at = now(), claimable_at = now() WHERE id = '{d}'"),
    ("5: each batch of ends is counted", "DELETE FROM witness.counts WHERE batch_id = (SELECT id FROM run_end_batches LIMIT 1)"),
    ("5: each batch of ends is counted", "INSERT INTO witness.counts SELECT * FROM witness.counts LIMIT 1"),
    ("5: each batch of ends is counted", "DELETE FROM run_end_batches WHERE '{d}' = ANY (dispatch_ids)"),
    (
        "5: no end and no opened run waits",
        "INSERT INTO uncounted_ends (tenant_id, transaction_id, batch_id, created_at)
         SELECT tenant_id, transaction_id, id, created_at FROM run_end_batches LIMIT 1",
    ),
    (
        "5: no end and no opened run waits",
        "INSERT INTO uncounted_openings (tenant_id, job_id, opened, opened_at) SELECT tenant_id, id, 1, now() FROM scheduled_jobs WHERE id = '{j}'",
    ),
    ("5: total_run_count is the number", "UPDATE scheduled_jobs SET total_run_count = total_run_count - 1 WHERE id = '{j}'"),
    ("5: last_run_at is the begin", "UPDATE scheduled_jobs SET last_run_at = last_run_at - interval '1 ms' WHERE id = '{j}'"),
    ("5: last_run_at is the begin", "UPDATE scheduled_jobs SET last_run_at = NULL WHERE id = '{j}'"),
    ("11: every accepted trigger is a dispatch", "INSERT INTO run.answers (action, status, id, key) VALUES ('trigger', 202, '{d}', 'k')"),
    (
        "11: one key is one dispatch",
        "INSERT INTO run.answers (action, status, id, key) VALUES ('trigger', 202, gen_random_uuid(), 'k'), ('trigger', 202, gen_random_uuid(), 'k')",
    ),
    ("11: every job with an accepted", "INSERT INTO run.answers (action, status, id, target) VALUES ('create', 201, '{j}', 'another')"),
    ("11: every version in the answer", "INSERT INTO run.answers (action, status, id, version) VALUES ('change', 200, '{j}', 99)"),
    ("11: every accepted manifest is in effect", "INSERT INTO run.answers (action, status, target, state) VALUES ('apply', 200, 'a', '{\"seconds\": 7}')"),
    ("11: every run that an answer calls cancelled", "INSERT INTO run.answers (action, id, state) VALUES ('cancel', '{d}', 'cancelled')"),
    ("11: every retried dead letter names", "INSERT INTO run.answers (action, status, id, target) VALUES ('retry', 202, gen_random_uuid(), '{d}')"),
    ("12: no answer contains data", "INSERT INTO run.answers (action, status, state, is_foreign) VALUES ('peek', 200, 'items', true)"),
    // The status 403 reveals that the resource exists.
    ("12: no answer contains data", "INSERT INTO run.answers (action, status, state, is_foreign) VALUES ('peek', 403, 'foreign', false)"),
    ("12: dispatches, attempts and skips", "UPDATE job_execution_log SET tenant_id = gen_random_uuid() WHERE dispatch_id = '{d}'"),
    (
        "1: no two schedulers reported leadership",
        "INSERT INTO run.answers (at, action, target, state, is_foreign) VALUES (now(), 'roles', '[1, 2]', 'scheduler-0,scheduler-1', true)",
    ),
    ("8: attempts are lost only", "{lost}"),
    // Another worker was killed, this one was killed long before, and a clock is no cause.
    ("8: attempts are lost only", "{lost}; {fault}'kill', 'worker-1', l.started_at, l.started_at FROM run.lost l"),
    ("8: attempts are lost only", "{lost}; {fault}'kill', 'worker-0', l.started_at - interval '1 minute', l.started_at - interval '50 seconds' FROM run.lost l"),
    ("8: attempts are lost only", "{lost}; {fault}'clock', 'worker-0', l.started_at, l.started_at FROM run.lost l"),
    ("8: attempts are lost only", "{lost}; {fault}'pooler', 'pgbouncer', l.started_at, l.started_at FROM run.lost l"),
    (
        "8: a draining worker claims nothing",
        "INSERT INTO run.faults (kind, target, began, ended, process)
         SELECT 'drain', 'worker-0', t.at - interval '1 second', t.at + interval '1 second', w.process_id
         FROM witness.transitions t JOIN witness.workers w ON w.worker_id = t.worker_id WHERE t.dispatch_id = '{d}' AND t.became = 'IN_PROGRESS'",
    ),
    ("events: a follower of the stream", "INSERT INTO run.stream (message, position) VALUES ('open', '0.0.0.0'), ('until', '0.ffffffff.ffffffff.0')"),
    ("events: a follower gets no", "INSERT INTO run.stream (message, position, event_type) VALUES ('event', '0.1.1.0', 'x')"),
    ("events: a follower gets them in the order", "INSERT INTO run.stream (message, position, event_type) VALUES ('event', '0.2.1.0', 'x'), ('event', '0.1.1.0', 'x')"),
    ("events: the stream has one start", "DELETE FROM run_start_batches WHERE '{d}' = ANY (dispatch_ids)"),
    (
        "events: the stream has one start",
        "UPDATE run_start_batches SET attempts[array_position(dispatch_ids, '{d}')] = 7 WHERE '{d}' = ANY (dispatch_ids)",
    ),
    ("events: the stream has one end", "DELETE FROM run_end_batches WHERE '{d}' = ANY (dispatch_ids)"),
    (
        "events: the stream has one end",
        "UPDATE run_end_batches SET outcomes[array_position(dispatch_ids, '{d}')] = 'FAILED' WHERE '{d}' = ANY (dispatch_ids)",
    ),
    ("events: the stream has one loss", "UPDATE job_execution_log SET status = 'LOST' WHERE dispatch_id = '{d}'"),
    ("events: the stream has one loss", "{loss}"),
    ("events: the stream has one loss", "{lost}; {loss}"),
    (
        "events: the start of an attempt precedes",
        "UPDATE run_start_batches SET transaction_id = (transaction_id::text::bigint + 1000000)::text::xid8 WHERE '{d}' = ANY (dispatch_ids)",
    ),
    (
        "events: the start of an attempt precedes",
        "{lost}; UPDATE run_start_batches SET transaction_id = (transaction_id::text::bigint + 1000000)::text::xid8 WHERE '{d}' = ANY (dispatch_ids)",
    ),
    ("events: the stream continues", "INSERT INTO run.stream (message) VALUES ('reset')"),
];

/// Attempts that were lost for a valid reason.
const NO_DAMAGES: &[&str] = &[
    "{lost}; {fault}'kill', 'worker-0', l.completed_at, l.completed_at + interval '1 second' FROM run.lost l",
    "{lost}; {fault}'crash', 'postgres', l.started_at - interval '9 seconds', l.started_at - interval '8 seconds' FROM run.lost l",
    "{lost}; INSERT INTO run.pooled VALUES ('worker-0'); {fault}'pooler', 'pgbouncer', l.started_at, l.started_at FROM run.lost l",
];

const LOST: &str = "UPDATE job_execution_log SET status = 'LOST' WHERE dispatch_id = '{d}'; {loss};
    UPDATE run_end_batches SET outcomes[array_position(dispatch_ids, '{d}')] = 'LOST' WHERE '{d}' = ANY (dispatch_ids);
    INSERT INTO run.faults (kind, target, began, ended, process)
    SELECT 'start', 'worker-0', l.started_at - interval '1 hour', l.started_at - interval '1 hour', l.process_id FROM run.lost l";
const LOSS: &str = "INSERT INTO events (tenant_id, project_id, job_id, dispatch_id, event_type, payload)
    SELECT tenant_id, project_id, job_id, dispatch_id, 'schedule_execution_lost', jsonb_build_object('attempt', attempt)
    FROM job_execution_log WHERE dispatch_id = '{d}'";
const FAULT: &str = "INSERT INTO run.faults (kind, target, began, ended) SELECT ";

/// Each damage is rolled back, so the next one finds a sound run.
#[tokio::test(flavor = "multi_thread")]
async fn checks_of_a_finished_run_can_fail_each_of_them() {
    let mut system = Installation::with(1, 1).await;
    let after =
        json!({"name": "b", "job_type": "manual", "after": [{"job": "a"}], "overlap_policy": "queue"});
    system.apply(&shell_jobs("true", &[every("a", 1), after])).await;
    let ended =
        "SELECT count(*) FROM job_dispatch WHERE triggered_by = 'dependency' AND status = 'COMPLETED'";
    system.wait_count("runs after others", ended, 3).await;
    system
        .execute("UPDATE scheduled_jobs SET is_paused = true, pause_reason = 'the end' WHERE name = 'a'")
        .await;
    let settled = "SELECT (NOT EXISTS (SELECT FROM job_dispatch WHERE completed_at IS NULL) AND NOT EXISTS (SELECT FROM job_ends)
        AND NOT EXISTS (SELECT FROM uncounted_ends) AND NOT EXISTS (SELECT FROM uncounted_openings))::integer";
    system.wait_count("everything to end", settled, 1).await;
    for mut process in system.schedulers.drain(..).chain(system.workers.drain(..)) {
        process.pause();
        process.kill9().await;
    }
    system.prepare_run().await;
    system.execute(SOUND).await;
    assert_eq!(system.broken_of_run().await, [""; 0]);
    let dispatch = "SELECT d.id::text, d.job_id::text FROM job_dispatch d JOIN job_dispatch b ON b.trigger_id = d.id ORDER BY d.scheduled_for LIMIT 1";
    let row = system.database.client().await.query_one(dispatch, &[]).await.unwrap();
    let (dispatch, job): (String, String) = (row.get(0), row.get(1));
    let statement = |damage: &str| {
        let damage = damage.replace("{lost}", LOST).replace("{loss}", LOSS).replace("{fault}", FAULT);
        format!("BEGIN; {}", damage.replace("{d}", &dispatch).replace("{j}", &job))
    };
    let mut shown = BTreeSet::new();
    for (invariant, damage) in DAMAGES {
        system.execute(&statement(damage)).await;
        let broken = system.broken_of_run().await;
        assert!(
            broken.iter().any(|found| found.starts_with(invariant)),
            "{invariant} was not found among {broken:#?} after {damage}"
        );
        shown
            .extend(Installation::invariants_of_run().into_iter().filter(|name| name.starts_with(invariant)));
        system.execute("ROLLBACK").await;
    }
    for damage in NO_DAMAGES {
        system.execute(&statement(damage)).await;
        assert_eq!(system.broken_of_run().await, [""; 0], "{damage}");
        system.execute("ROLLBACK").await;
    }
    let all: BTreeSet<&str> = Installation::invariants_of_run().into_iter().collect();
    let never: Vec<&&str> = all.difference(&shown).collect();
    assert!(never.is_empty(), "nothing shows that these checks can fail: {never:#?}");
}

/// A skip is checked against the switches that its tick could see. A switch committed during the
/// tick may have been seen or not, whenever it was written. A switch committed a second before the
/// tick was seen.
#[tokio::test(flavor = "multi_thread")]
async fn checks_of_skips_excuse_a_switch_for_a_second_after_its_commit_and_no_longer() {
    let mut server = OwnServer::start().await;
    let database = server.database().await;
    let admin = database.client().await;
    admin.batch_execute("ALTER SYSTEM SET track_commit_timestamp = on").await.unwrap();
    server.restart_in_order().await;
    let system = Installation::on(database).await;
    system.execute("CREATE TABLE switches (id integer GENERATED ALWAYS AS IDENTITY)").await;
    let latest = "FROM switches ORDER BY id DESC LIMIT 1";
    let written_long_ago =
        format!("SELECT witness.may_be_new(xmin, now() - interval '1 hour')::integer {latest}");
    wait_for("a switch of a moment ago to be excused", PATIENCE, async || {
        system.execute("INSERT INTO switches DEFAULT VALUES").await;
        let is_excused = system.count(&written_long_ago).await == 1;
        is_excused.then_some(()).ok_or_else(|| "it was not".to_owned())
    })
    .await;
    let is_old =
        format!("SELECT (now() - pg_xact_commit_timestamp(xmin) > interval '1 second')::integer {latest}");
    system.wait_count("that commit to be a second old", &is_old, 1).await;
    let written_now = format!("SELECT witness.may_be_new(xmin, now())::integer {latest}");
    assert_eq!(system.count(&written_now).await, 0, "the time of the commit counts");

    // Without commit timestamps, the time of the write counts.
    let system = Installation::new().await;
    for (age, is_excused) in [("1 second", 1), ("1001 milliseconds", 0)] {
        let asked = format!("SELECT witness.may_be_new('3', now() - interval '{age}')::integer");
        assert_eq!(system.count(&asked).await, is_excused, "{age}");
    }
}
