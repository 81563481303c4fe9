//! Positions of event streams.

use super::events::{Follower, write};
use crate::support::TestApp;
use serde_json::Value;

/// Waits until no open transaction of another test holds up the stored events. A stream that begins
/// before that begins before these events.
async fn settled(app: &TestApp) {
    let held = "SELECT count(*) FROM event_positions WHERE transaction_id >= pg_snapshot_xmin(pg_current_snapshot())";
    app.fixture.wait_for_count("the events are settled", held, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_position_gets_reset() {
    let app = TestApp::start().await;
    let client = app.fixture.client().await;
    let first = Follower::of(&app, "").await;
    let id = first.messages()[0].0.clone().unwrap();
    let parts: Vec<&str> = id.split('.').collect();
    let [server, transaction, event, micros] = parts.try_into().unwrap();
    let year_ago = i64::from_str_radix(micros, 16).unwrap() - 366 * 86_400_000_000;
    for (position, reason) in [
        (format!("{server}.1.0.{year_ago:x}"), "expired"),
        (format!("{server}.7fffffffffff.{event}.{micros}"), "other_database"),
        (format!("00000000.{transaction}.{event}.{micros}"), "other_database"),
    ] {
        let mut follower = Follower::of(&app, &format!("?after={position}")).await;
        follower.until("the reset", |follower| follower.messages().len() >= 2).await;
        let (id, name, data) = follower.messages()[1].clone();
        assert_eq!((name.as_str(), data["reason"].as_str()), ("reset", Some(reason)), "{position}");
        assert!(id.is_some());
        write(&client, 1..2).await;
        follower.until("it goes on", |follower| follower.numbers().contains(&1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_event_ends_all_streams() {
    let app = TestApp::start().await;
    let client = app.fixture.client().await;
    write(&client, 0..1).await;
    settled(&app).await;
    let mut follower = Follower::of(&app, "").await;
    write(&client, 1..3).await;
    follower.until("two events", |follower| follower.numbers() == [1, 2]).await;
    let last = follower.messages().pop().unwrap().0.unwrap();
    // Simulates a failover to a replica without the last commit: its id is used again.
    client
        .batch_execute(
            "BEGIN;
             CREATE TEMPORARY TABLE lost ON COMMIT DROP AS SELECT * FROM events WHERE payload ->> 'number' = '2';
             DELETE FROM events WHERE payload ->> 'number' = '2';
             INSERT INTO events (tenant_id, event_type, payload, transaction_id)
             SELECT tenant_id, event_type, '{\"number\": 3}', transaction_id FROM lost;
             COMMIT",
        )
        .await
        .unwrap();
    assert_eq!(follower.end().await, "unavailable");
    let mut again = Follower::of(&app, &format!("?after={last}")).await;
    again.until("the reset", |follower| follower.messages().len() >= 2).await;
    assert_eq!(again.messages()[1].2["reason"], "other_database");
    write(&client, 4..5).await;
    again.until("it goes on", |follower| follower.numbers().contains(&4)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_ahead_of_a_restored_database_continues() {
    let app = TestApp::start().await;
    let client = app.fixture.client().await;
    // Simulates a replaced database whose transaction ids were ahead.
    let ahead = "UPDATE events SET transaction_id = '1' WHERE payload ->> 'number' = '1'";
    write(&client, 1..2).await;
    settled(&app).await;
    let mut follower = Follower::of(&app, "").await;
    client.batch_execute(ahead).await.unwrap();
    assert_eq!(follower.end().await, "unavailable");
    let mut new = Follower::of(&app, "").await;
    write(&client, 2..3).await;
    new.until("what is new", |follower| follower.numbers() == [2]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_from_listed_event_misses_no_later_commit() {
    let app = TestApp::start().await;
    let (slow, quick) = (app.fixture.client().await, app.fixture.client().await);
    write(&quick, 0..1).await;
    slow.batch_execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = 0").await.unwrap();
    write(&slow, 1..2).await;
    write(&quick, 2..3).await;
    let page = app.get("/api/v1/events?type=job_updated").await.json();
    let items = page["items"].as_array().unwrap();
    assert_eq!(items.iter().map(|item| item["data"]["number"].as_u64().unwrap()).collect::<Vec<_>>(), [2, 0]);
    let newest = items[0]["id"].as_str().unwrap().to_owned();
    let cursor = app.get(&format!("/api/v1/events?type=job_updated&cursor={newest}")).await.json();
    assert_eq!(cursor["items"].as_array().unwrap().len(), 1, "it is a place in the list as well");
    slow.batch_execute("COMMIT").await.unwrap();
    let mut follower = Follower::of(&app, &format!("?type=job_updated&after={newest}")).await;
    follower.until("what was open", |follower| follower.numbers().contains(&1)).await;
    write(&quick, 3..4).await;
    follower.until("what is new", |follower| follower.numbers().contains(&3)).await;
    assert!(!follower.numbers().contains(&0), "{:?}", follower.numbers());
}

#[tokio::test(flavor = "multi_thread")]
async fn rare_old_events_are_found() {
    let app = TestApp::start().await;
    let client = app.fixture.client().await;
    // Old events, with unrelated transaction ids in between.
    client
        .batch_execute(
            "INSERT INTO events (tenant_id, event_type, payload, transaction_id, created_at)
             SELECT t.id, CASE WHEN n = 1 THEN 'job_paused' ELSE 'job_updated' END, jsonb_build_object('number', n), n::text::xid8,
                    now() - interval '1 day' + n * interval '1 second'
             FROM tenants t, generate_series(1, 150) AS n WHERE t.slug = 'default'",
        )
        .await
        .unwrap();
    write(&client, 1000..1001).await;
    let paused = app.get("/api/v1/events?type=job_paused").await.json();
    assert_eq!((paused["items"].as_array().unwrap().len(), &paused["next_cursor"]), (1, &Value::Null));
    let count = async |query: &str| {
        let page = app.get(&format!("/api/v1/events?limit=200&type=job_updated{query}")).await.json();
        page["items"].as_array().unwrap().len()
    };
    assert_eq!(count("").await, 150);
    assert_eq!(count("&until=-1h").await, 149);
    assert_eq!(count("&since=-1h").await, 1);
    assert_eq!(count("&until=-2d").await, 0);
    let mut follower = Follower::of(&app, "?type=job_updated&since=-2d").await;
    follower.until("all", |follower| follower.numbers().len() >= 150).await;
    assert_eq!(follower.numbers().len(), 150);
}
