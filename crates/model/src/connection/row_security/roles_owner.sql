-- Whether the login may act as the owner of history.
SELECT current_user::text, pg_get_userbyid(c.relowner)::text, pg_has_role(c.relowner, 'USAGE')
FROM pg_class c
WHERE c.oid = 'job_execution_log'::regclass
