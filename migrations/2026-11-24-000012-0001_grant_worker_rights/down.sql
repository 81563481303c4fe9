DROP FUNCTION delete_stray_history(timestamptz, bigint);

DO $$
DECLARE
    creator text;
BEGIN
    FOREACH creator IN ARRAY ARRAY[
        current_user,
        (SELECT pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = 'tenants'::regclass)] LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance
                        REVOKE SELECT ON SEQUENCES FROM sched_worker', creator);
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA public, maintenance
                        REVOKE SELECT ON TABLES FROM sched_worker', creator);
    END LOOP;
END $$;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA public, maintenance FROM sched_worker;
REVOKE ALL ON ALL TABLES IN SCHEMA public, maintenance FROM sched_worker;
REVOKE ALL ON SCHEMA public, maintenance, history_archive, maintenance_archive FROM sched_worker;
