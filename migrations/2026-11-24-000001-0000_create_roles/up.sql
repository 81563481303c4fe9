-- Roles, schemas, and the function that puts a table behind row-level security.
--
--   sched_api     the API's role in every transaction. It sees the rows of the one tenant that the
--                 transaction names, and owns nothing.
--   sched_daemon  schedulers and `schedctl --direct`, which act for all tenants. It sees every row.
--   sched_worker  workers, which act for all tenants too. It sees every row, because a worker makes
--                 backups, and writes the rows of runs and of the built-in jobs.
--
-- Roles belong to the server, not to the database. The first database that is migrated creates
-- them; no migration drops them. They have no password and cannot log in. An administrator grants
-- one of them to a login role. The migrating role uses the first two itself.

DO $$
DECLARE
    wanted text;
    advice CONSTANT text := format(
        'as an administrator of the server: CREATE ROLE sched_api NOLOGIN; '
        'CREATE ROLE sched_daemon NOLOGIN; CREATE ROLE sched_worker NOLOGIN; '
        'GRANT sched_api, sched_daemon TO %I; '
        'then run `schedctl migrate up` again', current_user);
BEGIN
    FOREACH wanted IN ARRAY ARRAY['sched_api', 'sched_daemon', 'sched_worker'] LOOP
        BEGIN
            IF to_regrole(wanted) IS NULL THEN
                EXECUTE format('CREATE ROLE %I NOLOGIN', wanted);
            END IF;
        EXCEPTION
            -- Another database of the server was migrated concurrently.
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE insufficient_privilege USING MESSAGE = format(
                    '%s may not create the role %s, which row-level security needs: %s',
                    current_user, wanted, advice);
        END;
        -- A superuser is a member of every role.
        IF wanted <> 'sched_worker' AND NOT pg_has_role(current_user, wanted, 'USAGE') THEN
            BEGIN
                EXECUTE format('GRANT %I TO %I', wanted, current_user);
            EXCEPTION
                WHEN unique_violation THEN NULL;
                WHEN insufficient_privilege OR invalid_grant_operation THEN
                    RAISE insufficient_privilege USING MESSAGE = format(
                        '%s may not become a member of the role %s: %s',
                        current_user, wanted, advice);
            END;
        END IF;
    END LOOP;
END $$;

-- Just-in-time compilation of the short statements of the programs costs more than it saves. The
-- programs disable it in their sessions. This disables it for all other sessions of the database,
-- and for the roles if an administrator lets them log in. A migrating role without the right to
-- change one of the settings leaves it as it is.
DO $$
DECLARE
    target text;
BEGIN
    FOREACH target IN ARRAY ARRAY['DATABASE %1$I', 'ROLE sched_api IN DATABASE %1$I',
                                  'ROLE sched_daemon IN DATABASE %1$I',
                                  'ROLE sched_worker IN DATABASE %1$I'] LOOP
        BEGIN
            EXECUTE format('ALTER ' || target || ' SET jit = off', current_database());
        EXCEPTION
            WHEN insufficient_privilege THEN NULL;
        END;
    END LOOP;
END $$;

-- A restore of the main schema must not rewrite the record of the backup. So the history of
-- backup_infrastructure jobs, and its archive, have separate schemas.
CREATE SCHEMA maintenance;
COMMENT ON SCHEMA maintenance IS 'History of the jobs that back up and restore the main schema.';
CREATE SCHEMA history_archive;
COMMENT ON SCHEMA history_archive IS
    'Months of history and events that retention detached (HISTORY_EXPIRY=detach). '
    'No program reads them: archive and drop them.';
CREATE SCHEMA maintenance_archive;
COMMENT ON SCHEMA maintenance_archive IS 'Detached months of the schema maintenance.';

-- The setting sched.tenant names the tenant of a transaction of the API. If it is unset or empty,
-- the comparison is with NULL and no row passes. It is read in a sub-select, so that PostgreSQL
-- evaluates it once per statement.
CREATE FUNCTION isolate_tenants(relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET client_min_messages = warning AS $$
DECLARE
    own       CONSTANT text :=
        'tenant_id = (SELECT NULLIF(current_setting(''sched.tenant'', true), '''')::uuid)';
    installed CONSTANT text :=
        '(SELECT coalesce(current_setting(''sched.system'', true), '''') = ''on'')';
    nullable  boolean;
    allowed   text;
    part      regclass;
BEGIN
    SELECT NOT a.attnotnull INTO nullable
    FROM pg_attribute a
    WHERE a.attrelid = relation AND a.attname = 'tenant_id' AND NOT a.attisdropped;
    allowed := CASE WHEN nullable
        THEN format('%s OR (tenant_id IS NULL AND %s)', own, installed) ELSE own END;
    -- PostgreSQL skips the policies of the parent when a statement names a partition, so each
    -- partition has its own.
    FOR part IN SELECT relation UNION SELECT relid FROM pg_partition_tree(relation) LOOP
        EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', part);
        EXECUTE format('DROP POLICY IF EXISTS daemon ON %s', part);
        EXECUTE format('CREATE POLICY daemon ON %s TO sched_daemon, sched_worker
                        USING (true) WITH CHECK (true)', part);
        EXECUTE format('DROP POLICY IF EXISTS tenant ON %s', part);
        IF nullable IS NOT NULL THEN
            EXECUTE format('CREATE POLICY tenant ON %s TO sched_api USING (%s) WITH CHECK (%s)',
                           part, allowed, allowed);
        END IF;
    END LOOP;
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO sched_daemon', relation);
END $$;
COMMENT ON FUNCTION isolate_tenants(regclass) IS
    'Puts a table and its partitions behind row-level security: daemons see all rows, the API '
    'those of one tenant, or none if there is no tenant_id. Call it for every new table.';
REVOKE EXECUTE ON FUNCTION isolate_tenants(regclass) FROM PUBLIC;
