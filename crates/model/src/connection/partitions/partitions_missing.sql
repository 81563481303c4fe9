-- As the owner of the table, whichever of its members signed in: the next login that migrates must
-- own all partitions.
SELECT child.name,
       format('SET LOCAL ROLE %I; CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM (%L) TO (%L); SELECT isolate_tenants(%L)',
              (SELECT pg_get_userbyid(p.relowner) FROM pg_class p WHERE p.oid = parent.name::regclass), child.name, parent.name,
              child.first, (child.first AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC', child.name)
FROM unnest(ARRAY['job_execution_log', 'job_execution_output', 'maintenance.job_execution_log',
                  'maintenance.job_execution_output', 'events', 'run_start_batches', 'run_end_batches']) AS parent (name)
CROSS JOIN generate_series(0, $1) AS ahead (months)
CROSS JOIN LATERAL (
    SELECT (date_trunc('month', now() AT TIME ZONE 'UTC') + make_interval(months => ahead.months)) AT TIME ZONE 'UTC' AS first
) AS month
CROSS JOIN LATERAL (
    SELECT month.first, parent.name || to_char(month.first AT TIME ZONE 'UTC', '"_y"YYYY"m"MM') AS name
) AS child
WHERE to_regclass(child.name) IS NULL
UNION ALL
-- A scheduler of a release without row-level security may have created some.
SELECT c.oid::regclass::text, format('SELECT isolate_tenants(%L)', c.oid::regclass)
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = ANY (ARRAY['job_execution_log', 'job_execution_output', 'maintenance.job_execution_log',
                               'maintenance.job_execution_output', 'events', 'run_start_batches', 'run_end_batches']::regclass[])
  AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
UNION ALL
-- Nor did that release set the owner.
SELECT c.oid::regclass::text, format('ALTER TABLE %s OWNER TO %I', c.oid::regclass, pg_get_userbyid(p.relowner))
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_class p ON p.oid = i.inhparent
WHERE i.inhparent = ANY (ARRAY['job_execution_log', 'job_execution_output', 'maintenance.job_execution_log',
                               'maintenance.job_execution_output', 'events', 'run_start_batches', 'run_end_batches']::regclass[])
  AND c.relowner <> p.relowner AND pg_has_role(c.relowner, 'MEMBER')
ORDER BY 1
