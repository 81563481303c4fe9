-- The roles stay: other databases of the server may use them, and they can do nothing where nothing is granted to them. To be rid of them when
-- no database needs them any more: DROP ROLE sched_api, sched_daemon.

DROP FUNCTION find_user(text);
DROP FUNCTION find_member(text, text);
DROP FUNCTION find_api_key(text);

DO $$
BEGIN
    IF to_regclass('__diesel_schema_migrations') IS NOT NULL THEN
        REVOKE ALL ON __diesel_schema_migrations FROM sched_api, sched_daemon;
    END IF;
END $$;

ALTER DEFAULT PRIVILEGES IN SCHEMA public, maintenance REVOKE USAGE ON SEQUENCES FROM sched_daemon;
ALTER DEFAULT PRIVILEGES IN SCHEMA public, maintenance REVOKE SELECT, INSERT, UPDATE, DELETE ON TABLES FROM sched_daemon;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public, maintenance FROM sched_daemon;
REVOKE ALL ON ALL TABLES IN SCHEMA public, maintenance FROM sched_api, sched_daemon;
REVOKE ALL ON SCHEMA public, maintenance FROM sched_api, sched_daemon;

LOCK TABLE scheduler_instances, calendars, scheduled_jobs, job_dispatch, worker_registration IN ACCESS EXCLUSIVE MODE;

DO $$
DECLARE
    relation regclass;
    policy   name;
BEGIN
    FOR relation IN SELECT p.polrelid FROM pg_policy p WHERE p.polname = 'daemon' LOOP
        FOR policy IN SELECT p.polname FROM pg_policy p WHERE p.polrelid = relation LOOP
            EXECUTE format('DROP POLICY %I ON %s', policy, relation);
        END LOOP;
        EXECUTE format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY', relation);
    END LOOP;
END $$;

DROP FUNCTION isolate_tenants(regclass);
