-- Row-level security: policies and grants of all tables, and the functions that cross them for
-- system operators. docs/internals/isolation.md describes the roles.
--
-- Every query of the API names its tenant. Row-level security is the second barrier: a query that
-- forgets to finds nothing.
--
--   sched.tenant  tenant of the transaction
--   sched.system  'on' in a transaction of a system operator: it also shows the rows of the
--                 installation and allows the creation of tenants
--   sched.follow  'on' in a transaction of the one event reader of an API process

SELECT isolate_tenants(name::regclass)
FROM unnest(ARRAY[
    'api_keys', 'attempt_minutes', 'audit_log', 'calendars', 'claim_restrictions', 'dead_letters', 'events',
    'housekeeping', 'job_dependencies', 'job_dispatch', 'job_ends', 'job_execution_log', 'job_execution_output',
    'job_templates', 'kept_answers', 'known_workers', 'leader_terms', 'live_output',
    'live_progress', 'maintenance.job_execution_log', 'maintenance.job_execution_output',
    'memberships', 'notification_channels', 'notification_cursor', 'notification_deliveries',
    'notification_holds', 'notification_rules', 'projects', 'queue_usage', 'queues',
    'run_end_batches', 'run_start_batches', 'scheduled_job_versions', 'scheduled_jobs',
    'scheduler_instances', 'scheduler_job_types', 'secrets', 'sessions', 'sign_in_failures',
    'skipped_fires', 'task_functions', 'tenant_log_usage', 'tenant_usage', 'tenants',
    'uncounted_ends', 'uncounted_openings', 'unserved_queues', 'users', 'worker_claims',
    'worker_registration']) AS name;

-- Tenants and users. A tenant may lock its row (FOR UPDATE) but not change it.
CREATE POLICY own ON tenants FOR SELECT TO sched_api USING (
    id = (SELECT NULLIF(current_setting('sched.tenant', true), '')::uuid)
    OR (SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY founded ON tenants FOR INSERT TO sched_api
    WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY locked ON tenants FOR UPDATE TO sched_api
    USING (id = (SELECT NULLIF(current_setting('sched.tenant', true), '')::uuid)
           OR (SELECT coalesce(current_setting('sched.system', true), '') = 'on'))
    WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
-- The visible memberships are those of the tenant, and so are the users.
CREATE POLICY members ON users FOR SELECT TO sched_api USING (
    (SELECT coalesce(current_setting('sched.system', true), '') = 'on')
    OR EXISTS (SELECT FROM memberships m WHERE m.user_id = users.id));
CREATE POLICY operated ON users FOR ALL TO sched_api
    USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY operated ON memberships TO sched_api
    USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY founded ON projects FOR INSERT TO sched_api
    WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY founded ON queues FOR INSERT TO sched_api
    WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));

-- Changes of a system operator to a tenant are recorded in that tenant.
CREATE POLICY operated ON audit_log FOR INSERT TO sched_api
    WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY operated ON events FOR INSERT TO sched_api
    WITH CHECK ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
-- The one event reader of an API process reads the events of all tenants. A client receives the
-- positions of its events and reads them under the policy of its tenant.
CREATE POLICY followed ON events FOR SELECT TO sched_api
    USING ((SELECT coalesce(current_setting('sched.follow', true), '') = 'on'));
CREATE POLICY followed ON run_start_batches FOR SELECT TO sched_api
    USING ((SELECT coalesce(current_setting('sched.follow', true), '') = 'on'));
CREATE POLICY followed ON run_end_batches FOR SELECT TO sched_api
    USING ((SELECT coalesce(current_setting('sched.follow', true), '') = 'on'));
-- For a rotation of the secret keys: values are encrypted, and the keys are not in the database.
CREATE POLICY operated ON secrets FOR SELECT TO sched_api
    USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY resealed ON secrets FOR UPDATE TO sched_api
    USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
