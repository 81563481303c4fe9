//! Database errors by what the caller can do; and retries of conflicting transactions.

use std::sync::atomic::{AtomicU32, Ordering};

use diesel_async::SimpleAsyncConnection;
use sched_model::connection::error::ConstraintKind;
use sched_model::{Conn, Database, DatabaseSettings, DbError, connection::database_clock, transact};
use test_support::fixture::{BEGIN, Fixture};

const ROWS: &str = "CREATE TABLE fights (id int PRIMARY KEY, n int NOT NULL DEFAULT 0);
                    INSERT INTO fights VALUES (1), (2)";

async fn arena() -> (Fixture, Conn, Conn) {
    let world = Fixture::new().await;
    world.sql(ROWS).await;
    let (one, two) = (world.conn().await, world.conn().await);
    (world, one, two)
}

async fn run(conn: &mut Conn, statements: &str) -> Result<(), DbError> {
    Ok(conn.batch_execute(statements).await?)
}

async fn provoke(world: &Fixture, statements: &str) -> DbError {
    run(&mut world.conn().await, statements).await.unwrap_err()
}

/// Whether the error is retryable, and whether it is an outage.
fn answers(error: &DbError) -> (bool, bool) {
    (error.is_retryable(), error.is_outage())
}

async fn backend(world: &Fixture, application: &str) -> i64 {
    world
        .number(&format!(
            "SELECT max(pid) FROM pg_stat_activity
             WHERE application_name = '{application}' AND datname = current_database()"
        ))
        .await
}

