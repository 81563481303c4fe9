//! The rights of a worker, with the login that the documentation gives it. The tests of
//! `crates/worker` and `tests/system` show that they suffice.

use sched_model::connection::migrations::SchemaError;
use sched_model::connection::row_security::{RoleError, check_daemon, check_owner, check_worker};
use sched_model::connection::startup::wait_until_usable_for_runs;
use sched_model::{Database, DatabaseSettings};
use test_support::fixture::rows;
use test_support::{Client, Login, TestDatabase, connect};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

async fn names(client: &Client, query: &str) -> Vec<String> {
    rows(client, query).await.into_iter().map(|row| row.join(" ")).collect()
}

async fn worker(db: &TestDatabase) -> Client {
    connect(&db.url_of(Login::Worker)).await.unwrap()
}

fn database(url: &str) -> Database {
    Database::new(&DatabaseSettings::new(url, "tests")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_writes_what_runs_need_only() {
    let db = TestDatabase::installed().await;
    // `update` with the columns, if not all of them.
    let granted = "
        SELECT c.oid::regclass::text,
               concat_ws(', ', CASE WHEN has_table_privilege(r.oid, c.oid, 'INSERT') THEN 'insert' END,
                         CASE WHEN has_table_privilege(r.oid, c.oid, 'UPDATE') THEN 'update'
                              WHEN has_any_column_privilege(r.oid, c.oid, 'UPDATE') THEN
                                  (SELECT 'update(' || string_agg(a.attname, ' ' ORDER BY a.attname) || ')' FROM pg_attribute a
                                   WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                                     AND has_column_privilege(r.oid, c.oid, a.attnum, 'UPDATE')) END,
                         CASE WHEN has_table_privilege(r.oid, c.oid, 'DELETE') THEN 'delete' END,
                         CASE WHEN has_table_privilege(r.oid, c.oid, 'TRUNCATE') THEN 'truncate' END)
        FROM pg_class c, pg_roles r
        WHERE c.relnamespace IN ('public'::regnamespace, 'maintenance'::regnamespace) AND c.relkind IN ('r', 'p', 'v')
          AND r.rolname = 'sched_worker'
          AND (has_any_column_privilege(r.oid, c.oid, 'INSERT') OR has_any_column_privilege(r.oid, c.oid, 'UPDATE')
               OR has_table_privilege(r.oid, c.oid, 'DELETE') OR has_table_privilege(r.oid, c.oid, 'TRUNCATE'))
        ORDER BY 1";
    let expected = [
        "attempt_minutes insert, update",
        "audit_log delete",
        "dead_letters insert, delete",
        "events insert",
        "housekeeping update(retained_at)",
        "job_dispatch update(attempt available_at claim_token claimable_at claimed_at completed_at error_message idempotency_key \
         lost_count retry_count status unstarted_count worker_id), delete",
        "job_ends insert",
        "job_execution_log insert",
        "job_execution_output insert",
        "kept_answers update(created_at), delete",
        "known_workers insert, update(gone_at), delete",
        "leader_terms delete",
        "live_output insert, update, delete",
        "live_progress insert, update, delete",
        "maintenance.job_execution_log insert",
        "maintenance.job_execution_output insert",
        "notification_deliveries update(error_class error_message reached)",
        "queue_usage insert, update, delete",
        "run_end_batches insert",
        "run_start_batches insert",
        "scheduled_jobs update(active_dispatches last_dispatched_at last_run_at last_status ledger_starts_at queued_dispatches \
         total_run_count)",
        "scheduler_instances delete",
        "skipped_fires delete",
        "tenant_log_usage insert, update, delete",
        "uncounted_ends insert, update, delete",
        "uncounted_openings delete",
        "worker_claims insert, update, delete",
        "worker_registration insert, update, delete",
    ];
    assert_eq!(names(&db.client().await, granted).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_changes_no_identity_definition_or_history() {
    let db = TestDatabase::installed().await;
    let client = worker(&db).await;
    let refused = [
        "UPDATE users SET is_system_operator = true",
        "INSERT INTO users (email, display_name) VALUES ('x@example.com', 'X')",
        "DELETE FROM users",
        "INSERT INTO memberships (tenant_id, user_id, role) SELECT tenant_id, user_id, 'owner' FROM memberships",
        "UPDATE memberships SET role = 'owner'",
        "UPDATE api_keys SET revoked_at = NULL",
        "INSERT INTO api_keys (tenant_id, name, key_prefix, key_hash, scopes) SELECT id, 'x', 'x', '', '{}' FROM tenants",
        "DELETE FROM api_keys",
        "UPDATE sessions SET expires_at = now()",
        "INSERT INTO sessions (tenant_id, user_id, token_hash, idle_until, expires_at) SELECT tenant_id, user_id, '', now(), now() FROM memberships",
        "DELETE FROM sessions",
        "DELETE FROM events",
        "UPDATE events SET payload = '{}'",
        "DELETE FROM events_default",
        "DELETE FROM run_start_batches",
        "DELETE FROM run_end_batches",
        "TRUNCATE events",
        "DELETE FROM job_execution_log",
        "UPDATE job_execution_log SET status = 'COMPLETED'",
        "DELETE FROM job_execution_output",
        "DELETE FROM maintenance.job_execution_log",
        "UPDATE audit_log SET actor = 'x'",
        "INSERT INTO audit_log (actor, action, target_type, target_id) VALUES ('x', 'x', 'x', 'x')",
        "UPDATE tenants SET quotas = '{}'",
        "UPDATE task_functions SET handler_config = '{}'",
        "INSERT INTO task_functions (tenant_id, name, handler_type, handler_config) SELECT id, 'x', 'process', '{}' FROM tenants",
        "UPDATE scheduled_jobs SET schedule_config = '{}'",
        "DELETE FROM scheduled_jobs",
        "INSERT INTO job_dispatch SELECT * FROM job_dispatch",
        "UPDATE job_dispatch SET args = '{}'",
        "UPDATE secrets SET ciphertext = ''",
        "DELETE FROM secrets",
        "UPDATE notification_channels SET url = 'x'",
        "UPDATE housekeeping SET finished_days = 1",
        "DELETE FROM sign_in_failures",
        "UPDATE scheduler_instances SET is_leader = false",
        "SELECT delete_tenant(id, 1) FROM tenants",
        "SELECT find_account('x@example.com')",
        "CREATE TABLE x ()",
        "DROP TABLE events_default",
        "ALTER TABLE queues DISABLE ROW LEVEL SECURITY",
        "SET ROLE sched_daemon",
        "SET ROLE sched_api",
        "SET ROLE sched",
    ];
    for statement in refused {
        let error = client.batch_execute(statement).await.map_err(|error| error.code().cloned());
        assert_eq!(error, Err(Some(SqlState::INSUFFICIENT_PRIVILEGE)), "{statement}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_login_may_back_everything_up() {
    let db = TestDatabase::installed().await;
    let hidden = "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname IN ('public', 'maintenance')
                    AND (c.relkind = 'S' AND NOT has_sequence_privilege(c.oid, 'SELECT')
                         OR c.relkind IN ('r', 'p', 'v') AND NOT has_table_privilege(c.oid, 'SELECT'))
                  UNION ALL
                  SELECT n.nspname FROM pg_namespace n
                  WHERE n.nspname IN ('public', 'maintenance', 'history_archive', 'maintenance_archive')
                    AND NOT has_schema_privilege(n.oid, 'USAGE')";
    let none: [&str; 0] = [];
    let client = worker(&db).await;
    assert_eq!(names(&client, hidden).await, none);
    assert_eq!(names(&client, "SELECT count(*) FROM queues").await, ["1"], "rows are visible");
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_reads_months_that_the_leader_creates() {
    let db = TestDatabase::installed().await;
    let admin = db.client().await;
    let last = "SELECT 'events' || to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '3 months', '\"_y\"YYYY\"m\"MM')";
    let last = names(&admin, last).await.remove(0);
    admin.batch_execute(&format!("DROP TABLE {last}")).await.unwrap();
    let owner = database(&db.url_of(Login::Owner));
    let created =
        sched_model::connection::partitions::make_ahead(&mut owner.dedicated().await.unwrap()).await.unwrap();
    assert_eq!(created, [last.as_str()]);
    let client = worker(&db).await;
    client.batch_execute(&format!("SELECT FROM {last}")).await.unwrap();
    let insert = "INSERT INTO events (event_type, created_at) VALUES ('tested', now() + interval '3 months')";
    admin.batch_execute(insert).await.unwrap();
    assert_eq!(names(&client, &format!("SELECT count(*) FROM {last}")).await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn worker_deletes_stray_history_after_its_retention_only() {
    let db = TestDatabase::installed().await;
    let admin = db.client().await;
    let client = worker(&db).await;
    let delete = "SELECT events FROM delete_stray_history(now() + interval '10 years', 1)";
    let stray = "INSERT INTO events (event_type, created_at) SELECT 'tested', now() - days * interval '1 day'
                 FROM unnest(ARRAY[99, 40]) AS days";
    admin.batch_execute(stray).await.unwrap();
    assert_eq!(names(&client, delete).await, ["0"], "no leader has stored its retention");
    admin
        .batch_execute(
            "INSERT INTO housekeeping (finished_days, dead_letter_days, audit_days, idempotency_key_seconds, history_expiry,
                                       stale_scheduler_seconds, stale_worker_seconds)
             VALUES (30, 90, 365, 3600, 'drop', 60, 60);
             INSERT INTO events (event_type, created_at) VALUES ('tested', now() + interval '900 days')",
        )
        .await
        .unwrap();
    for expected in ["1", "1", "0"] {
        assert_eq!(names(&client, delete).await, [expected]);
    }
    assert_eq!(names(&client, "SELECT count(*) FROM events_default").await, ["1"]);
    let audit = "INSERT INTO audit_log (actor, action, target_type, target_id, created_at)
                 VALUES ('x', 'x', 'x', 'x', now() - days * interval '1 day')";
    for days in [400, 40] {
        admin.batch_execute(&audit.replace("days *", &format!("{days} *"))).await.unwrap();
    }
    let error = client.batch_execute("DELETE FROM audit_log").await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    client
        .batch_execute("DELETE FROM audit_log WHERE created_at < now() - interval '366 days'")
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_of_daemons_are_checked_at_startup() {
    let db = TestDatabase::installed().await;
    let login = |error: Result<(), SchemaError>| match error {
        Err(SchemaError::Role(RoleError::SeesNothing { login, role })) => Some((login, role)),
        Err(SchemaError::Role(RoleError::NotTheOwner { login, owner })) => Some((login, owner)),
        Ok(()) => None,
        Err(error) => panic!("{error:?}"),
    };
    let named = |login: &str, role: &str| Some((login.to_owned(), role.to_owned()));
    let worker = database(&db.url_of(Login::Worker));
    let mut conn = worker.dedicated().await.unwrap();
    assert_eq!(login(check_worker(&mut conn).await), None);
    assert_eq!(login(check_daemon(&mut conn).await), named("sched_work", "sched_daemon"));
    assert_eq!(login(check_owner(&mut conn).await), named("sched_work", "sched"));
    wait_until_usable_for_runs(&worker).await.unwrap();
    let mut conn = database(&db.url_of(Login::Owner)).dedicated().await.unwrap();
    check_daemon(&mut conn).await.unwrap();
    check_owner(&mut conn).await.unwrap();
    check_worker(&mut conn).await.unwrap();

    // Without a role it may not even read the version of the schema.
    let name = format!("plain_{}", Uuid::now_v7().simple());
    let admin = db.client().await;
    admin.batch_execute(&format!("CREATE ROLE {name} LOGIN")).await.unwrap();
    let plain = database(&db.url().replacen("postgres@", &format!("{name}@"), 1));
    let refused = login(wait_until_usable_for_runs(&plain).await);
    plain.close();
    admin.batch_execute(&format!("DROP ROLE {name}")).await.unwrap();
    assert_eq!(refused, named(&name, "sched_worker"));
}