-- The API inserts test messages only. All other messages come from the leader, which signs in as
-- the owner, a member of both roles: a restrictive policy of one role holds for it too.
CREATE POLICY tested ON notification_deliveries AS RESTRICTIVE FOR INSERT TO sched_api
    WITH CHECK ((kind = 'test' AND status = 'waiting')
                OR pg_has_role(current_user, 'sched_daemon', 'USAGE'));

-- Shared resources are visible to all tenants as far as routes show them. The only tenant data in
-- them are queue names and run ids.
CREATE POLICY shared ON scheduler_instances FOR SELECT TO sched_api USING (true);
CREATE POLICY operated ON scheduler_instances FOR UPDATE TO sched_api
    USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY shared ON leader_terms FOR SELECT TO sched_api USING (true);
CREATE POLICY shared ON worker_registration FOR SELECT TO sched_api USING (true);
CREATE POLICY operated ON worker_registration FOR UPDATE TO sched_api
    USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY shared ON worker_claims FOR SELECT TO sched_api USING (true);
CREATE POLICY shared ON known_workers FOR SELECT TO sched_api USING (true);
CREATE POLICY shared ON scheduler_job_types FOR SELECT TO sched_api USING (true);
CREATE POLICY operated ON scheduler_job_types FOR UPDATE TO sched_api
    USING ((SELECT coalesce(current_setting('sched.system', true), '') = 'on'));
CREATE POLICY shared ON unserved_queues FOR SELECT TO sched_api
    USING (EXISTS (SELECT FROM queues q WHERE q.name = unserved_queues.queue));

-- Rights of the API. It reaches partitions through their parents only.
GRANT USAGE ON SCHEMA public, maintenance TO sched_api, sched_daemon;
GRANT SELECT ON attempt_minutes, audit_log, calendars, dead_letters, events, job_dependencies, job_dispatch,
    job_ends, job_execution_log, job_execution_output, job_templates, kept_answers, known_workers,
    leader_terms, live_output, live_progress, maintenance.job_execution_log,
    maintenance.job_execution_output, memberships, notification_channels, notification_deliveries,
    notification_rules, projects, queue_usage, queues, run_end_batches, run_start_batches,
    scheduled_job_versions, scheduled_jobs, scheduler_instances, scheduler_job_types, secrets,
    skipped_fires, task_functions, tenant_log_usage, tenant_usage, tenants, uncounted_openings,
    unserved_queues, worker_claims, worker_registration
    TO sched_api;
GRANT INSERT ON api_keys, audit_log, calendars, events, job_dependencies, job_dispatch, job_ends,
    job_templates, kept_answers, memberships, notification_channels, notification_rules, projects,
    queues, scheduled_job_versions, scheduled_jobs, secrets, sessions, skipped_fires,
    task_functions, tenant_usage, tenants, uncounted_openings, users TO sched_api;
GRANT INSERT (tenant_id, id, channel_id, channel_name, kind, body) ON notification_deliveries
    TO sched_api;
GRANT SELECT ON event_positions, event_stream, run_end_events, run_start_events TO sched_api;
GRANT USAGE ON SEQUENCE event_id_seq TO sched_api;
GRANT UPDATE ON calendars, dead_letters, job_dependencies, job_dispatch, job_templates, memberships,
    notification_channels, notification_rules, projects, queues, scheduled_jobs, secrets,
    skipped_fires, task_functions, tenant_usage, tenants TO sched_api;
GRANT UPDATE (step_down_requested_at, step_down_term) ON scheduler_instances TO sched_api;
GRANT UPDATE (drain_requested_at) ON worker_registration TO sched_api;
GRANT UPDATE (is_active) ON scheduler_job_types TO sched_api;
GRANT DELETE ON calendars, job_dependencies, job_templates, memberships, notification_channels,
    notification_rules, queues, secrets, sessions, uncounted_openings, users TO sched_api;
-- The API writes hashes and never reads them. It has no rights on sign_in_failures. The policies
-- allow writes to users only in a transaction of a system operator.
GRANT SELECT (id, email, display_name, is_active, is_system_operator, last_login_at, created_at,
              updated_at),
    UPDATE (display_name, password_hash, is_active, is_system_operator, last_login_at, updated_at)
    ON users TO sched_api;
