//! Migrations: up and down, and which programs may run on the result.

use std::fs;
use std::path::Path;
use std::process::Command;

use sched_model::connection::migrations::{self, SchemaError, Steps};
use sched_model::{Database, DatabaseSettings};
use test_support::fixture::Fixture;
use test_support::{TestDatabase, server_program};

struct Step {
    name: String,
    up: String,
    down: String,
}

fn steps() -> Vec<Step> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    let mut steps: Vec<Step> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| Step {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            up: fs::read_to_string(path.join("up.sql")).unwrap(),
            down: fs::read_to_string(path.join("down.sql")).unwrap(),
        })
        .collect();
    steps.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(steps.len() >= 10, "there are {} migrations only", steps.len());
    steps
}

/// The end of the baseline, which creates an empty database: locks matter only later.
const BASELINE: &str = "2026-11-24-000099";

/// Rejects an index on a hot table that is created under a lock, or concurrently together with
/// other statements or in a transaction.
fn check_index(name: &str, up: &str, down: &str, metadata: &str) -> Result<(), String> {
    let code = |sql: &str| -> Vec<String> {
        let lines = sql.lines().filter(|line| !line.trim_start().starts_with("--"));
        let whole = lines.collect::<Vec<_>>().join(" ").to_lowercase();
        whole.split(';').map(|one| one.trim().to_owned()).filter(|one| !one.is_empty()).collect()
    };
    let is_alone = metadata.trim() == "run_in_transaction = false";
    for statement in code(up) {
        let makes = statement.starts_with("create index") || statement.starts_with("create unique index");
        let is_hot =
            ["job_dispatch", "scheduled_jobs"].iter().any(|hot| statement.contains(&format!(" on {hot} ")));
        let is_concurrent = statement.contains("index concurrently");
        if makes && is_hot && !is_concurrent {
            return Err(format!("{name}: {statement}"));
        }
        if is_concurrent && !(is_alone && code(up).len() == 1 && code(down).len() == 1) {
            return Err(format!("{name}: a concurrent index must be alone in its migration"));
        }
    }
    Ok(())
}

#[test]
fn index_on_hot_table_is_created_concurrently() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    for Step { name, up, down } in steps().into_iter().filter(|step| step.name.as_str() > BASELINE) {
        let metadata = fs::read_to_string(folder.join(&name).join("metadata.toml")).unwrap_or_default();
        check_index(&name, &up, &down, &metadata).unwrap();
    }
    let alone = "run_in_transaction = false";
    let concurrent = "CREATE INDEX CONCURRENTLY x ON job_dispatch (id);";
    assert!(check_index("a", "CREATE INDEX x ON job_dispatch (id);", "DROP INDEX x;", "").is_err());
    assert!(check_index("b", concurrent, "DROP INDEX x;", "").is_err());
    assert!(check_index("c", &format!("{concurrent} SELECT 1;"), "DROP INDEX x;", alone).is_err());
    assert_eq!(check_index("d", concurrent, "DROP INDEX CONCURRENTLY x;", alone), Ok(()));
}

#[derive(Clone, Copy)]
enum Dump {
    Schema,
    SchemaAndRows,
}

