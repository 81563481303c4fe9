//! Responses stored under an idempotency key.

use chrono::{DateTime, TimeDelta};
use sched_model::domain::idempotency::Fingerprint;
use sched_model::identity::idempotency::{self, KeyedRequest, RequestState, StoredResponse};
use sched_model::{Conn, DbError, DbResult, retention::retain, transact};
use test_support::fixture::{Fixture, TENANT};

const ASKED: KeyedRequest<'static> =
    KeyedRequest { tenant: TENANT, caller: "ada", key: "k-1", fingerprint: Fingerprint([7; 32]) };

fn answer() -> StoredResponse {
    StoredResponse {
        status: 201,
        location: Some("/x".into()),
        etag: Some("\"1\"".into()),
        body: Some("{\"b\":1,\"a\":2.50}".into()),
    }
}

async fn begin(world: &Fixture, asked: KeyedRequest<'_>) -> RequestState {
    idempotency::begin(&mut world.conn().await, &asked).await.unwrap()
}

async fn done(conn: &mut Conn, asked: KeyedRequest<'_>) -> DbResult<()> {
    transact(conn, "test_keep", async |conn: &mut Conn| {
        assert_eq!(idempotency::begin(conn, &asked).await?, RequestState::First);
        idempotency::store(conn, &asked, &answer()).await
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_request_gets_the_same_response() {
    let world = Fixture::new().await;
    assert_eq!(begin(&world, ASKED).await, RequestState::First);
    done(&mut world.conn().await, ASKED).await.unwrap();
    assert_eq!(begin(&world, ASKED).await, RequestState::Repeated(answer()));
    assert_eq!(
        begin(&world, KeyedRequest { fingerprint: Fingerprint([8; 32]), ..ASKED }).await,
        RequestState::OtherRequest
    );
    assert_eq!(begin(&world, KeyedRequest { key: "k-2", ..ASKED }).await, RequestState::First);
    assert_eq!(begin(&world, KeyedRequest { caller: "bob", ..ASKED }).await, RequestState::First);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_in_flight_is_reported_at_once() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let failed = transact(&mut conn, "test_keep", async |conn: &mut Conn| {
        assert_eq!(idempotency::begin(conn, &ASKED).await?, RequestState::First);
        idempotency::store(conn, &ASKED, &answer()).await?;
        assert_eq!(begin(&world, ASKED).await, RequestState::InFlight);
        Err::<(), _>(DbError::NotFound)
    });
    assert!(matches!(failed.await, Err(DbError::NotFound)));
    assert_eq!(begin(&world, ASKED).await, RequestState::First);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_responses_are_deleted_in_batches() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    for key in ["a", "b", "c", "new"] {
        done(&mut conn, KeyedRequest { key, ..ASKED }).await.unwrap();
    }
    world.sql("UPDATE kept_answers SET created_at = now() - interval '2 days' WHERE key <> 'new'").await;
    assert_eq!(
        retain::answers(&mut conn, DateTime::UNIX_EPOCH, 10).await.unwrap(),
        0,
        "nothing is older than that"
    );
    let before = sched_model::connection::database_clock::now(&conn).await.unwrap() - TimeDelta::days(1);
    let mut gone = Vec::new();
    for _ in 0..3 {
        gone.push(retain::answers(&mut conn, before, 2).await.unwrap());
    }
    assert_eq!(gone, [2, 1, 0]);
    assert_eq!(begin(&world, KeyedRequest { key: "a", ..ASKED }).await, RequestState::First);
    assert_eq!(world.text("SELECT key FROM kept_answers").await, "new");
}
