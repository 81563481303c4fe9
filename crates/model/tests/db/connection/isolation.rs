//! Isolation of tenants, without the queries that respect it: which roles it restricts, and that no
//! row leaks.

use sched_model::connection::migrations::SchemaError;
use sched_model::connection::partitions::{MONTHS_AHEAD, make_ahead};
use sched_model::connection::row_security::{API_ROLE, RoleError, check_api, check_daemon, check_owner};
use test_support::fixture::{Fixture, TENANT, rows};
use test_support::{Login, TestDatabase, connect};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use uuid::Uuid;

const OF_TENANTS: &str = "SELECT c.oid::regclass::text FROM pg_class c
    WHERE c.relnamespace IN ('public'::regnamespace, 'maintenance'::regnamespace) AND c.relkind IN ('r', 'p')
      AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)";

const OTHER: Uuid = Uuid::from_u128(0xac3e);

/// A row of the test tenant in every table with tenants, in addition to the rows of [`Fixture`].
/// References are not checked.
const FILL: &str = "SET session_replication_role = replica;
    INSERT INTO tenants (id, slug, name) VALUES ('{other}', 'other', 'Other');
    INSERT INTO users (email, display_name) VALUES ('ada@example.com', 'Ada');
    INSERT INTO memberships (tenant_id, user_id, role) SELECT '{tenant}', id, 'owner' FROM users;
    INSERT INTO api_keys (tenant_id, name, key_prefix, key_hash, scopes)
        VALUES ('{tenant}', 'x', 'sched_live_aaaaaaaaaaaaaaaa', sha256('x'), '{jobs:read}');
    INSERT INTO attempt_minutes VALUES ('{tenant}', now(), 'COMPLETED', 0, 1, 1);
    INSERT INTO audit_log (tenant_id, actor, action, target_type, target_id) VALUES ('{tenant}', 'tests', 'test', 'x', 'x');
    INSERT INTO calendars (tenant_id, name, definition) VALUES ('{tenant}', 'x', '{}');
    INSERT INTO dead_letters (tenant_id, dispatch_id, job_id, queue, died_at)
        SELECT tenant_id, id, job_id, queue, now() FROM job_dispatch;
    INSERT INTO events (tenant_id, event_type) VALUES ('{tenant}', 'tested');
    INSERT INTO events (tenant_id, event_type, created_at) VALUES ('{tenant}', 'tested', '2001-01-01');
    INSERT INTO run_start_batches (tenant_id, worker_id, size, dispatch_ids, job_ids, job_names, attempts, scheduled_for, created_at)
        SELECT tenant_id, gen_random_uuid(), 1, ARRAY[id], ARRAY[job_id], '{job}', '{1}', ARRAY[now()], at
        FROM job_dispatch, unnest(ARRAY[now(), '2001-01-01']) AS at;
    INSERT INTO run_end_batches (tenant_id, size, dispatch_ids, execution_ids, job_ids, job_names, attempts, outcomes, dispatch_statuses,
                                 started_at, durations_ms, exit_codes, error_classes, errors, created_at)
        SELECT tenant_id, 1, ARRAY[id], ARRAY[id], ARRAY[job_id], '{job}', '{1}', '{NULL}', '{NULL}', ARRAY[now()], '{1}', '{NULL}', '{NULL}',
               '{NULL}', at
        FROM job_dispatch, unnest(ARRAY[now(), '2001-01-01']) AS at;
    INSERT INTO uncounted_ends SELECT tenant_id, transaction_id, id, created_at FROM run_end_batches;
    INSERT INTO uncounted_openings (tenant_id, job_id, opened, opened_at) SELECT tenant_id, job_id, 1, now() FROM job_dispatch;
    INSERT INTO job_dependencies (tenant_id, job_id, after_job_id, condition)
        SELECT tenant_id, id, gen_random_uuid(), 'success' FROM scheduled_jobs;
    INSERT INTO job_ends (tenant_id, job_id, dispatch_id, status, ended_at)
        SELECT tenant_id, job_id, id, 'COMPLETED', now() FROM job_dispatch;
    INSERT INTO job_execution_log (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at, duration_ms,
                                   claim_token, triggered_by)
        SELECT gen_random_uuid(), tenant_id, job_id, id, 1, 'COMPLETED', now(), now(), now(), 1, 1, 'api' FROM job_dispatch;
    INSERT INTO job_execution_output (tenant_id, execution_id, started_at, stream, chunk, content)
        SELECT tenant_id, id, started_at, 'stdout', 0, 'x' FROM job_execution_log;
    INSERT INTO maintenance.job_execution_log SELECT * FROM job_execution_log;
    INSERT INTO maintenance.job_execution_output SELECT * FROM job_execution_output;
    INSERT INTO job_templates (tenant_id, name, parameters, job) VALUES ('{tenant}', 'x', '{}', '{}');
    INSERT INTO kept_answers (tenant_id, caller, key, fingerprint, status) VALUES ('{tenant}', 'x', 'x', sha256('x'), 200);
    INSERT INTO live_output (tenant_id, dispatch_id, claim_token, seq, stream, starts_at, content)
        SELECT tenant_id, id, 1, 1, 'stdout', 0, 'x' FROM job_dispatch;
    INSERT INTO live_progress (tenant_id, dispatch_id, claim_token, message) SELECT tenant_id, id, 1, 'x' FROM job_dispatch;
    INSERT INTO notification_channels (tenant_id, name, kind, url) VALUES ('{tenant}', 'x', 'webhook', 'https://example.com/');
    INSERT INTO notification_deliveries (tenant_id, id, channel_id, channel_name, kind, body)
        SELECT tenant_id, gen_random_uuid(), id, name, 'test', '{}' FROM notification_channels;
    INSERT INTO notification_rules (tenant_id, name, channel_id, kinds) SELECT tenant_id, 'x', id, '{failure}' FROM notification_channels;
    INSERT INTO notification_holds (tenant_id, rule_id, job_id, kind, told_at)
        SELECT tenant_id, id, gen_random_uuid(), 'failure', now() FROM notification_rules;
    INSERT INTO queue_usage (tenant_id, queue) VALUES ('{tenant}', 'x');
    INSERT INTO secrets (tenant_id, name, key_id, nonce, ciphertext)
        VALUES ('{tenant}', 'x', 'x', substr(sha256('x'), 1, 12), sha256('x'));
    INSERT INTO sessions (tenant_id, id, user_id, token_hash, idle_until, expires_at)
        SELECT '{tenant}', gen_random_uuid(), id, sha256('x'), now() + interval '1 h', now() + interval '1 h' FROM users;
    INSERT INTO skipped_fires (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason)
        SELECT tenant_id, id, now(), now(), 1, 'overlap' FROM scheduled_jobs;
    INSERT INTO tenant_log_usage (tenant_id, day, kept_bytes, dropped_bytes, granted_bytes) VALUES ('{tenant}', now(), 0, 0, 0);
    INSERT INTO tenant_usage (tenant_id, minute, dispatched) VALUES ('{tenant}', now(), 1);
    SET session_replication_role = origin;
    GRANT ALL ON ALL TABLES IN SCHEMA public, maintenance TO sched_api";

