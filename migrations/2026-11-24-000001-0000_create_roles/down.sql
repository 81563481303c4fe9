DO $$
DECLARE
    target text;
BEGIN
    FOREACH target IN ARRAY ARRAY['DATABASE %1$I', 'ROLE sched_api IN DATABASE %1$I',
                                  'ROLE sched_daemon IN DATABASE %1$I',
                                  'ROLE sched_worker IN DATABASE %1$I'] LOOP
        BEGIN
            EXECUTE format('ALTER ' || target || ' RESET jit', current_database());
        EXCEPTION
            WHEN insufficient_privilege THEN NULL;
        END;
    END LOOP;
END $$;
-- The roles stay: other databases of the server may use them, and they have no rights here now.
-- If no database needs them: DROP ROLE sched_api, sched_daemon, sched_worker.
DROP FUNCTION isolate_tenants(regclass);
DROP SCHEMA maintenance_archive;
DROP SCHEMA history_archive;
DROP SCHEMA maintenance;
