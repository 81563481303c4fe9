//! Reads in one round trip: visible rows, and the state of the pooled connection.

use std::time::Duration;

use diesel_async::SimpleAsyncConnection;
use futures_util::join;
use sched_model::connection::row_security::{API_ROLE, Scope};
use sched_model::connection::transaction::read_in;
use sched_model::domain::ids::TenantId;
use sched_model::{Conn, Database, DatabaseSettings, DbError, DbResult, jobs};
use test_support::fixture::{Fixture, TENANT};
use uuid::Uuid;

const AT_ONCE: Duration = Duration::from_secs(2);
const SLEEP: Duration = Duration::from_secs(60);
const OTHER: TenantId = TenantId(Uuid::from_u128(0xac3e));
const READER: &str = "reader";

async fn world() -> (Fixture, Database) {
    let world = Fixture::new().await;
    world.job("nightly").save().await;
    let settings = DatabaseSettings {
        pool_size: 1,
        role: Some(API_ROLE),
        ..DatabaseSettings::new(world.db.url(), READER)
    };
    let pool = Database::new(&settings).unwrap();
    (world, pool)
}

async fn backend(world: &Fixture) -> i64 {
    let sessions = format!(
        "SELECT pid FROM pg_stat_activity WHERE application_name = '{READER}' AND datname = current_database()"
    );
    world.number(&sessions).await
}

async fn finds_the_job(pool: &Database, tenant: TenantId) -> bool {
    let work = async |conn: &Conn| jobs::by_name(conn, tenant, "nightly").await;
    let conn = pool.conn().await.unwrap();
    read_in(conn, Scope::tenant(TENANT), "test_read", &work).await.unwrap().is_some()
}

async fn run(conn: &Conn, statements: &str) -> DbResult<()> {
    let mut conn = conn;
    Ok(conn.batch_execute(statements).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn read_sees_its_tenant_and_ends_its_transaction() {
    let (world, pool) = world().await;
    assert!(finds_the_job(&pool, TENANT).await);
    let first = backend(&world).await;
    let work = async |conn: &Conn| jobs::by_name(conn, TENANT, "nightly").await;
    let conn = pool.conn().await.unwrap();
    assert!(read_in(conn, Scope::tenant(OTHER), "test_read", &work).await.unwrap().is_none());
    assert!(finds_the_job(&pool, TENANT).await);
    assert_eq!(backend(&world).await, first);
    // Outside the transaction, tenants are isolated again.
    let conn = pool.conn().await.unwrap();
    assert!(jobs::by_name(&conn, TENANT, "nightly").await.unwrap().is_none());
    run(&conn, "DO $$ BEGIN ASSERT now() = statement_timestamp(); END $$").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_queries_share_one_read_only_transaction() {
    let (world, pool) = world().await;
    let together = async |conn: &Conn| {
        let (first, second) = join!(run(conn, "CREATE TEMP TABLE seen AS SELECT 1"), run(conn, "SELECT 1"));
        Ok::<_, DbError>((first, second))
    };
    let conn = pool.conn().await.unwrap();
    let (first, second) = read_in(conn, Scope::tenant(TENANT), "test_read", &together).await.unwrap();
    let cause = first.unwrap_err().with_causes();
    assert!(cause.contains("read-only transaction"), "{cause}");
    let cause = second.unwrap_err().with_causes();
    assert!(cause.contains("current transaction is aborted"), "{cause}");
    let before = backend(&world).await;
    assert!(finds_the_job(&pool, TENANT).await);
    assert_eq!(backend(&world).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_read_leaves_no_transaction() {
    let (world, pool) = world().await;
    let never_done = async |conn: &Conn| {
        run(conn, "SELECT 1").await?;
        std::future::pending::<DbResult<()>>().await
    };
    let conn = pool.conn().await.unwrap();
    let before = backend(&world).await;
    let read = read_in(conn, Scope::tenant(TENANT), "test_read", &never_done);
    assert!(tokio::time::timeout(Duration::from_millis(200), read).await.is_err());
    assert!(finds_the_job(&pool, TENANT).await);
    let sessions = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {before}");
    world.wait_for_count("its session is over", &sessions, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_read_frees_its_connection_soon() {
    let (world, pool) = world().await;
    let busy = async |conn: &Conn| {
        // The server continues a statement without a client.
        let sleep = format!("SELECT pg_sleep({})", SLEEP.as_secs());
        assert!(tokio::time::timeout(Duration::from_millis(200), run(conn, &sleep)).await.is_err());
        Ok::<_, DbError>(())
    };
    let conn = pool.conn().await.unwrap();
    let before = backend(&world).await;
    read_in(conn, Scope::tenant(TENANT), "test_read", &busy).await.unwrap();
    let lent = async {
        loop {
            if let Ok(conn) = pool.conn().await {
                return conn;
            }
        }
    };
    let conn = tokio::time::timeout(SLEEP / 2, lent).await.expect("the pool replaces the connection");
    run(&conn, &format!("DO $$ BEGIN ASSERT pg_backend_pid() <> {before}; END $$")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_connection_is_not_reused() {
    let (world, pool) = world().await;
    let broken = async |conn: &Conn| {
        run(conn, "SELECT 1").await?;
        world.sql(&format!("SELECT pg_terminate_backend({})", backend(&world).await)).await;
        run(conn, "SELECT 1").await
    };
    let conn = pool.conn().await.unwrap();
    let error = read_in(conn, Scope::tenant(TENANT), "test_read", &broken).await.unwrap_err();
    assert!(error.is_outage(), "{error:?}");
    assert!(finds_the_job(&pool, TENANT).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_begin_is_an_error() {
    let (_world, pool) = world().await;
    let conn = pool.conn().await.unwrap();
    run(&conn, "BEGIN; SELECT 1 / 0").await.unwrap_err();
    let nothing = async |_: &Conn| Ok::<_, DbError>("nothing");
    let found = read_in(conn, Scope::tenant(TENANT), "test_read", &nothing).await;
    let cause = found.unwrap_err().with_causes();
    assert!(cause.contains("current transaction is aborted"), "{cause}");
    assert!(finds_the_job(&pool, TENANT).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn free_connection_does_not_wait() {
    let (_world, pool) = world().await;
    let lent = pool.free_conn().await.unwrap().expect("there is room");
    let refused = tokio::time::timeout(AT_ONCE, pool.free_conn()).await.expect("it does not wait");
    assert!(refused.unwrap().is_none());
    drop(lent);
    assert!(pool.free_conn().await.unwrap().is_some());
}
