-- The second wall between tenants: row-level security, for whoever is not the scheduler itself. The first are the queries, each of which names
-- its tenant; a query that forgets to now finds nothing. docs/isolation.md tells who is who.
--
--   sched_api     what the API is in every transaction: sees the rows of one tenant, which the transaction names; owns nothing.
--   sched_daemon  schedulers, workers and schedctl --direct, which act for all tenants: sees every row.
--
-- Roles belong to the server and not to the database: they are made where they are missing, whichever database of the server comes first, and
-- never dropped here. They have no password and cannot sign in; who signs in is made a member of one of them.
--
-- Every table is locked for an instant, in the order in which the daemons lock them. Nothing is rewritten.

DO $$
DECLARE
    wanted text;
    advice CONSTANT text := format('as an administrator of the server: CREATE ROLE sched_api NOLOGIN; CREATE ROLE sched_daemon NOLOGIN; '
                                   'GRANT sched_api, sched_daemon TO %I; then run `schedctl migrate up` again', current_user);
BEGIN
    FOREACH wanted IN ARRAY ARRAY['sched_api', 'sched_daemon'] LOOP
        BEGIN
            IF to_regrole(wanted) IS NULL THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            END IF;
        EXCEPTION
            -- Another database of the server was migrated at the same moment.
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE insufficient_privilege USING MESSAGE = format('%s may not make the role %s, which keeps tenants apart: %s', current_user, wanted, advice);
        END;
        -- A superuser is a member of everything.
        IF NOT pg_has_role(current_user, wanted, 'USAGE') THEN
            BEGIN
                EXECUTE format('GRANT %I TO %I', wanted, current_user);
            EXCEPTION
                WHEN unique_violation THEN NULL;
                WHEN insufficient_privilege OR invalid_grant_operation THEN
                    RAISE insufficient_privilege USING MESSAGE = format('%s may not become a member of the role %s: %s', current_user, wanted, advice);
            END;
        END IF;
    END LOOP;
END $$;

