//! Guards of the leader: the key of fires, the fence of the term, the compare-and-set of the
//! cursor, the trust in the lease.

use serde_json::{Value, json};
use system_tests::{Installation, PATIENCE, every, shell_jobs};
use test_support::{Proxy, wait_for};

use super::Case;

const COMPLETED: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";

/// A scheduler is in the middle of a tick: it waits to insert dispatches.
const IN_TICK: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sched-scheduler'
    AND wait_event_type = 'Lock' AND query LIKE '-- Runs from the parameters.%'";

/// For a tick that waits longer than leases last.
const PATIENT: (&str, &str) = ("DATABASE_LOCK_TIMEOUT", "20s");

fn pulses(count: usize) -> Value {
    let jobs: Vec<Value> = (0..count).map(|n| every(&format!("job-{n}"), 1)).collect();
    shell_jobs("true", &jobs)
}

/// Sets the cursor of a job behind its last fire, as a careless restore would.
async fn set_back(is_key_dropped: bool) -> Vec<String> {
    let system = Installation::with(1, 1).await;
    let job = json!({"name": "a", "job_type": "interval", "schedule_config": {"seconds": 1}, "overlap_policy": "allow",
                     "misfire_policy": "fire_all", "max_instances": 100});
    system.apply(&shell_jobs("true", &[job])).await;
    system.wait_count("fires", COMPLETED, 3).await;
    if is_key_dropped {
        // Fires have no trigger_id, and NULLs are distinct: this key rejects nothing.
        system
            .execute(
                "ALTER TABLE job_dispatch DROP CONSTRAINT job_dispatch_job_id_scheduled_for_key;
                 CREATE UNIQUE INDEX refuses_nothing ON job_dispatch (job_id, scheduled_for, trigger_id)",
            )
            .await;
    }
    system
        .execute(
            "UPDATE scheduled_jobs j SET next_run_at = d.scheduled_for, settled_until = d.scheduled_for - interval '1 second'
             FROM (SELECT max(scheduled_for) AS scheduled_for FROM job_dispatch) d",
        )
        .await;
    let before = system.count(COMPLETED).await;
    system.wait_count("fires go on", COMPLETED, before + 3).await;
    let broken = system.broken_invariants().await;
    // The test itself wrote the last link of the ledger.
    broken.into_iter().filter(|found| !found.starts_with("2: the ledger")).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn unique_key() {
    let case = Case {
        fence: "unique_key",
        provoked_by: "a cursor set back behind fires that were dispatched",
        finding: "3: no fire time twice",
    };
    case.holds(&set_back(false).await);
    case.is_found(&set_back(true).await);
}

/// A leader freezes in its tick for longer than its lease, then wakes and commits. The trust window,
/// at whose end the leader would drop the tick, is removed in both cases.
async fn commit_late(broken: &str) -> Vec<String> {
    let mut system = Installation::with(0, 1).await;
    system.apply(&pulses(10)).await;
    let first = system.start_scheduler(&[("SCHED_BREAK", broken), PATIENT]).await;
    system.wait_count("fires", COMPLETED, 10).await;
    system.start_scheduler(&[]).await;
    assert_eq!(system.leader().await, first);
    let term = system.term().await;
    let blocker = system.database.client().await;
    blocker.batch_execute("BEGIN; LOCK TABLE job_dispatch IN SHARE ROW EXCLUSIVE MODE").await.unwrap();
    system.wait_count("the leader to be inside its tick", IN_TICK, 1).await;
    system.schedulers[first].pause();
    // With the fence no scheduler takes over during the tick; without it, one does when the lease
    // is over.
    let over = format!(
        "SELECT greatest((SELECT count(*) FROM leader_terms WHERE term > {term}),
            (SELECT count(*) FROM scheduler_instances WHERE is_leader AND last_heartbeat < clock_timestamp() - interval '4 seconds'))"
    );
    system.wait_count("the lease to be over", &over, 1).await;
    system.schedulers[first].resume();
    blocker.batch_execute("ROLLBACK").await.unwrap();
    let (next, _) = system.wait_term_after(term).await;
    let of_next = format!("SELECT count(*) FROM job_dispatch WHERE term = {next}");
    // One fire of each job: without the fence, the counters may show a run that does not exist, and
    // then the job has no room for a second one.
    system.wait_count("dispatches of the next leader", &of_next, 10).await;
    system.broken_invariants().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn leader_term() {
    let case = Case {
        fence: "leader_term",
        provoked_by: "SIGSTOP of the leader inside its tick, past its lease, and SIGCONT",
        finding: "1: no dispatch was committed after the end of its term",
    };
    case.holds(&commit_late("trust_window").await);
    case.is_found(&commit_late("trust_window,leader_term").await);
}

/// Between a leader's read and write of a cursor, another leader decides about the same fires. The
/// row lock that would prevent this is removed in both cases, so that only the compare-and-set
/// remains.
async fn decide_in_between(broken: &str) -> Vec<String> {
    let mut system = Installation::with(0, 0).await;
    system.apply(&pulses(1)).await;
    system.start_scheduler(&[("SCHED_BREAK", broken), PATIENT, ("LEADER_LEASE", "10s")]).await;
    system.wait_count("a fire", "SELECT count(*) FROM scheduled_jobs WHERE fired_count > 0", 1).await;
    // No fire overlaps, because no worker runs, and the skips below have their reason.
    let settings =
        "overlap_policy = 'allow', max_instances = 1000, misfire_policy = 'skip', misfire_grace_seconds = 1";
    system.execute(&format!("UPDATE scheduled_jobs SET {settings}")).await;
    let other = system.database.client().await;
    other.batch_execute("BEGIN; LOCK TABLE job_dispatch IN SHARE ROW EXCLUSIVE MODE").await.unwrap();
    system.wait_count("the leader to be inside its tick", IN_TICK, 1).await;
    let late = "SELECT (next_run_at < clock_timestamp() - interval '3 seconds')::integer FROM scheduled_jobs";
    system.wait_count("three more fires to be due", late, 1).await;
    // The writes of a tick that skips three fires.
    other
        .batch_execute(
            "INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason, follows)
             SELECT tenant_id, id, next_run_at, next_run_at + interval '2 seconds', 3, 'misfire', last_fire_at FROM scheduled_jobs;
             UPDATE scheduled_jobs SET last_fire_at = next_run_at, settled_until = next_run_at + interval '2 seconds',
                                       next_run_at = next_run_at + interval '3 seconds';
             COMMIT",
        )
        .await
        .unwrap();
    let fired = system.count("SELECT fired_count FROM scheduled_jobs").await;
    system.wait_count("fires go on", "SELECT fired_count FROM scheduled_jobs", fired + 3).await;
    system.broken_invariants().await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn cursor_cas() {
    let case = Case {
        fence: "cursor_cas",
        provoked_by: "another leader's skips between a tick's read and write (row lock away in both)",
        // Depending on which statement moves the cursor, fire times have two fates or none.
        finding: "2: ",
    };
    case.holds(&decide_in_between("cursor_lock").await);
    case.is_found(&decide_in_between("cursor_lock,cursor_cas").await);
}

/// The network of the leader is stuck for longer than its lease. The database holds one leader; the
/// schedulers report their own belief.
async fn lose_the_network(broken: &str) -> Vec<String> {
    let mut system = Installation::with(0, 1).await;
    system.apply(&pulses(5)).await;
    let proxy = Proxy::before(system.database.url()).await;
    let first = system.start_scheduler(&[("SCHED_BREAK", broken), ("DATABASE_URL", proxy.url())]).await;
    system.wait_count("fires", COMPLETED, 5).await;
    let second = system.start_scheduler(&[]).await;
    let term = system.term().await;
    proxy.hold();
    system.wait_term_after(term).await;
    let mut found = Vec::new();
    let roles = [system.scheduler_status(first).await, system.scheduler_status(second).await]
        .map(|status| status["role"].clone());
    if roles.iter().all(|role| *role == "leader") {
        found.push(format!("1: two schedulers hold themselves for the leader: [{roles:?}]"));
    }
    proxy.clear();
    wait_for("the first scheduler becomes a standby", PATIENCE, async || {
        let status = system.scheduler_status(first).await;
        if status["role"] == "standby" { Ok(()) } else { Err(status.to_string()) }
    })
    .await;
    found.extend(system.broken_invariants().await);
    found
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn trust_window_of_a_leader() {
    let case = Case {
        fence: "trust_window",
        provoked_by: "a leader whose network is stuck past its lease",
        finding: "1: two schedulers hold themselves for the leader",
    };
    case.holds(&lose_the_network("").await);
    case.is_found(&lose_the_network("trust_window").await);
}
