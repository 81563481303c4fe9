-- What daemons may do with tables must not hang on who ran the migrations: migration 27 sets default privileges for objects that whoever ran it
-- makes, and an administrator may have. So what was made since is granted by name, and what the owner of the tables makes from now on by
-- default.
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
