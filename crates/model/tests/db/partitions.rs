//! Monthly partitions are made ahead, once.

use sched_model::db::partitions::{MONTHS_AHEAD, make_ahead};

use crate::fixture::World;

const PARTITIONED: &[&str] = &[
    "events",
    "job_execution_log",
    "job_execution_output",
    "maintenance.job_execution_log",
    "maintenance.job_execution_output",
];

/// Name of the month that lies so many months ahead.
async fn month(world: &World, ahead: i32) -> String {
    let month = format!(
        "SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '{ahead} months', '\"_y\"YYYY\"m\"MM')"
    );
    world.text(&month).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_migrations_have_made_the_months_to_come() {
    let world = World::new().await;
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
async fn what_is_missing_is_made_once() {
    let world = World::new().await;
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