/// The `pg_dump` of the database, without comments and the table of the migration library.
fn dump(db: &TestDatabase, what: Dump) -> String {
    let mut command = Command::new(server_program("pg_dump"));
    command.args(["--exclude-table=public.__diesel_schema_migrations", "--dbname", db.url()]);
    if matches!(what, Dump::Schema) {
        command.arg("--schema-only");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "pg_dump: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // Later releases of PostgreSQL write a random word here.
    let is_noise = |line: &&str| {
        line.is_empty() || ["--", "\\restrict", "\\unrestrict"].iter().any(|noise| line.starts_with(noise))
    };
    text.lines().filter(|line| !is_noise(line)).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_same(what: &str, expected: &str, found: &str) {
    let lines = expected.lines().chain(std::iter::repeat("(end)")).zip(found.lines().chain(["(end)"]));
    let different = lines.into_iter().find(|(a, b)| a != b);
    assert!(expected == found, "{what}: first different lines (expected, found): {different:?}");
}

async fn verdict(db: &TestDatabase) -> String {
    let mut conn = db.database().conn().await.unwrap();
    match migrations::check(&mut conn).await {
        Ok(()) => String::new(),
        Err(SchemaError::Missing) => "missing".into(),
        Err(SchemaError::Older { pending }) => format!("older by {pending}"),
        Err(SchemaError::Newer { newest }) => format!("newer: {newest}"),
        Err(error @ (SchemaError::SharedSessions | SchemaError::Role(_) | SchemaError::Database(_))) => {
            panic!("{error:?}")
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_migration_reverts_completely() {
    let db = TestDatabase::empty().await;
    let client = db.client().await;
    for Step { name, up, down } in steps() {
        let before = dump(&db, Dump::SchemaAndRows);
        client.batch_execute(&up).await.unwrap_or_else(|error| panic!("{name} up: {error:?}"));
        let made = dump(&db, Dump::Schema);
        let changes_something = dump(&db, Dump::SchemaAndRows) != before;
        assert!(changes_something, "{name} creates nothing");
        client.batch_execute(&down).await.unwrap_or_else(|error| panic!("{name} down: {error:?}"));
        assert_same(&format!("{name} down"), &before, &dump(&db, Dump::SchemaAndRows));
        client.batch_execute(&up).await.unwrap_or_else(|error| panic!("{name} up again: {error:?}"));
        assert_same(&format!("{name} up again"), &made, &dump(&db, Dump::Schema));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jit_is_off_in_the_database_and_nowhere_else() {
    let db = TestDatabase::empty().await;
    let client = db.client().await;
    let settings = async || -> Vec<(String, String)> {
        let rows = client
            .query(
                "SELECT coalesce(r.rolname, '-')::text, array_to_string(s.setconfig, ',')
                 FROM pg_db_role_setting s
                 LEFT JOIN pg_roles r ON r.oid = s.setrole
                 WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
                 ORDER BY 1",
                &[],
            )
            .await
            .unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1))).collect()
    };
    let before = settings().await;
    let roles = steps().remove(0);
    client.batch_execute(&roles.up).await.unwrap();
    let added: Vec<_> = settings().await.into_iter().filter(|one| !before.contains(one)).collect();
    let off = |role: &str| (role.to_owned(), "jit=off".to_owned());
    assert_eq!(added, [off("-"), off("sched_api"), off("sched_daemon"), off("sched_worker")]);
    assert_eq!(db.client().await.query_one("SHOW jit", &[]).await.unwrap().get::<_, String>(0), "off");
    client.batch_execute(&roles.down).await.unwrap();
    assert_eq!(settings().await, before);
}

async fn down_and_up(db: &TestDatabase) {
    let whole = dump(db, Dump::Schema);
    let nothing = dump(&TestDatabase::empty().await, Dump::Schema);
    assert!(whole.contains("CREATE TABLE public.job_dispatch "));
    let reverted = migrations::down(&db.database(), Steps::All).await.unwrap();
    assert_eq!(reverted.len(), steps().len());
    assert_same("all down", &nothing, &dump(db, Dump::SchemaAndRows));
    assert_eq!(verdict(db).await, "missing");
    let applied = migrations::up(&db.database()).await.unwrap();
    assert!(applied.iter().rev().eq(reverted.iter()), "{applied:?} after {reverted:?}");
    assert_same("all up again", &whole, &dump(db, Dump::Schema));
    assert_eq!(verdict(db).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_migrations_go_down_and_up_again() {
    down_and_up(&TestDatabase::new().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_migrations_go_down_and_up_again_on_a_used_database() {
    let world = Fixture::new().await;
    let claimed = world.running("a").await;
    world.job("b").save().await;
    world
        .sql(&format!(
            "INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                                            completed_at, duration_ms, claim_token, triggered_by)
             SELECT gen_random_uuid(), tenant_id, job_id, id, 1, 'COMPLETED', scheduled_for, now(), now(), 0, 1, 'api'
             FROM job_dispatch WHERE id = '{}';
             INSERT INTO maintenance.job_execution_log SELECT * FROM job_execution_log;
             INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason)
             SELECT tenant_id, id, now(), now(), 1, 'overlap' FROM scheduled_jobs;
             INSERT INTO events (event_type) VALUES ('tested');
             INSERT INTO audit_log (actor, action, target_type, target_id) VALUES ('tests', 'test', 'x', 'x')",
            claimed.dispatch_id
        ))
        .await;
    assert_eq!(world.number("SELECT count(*) FROM maintenance.job_execution_log").await, 1);
    down_and_up(&world.db).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_check_reports_missing_older_and_newer() {
    let db = TestDatabase::empty().await;
    assert_eq!(verdict(&db).await, "missing");
    migrations::up(&db.database()).await.unwrap();
    assert_eq!(verdict(&db).await, "");
    assert_eq!(migrations::up(&db.database()).await.unwrap(), Vec::<String>::new());
    let reverted = migrations::down(&db.database(), Steps::Some(2)).await.unwrap();
    assert_eq!((reverted.len(), verdict(&db).await.as_str()), (2, "older by 2"));
    let unknown = "INSERT INTO __diesel_schema_migrations (version) VALUES ('99990101000000')";
    db.client().await.batch_execute(unknown).await.unwrap();
    assert_eq!(verdict(&db).await, "newer: 99990101000000");
    let states = migrations::status(&mut db.database().conn().await.unwrap()).await.unwrap();
    assert_eq!(states.len(), steps().len() + 1);
    let (newest, known) = states.split_last().unwrap();
    assert!(newest.is_applied && !newest.is_known, "{newest:?}");
    assert!(known.iter().all(|state| state.is_known));
    assert_eq!(known.iter().filter(|state| !state.is_applied).count(), 2);
    let names: Vec<String> = steps().into_iter().map(|step| step.name).collect();
    assert_eq!(known.iter().map(|state| state.name.clone()).collect::<Vec<_>>(), names);
}

#[tokio::test(flavor = "multi_thread")]
async fn migrations_of_newer_releases_are_not_reverted() {
    let db = TestDatabase::new().await;
    let unknown = "INSERT INTO __diesel_schema_migrations (version) VALUES ('99990101000000')";
    db.client().await.batch_execute(unknown).await.unwrap();
    let before = dump(&db, Dump::SchemaAndRows);
    let reverted = migrations::down(&db.database(), Steps::Some(1)).await;
    assert!(matches!(reverted, Err(migrations::MigrationError::Failed(_))), "{reverted:?}");
    assert_same("nothing is reverted", &before, &dump(&db, Dump::SchemaAndRows));
    assert_eq!(verdict(&db).await, "newer: 99990101000000");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_migrations_apply_once() {
    let db = TestDatabase::empty().await;
    let (one, two) = (db.database(), db.database());
    let (one, two) = tokio::join!(migrations::up(&one), migrations::up(&two));
    let mut applied = [one.unwrap().len(), two.unwrap().len()];
    applied.sort_unstable();
    assert_eq!(applied, [0, steps().len()]);
    assert_eq!(verdict(&db).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_first_migration_leaves_nothing() {
    let db = TestDatabase::empty().await;
    let client = db.client().await;
    let login = format!("plain_{}", uuid::Uuid::now_v7().simple());
    let owner = format!("CREATE ROLE {login} LOGIN; ALTER DATABASE {} OWNER TO {login}", db.name());
    client.batch_execute(&owner).await.unwrap();
    let url = db.url().replacen("postgres@", &format!("{login}@"), 1);
    let plain = Database::new(&DatabaseSettings::new(url, "tests")).unwrap();
    let before = dump(&db, Dump::Schema);
    let refused = migrations::up(&plain).await;
    plain.close();
    let tables = client.query("SELECT FROM pg_tables WHERE schemaname = 'public'", &[]).await.unwrap();
    let clean = format!("ALTER DATABASE {} OWNER TO CURRENT_USER; DROP ROLE {login}", db.name());
    client.batch_execute(&clean).await.unwrap();
    let Err(migrations::MigrationError::Failed(error)) = &refused else { panic!("{refused:?}") };
    assert!(error.to_string().contains("CREATE ROLE sched_worker NOLOGIN"), "{error}");
    assert!(tables.is_empty(), "{tables:?}");
    assert_same("a refused migration", &before, &dump(&db, Dump::SchemaAndRows));
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_migration_can_be_repeated() {
    let db = TestDatabase::empty().await;
    let client = db.client().await;
    client.batch_execute("CREATE TABLE sign_in_failures ()").await.unwrap();
    let failed = migrations::up(&db.database()).await;
    assert!(matches!(failed, Err(migrations::MigrationError::Failed(_))), "{failed:?}");
    assert_eq!(verdict(&db).await, format!("older by {}", steps().len() - 1));
    assert!(
        !dump(&db, Dump::Schema).contains("CREATE TABLE public.tenants "),
        "the second migration is rolled back"
    );
    client.batch_execute("DROP TABLE sign_in_failures").await.unwrap();
    assert_eq!(migrations::up(&db.database()).await.unwrap().len(), steps().len() - 1);
    assert_eq!(verdict(&db).await, "");
}
