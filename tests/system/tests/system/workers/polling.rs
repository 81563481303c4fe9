//! The discovery of work: by notification, by polling, immediately after the listener reconnects;
//! and the claim statement.

use std::net::SocketAddr;

use serde_json::Value;
use system_tests::{Installation, PATIENCE, manual, shell_jobs};
use test_support::{Proxy, http, wait_for};

const COMPLETED: &str = "SELECT count(*) FROM job_dispatch WHERE status = 'COMPLETED'";

/// Poll intervals too long for any test.
const SELDOM: [(&str, &str); 2] = [("WORKER_POLL_INTERVAL", "10min"), ("WORKER_MAX_POLL_INTERVAL", "10min")];

/// Whether the worker receives notifications, by its own report.
async fn is_listening(health: SocketAddr) -> Result<bool, String> {
    let status: Value = http::get(health, "/status").await.map_err(|error| error.to_string())?.json();
    status["status"]["listening"].as_bool().ok_or_else(|| status.to_string())
}

async fn wait_until_listening(health: SocketAddr, wanted: bool) {
    wait_for(&format!("listening to be {wanted}"), PATIENCE, async || match is_listening(health).await {
        Ok(listens) if listens == wanted => Ok(()),
        seen => Err(format!("{seen:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_may_not_listen_says_so_and_finds_work_by_polling() {
    let mut system = Installation::with(1, 0).await;
    let settings = [
        ("WORKER_LISTEN", "false"),
        ("WORKER_POLL_INTERVAL", "100ms"),
        ("WORKER_MAX_POLL_INTERVAL", "500ms"),
    ];
    system.start_worker(&settings).await;
    let log = system.workers[0].stderr();
    assert!(
        log.contains("not listening for notifications (worker-listen is false); finding runs by polling"),
        "{log}"
    );
    let health = system.workers[0].health_addr().await;
    assert_eq!(is_listening(health).await, Ok(false));
    let listens =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'
                   AND application_name LIKE 'sched-worker%'";
    assert_eq!(system.count(listens).await, 0, "the worker does not listen");
    system.apply(&shell_jobs("true", &[manual("quiet")])).await;
    for done in 1..=3 {
        system.trigger("quiet").await;
        system.wait_count("a run that nobody told the worker of", COMPLETED, done).await;
    }
    system.check_invariants().await;
}

/// Work notified while the listener was down is found on its reconnect, not at the end of the poll
/// interval.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_looks_for_work_at_once_when_its_listener_is_back() {
    let mut system = Installation::with(1, 0).await;
    let proxy = Proxy::before(system.database.url()).await;
    let lease = [("WORKER_OFFLINE_THRESHOLD", "10min"), ("DATABASE_URL", proxy.url())];
    system.start_worker(&[&SELDOM[..], &lease].concat()).await;
    let health = system.workers[0].health_addr().await;
    wait_until_listening(health, true).await;
    system.apply(&shell_jobs("true", &[manual("told")])).await;
    system.trigger("told").await;
    system.wait_count("a run that was notified", COMPLETED, 1).await;

    proxy.hold();
    proxy.cut();
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'sched-worker%'";
    wait_for("the sessions of the worker end", PATIENCE, async || match system.count(sessions).await {
        0 => Ok(()),
        left => Err(format!("{left}")),
    })
    .await;
    wait_until_listening(health, false).await;
    system.trigger("told").await;
    proxy.clear();
    system.wait_count("the run whose notification nobody heard", COMPLETED, 2).await;
    system.check_invariants().await;
}

/// Records the statement that claimed each dispatch, by its comment.
const NOTE_CLAIMS: &str = "
    CREATE TABLE witness.claimed_by (statement text);
    CREATE FUNCTION witness.note_statement() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
    BEGIN
        INSERT INTO witness.claimed_by VALUES (CASE
            WHEN current_query() LIKE '%-- One run, for an idle worker that received a notification%' THEN 'lone' ELSE 'line' END);
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness_statement AFTER UPDATE OF status ON job_dispatch
        FOR EACH ROW WHEN (NEW.status = 'IN_PROGRESS' AND OLD.status = 'PENDING') EXECUTE FUNCTION witness.note_statement();";

#[tokio::test(flavor = "multi_thread")]
async fn the_small_claim_is_for_one_dispatch_that_an_idle_worker_is_told_of() {
    let mut system = Installation::with(1, 0).await;
    system.execute(NOTE_CLAIMS).await;
    let policy = serde_json::json!({"overlap_policy": "allow", "max_instances": 100});
    let mut job = manual("one");
    job.as_object_mut().unwrap().extend(policy.as_object().unwrap().clone());
    system.apply(&shell_jobs("true", &[job])).await;
    let claims = "SELECT coalesce(string_agg(statement, ' '), '') FROM witness.claimed_by";
    system.start_worker(&[&SELDOM[..], &[("WORKER_OFFLINE_THRESHOLD", "60s")]].concat()).await;
    let health = system.workers[0].health_addr().await;
    wait_until_listening(health, true).await;
    // One notification at a time: between them the worker polls once more, finds nothing, and is
    // idle. The first may coincide with the initial poll.
    for done in 1..=3 {
        system.trigger("one").await;
        system.wait_count("a lone run", COMPLETED, done).await;
    }
    let told = system.text(claims).await;
    assert!(told.matches("lone").count() >= 2, "{told}");
    // The large claim takes several waiting dispatches at once.
    system.workers[0].pause();
    for _ in 0..3 {
        system.trigger("one").await;
    }
    system.execute("TRUNCATE witness.claimed_by").await;
    system.workers[0].resume();
    system.wait_count("all of the line", COMPLETED, 6).await;
    assert_eq!(system.text(claims).await, "line line line");
    // Without a notification, a poll uses the large claim.
    system.workers[0].stop_gracefully(PATIENCE).await;
    system.execute("TRUNCATE witness.claimed_by").await;
    let deaf = [
        ("WORKER_LISTEN", "false"),
        ("WORKER_POLL_INTERVAL", "100ms"),
        ("WORKER_MAX_POLL_INTERVAL", "200ms"),
    ];
    system.start_worker(&deaf).await;
    system.trigger("one").await;
    system.wait_count("a run that was polled", COMPLETED, 7).await;
    assert_eq!(system.text(claims).await, "line");
    system.check_invariants().await;
}