-- Whose rows a transaction of the API sees. Unset, empty or missing is nobody: a comparison with NULL lets nothing through.
-- As a sub-select, so that it is read once for a statement.
CREATE FUNCTION isolate_tenants(relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
    own       CONSTANT text := 'tenant_id = (SELECT NULLIF(current_setting(''sched.tenant'', true), '''')::uuid)';
    installed CONSTANT text := '(SELECT coalesce(current_setting(''sched.system'', true), '''') = ''on'')';
    nullable  boolean;
    allowed   text;
    part      regclass;
BEGIN
    SELECT NOT a.attnotnull INTO nullable
    FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = 'tenant_id' AND NOT a.attisdropped;
    allowed := CASE WHEN nullable THEN format('%s OR (tenant_id IS NULL AND %s)', own, installed) ELSE own END;
    -- A policy of a partitioned table is not asked for when one of its partitions is named, so each has its own.
    FOR part IN SELECT relation UNION SELECT relid FROM pg_partition_tree(relation) LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
        EXECUTE format('DROP POLICY IF EXISTS daemon ON %s', part);
        EXECUTE format('CREATE POLICY daemon ON %s TO sched_daemon USING (true) WITH CHECK (true)', part);
        EXECUTE format('DROP POLICY IF EXISTS tenant ON %s', part);
        IF nullable IS NOT NULL THEN
            EXECUTE format('CREATE POLICY tenant ON %s TO sched_api USING (%s) WITH CHECK (%s)', part, allowed, allowed);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION isolate_tenants(regclass) IS
    'Puts a table and its partitions behind row-level security: daemons see all of it, the API the rows of one tenant, or none where there is no tenant_id. Call it for every new table.';
REVOKE EXECUTE ON FUNCTION isolate_tenants(regclass) FROM PUBLIC;

LOCK TABLE scheduler_instances, calendars, scheduled_jobs, job_dispatch, worker_registration IN ACCESS EXCLUSIVE MODE;

SELECT isolate_tenants(name::regclass)
FROM unnest(ARRAY['api_keys', 'audit_log', 'calendars', 'dead_letters', 'events', 'housekeeping', 'job_dependencies', 'job_dispatch', 'job_ends',
                  'job_execution_log', 'job_execution_output', 'leader_terms', 'live_output', 'live_progress', 'maintenance.job_execution_log',
                  'maintenance.job_execution_output', 'memberships', 'projects', 'queue_usage', 'queues', 'scheduled_job_versions', 'scheduled_jobs',
                  'scheduler_instances', 'scheduler_job_types', 'secrets', 'skipped_fires', 'task_functions', 'tenant_usage', 'tenants',
                  'unserved_queues', 'users', 'worker_claims', 'worker_registration']) AS name;

-- Who operates the installation, in a transaction that says so, also sees what belongs to no tenant and what makes one.
CREATE POLICY own ON tenants FOR SELECT TO sched_api USING (
    id = (SELECT NULLIF(current_setting('sched.tenant', true), '')::uuid) OR (SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY founded ON tenants FOR INSERT TO sched_api WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
-- A tenant may lock its row, and not change it.
CREATE POLICY locked ON tenants FOR UPDATE TO sched_api
    USING (id = (SELECT NULLIF(current_setting('sched.tenant', true), '')::uuid) OR (SELECT coalesce(current_setting('sched.system', true), '') = 'on'))
    WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
-- The memberships that are seen are those of the tenant, and so are the users.
CREATE POLICY members ON users FOR SELECT TO sched_api USING (
    (SELECT coalesce(current_setting('sched.system', true), '') = 'on') OR EXISTS (SELECT FROM memberships m WHERE m.user_id = users.id));
CREATE POLICY operated ON users FOR ALL TO sched_api USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY operated ON memberships TO sched_api USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY founded ON projects FOR INSERT TO sched_api WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY founded ON queues FOR INSERT TO sched_api WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
-- What they do to a tenant is kept, and told, there.
CREATE POLICY operated ON audit_log FOR INSERT TO sched_api WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY operated ON events FOR INSERT TO sched_api WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
-- For a change of keys: values are sealed, and their keys are not in the database.
CREATE POLICY operated ON secrets FOR SELECT TO sched_api USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY resealed ON secrets FOR UPDATE TO sched_api USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));

-- What serves all tenants is seen by all of them as far as routes show it; what is in it of a tenant are names of queues and ids of dispatches.
CREATE POLICY shared ON scheduler_instances FOR SELECT TO sched_api USING (true);
CREATE POLICY operated ON scheduler_instances FOR UPDATE TO sched_api USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY shared ON leader_terms FOR SELECT TO sched_api USING (true);
CREATE POLICY shared ON worker_registration FOR SELECT TO sched_api USING (true);
CREATE POLICY shared ON worker_claims FOR SELECT TO sched_api USING (true);
CREATE POLICY shared ON scheduler_job_types FOR SELECT TO sched_api USING (true);
CREATE POLICY shared ON unserved_queues FOR SELECT TO sched_api USING (EXISTS (SELECT FROM queues q WHERE q.name = unserved_queues.queue));

-- What the API may do at all. Partitions are reached through their parents only.
GRANT USAGE ON SCHEMA public, maintenance TO sched_api, sched_daemon;
GRANT SELECT ON calendars, dead_letters, events, audit_log, job_dependencies, job_dispatch, job_ends, job_execution_log, job_execution_output,
    leader_terms, live_output, live_progress, memberships, projects, queue_usage, queues, scheduled_job_versions, scheduled_jobs,
    scheduler_instances, scheduler_job_types, secrets, skipped_fires, task_functions, tenant_usage, tenants, unserved_queues, worker_claims,
    worker_registration, maintenance.job_execution_log, maintenance.job_execution_output TO sched_api;
GRANT INSERT ON api_keys, audit_log, calendars, events, job_dependencies, job_dispatch, job_ends, memberships, projects, queues,
    scheduled_job_versions, scheduled_jobs, secrets, skipped_fires, task_functions, tenants, users TO sched_api;
GRANT UPDATE ON calendars, dead_letters, job_dependencies, job_dispatch, memberships, projects, queues, scheduled_jobs, secrets, skipped_fires,
    task_functions, tenants TO sched_api;
GRANT DELETE ON calendars, job_dependencies, memberships, secrets TO sched_api;
-- Hashes are written and never read.
GRANT SELECT (id, email, display_name, is_active, is_system_operator, last_login_at, created_at, updated_at),
    UPDATE (display_name, password_hash, is_active, last_login_at, updated_at) ON users TO sched_api;
GRANT SELECT (tenant_id, id, user_id, name, key_prefix, hash_key_id, scopes, expires_at, revoked_at, revoked_src, last_used_at, created_at, created_src),
    UPDATE (revoked_at, revoked_src, last_used_at) ON api_keys TO sched_api;
GRANT UPDATE (step_down_requested_at, step_down_term) ON scheduler_instances TO sched_api;

-- Also on what later migrations and the scheduler make; policies do not come by themselves.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, maintenance TO sched_daemon;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public, maintenance TO sched_daemon;
ALTER DEFAULT PRIVILEGES IN SCHEMA public, maintenance GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO sched_daemon;
ALTER DEFAULT PRIVILEGES IN SCHEMA public, maintenance GRANT USAGE ON SEQUENCES TO sched_daemon;

-- A daemon looks at its start whether the schema is the one it needs. The migration library makes the table.
DO $$
BEGIN
    IF to_regclass('__diesel_schema_migrations') IS NOT NULL THEN
        GRANT SELECT ON __diesel_schema_migrations TO sched_api;
    END IF;
END $$;

-- The doors: what has to be found before a tenant is known, or in no tenant. Each takes the public part of one thing and gives what decides
-- about it; none lists anything.
CREATE FUNCTION find_api_key(
    prefix text, OUT tenant_id uuid, OUT tenant_slug text, OUT id uuid, OUT key_hash bytea, OUT hash_key_id text, OUT scopes text[], OUT user_id uuid,
    OUT email text, OUT role text, OUT is_system_operator boolean, OUT is_active boolean, OUT expires_at timestamptz, OUT is_revoked boolean,
    OUT is_expired boolean, OUT is_to_be_touched boolean
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT k.tenant_id, t.slug, k.id, k.key_hash, k.hash_key_id, k.scopes,
           k.user_id, u.email, m.role, u.is_system_operator, u.is_active, k.expires_at,
           k.revoked_at IS NOT NULL,
           coalesce(k.expires_at <= now(), false),
           coalesce(k.last_used_at < now() - interval '1 minute', true)
    FROM api_keys k
    JOIN tenants t ON t.id = k.tenant_id
    LEFT JOIN memberships m ON m.tenant_id = k.tenant_id AND m.user_id = k.user_id
    LEFT JOIN users u ON u.id = m.user_id
    WHERE k.key_prefix = find_api_key.prefix;
END;
COMMENT ON FUNCTION find_api_key(text) IS 'The key that is kept under a prefix, in whatever tenant, with all that decides what it may do.';

CREATE FUNCTION find_member(
    address text, slug text, OUT tenant_id uuid, OUT user_id uuid, OUT email text, OUT role text, OUT is_system_operator boolean, OUT is_active boolean
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT m.tenant_id, u.id, u.email, m.role, u.is_system_operator, u.is_active
    FROM users u
    JOIN memberships m ON m.user_id = u.id
    JOIN tenants t ON t.id = m.tenant_id
    WHERE lower(u.email) = lower(find_member.address) AND t.slug = find_member.slug;
END;
COMMENT ON FUNCTION find_member(text, text) IS 'The member with an address in the tenant with a slug, with all that decides what they may do.';

CREATE FUNCTION find_user(address text) RETURNS SETOF uuid
    LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1 SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT u.id FROM users u WHERE lower(u.email) = lower(find_user.address);
END;
COMMENT ON FUNCTION find_user(text) IS 'The user with an address, who may become a member of any tenant.';

REVOKE EXECUTE ON FUNCTION find_api_key(text), find_member(text, text), find_user(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_api_key(text), find_member(text, text), find_user(text) TO sched_api, sched_daemon;
