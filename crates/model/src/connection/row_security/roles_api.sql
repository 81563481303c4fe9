-- What exempts a role from row-level security, as visible to the login.
WITH tables AS (
    SELECT c.oid::regclass::text AS relation, c.relowner, c.relrowsecurity, c.relforcerowsecurity
    FROM pg_class c
    WHERE c.relnamespace IN ('public'::regnamespace, 'maintenance'::regnamespace) AND c.relkind IN ('r', 'p')
      -- Partitions have no grants, and the leader fixes those that a scheduler of an earlier
      -- release created.
      AND NOT c.relispartition
      AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped)
)
SELECT session_user::text,
       r.oid IS NOT NULL,
       coalesce(pg_has_role(session_user, r.oid, 'MEMBER'), false),
       coalesce(r.rolsuper OR r.rolbypassrls, false),
       (SELECT string_agg(DISTINCT o.rolname, ', ')
        FROM pg_roles o
        WHERE pg_has_role(r.oid, o.oid, 'MEMBER') AND o.oid <> r.oid
          AND (o.rolname IN ('sched_daemon', 'sched_worker') OR o.rolsuper OR o.rolbypassrls OR o.oid IN (SELECT t.relowner FROM tables t))),
       (SELECT string_agg(t.relation, ', ' ORDER BY t.relation) FROM tables t WHERE t.relowner = r.oid),
       (SELECT string_agg(t.relation, ', ' ORDER BY t.relation) FROM tables t WHERE NOT (t.relrowsecurity AND t.relforcerowsecurity))
FROM (SELECT $1::text AS name) AS input
LEFT JOIN pg_roles r ON r.rolname = input.name
