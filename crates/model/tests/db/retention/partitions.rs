//! Monthly partitions are created ahead, once, and expired ones are removed.

use diesel_async::SimpleAsyncConnection;
use sched_model::connection::partitions::{self, MONTHS_AHEAD, make_ahead};
use sched_model::domain::retention::HistoryExpiry;
use sched_model::{Conn, DbError, transact};
use test_support::fixture::{BEGIN, Fixture};

const PARTITIONED: &[&str] = &[
    "events",
    "job_execution_log",
    "job_execution_output",
    "maintenance.job_execution_log",
    "maintenance.job_execution_output",
];

async fn month(world: &Fixture, ahead: i32) -> String {
    let month = format!(
        "SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '{ahead} months', '\"_y\"YYYY\"m\"MM')"
    );
    world.text(&month).await
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_create_coming_months() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    assert_eq!(make_ahead(&mut conn).await.unwrap(), Vec::<String>::new());
    for table in PARTITIONED {
        let count = format!("SELECT count(*) FROM pg_inherits WHERE inhparent = '{table}'::regclass");
        assert_eq!(
            world.number(&count).await,
            i64::from(MONTHS_AHEAD) + 2,
            "{table}: the months and the default"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_partitions_are_created_once() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, last) = (month(&world, 0).await, month(&world, MONTHS_AHEAD).await);
    let mut missing = Vec::new();
    for table in PARTITIONED {
        missing.extend([format!("{table}{first}"), format!("{table}{last}")]);
    }
    for table in &missing {
        world.sql(&format!("DROP TABLE {table}")).await;
    }
    let mut made = make_ahead(&mut conn).await.unwrap();
    made.sort();
    missing.sort();
    assert_eq!(made, missing);
    assert!(make_ahead(&mut conn).await.unwrap().is_empty());
    let row = "INSERT INTO events (event_type) VALUES ('tested') RETURNING tableoid::regclass";
    assert_eq!(world.text(row).await, format!("events{first}"), "rows go where they belong");
}

async fn old_months(world: &Fixture) -> Vec<String> {
    let mut names = Vec::new();
    for table in PARTITIONED {
        for (year, month, next) in [(2020, "01", "2020-02-01"), (2020, "02", "2020-03-01")] {
            let name = format!("{table}_y{year}m{month}");
            world
                .sql(&format!(
                    "CREATE TABLE {name} PARTITION OF {table} FOR VALUES FROM ('{year}-{month}-01 00:00Z') TO ('{next} 00:00Z')"
                ))
                .await;
            names.push(name);
        }
    }
    world.sql("INSERT INTO events (event_type, created_at) VALUES ('tested', '2020-01-31')").await;
    names.sort();
    names
}

async fn remove(world: &Fixture, before: &str, how: HistoryExpiry) -> Vec<String> {
    let mut conn = world.conn().await;
    let mut removed = Vec::new();
    for month in partitions::expired(&mut conn, before.parse().unwrap()).await.unwrap() {
        transact(&mut conn, "test_remove", async |conn: &mut Conn| {
            partitions::remove(conn, &month, how).await
        })
        .await
        .unwrap();
        removed.push(month.name);
    }
    removed.sort();
    removed
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_months_are_dropped() {
    let world = Fixture::new().await;
    let months = old_months(&world).await;
    assert_eq!(
        remove(&world, "2020-01-31T23:59:59Z", HistoryExpiry::Drop).await,
        Vec::<String>::new(),
        "not over"
    );
    let first: Vec<String> = months.iter().filter(|name| name.ends_with("m01")).cloned().collect();
    assert_eq!(remove(&world, "2020-02-29T23:00:00Z", HistoryExpiry::Drop).await, first);
    assert_eq!(remove(&world, "2020-03-01T00:00:00Z", HistoryExpiry::Drop).await.len(), first.len());
    for name in months {
        assert_eq!(world.text(&format!("SELECT to_regclass('{name}') IS NULL")).await, "t", "{name}");
    }
    assert_eq!(world.number("SELECT count(*) FROM events").await, 0);
    let left = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass";
    assert_eq!(
        world.number(left).await,
        i64::from(MONTHS_AHEAD) + 2,
        "the present ones and the default stay"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_months_are_detached_for_the_archiver() {
    let world = Fixture::new().await;
    let months = old_months(&world).await;
    assert_eq!(remove(&world, "2020-03-01T00:00:00Z", HistoryExpiry::Detach).await, months);
    let archived = "SELECT n.nspname || '.' || c.relname, obj_description(c.oid, 'pg_class') LIKE 'Detached from%'
                    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                    WHERE n.nspname IN ('history_archive', 'maintenance_archive') AND c.relkind = 'r' ORDER BY 1";
    let place = |name: &str| match name.strip_prefix("maintenance.") {
        Some(name) => format!("maintenance_archive.{name}"),
        None => format!("history_archive.{name}"),
    };
    let mut expected: Vec<Vec<String>> =
        months.iter().map(|name| vec![place(name), "t".to_owned()]).collect();
    expected.sort();
    assert_eq!(world.rows(archived).await, expected);
    assert_eq!(world.number("SELECT count(*) FROM events").await, 0);
    assert_eq!(
        world.number("SELECT count(*) FROM history_archive.events_y2020m01").await,
        1,
        "with its rows"
    );
    assert!(remove(&world, "2020-03-01T00:00:00Z", HistoryExpiry::Detach).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn month_in_use_is_left_without_blocking() {
    let world = Fixture::new().await;
    old_months(&world).await;
    let reader = world.db.client().await;
    reader.batch_execute(&format!("{BEGIN}; SELECT count(*) FROM events")).await.unwrap();
    let mut conn = world.conn().await;
    let months = partitions::expired(&mut conn, "2020-03-01T00:00:00Z".parse().unwrap()).await.unwrap();
    let month = months.iter().find(|month| month.name == "events_y2020m01").unwrap();
    for how in [HistoryExpiry::Drop, HistoryExpiry::Detach] {
        let refused = transact(&mut conn, "test_remove", async |conn: &mut Conn| {
            partitions::remove(conn, month, how).await
        })
        .await;
        assert!(matches!(refused, Err(DbError::TimedOut(_))), "{refused:?}");
    }
    world.sql("INSERT INTO events (event_type) VALUES ('tested')").await;
    reader.batch_execute("COMMIT").await.unwrap();
    transact(&mut conn, "test_remove", async |conn: &mut Conn| {
        partitions::remove(conn, month, HistoryExpiry::Drop).await
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_belongs_to_the_owner_of_its_table() {
    let world = Fixture::new().await;
    let name = format!("events{}", month(&world, 3).await);
    // Roles belong to the whole server, the database's name to this test.
    let database = world.text("SELECT current_database()").await;
    let (owner, login) = (format!("owner_of_{database}"), format!("login_of_{database}"));
    world
        .sql(&format!(
            r#"CREATE ROLE "{owner}"; CREATE ROLE "{login}" IN ROLE "{owner}";
               GRANT ALL ON SCHEMA public TO "{owner}"; GRANT USAGE ON SCHEMA maintenance TO "{owner}"; GRANT EXECUTE ON FUNCTION isolate_tenants(regclass) TO "{owner}";
               DROP TABLE {name}; ALTER TABLE events OWNER TO "{owner}""#
        ))
        .await;
    let mut conn = world.conn().await;
    conn.batch_execute(&format!(r#"SET SESSION AUTHORIZATION "{login}""#)).await.unwrap();
    assert!(make_ahead(&mut conn).await.unwrap().contains(&name));
    let owners = format!("SELECT pg_get_userbyid(relowner) FROM pg_class WHERE relname = '{name}'");
    assert_eq!(world.text(&owners).await, owner);
    // As a partition of an earlier release.
    world.sql(&format!(r#"ALTER TABLE {name} OWNER TO "{login}""#)).await;
    make_ahead(&mut conn).await.unwrap();
    assert_eq!(world.text(&owners).await, owner);
    assert_eq!(make_ahead(&mut conn).await.unwrap(), Vec::<String>::new());
}