-- A change of a key never adds rights. The API decides that: a user with the right to create
-- keys could create one with those rights.
GRANT SELECT (tenant_id, id, user_id, name, key_prefix, hash_key_id, scopes, expires_at, revoked_at,
              revoked_src, last_used_at, created_at, created_src),
    UPDATE (name, scopes, expires_at, revoked_at, revoked_src, last_used_at)
    ON api_keys TO sched_api;
GRANT SELECT (tenant_id, id, user_id, created_at, last_seen_at, idle_until, expires_at, user_agent,
              address),
    UPDATE (last_seen_at, idle_until) ON sessions TO sched_api;

-- Rights of the daemons, also on tables that later migrations and the leader create; policies are
-- not inherited. Default privileges belong to the creating role. The role that runs the migrations
-- may differ from the owner of the tables, so both get them.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, maintenance TO sched_daemon;
-- A backup reads the state of sequences, and detached months.
GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA public, maintenance TO sched_daemon;
GRANT USAGE ON SCHEMA history_archive, maintenance_archive TO sched_daemon;
DO $$
DECLARE
    owner   text := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c
                     WHERE c.oid = 'tenants'::regclass);
    creator text;
BEGIN
    FOREACH creator IN ARRAY ARRAY[current_user, owner] LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance
                        GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO sched_daemon', creator);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance
                        GRANT SELECT, USAGE ON SEQUENCES TO sched_daemon', creator);
    END LOOP;
    -- Row-level security is forced, so the owner would see no row.
    IF NOT pg_has_role(owner, 'sched_daemon', 'MEMBER') THEN
        EXECUTE format('GRANT sched_daemon TO %I', owner);
    END IF;
    -- A daemon checks the schema version at start. The migration library creates the table.
    IF to_regclass('__diesel_schema_migrations') IS NOT NULL THEN
        GRANT SELECT ON __diesel_schema_migrations TO sched_api;
    END IF;
END $$;

-- Functions for system operators. They run as their owner and return values across tenants, never
-- rows of them.