/// Only row-level security protects the rows: the API's role has all grants.
async fn without_grants() -> Fixture {
    let world = Fixture::new().await;
    let job = world.job("theirs").save().await;
    world.runs(job.id).insert().await;
    world.sql(&FILL.replace("{tenant}", &TENANT.to_string()).replace("{other}", &OTHER.to_string())).await;
    world
}

/// Executes a statement as the API's role of this tenant, and rolls back. Returns the number of
/// rows or the error code.
async fn as_api(client: &Client, tenant: &str, statement: &str) -> Result<u64, SqlState> {
    let begin =
        format!("BEGIN; SET LOCAL ROLE {API_ROLE}; SELECT set_config('sched.tenant', '{tenant}', true)");
    client.batch_execute(&begin).await.unwrap();
    let done = client.execute(statement, &[]).await;
    client.batch_execute("ROLLBACK").await.unwrap();
    done.map_err(|error| error.code().cloned().unwrap_or_else(|| panic!("{statement}: {error:?}")))
}

async fn names(client: &Client, query: &str) -> Vec<String> {
    rows(client, query).await.into_iter().map(|row| row.join(" ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_tables_and_new_partitions_have_row_security() {
    let world = Fixture::new().await;
    let month = "SELECT 'events' || to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '{} months', '\"_y\"YYYY\"m\"MM')";
    let last = world.text(&month.replace("{}", &MONTHS_AHEAD.to_string())).await;
    world.sql(&format!("DROP TABLE {last}")).await;
    assert_eq!(make_ahead(&mut world.conn().await).await.unwrap(), [last]);
    let client = world.db.client().await;
    let all = names(&client, OF_TENANTS).await;
    assert!(all.len() >= 24 + 5 * 5, "the catalogue shows {} only: {all:?}", all.len());
    let open = format!(
        "SELECT t.name FROM ({OF_TENANTS}) AS t (name) JOIN pg_class c ON c.oid = t.name::regclass
         WHERE NOT c.relrowsecurity OR NOT c.relforcerowsecurity
            OR (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid AND p.polname IN ('daemon', 'tenant')) <> 2"
    );
    let open = names(&client, &open).await;
    assert!(open.is_empty(), "without row-level security; call isolate_tenants for each: {open:?}");
    println!("{} tables and partitions", all.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_without_tenant_are_protected_too() {
    let db = TestDatabase::new().await;
    let client = db.client().await;
    let open = "SELECT c.oid::regclass::text FROM pg_class c
                WHERE c.relnamespace IN ('public'::regnamespace, 'maintenance'::regnamespace) AND c.relkind IN ('r', 'p')
                  AND NOT (c.relrowsecurity AND c.relforcerowsecurity)";
    assert_eq!(names(&client, open).await, ["__diesel_schema_migrations"]);
    let views =
        "SELECT c.relname, coalesce('security_invoker=true' = ANY (c.reloptions), false) FROM pg_class c
                 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'v'";
    let views = names(&client, views).await;
    assert!(views.len() >= 8, "{views:?}");
    assert!(views.iter().all(|view| view.ends_with(" t")), "{views:?}");
    // Each function sets its search_path, and not every role may execute it.
    let doors = "SELECT p.proname, p.proconfig::text LIKE '%search_path=%',
                        p.prorettype = 'trigger'::regtype OR NOT has_function_privilege('public', p.oid, 'EXECUTE')
                 FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef ORDER BY 1";
    let known = [
        "admit_sign_in t t",
        "audit_log_kept_from t t",
        "change_own_password t t",
        "delete_dispatches_of_job t t",
        "delete_stray_history t t",
        "delete_tenant t t",
        "end_sessions_of_user t t",
        "find_account t t",
        "find_api_key t t",
        "find_member t t",
        "find_session t t",
        "find_stuck t t",
        "find_usage t t",
        "find_user t t",
        "forgive_sign_in t t",
        "installation_health t t",
        "keep_versions_of_runs t t",
        "note_sign_in t t",
        "restrict_claims t t",
    ];
    assert_eq!(names(&client, doors).await, known);
    let open = "SELECT p.proname FROM pg_proc p
                WHERE p.prosecdef AND p.proacl IS NULL AND p.pronamespace = 'public'::regnamespace";
    let none: [&str; 0] = [];
    assert_eq!(names(&client, open).await, none, "the public may execute it");
}

#[tokio::test(flavor = "multi_thread")]
async fn api_role_has_minimal_rights() {
    let db = TestDatabase::new().await;
    let client = db.client().await;
    let rights = |which: &str| {
        format!(
            "SELECT c.oid::regclass::text, r.word FROM pg_class c
             CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE')) AS r (word)
             WHERE c.relnamespace IN ('public'::regnamespace, 'maintenance'::regnamespace) AND c.relkind IN ('r', 'p') AND {which}
               AND has_table_privilege('{API_ROLE}', c.oid, r.word) ORDER BY 1, 2"
        )
    };
    assert_eq!(names(&client, &rights("c.relispartition")).await, Vec::<String>::new());
    let kept = names(&client, &rights("c.relname IN ('audit_log', 'events', 'job_execution_log')")).await;
    let expected = [
        "audit_log INSERT",
        "audit_log SELECT",
        "events INSERT",
        "events SELECT",
        "job_execution_log SELECT",
        "maintenance.job_execution_log SELECT",
    ];
    assert_eq!(kept, expected);
    // Hashes are not readable; other grants are deliberate.
    for (table, column) in [("users", "password_hash"), ("api_keys", "key_hash"), ("sessions", "token_hash")]
    {
        let may = format!("SELECT has_column_privilege('{API_ROLE}', '{table}', '{column}', 'SELECT')");
        assert_eq!(names(&client, &may).await, ["f"], "{table}.{column}");
    }
    assert_eq!(
        names(&client, &format!("SELECT count(*) FROM pg_class WHERE relowner = '{API_ROLE}'::regrole"))
            .await,
        ["0"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_table_leaks_rows_of_another_tenant() {
    let world = without_grants().await;
    let client = world.db.client().await;
    let (mut tables, mut tried) = (0, 0);
    for table in names(&client, OF_TENANTS).await {
        let own = client
            .query_one(&format!("SELECT count(*) FROM {table} WHERE tenant_id = '{TENANT}'"), &[])
            .await;
        let own = u64::try_from(own.unwrap().get::<_, i64>(0)).unwrap();
        let is_partition =
            world.text(&format!("SELECT relispartition FROM pg_class WHERE oid = '{table}'::regclass")).await
                == "t";
        assert!(own > 0 || is_partition, "{table} has no row to be seen");
        let select = format!("SELECT FROM {table}");
        assert_eq!(
            as_api(&client, &TENANT.to_string(), &select).await,
            Ok(own),
            "{table}: the tenant sees its own rows"
        );
        tables += u64::from(own > 0);
        for viewer in [OTHER.to_string().as_str(), ""] {
            let update = format!("UPDATE {table} SET tenant_id = tenant_id");
            for statement in [&select, &update, &format!("DELETE FROM {table}")] {
                assert_eq!(as_api(&client, viewer, statement).await, Ok(0), "{viewer:?}: {statement}");
                tried += 1;
            }
            if own > 0 {
                let insert = copy_of_a_row(&world, &table).await;
                let refused = Err(SqlState::INSUFFICIENT_PRIVILEGE);
                assert_eq!(as_api(&client, viewer, &insert).await, refused, "{viewer:?}: {insert}");
                tried += 1;
            }
        }
        if own > 0 {
            // Nor can a tenant's own row change its tenant.
            let give = format!("UPDATE {table} SET tenant_id = '{OTHER}'");
            let given = as_api(&client, &TENANT.to_string(), &give).await;
            assert_eq!(given, Err(SqlState::INSUFFICIENT_PRIVILEGE), "{give}");
            tried += 1;
        }
    }
    println!("{tables} tables and partitions with rows, {tried} statements");
    assert!(tables >= 24, "{tables} only");
}

/// A statement that inserts a copy of the tenant's row: not even its error may reveal whether the
/// row exists.
async fn copy_of_a_row(world: &Fixture, table: &str) -> String {
    let columns = format!(
        "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
         WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''"
    );
    let columns = world.text(&columns).await;
    let row =
        world.text(&format!("SELECT to_jsonb(t) FROM {table} t WHERE tenant_id = '{TENANT}' LIMIT 1")).await;
    let row = row.replace('\'', "''");
    format!(
        "INSERT INTO {table} ({columns}) SELECT {columns} FROM jsonb_populate_record(NULL::{table}, '{row}')"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_sees_only_itself() {
    let world = without_grants().await;
    let client = world.db.client().await;
    world.sql("INSERT INTO sign_in_failures (subject, is_address) VALUES (sha256('x'), false)").await;
    world.sql("INSERT INTO events (event_type) VALUES ('tested'); INSERT INTO audit_log (actor, action, target_type, target_id) VALUES ('x', 'x', 'x', 'x')").await;
    let (own, other) = (TENANT.to_string(), OTHER.to_string());
    for (table, of_own, of_other, of_nobody) in
        [("tenants", 1, 1, 0), ("users", 1, 0, 0), ("housekeeping", 0, 0, 0), ("sign_in_failures", 0, 0, 0)]
    {
        let select = format!("SELECT FROM {table}");
        assert_eq!(as_api(&client, &own, &select).await, Ok(of_own), "{table}");
        assert_eq!(as_api(&client, &other, &select).await, Ok(of_other), "{table}");
        assert_eq!(as_api(&client, "", &select).await, Ok(of_nobody), "{table}");
    }
    for statement in
        ["SELECT FROM events WHERE tenant_id IS NULL", "SELECT FROM audit_log WHERE tenant_id IS NULL"]
    {
        assert_eq!(as_api(&client, &own, statement).await, Ok(0), "{statement}");
        let operates = format!("{own}', true), set_config('sched.system', 'on");
        assert_eq!(as_api(&client, &operates, statement).await, Ok(1), "{statement}");
    }
    // Requires the operator scope, even with all grants.
    for statement in [
        "INSERT INTO tenants (slug, name) VALUES ('third', 'Third')",
        "INSERT INTO users (email, display_name) VALUES ('x@example.com', 'X')",
        "UPDATE tenants SET quotas = '{}'",
    ] {
        assert_eq!(
            as_api(&client, &own, statement).await,
            Err(SqlState::INSUFFICIENT_PRIVILEGE),
            "{statement}"
        );
    }
    assert_eq!(as_api(&client, &own, "UPDATE users SET is_active = false").await, Ok(0));
    assert_eq!(as_api(&client, &own, "UPDATE scheduler_instances SET hostname = 'x'").await, Ok(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn api_with_excess_rights_gets_the_fix() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let role = format!("wall_{}", Uuid::now_v7().simple());
    let verdict = async |conn: &mut _, role: &str| match check_api(conn, role).await {
        Ok(()) => None,
        Err(SchemaError::Role(error)) => Some(error),
        Err(error) => panic!("{error:?}"),
    };
    assert_eq!(verdict(&mut conn, API_ROLE).await, None);
    assert_eq!(verdict(&mut conn, &role).await, Some(RoleError::Missing(role.clone())));
    world.sql(&format!("CREATE ROLE {role} NOLOGIN BYPASSRLS")).await;
    let bypasses = verdict(&mut conn, &role).await;
    world.sql(&format!("ALTER ROLE {role} NOBYPASSRLS; GRANT sched_daemon TO {role}")).await;
    let may_become = verdict(&mut conn, &role).await;
    world.sql(&format!("REVOKE sched_daemon FROM {role}; ALTER TABLE secrets OWNER TO {role}")).await;
    let owns = verdict(&mut conn, &role).await;
    world
        .sql("ALTER TABLE secrets OWNER TO CURRENT_USER; ALTER TABLE queues NO FORCE ROW LEVEL SECURITY")
        .await;
    let off = verdict(&mut conn, &role).await;
    world.sql(&format!("ALTER TABLE queues FORCE ROW LEVEL SECURITY; DROP ROLE {role}")).await;
    assert_eq!(bypasses, Some(RoleError::Bypasses(role.clone())));
    assert_eq!(may_become, Some(RoleError::MayBecome { role: role.clone(), others: "sched_daemon".into() }));
    assert_eq!(owns, Some(RoleError::Owns { role, tables: "secrets".into() }));
    assert_eq!(off, Some(RoleError::Off("queues".into())));
    check_daemon(&mut conn).await.unwrap();
    check_owner(&mut conn).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduler_must_be_able_to_create_partitions() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    diesel_async::SimpleAsyncConnection::batch_execute(&mut conn, "SET ROLE sched_daemon").await.unwrap();
    check_daemon(&mut conn).await.unwrap();
    let refused = check_owner(&mut conn).await;
    assert!(
        matches!(&refused, Err(SchemaError::Role(RoleError::NotTheOwner { login, .. })) if login == "sched_daemon"),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn owner_inserts_every_notification_and_the_api_tests_only() {
    let db = TestDatabase::installed().await;
    let insert = |kind: &str| {
        let of_event = if kind == "test" { "NULL, NULL, NULL" } else { "gen_random_uuid(), 1, 1" };
        format!(
            "INSERT INTO notification_deliveries (tenant_id, id, channel_id, channel_name, kind, body, rule_id, event_transaction_id, event_id)
             VALUES ('{TENANT}', gen_random_uuid(), gen_random_uuid(), 'x', '{kind}', '{{}}', {of_event})"
        )
    };
    let owner = connect(&db.url_of(Login::Owner)).await.unwrap();
    for kind in ["failure", "dead_letter", "missed", "recovery", "test"] {
        owner.batch_execute(&insert(kind)).await.unwrap_or_else(|error| panic!("{kind}: {error:?}"));
    }
    let api = connect(&db.url_of(Login::Api)).await.unwrap();
    let insert = |kind: &str| {
        format!(
            "INSERT INTO notification_deliveries (tenant_id, id, channel_id, channel_name, kind, body)
             VALUES ('{TENANT}', gen_random_uuid(), gen_random_uuid(), 'x', '{kind}', '{{}}')"
        )
    };
    assert_eq!(as_api(&api, &TENANT.to_string(), &insert("test")).await, Ok(1));
    let refused = Err(SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(as_api(&api, &TENANT.to_string(), &insert("failure")).await, refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_migrations_create_each_role_once() {
    let databases = [TestDatabase::empty().await, TestDatabase::empty().await, TestDatabase::empty().await];
    let migrated = databases.iter().map(|db| {
        let database = db.database();
        async move { sched_model::connection::migrations::up(&database).await }
    });
    for migrated in futures_util::future::join_all(migrated).await {
        assert!(!migrated.unwrap().is_empty());
    }
}
