-- What daemons may do with tables must not hang on who ran the migrations: migration 27 sets default privileges for objects that whoever ran it
-- makes, and an administrator may have. So what was made since is granted here, what is put behind the wall from now on is granted there, and
-- what the owner of the tables makes from now on by default.
CREATE OR REPLACE FUNCTION isolate_tenants(relation regclass) RETURNS void
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
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO sched_daemon', relation);
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, maintenance TO sched_daemon;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public, maintenance TO sched_daemon;
DO $$
DECLARE
    owner text := (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'tenants'::regclass);
BEGIN
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance
                    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO sched_daemon', owner);
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance GRANT USAGE ON SEQUENCES TO sched_daemon', owner);
    -- The owner is held by row-level security like everybody and would see no row.
    IF NOT pg_has_role(owner, 'sched_daemon', 'MEMBER') THEN
        EXECUTE format('GRANT sched_daemon TO %I', owner);
    END IF;
END $$;
