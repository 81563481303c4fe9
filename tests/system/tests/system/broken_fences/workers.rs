//! Guards of the worker: the status check of a claim, the token of an attempt's writes, the end of
//! work after a lost lease, and the end of work at its time-out.

use serde_json::json;
use system_tests::{Effects, Frozen, Installation, PATIENCE, manual, retried, shell_jobs};
use test_support::{Proxy, wait_for};

use super::Case;

const COMPLETED: &str = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'";
const LOST: &str = "SELECT count(*) FROM job_execution_log WHERE status = 'LOST'";
const REFUSED: &str = "results rejected because their claims were taken away";
const KILLED: &str = "killed attempt";

/// Waits until one of two workers has ended its lost work: by itself with a rejected report, or
/// after a heartbeat.
async fn loser_ended(system: &Installation) {
    wait_for("one of them to be refused or killed", PATIENCE, async || {
        let logs = [system.workers[0].stderr(), system.workers[1].stderr()];
        let has_ended = logs.iter().any(|log| log.contains(REFUSED) || log.contains(KILLED));
        if has_ended { Ok(()) } else { Err(logs.join("\n")) }
    })
    .await;
}

/// Two workers claim the same dispatch: both select it before either writes. The turn
/// and the lock that would keep one from it are removed in both cases, so that only the status
/// check remains.
async fn claim_at_once(broken: &str) -> Vec<String> {
    let mut system = Installation::with(1, 0).await;
    let effects = Effects::new();
    system.apply(&shell_jobs(&effects.command("work=10"), &[manual("contended")])).await;
    let eager = [
        ("SCHED_BREAK", broken),
        ("WORKER_POLL_INTERVAL", "200ms"),
        ("WORKER_MAX_POLL_INTERVAL", "200ms"),
        ("DATABASE_LOCK_TIMEOUT", "20s"),
        ("WORKER_OFFLINE_THRESHOLD", "30s"),
    ];
    system.start_worker(&eager).await;
    system.start_worker(&eager).await;
    system.execute("UPDATE queues SET is_paused = true").await;
    system.trigger("contended").await;
    let holder = system.database.client().await;
    holder.batch_execute("BEGIN; SELECT FROM job_dispatch FOR UPDATE").await.unwrap();
    system.execute("UPDATE queues SET is_paused = false").await;
    let both = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sched-worker'
                AND wait_event_type = 'Lock'";
    system.wait_count("two claims of one dispatch", both, 2).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
    system.wait_count("the run", COMPLETED, 1).await;
    // Two without the guard.
    let claims = usize::try_from(system.count("SELECT sum(attempt) FROM job_dispatch").await).unwrap();
    effects.wait("begin", claims).await;
    if claims > 1 {
        loser_ended(&system).await;
    }
    system.broken_with_effects(&effects, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn claim_status() {
    let case = Case {
        fence: "claim_status",
        provoked_by: "two workers that pick the same dispatch before either writes (turn and row lock away in both)",
        finding: "effects: two effects of one dispatch overlap",
    };
    case.holds(&claim_at_once("claim_turn,claim_lock").await);
    case.is_found(&claim_at_once("claim_turn,claim_lock,claim_status").await);
}

/// Two workers claim from a queue with a limit of one: each is held in its claim until the other
/// has come.
async fn claim_under_a_limit(broken: &str) -> Vec<String> {
    let mut system = Installation::with(1, 0).await;
    let effects = Effects::new();
    system.apply(&shell_jobs(&effects.command("work=10"), &[manual("one"), manual("other")])).await;
    system
        .execute(
            "UPDATE queues SET max_running = 1, rate_limit_count = 100, rate_limit_period_seconds = 60, is_paused = true,
                               updated_at = clock_timestamp()",
        )
        .await;
    // The first claim inserts this row, and other claims would wait for it.
    system.execute("INSERT INTO queue_usage (tenant_id, queue) SELECT tenant_id, name FROM queues").await;
    let eager = [
        ("SCHED_BREAK", broken),
        ("WORKER_POLL_INTERVAL", "200ms"),
        ("WORKER_MAX_POLL_INTERVAL", "200ms"),
        ("WORKER_CONCURRENCY", "1"),
        ("DATABASE_LOCK_TIMEOUT", "20s"),
        ("WORKER_OFFLINE_THRESHOLD", "30s"),
    ];
    system.start_worker(&eager).await;
    system.start_worker(&eager).await;
    system.trigger("one").await;
    system.trigger("other").await;
    let holder = system.database.client().await;
    // The first lock of a claim. Without the guard it is the last write, for the rate, after the
    // count of running dispatches.
    holder.batch_execute("BEGIN; SELECT FROM queue_usage FOR UPDATE").await.unwrap();
    system.execute("UPDATE queues SET is_paused = false").await;
    // A part of claims_limited_lock.sql, or of the beginning of claim_limited.sql.
    let held = if broken.is_empty() { "FOR UPDATE OF u" } else { "$3::uuid[] AS tenants" };
    let both = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'sched-worker'
         AND wait_event_type = 'Lock' AND position('{held}' IN query) > 0"
    );
    system.wait_count("two claims from one queue", &both, 2).await;
    holder.batch_execute("ROLLBACK").await.unwrap();
    system.wait_count("the runs", COMPLETED, 2).await;
    system.broken_with_effects(&effects, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn limit_lock() {
    let case = Case {
        fence: "limit_lock",
        provoked_by: "two workers that claim at once from a queue in which one may run",
        finding: "5: max_running of a queue is never exceeded",
    };
    case.holds(&claim_under_a_limit("").await);
    case.is_found(&claim_under_a_limit("limit_lock").await);
}

/// The network of a worker is stuck when its work ends, and works again during the second attempt:
/// the first result comes late.
async fn report_late(broken: &str) -> Vec<String> {
    let mut system = Installation::with(1, 0).await;
    let effects = Effects::new();
    let work = effects.command("case $SCHED_ATTEMPT in 1) work=5 ;; *) work=40 ;; esac");
    system.apply(&shell_jobs(&work, &[retried("late")])).await;
    let proxy = Proxy::before(system.database.url()).await;
    system.start_worker(&[("SCHED_BREAK", broken), ("DATABASE_URL", proxy.url())]).await;
    system.trigger("late").await;
    effects.wait("begin", 1).await;
    proxy.hold();
    system.start_worker(&[]).await;
    effects.wait("begin", 2).await;
    proxy.clear();
    loser_ended(&system).await;
    if broken.is_empty() {
        effects.wait("end", 2).await;
    }
    system.wait_count("the end", COMPLETED, 1).await;
    system.broken_with_effects(&effects, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn claim_token() {
    let case = Case {
        fence: "claim_token",
        provoked_by: "a worker whose network is stuck when its work ends, and fair during the next attempt",
        // The first result is taken for that of the second attempt, which continues.
        finding: "effects: an attempt is COMPLETED without a complete effect",
    };
    case.holds(&report_late("").await);
    case.is_found(&report_late("claim_token").await);
}

/// A worker is frozen past its lease while its child continues, and wakes during the second attempt
/// on another worker.
async fn freeze_past_the_lease(broken: &str) -> Vec<String> {
    let mut system = Installation::with(1, 0).await;
    let effects = Effects::new();
    let work = effects.command("case $SCHED_ATTEMPT in 1) work=120 ;; *) work=20 ;; esac");
    system.apply(&shell_jobs(&work, &[retried("frozen")])).await;
    system.start_worker(&[("SCHED_BREAK", broken)]).await;
    system.trigger("frozen").await;
    effects.wait("begin", 1).await;
    let from = system.now().await;
    let process = system.workers[0].id();
    system.workers[0].pause();
    system.wait_count("the lost attempt", LOST, 1).await;
    system.start_worker(&[]).await;
    effects.wait("begin", 2).await;
    system.workers[0].resume();
    let until = system.now().await;
    system.wait_count("the second attempt", COMPLETED, 1).await;
    if !broken.is_empty() {
        effects.wait("end", 2).await;
    }
    system.broken_with_effects(&effects, &[Frozen { process, from, until }]).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn worker_lease() {
    let case = Case {
        fence: "worker_lease",
        provoked_by: "SIGSTOP of a worker past its lease, and SIGCONT",
        finding: "effects: two effects of one dispatch overlap",
    };
    case.holds(&freeze_past_the_lease("").await);
    case.is_found(&freeze_past_the_lease("worker_lease").await);
}

/// The network of a worker is stuck past its lease while its work continues.
async fn work_without_a_network(broken: &str) -> Vec<String> {
    let mut system = Installation::with(1, 0).await;
    let effects = Effects::new();
    let work = effects.command("case $SCHED_ATTEMPT in 1) work=300 ;; *) work=10 ;; esac");
    system.apply(&shell_jobs(&work, &[retried("stuck")])).await;
    let proxy = Proxy::before(system.database.url()).await;
    system.start_worker(&[("SCHED_BREAK", broken), ("DATABASE_URL", proxy.url())]).await;
    system.trigger("stuck").await;
    effects.wait("begin", 1).await;
    proxy.hold();
    system.start_worker(&[]).await;
    system.wait_count("the second attempt", COMPLETED, 1).await;
    proxy.clear();
    system.broken_with_effects(&effects, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn trust_window_of_a_worker() {
    let case = Case {
        fence: "trust_window",
        provoked_by: "a worker whose network is stuck past its lease",
        finding: "effects: two effects of one dispatch overlap",
    };
    case.holds(&work_without_a_network("").await);
    case.is_found(&work_without_a_network("trust_window").await);
}

const OVER: &str = "SELECT count(*) FROM job_dispatch WHERE completed_at IS NOT NULL";

/// A program takes twelve seconds, with a time-out of one second and a grace of one more.
async fn run_past_its_time(broken: &str, prepare: &str) -> Vec<String> {
    let mut system = Installation::with(1, 0).await;
    let effects = Effects::new();
    let mut job = manual("hanging");
    job["timeout_seconds"] = json!(1);
    system.apply(&shell_jobs(&effects.command(prepare), &[job])).await;
    system.start_worker(&[("SCHED_BREAK", broken)]).await;
    system.trigger("hanging").await;
    effects.wait("begin", 1).await;
    if broken == "job_timeout" {
        effects.wait("end", 1).await;
    }
    system.wait_count("the end", OVER, 1).await;
    system.broken_with_effects(&effects, &[]).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn job_timeout() {
    let case = Case {
        fence: "job_timeout",
        provoked_by: "a program that takes longer than its time-out",
        finding: "effects: a program runs past its time-out",
    };
    case.holds(&run_past_its_time("", "work=120").await);
    case.is_found(&run_past_its_time("job_timeout", "work=120").await);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by scripts/break-it"]
async fn job_kill() {
    let case = Case {
        fence: "job_kill",
        provoked_by: "a program that does not listen when it is told to end",
        finding: "effects: a program runs past its time-out",
    };
    case.holds(&run_past_its_time("", "trap '' TERM; work=120").await);
    case.is_found(&run_past_its_time("job_kill", "trap '' TERM; work=120").await);
}
