-- What was granted is what migration 27 meant to grant, and goes with it.
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
END $$;
