DROP FUNCTION find_stuck(double precision, double precision, double precision, bigint);
DROP FUNCTION delete_tenant(uuid, bigint);
DROP FUNCTION installation_health();
DROP FUNCTION find_usage(uuid);

DO $$
DECLARE
    creator text;
BEGIN
    IF to_regclass('__diesel_schema_migrations') IS NOT NULL THEN
        REVOKE ALL ON __diesel_schema_migrations FROM sched_api, sched_daemon;
    END IF;
    FOREACH creator IN ARRAY ARRAY[
        current_user,
        (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'tenants'::regclass)] LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance
                        REVOKE SELECT, USAGE ON SEQUENCES FROM sched_daemon', creator);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance
                        REVOKE SELECT, INSERT, UPDATE, DELETE ON TABLES FROM sched_daemon',
                       creator);
    END LOOP;
END $$;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public, maintenance FROM sched_api, sched_daemon;
REVOKE ALL ON ALL TABLES IN SCHEMA public, maintenance FROM sched_api, sched_daemon;
REVOKE ALL ON SCHEMA public, maintenance, history_archive, maintenance_archive FROM sched_api, sched_daemon;

-- In the lock order of the daemons.
LOCK TABLE scheduler_instances, calendars, scheduled_jobs, job_dispatch, worker_registration
    IN ACCESS EXCLUSIVE MODE;

DO $$
DECLARE
    relation regclass;
    policy   name;
BEGIN
    FOR relation IN SELECT p.polrelid FROM pg_policy p WHERE p.polname = 'daemon' LOOP
        FOR policy IN SELECT p.polname FROM pg_policy p WHERE p.polrelid = relation LOOP
            EXECUTE format('DROP POLICY %I ON %s', policy, relation);
        END LOOP;
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY',
                       relation);
    END LOOP;
END $$;
