//! The database of the release before, as it was written down by `scripts/rehearse-upgrade --fixture`, and this release on it: nothing of it is lost, all of it
//! can be read, and work goes on.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use system_tests::Installation;
use test_support::{Client, TestDatabase};

use crate::migrations::migrate;

/// Schema and rows of an installation of the release before.
const BEFORE: &str = include_str!("../../fixtures/upgrade/before.sql");
/// Tables that are empty in it: what they tell of was not under way any more when it was written down, or was never the case.
const EMPTY: [&str; 11] = [
    "maintenance.job_execution_log",
    "maintenance.job_execution_output",
    "public.job_ends",
    "public.live_output",
    "public.live_progress",
    "public.queue_usage",
    "public.scheduler_instances",
    "public.tenant_log_usage",
    "public.unserved_queues",
    "public.worker_claims",
    "public.worker_registration",
];

/// Every row of every table, as JSON, by table. Partitions count with their table.
async fn rows(sql: &Client) -> BTreeMap<String, Vec<Value>> {
    let tables = "SELECT format('%s.%s', n.nspname, c.relname) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'witness')";
    let mut rows = BTreeMap::new();
    for row in sql.query(tables, &[]).await.unwrap() {
        let table: String = row.get(0);
        let all = sql.query(&format!("SELECT to_jsonb(t)::text FROM {table} t"), &[]).await.unwrap();
        let all = all.iter().map(|row| serde_json::from_str(&row.get::<_, String>(0)).unwrap()).collect();
        rows.insert(table, all);
    }
    rows
}

/// A row with no other columns than those of another.
fn as_before(row: &Value, before: &Value) -> String {
    let known: serde_json::Map<String, Value> =
        before.as_object().unwrap().keys().map(|name| (name.clone(), row[name].clone())).collect();
    Value::Object(known).to_string()
}

/// A database as the release before has left it.
async fn left_by_the_release_before() -> TestDatabase {
    // The roles are the server's; whoever has migrated any database on it has made them.
    drop(TestDatabase::new().await);
    let database = TestDatabase::empty().await;
    database.client().await.batch_execute(BEFORE).await.unwrap();
    database
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_keeps_every_row_of_the_release_before_as_it_was() {
    let database = left_by_the_release_before().await;
    let before = rows(&database.client().await).await;
    let empty: Vec<&String> = before
        .iter()
        .filter(|(table, rows)| rows.is_empty() && !EMPTY.contains(&&***table))
        .map(|(table, _)| table)
        .collect();
    assert!(empty.is_empty(), "the fixture has nothing of {empty:?}");
    assert!(before.len() >= 30 && before.values().map(Vec::len).sum::<usize>() >= 250, "a poor fixture");
    migrate(database.url(), &["up"]).await;
    let after = rows(&database.client().await).await;
    for (table, rows) in &before {
        let Some(first) = rows.first() else { continue };
        let now: BTreeSet<String> = after[table].iter().map(|row| as_before(row, first)).collect();
        let lost: Vec<String> =
            rows.iter().map(|row| as_before(row, first)).filter(|row| !now.contains(row)).collect();
        assert!(
            lost.is_empty(),
            "{table} has lost or changed {} of {} rows: {:?}",
            lost.len(),
            rows.len(),
            lost.first()
        );
    }
    migrate(database.url(), &["status"]).await;
}

/// What the API shows of a list, all pages.
async fn list(system: &Installation, path: &str) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = system
            .get(&format!("/api/v1/{path}{}limit=200{cursor}", if path.contains('?') { '&' } else { '?' }))
            .await;
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return items,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrade_shows_all_of_the_release_before_and_goes_on() {
    let database = left_by_the_release_before().await;
    migrate(database.url(), &["up"]).await;
    let mut system = Installation::on(database).await;
    system.start_api().await;
    let of_default = "tenant_id = (SELECT id FROM tenants WHERE slug = 'default')";
    let lists = [
        (
            "jobs",
            format!(
                "SELECT count(*) FROM scheduled_jobs WHERE {of_default} AND scope = 'project' AND deleted_at IS NULL"
            ),
        ),
        ("dispatches", format!("SELECT count(*) FROM job_dispatch WHERE {of_default}")),
        ("executions", format!("SELECT count(*) FROM job_execution_log WHERE {of_default}")),
        ("events", format!("SELECT count(*) FROM events WHERE {of_default} OR tenant_id IS NULL")),
        ("dead-letters?state=all", format!("SELECT count(*) FROM dead_letters WHERE {of_default}")),
        ("calendars", format!("SELECT count(*) FROM calendars WHERE {of_default}")),
        ("queues", format!("SELECT count(*) FROM queues WHERE {of_default}")),
        ("projects", format!("SELECT count(*) FROM projects WHERE {of_default}")),
        ("secrets", format!("SELECT count(*) FROM secrets WHERE {of_default}")),
    ];
    for (path, count) in lists {
        let (shown, there) = (list(&system, path).await.len(), system.count(&count).await);
        assert!(there > 0 && i64::try_from(shown).unwrap() >= there, "{path}: {shown} of {there} are shown");
    }
    for job in list(&system, "jobs").await {
        let id = job["id"].as_str().unwrap();
        assert_eq!(system.get(&format!("/api/v1/jobs/{id}")).await["name"], job["name"]);
        assert!(!list(&system, &format!("jobs/{id}/versions")).await.is_empty());
        system.get(&format!("/api/v1/jobs/{id}/preview")).await;
    }
    for execution in list(&system, "executions").await {
        let (id, dispatch) = (execution["id"].as_str().unwrap(), execution["dispatch_id"].as_str().unwrap());
        system.get(&format!("/api/v1/executions/{id}/output")).await;
        system.get(&format!("/api/v1/dispatches/{dispatch}/explain")).await;
    }

    // Somebody works on, and what was due meanwhile is in the books.
    let done = "SELECT count(*) FROM job_execution_log WHERE status = 'COMPLETED'";
    let before = system.count(done).await;
    system.start_scheduler(&[]).await;
    system.start_worker(&[]).await;
    system.wait_count("what fires after the upgrade", done, before + 3).await;
    let gaps = "SELECT count(*) FROM ledger_gaps WHERE kind <> 'overdue'";
    assert_eq!(
        system.count(gaps).await,
        0,
        "{}",
        system.text("SELECT coalesce(jsonb_agg(g), '[]') FROM ledger_gaps g").await
    );
}
