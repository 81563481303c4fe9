use serde_json::{Value, json};

use crate::support::{Request, TestApp};

const PATH: &str = "/api/v1/schedulers/leader/step-down";

const SCHEDULERS: &str =
    "INSERT INTO scheduler_instances (id, hostname, pid, version, is_leader, leader_since, term, clock_offset_seconds)
     VALUES (gen_random_uuid(), 'leads', 41, '1.0', true, clock_timestamp(), 7, 0.5),
            (gen_random_uuid(), 'stands-by', 42, '1.0', false, NULL, NULL, NULL)";

#[tokio::test(flavor = "multi_thread")]
async fn step_down_request_is_recorded() {
    let app = TestApp::start().await;
    app.fixture.sql(SCHEDULERS).await;
    let answer = app.post(PATH, &json!({})).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let asked = answer.json();
    assert_eq!(
        (&asked["hostname"], &asked["pid"], &asked["term"], &asked["clock_offset_seconds"]),
        (&json!("leads"), &json!(41), &json!(7), &json!(0.5))
    );
    assert!(asked["step_down_requested_at"].is_string(), "{asked}");
    let audit = "SELECT count(*) FROM audit_log WHERE action = 'request_step_down' AND target_type = 'scheduler_instance'
                 AND target_id = (SELECT id::text FROM scheduler_instances WHERE is_leader) AND after->>'term' = '7'";
    assert_eq!(app.fixture.number(audit).await, 1);
    let events = "SELECT count(*) FROM events WHERE event_type = 'leader_step_down_requested' AND payload->>'term' = '7'";
    assert_eq!(app.fixture.number(events).await, 1);

    let list = app.get("/api/v1/schedulers").await.json();
    assert_eq!(list["items"][0]["step_down_requested_at"], asked["step_down_requested_at"]);
    assert_eq!(list["items"][1]["step_down_requested_at"], Value::Null, "a standby is not concerned");
    let again = app.send(Request::post(PATH)).await;
    assert_eq!(again.json()["step_down_requested_at"], asked["step_down_requested_at"], "{}", again.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn step_down_without_leader_records_nothing() {
    let app = TestApp::start().await;
    let answer = app.post(PATH, &json!({})).await;
    assert_eq!((answer.status, answer.json()["code"].as_str()), (409, Some("no_leader")), "{}", answer.body);
    assert_eq!(
        app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'request_step_down'").await,
        0
    );
    assert_eq!(app.fixture.number("SELECT count(*) FROM events").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn step_down_without_standby_needs_force() {
    let app = TestApp::start().await;
    app.fixture.sql(SCHEDULERS).await;
    let asked = "SELECT count(*) FROM scheduler_instances WHERE step_down_requested_at IS NOT NULL";
    for standby in [
        "UPDATE scheduler_instances SET last_heartbeat = clock_timestamp() - interval '1 hour' WHERE NOT is_leader",
        // The database's clock was set back.
        "UPDATE scheduler_instances SET last_heartbeat = clock_timestamp() + interval '1 hour' WHERE NOT is_leader",
        // It has just stepped down and does not take over yet.
        "UPDATE scheduler_instances SET last_heartbeat = clock_timestamp() WHERE NOT is_leader;
         INSERT INTO leader_terms (term, instance_id, hostname, pid, started_at, ended_at, end_reason)
         SELECT 6, id, hostname, pid, clock_timestamp() - interval '1 hour', clock_timestamp(), 'stepped_down'
         FROM scheduler_instances WHERE NOT is_leader",
        "DELETE FROM scheduler_instances WHERE NOT is_leader",
    ] {
        app.fixture.sql(standby).await;
        let answer = app.post(PATH, &json!({"force": false})).await;
        assert_eq!((answer.status, answer.json()["code"].as_str()), (409, Some("no_standby")), "{standby}");
        assert_eq!(app.fixture.number(asked).await, 0, "{standby}");
        assert_eq!(
            app.fixture.number("SELECT count(*) FROM audit_log WHERE action = 'request_step_down'").await,
            0
        );
    }
    let answer = app.post(PATH, &json!({"force": true})).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    assert_eq!(app.fixture.number(asked).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_step_down_is_refused() {
    let app = TestApp::start().await;
    app.fixture.sql(SCHEDULERS).await;
    assert_eq!(app.get(PATH).await.status, 405);
    assert_eq!(app.post(&format!("{PATH}?term=7"), &json!({})).await.status, 400);
    let answer = app.post(PATH, &json!({"term": 7})).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    let asked = "SELECT count(*) FROM scheduler_instances WHERE step_down_requested_at IS NOT NULL";
    assert_eq!(app.fixture.number(asked).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_with_expired_lease_is_not_shown() {
    let app = TestApp::start().await;
    let state = async || {
        let status = app.get("/api/v1/status").await.json();
        let leader = app.get("/api/v1/schedulers").await.json()["items"][0].clone();
        (
            status["leader_state"].clone(),
            status["has_leader"].clone(),
            status["lease_expired_seconds"].clone(),
            leader,
        )
    };
    assert_eq!(state().await, (json!("none"), json!(false), Value::Null, Value::Null));
    app.fixture.sql(SCHEDULERS).await;
    app.fixture
        .sql("UPDATE scheduler_instances SET last_heartbeat = clock_timestamp() + interval '3 seconds'")
        .await;
    let (live, has_leader, expired, leader) = state().await;
    assert_eq!((live, has_leader, expired), (json!("live"), json!(true), Value::Null));
    assert_eq!((&leader["is_leader"], &leader["lease_expired_seconds"]), (&json!(true), &Value::Null));
    app.fixture
        .sql("UPDATE scheduler_instances SET last_heartbeat = clock_timestamp() - interval '1 hour'")
        .await;
    let (state, has_leader, expired, leader) = state().await;
    assert_eq!((state, has_leader), (json!("expired"), json!(false)));
    assert!((3_590..3_700).contains(&expired.as_u64().unwrap()), "an hour less the lease: {expired}");
    assert!(leader["lease_expired_seconds"].as_u64().unwrap() >= expired.as_u64().unwrap(), "{leader}");
    let standby = app.get("/api/v1/schedulers").await.json()["items"][1].clone();
    assert_eq!((&standby["is_leader"], &standby["lease_expired_seconds"]), (&json!(false), &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_scheduler_is_offline_and_uncounted() {
    let app = TestApp::start().await;
    app.fixture.sql(SCHEDULERS).await;
    let seen = async || {
        let schedulers = app.get("/api/v1/schedulers").await.json();
        let health = app.get("/health/detailed").await.json();
        let parts = health["components"].as_array().unwrap();
        let leader = parts.iter().find(|part| part["name"] == "leader").unwrap();
        (
            [schedulers["items"][0]["status"].clone(), schedulers["items"][1]["status"].clone()],
            [
                app.get("/api/v1/status").await.json()["schedulers"].clone(),
                leader["details"]["schedulers"].clone(),
            ],
        )
    };
    assert_eq!(seen().await, ([json!("online"), json!("online")], [json!(2), json!(2)]));
    // Killed a lease and a second ago.
    let killed = "UPDATE scheduler_instances SET last_heartbeat = clock_timestamp() - interval '6 seconds' WHERE NOT is_leader";
    app.fixture.sql(killed).await;
    assert_eq!(seen().await, ([json!("online"), json!("offline")], [json!(1), json!(1)]));
    let id = app.fixture.text("SELECT id::text FROM scheduler_instances WHERE NOT is_leader").await;
    assert_eq!(app.get(&format!("/api/v1/schedulers/{id}")).await.json()["status"], "offline");
}