async fn named(world: &Fixture, application: &str) -> Conn {
    let settings = DatabaseSettings::new(world.db.url(), application);
    Database::new(&settings).unwrap().dedicated().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn constraint_errors_name_constraint_and_kind() {
    let world = Fixture::new().await;
    let table = [
        (
            "INSERT INTO tenants (slug, name) VALUES ('default', 'x')",
            "tenants_slug_key",
            ConstraintKind::Unique,
        ),
        (
            "INSERT INTO projects (tenant_id, name, display_name) VALUES (gen_random_uuid(), 'x', 'x')",
            "projects_tenant_fkey",
            ConstraintKind::ForeignKey,
        ),
        (
            "INSERT INTO tenants (slug, name) VALUES ('Not Well Formed', 'x')",
            "tenants_slug_check",
            ConstraintKind::Check,
        ),
        ("INSERT INTO tenants (slug, name) VALUES ('x', NULL)", "without a name", ConstraintKind::Check),
    ];
    for (statement, constraint, expected) in table {
        let error = provoke(&world, statement).await;
        assert!(
            matches!(&error, DbError::Constraint { kind, .. } if *kind == expected),
            "{statement}: {error:?}"
        );
        assert_eq!(error.constraint(), Some(constraint));
        assert_eq!(answers(&error), (false, false), "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn other_errors_are_not_retryable() {
    let world = Fixture::new().await;
    for statement in ["SELECT 1 / 0", "SELECT FROM no_such_table", "nonsense"] {
        let error = provoke(&world, statement).await;
        assert!(matches!(error, DbError::Other(_)), "{statement}: {error:?}");
        assert_eq!((error.constraint(), answers(&error)), (None, (false, false)), "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_right_is_no_outage() {
    let world = Fixture::new().await;
    let denied = [
        "SET ROLE sched_api; UPDATE housekeeping SET finished_days = 1",
        "SET ROLE sched_api; SELECT password_hash FROM users",
        "SET ROLE sched_api; DROP TABLE tenants",
        "SET ROLE sched_api; INSERT INTO queues (tenant_id, name) VALUES (gen_random_uuid(), 'x')",
        "SET SESSION AUTHORIZATION sched_api; SET ROLE sched_daemon",
    ];
    for statements in denied {
        let error = provoke(&world, statements).await;
        assert!(matches!(error, DbError::NoPermission(_)), "{statements}: {error:?}");
        assert_eq!(answers(&error), (false, false), "{statements}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_serialization_failure_is_a_collision() {
    let (_world, mut one, mut two) = arena().await;
    run(&mut one, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM fights").await.unwrap();
    run(&mut two, "UPDATE fights SET n = 2 WHERE id = 1").await.unwrap();
    let error = run(&mut one, "UPDATE fights SET n = 1 WHERE id = 1").await.unwrap_err();
    assert!(matches!(error, DbError::Collision(_)), "{error:?}");
    assert_eq!(answers(&error), (true, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlock_is_a_collision_for_one_session() {
    let (_world, mut one, mut two) = arena().await;
    run(&mut one, "BEGIN; UPDATE fights SET n = 1 WHERE id = 1").await.unwrap();
    run(&mut two, "BEGIN; UPDATE fights SET n = 2 WHERE id = 2").await.unwrap();
    let (a, b) = tokio::join!(
        run(&mut one, "UPDATE fights SET n = 1 WHERE id = 2; COMMIT"),
        run(&mut two, "UPDATE fights SET n = 2 WHERE id = 1; COMMIT"),
    );
    let errors: Vec<DbError> = [a, b].into_iter().filter_map(Result::err).collect();
    assert!(matches!(errors[..], [DbError::Collision(_)]), "{errors:?}");
    assert_eq!(answers(&errors[0]), (true, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_statements_and_long_waits_for_locks_time_out() {
    let (world, mut holder, mut waiter) = arena().await;
    let slow = provoke(&world, "SET statement_timeout = 50; SELECT pg_sleep(60)").await;
    run(&mut holder, "BEGIN; SELECT FROM fights WHERE id = 1 FOR UPDATE").await.unwrap();
    let locked = run(&mut waiter, "SET lock_timeout = 50; SELECT FROM fights WHERE id = 1 FOR UPDATE")
        .await
        .unwrap_err();
    for error in [slow, locked] {
        assert!(matches!(error, DbError::TimedOut(_)), "{error:?}");
        assert_eq!(answers(&error), (false, false));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_server_process_is_killed_is_an_outage() {
    let world = Fixture::new().await;
    let (mut idle, mut busy) = (named(&world, "idle").await, named(&world, "busy").await);
    world.sql(&format!("SELECT pg_terminate_backend({}, 10000)", backend(&world, "idle").await)).await;
    let busy_pid = backend(&world, "busy").await;
    let kill = async {
        let asleep = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = {busy_pid} AND wait_event = 'PgSleep'"
        );
        world.wait_for_count("the statement runs", &asleep, 1).await;
        world.sql(&format!("SELECT pg_terminate_backend({busy_pid}, 10000)")).await;
    };
    let (in_flight, ()) = tokio::join!(run(&mut busy, "SELECT pg_sleep(60)"), kill);
    let afterwards = [run(&mut idle, "SELECT 1").await, run(&mut busy, "SELECT 1").await, in_flight];
    for error in afterwards.map(Result::unwrap_err) {
        assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
        assert_eq!(answers(&error), (false, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_connection_is_an_outage_and_is_replaced() {
    let world = Fixture::new().await;
    let database = world.db.database();
    let mut conn = database.conn().await.unwrap();
    let result = transact(&mut conn, "test_die", async |conn: &mut Conn| {
        run(conn, "SELECT pg_terminate_backend(pg_backend_pid())").await
    })
    .await;
    assert!(result.as_ref().is_err_and(DbError::is_outage), "{result:?}");
    drop(conn);
    database_clock::now(&database.conn().await.unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_in_transaction_timeout_is_an_outage() {
    let world = Fixture::new().await;
    let mut conn = named(&world, "idler").await;
    run(&mut conn, "SET idle_in_transaction_session_timeout = 50; BEGIN").await.unwrap();
    let alive = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idler'";
    world.wait_for_count("the server ends the session", alive, 0).await;
    let error = run(&mut conn, "SELECT 1").await.unwrap_err();
    assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
    assert_eq!(answers(&error), (false, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_server_is_an_outage() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgresql://nobody@127.0.0.1:{port}/nothing");
    let database = Database::new(&DatabaseSettings::new(url, "tests")).unwrap();
    let errors = [database.conn().await.map(drop), database.dedicated().await.map(drop)];
    for error in errors.map(Result::unwrap_err) {
        assert!(matches!(error, DbError::Unavailable(_)), "{error:?}");
        assert_eq!(answers(&error), (false, true));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_database_is_an_outage() {
    let world = Fixture::new().await;
    let url = world.db.url().replace(world.db.name(), "no_such_database");
    let error =
        Database::new(&DatabaseSettings::new(url, "tests")).unwrap().dedicated().await.map(drop).unwrap_err();
    assert!(error.is_outage() && error.with_causes().contains("no_such_database"), "{}", error.with_causes());
}

async fn add_to_both(conn: &mut Conn, runs: &AtomicU32, order: [u32; 2]) -> Result<(), DbError> {
    transact(conn, "test_add", async |conn: &mut Conn| {
        runs.fetch_add(1, Ordering::SeqCst);
        for id in order {
            run(conn, &format!("UPDATE fights SET n = n + 1 WHERE id = {id}")).await?;
        }
        Ok::<(), DbError>(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn deadlocked_transaction_is_retried() {
    let (world, mut one, mut two) = arena().await;
    let runs = AtomicU32::new(0);
    run(&mut two, BEGIN).await.unwrap();
    run(&mut two, "UPDATE fights SET n = n + 1 WHERE id = 2").await.unwrap();
    // Without its own check for deadlocks, so the server rejects the other session.
    run(&mut two, "SET LOCAL deadlock_timeout = '1min'; SET LOCAL lock_timeout = 0").await.unwrap();
    let fight = async {
        world.wait_for_blocked(1).await;
        run(&mut two, "UPDATE fights SET n = n + 1 WHERE id = 1; COMMIT").await
    };
    let (retried, fought) = tokio::join!(add_to_both(&mut one, &runs, [1, 2]), fight);
    retried.unwrap();
    fought.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    assert_eq!(world.rows("SELECT n FROM fights ORDER BY id").await, [["2"], ["2"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn serialization_failure_is_retried() {
    let (world, mut conn, _) = arena().await;
    let runs = AtomicU32::new(0);
    transact(&mut conn, "test_serialize", async |conn: &mut Conn| {
        run(conn, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT FROM fights").await?;
        if runs.fetch_add(1, Ordering::SeqCst) < 2 {
            world.sql("UPDATE fights SET n = n + 10 WHERE id = 1").await;
        }
        run(conn, "UPDATE fights SET n = n + 1 WHERE id = 1").await
    })
    .await
    .unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 3);
    assert_eq!(world.number("SELECT n FROM fights WHERE id = 1").await, 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_conflicts_end_without_writes() {
    let (world, mut conn, _) = arena().await;
    let runs = AtomicU32::new(0);
    let error = transact(&mut conn, "test_collide", async |conn: &mut Conn| {
        runs.fetch_add(1, Ordering::SeqCst);
        run(conn, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; UPDATE fights SET n = 7 WHERE id = 2")
            .await?;
        world.sql("UPDATE fights SET n = n + 1 WHERE id = 1").await;
        run(conn, "UPDATE fights SET n = 7 WHERE id = 1").await
    })
    .await
    .unwrap_err();
    assert!(matches!(error, DbError::Collision(_)), "{error:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 5);
    assert_eq!(world.rows("SELECT n FROM fights ORDER BY id").await, [["5"], ["0"]]);
    run(&mut conn, "UPDATE fights SET n = 1 WHERE id = 1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_failures_run_once_and_roll_back() {
    let (world, mut conn, _) = arena().await;
    let runs = AtomicU32::new(0);
    let error = transact(&mut conn, "test_fail", async |conn: &mut Conn| {
        runs.fetch_add(1, Ordering::SeqCst);
        run(conn, "UPDATE fights SET n = 7; SELECT 1 / 0").await
    })
    .await
    .unwrap_err();
    assert!(matches!(error, DbError::Other(_)), "{error:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(world.number("SELECT sum(n) FROM fights").await, 0);
}

fn pool_of_one(url: &str) -> Database {
    Database::new(&DatabaseSettings { pool_size: 1, ..DatabaseSettings::new(url, "one") }).unwrap()
}

async fn write(conn: &mut Conn) -> Result<(), DbError> {
    transact(conn, "test_write", async |conn: &mut Conn| run(conn, "UPDATE tenants SET name = name").await)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_connection_is_dropped() {
    let world = Fixture::new().await;
    let pool = pool_of_one(world.db.url());
    let mut conn = pool.conn().await.unwrap();
    let before = backend(&world, "one").await;
    run(&mut conn, "SET default_transaction_read_only = on").await.unwrap();
    let error = write(&mut conn).await.unwrap_err();
    assert!(error.is_outage() && error.is_of_read_only_server(), "{error:?}");
    drop(conn);
    write(&mut pool.conn().await.unwrap()).await.unwrap();
    world
        .wait_for_count(
            "the first session is over",
            &format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {before}"),
            0,
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_server_does_not_hide_the_other() {
    let world = Fixture::new().await;
    // Accepts connections but never answers, like a frozen machine.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let right = world.db.url().split_once('@').unwrap().1;
    let url = format!("postgresql://postgres@{},{right}", silent.local_addr().unwrap());
    let pool = pool_of_one(&url);
    write(&mut pool.conn().await.unwrap()).await.unwrap();
    write(&mut pool.dedicated().await.unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_server_is_skipped() {
    let world = Fixture::new().await;
    let name = world.db.name();
    world.sql(&format!("ALTER DATABASE {name} SET default_transaction_read_only = on")).await;
    let Err(error) = pool_of_one(world.db.url()).conn().await else { panic!("it is connected to") };
    assert!(error.with_causes().contains("does not allow writes"), "{}", error.with_causes());
    let url = format!("{}?target_session_attrs=any", world.db.url());
    assert!(pool_of_one(&url).conn().await.is_ok());
}