-- A count of an earlier minute or day is outdated and reads as 0. Two claims of a worker may list
-- the same run, if it was claimed again.
CREATE FUNCTION find_usage(
    tenant uuid, OUT quotas jsonb, OUT jobs bigint, OUT dispatches bigint, OUT running bigint,
    OUT log_bytes bigint, OUT log_bytes_dropped bigint, OUT day date
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER ROWS 1
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT t.quotas,
           (SELECT count(*)
            FROM scheduled_jobs j
            WHERE j.tenant_id = t.id AND j.deleted_at IS NULL
              AND (j.scope = 'project' OR NOT EXISTS (
                  SELECT 1 FROM task_functions f
                  WHERE f.tenant_id = j.tenant_id AND f.id = j.task_function_id AND f.is_system))),
           CASE WHEN t.quotas ? 'dispatches_per_minute' THEN
               coalesce((SELECT u.dispatched FROM tenant_usage u
                         WHERE u.tenant_id = t.id AND u.minute >= i.minute), 0) END,
           (SELECT count(DISTINCT d.id)
            FROM worker_claims c
            CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
            JOIN job_dispatch d
                ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
            WHERE d.tenant_id = t.id),
           CASE WHEN t.quotas ? 'log_bytes' THEN
               coalesce((SELECT u.kept_bytes FROM tenant_log_usage u
                         WHERE u.tenant_id = t.id AND u.day >= i.today), 0) END,
           CASE WHEN t.quotas ? 'log_bytes' THEN
               coalesce((SELECT u.dropped_bytes FROM tenant_log_usage u
                         WHERE u.tenant_id = t.id AND u.day >= i.today), 0) END,
           i.today
    FROM (SELECT date_trunc('minute', clock_timestamp() + interval '1 second') AS minute,
                 (clock_timestamp() AT TIME ZONE 'UTC')::date AS today) AS i
    CROSS JOIN tenants t
    WHERE t.id = find_usage.tenant
      AND (t.id = NULLIF(current_setting('sched.tenant', true), '')::uuid
           OR coalesce(current_setting('sched.system', true), '') = 'on');
END;
COMMENT ON FUNCTION find_usage(uuid) IS
    'Returns the quotas and usage of a tenant, to the tenant and to system operators.';

CREATE FUNCTION installation_health(OUT oldest_due timestamptz, OUT quarantined bigint)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT
        -- The first entry of scheduled_jobs_due_idx; a held job sorts at the end of its hold.
        (SELECT d.due FROM (SELECT greatest(j.next_run_at, j.dispatch_lock_until) AS due
                            FROM scheduled_jobs j
                            WHERE j.next_run_at IS NOT NULL
                            ORDER BY greatest(j.next_run_at, j.dispatch_lock_until), j.burst_order
                            LIMIT 1) AS d
         WHERE d.due <= clock_timestamp()),
        (SELECT count(*) FROM (SELECT FROM scheduled_jobs j
                               WHERE NOT j.is_enabled AND j.deleted_at IS NULL
                                 AND j.disabled_reason IS NOT NULL
                                 AND (j.last_fire_at IS NOT NULL OR j.scope = 'project')
                               LIMIT 10000) AS q);
END;
COMMENT ON FUNCTION installation_health() IS
    'Returns the due time of the longest overdue job, if any, and the number of jobs that the '
    'scheduler disabled (up to 10000), over all tenants.';

-- The definitions of the tenant go with it, and the runs of its deleted jobs. Its history, events
-- and audit events stay as long as those of other tenants; only SQL reads them. The function
-- rejects a tenant with jobs or open runs, and one with so much history that the transaction would
-- take long.
CREATE FUNCTION delete_tenant(of_tenant uuid, most_dispatches bigint) RETURNS text
    LANGUAGE plpgsql STRICT SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF coalesce(current_setting('sched.system', true), '') <> 'on' THEN
        RAISE insufficient_privilege
            USING MESSAGE = 'only an operator of the installation deletes tenants';
    END IF;
    -- A statement that inserts a row of the tenant holds a key lock on it until its commit. After
    -- this lock there is no such statement.
    PERFORM FROM public.tenants t WHERE t.id = of_tenant FOR UPDATE;
    IF EXISTS (SELECT FROM public.scheduled_jobs j
               WHERE j.tenant_id = of_tenant AND j.deleted_at IS NULL) THEN
        RETURN 'has_jobs';
    END IF;
    -- Runs that are not counted yet are added, and ends subtracted.
    IF (SELECT sum(j.active_dispatches) FROM public.scheduled_jobs j
        WHERE j.tenant_id = of_tenant)
       + (SELECT coalesce(sum(o.opened), 0) FROM public.uncounted_openings o
          WHERE o.tenant_id = of_tenant)
       > (SELECT count(*)
          FROM public.uncounted_ends u
          JOIN public.run_end_batches b ON b.transaction_id = u.transaction_id
              AND b.id = u.batch_id AND b.created_at = u.created_at
          CROSS JOIN LATERAL unnest(b.outcomes, b.dispatch_statuses) AS e (outcome, status)
          WHERE u.tenant_id = of_tenant
            AND coalesce(e.status, e.outcome, 'COMPLETED') <> 'PENDING') THEN
        RETURN 'has_work';
    END IF;
    IF (SELECT count(*) FROM (SELECT FROM public.job_dispatch d
                              WHERE d.tenant_id = of_tenant LIMIT most_dispatches + 1) AS d)
       > most_dispatches THEN
        RETURN 'has_history';
    END IF;
    DELETE FROM public.attempt_minutes m WHERE m.tenant_id = of_tenant;
    DELETE FROM public.tenants t WHERE t.id = of_tenant;
    RETURN 'deleted';
END $$;
COMMENT ON FUNCTION delete_tenant(uuid, bigint) IS
    'Deletes a tenant without jobs and open runs, for system operators. Returns the outcome.';

-- Must select the same attempts as recovery of dead workers, of overdue attempts and of lost claims
-- together (recovery_*.sql). It decides nothing. Job names of other tenants are hidden. It reads
-- all of job_dispatch, as the recovery of lost claims does.
CREATE FUNCTION find_stuck(
    worker_lease_seconds double precision, unknown_limit_seconds double precision,
    margin_seconds double precision, max_rows bigint,
    OUT dispatch_id uuid, OUT tenant_id uuid, OUT project_id uuid, OUT job_id uuid,
    OUT job_name text, OUT claim_token bigint, OUT attempt integer, OUT retry_count integer,
    OUT lost_count integer, OUT claimed_at timestamptz, OUT asked_at timestamptz,
    OUT worker_id uuid, OUT retry_policy jsonb, OUT is_apart boolean, OUT tenant text,
    OUT hostname text, OUT is_cancel_requested boolean, OUT has_claim boolean, OUT is_worker_gone boolean,
    OUT limit_seconds double precision
) RETURNS SETOF record LANGUAGE sql STABLE STRICT SECURITY DEFINER
    SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
    SELECT d.id, d.tenant_id, j.project_id, d.job_id,
           CASE WHEN d.tenant_id = NULLIF(current_setting('sched.tenant', true), '')::uuid
                THEN j.name ELSE '' END,
           d.claim_token, d.attempt, d.retry_count, d.lost_count, d.claimed_at, clock_timestamp(),
           d.worker_id, coalesce(j.retry_policy, f.retry_policy),
           j.scope = 'backup_infrastructure', t.slug, w.hostname,
           d.cancel_requested_at IS NOT NULL, c.id IS NOT NULL, worker.is_gone, allowed.seconds
    FROM job_dispatch d
    JOIN tenants t ON t.id = d.tenant_id
    JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    LEFT JOIN worker_registration w ON w.worker_id = d.worker_id
    -- If several claims of the worker list the run, the latest one is current.
    LEFT JOIN LATERAL (
        SELECT claims.id, named.limit_seconds
        FROM worker_claims claims
        CROSS JOIN LATERAL unnest(claims.dispatch_ids, claims.limit_seconds)
            AS named (id, limit_seconds)
        WHERE claims.worker_id = d.worker_id AND named.id = d.id
        ORDER BY claims.id DESC
        LIMIT 1
    ) AS c ON true
    CROSS JOIN LATERAL (
        SELECT w.worker_id IS NULL OR w.status = 'OFFLINE'
               OR abs(extract(epoch FROM clock_timestamp() - w.last_heartbeat))
                  > greatest(find_stuck.worker_lease_seconds, w.lease_ms / 1000.0) AS is_gone
    ) AS worker
    CROSS JOIN LATERAL (
        SELECT coalesce(c.limit_seconds::float8,
                        greatest(coalesce(j.timeout_seconds, f.default_timeout_seconds)::float8,
                                 find_stuck.unknown_limit_seconds)) AS seconds
    ) AS allowed
    WHERE d.status = 'IN_PROGRESS'
      AND coalesce(current_setting('sched.system', true), '') = 'on'
      -- The margin of overdue attempts: a tenth of the limit, or the minimum.
      AND (worker.is_gone
           OR d.claimed_at < clock_timestamp() - (allowed.seconds
               + greatest(find_stuck.margin_seconds, allowed.seconds / 10)) * interval '1 second')
    ORDER BY d.id
    LIMIT find_stuck.max_rows;
END;
COMMENT ON FUNCTION find_stuck(double precision, double precision, double precision, bigint) IS
    'Returns the attempts that a reset of stuck runs would end, for system operators.';

REVOKE EXECUTE ON FUNCTION find_usage(uuid), installation_health(), delete_tenant(uuid, bigint),
    find_stuck(double precision, double precision, double precision, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION find_usage(uuid), installation_health(), delete_tenant(uuid, bigint),
    find_stuck(double precision, double precision, double precision, bigint)
    TO sched_api, sched_daemon;
