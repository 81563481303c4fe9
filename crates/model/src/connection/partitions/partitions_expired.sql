-- Months that ended before a given time, with the statements that drop or detach them. The bound of
-- a partition is parsed from the server's text; a default partition has none.
SELECT child.name,
       format('SET LOCAL ROLE %I; DROP TABLE %s', child.owner, child.name),
       format('SET LOCAL ROLE %I; ALTER TABLE %s DETACH PARTITION %s; ALTER TABLE %s SET SCHEMA %I; COMMENT ON TABLE %I.%I IS %L',
              child.owner, i.inhparent::regclass, child.name, child.name, child.archive, child.archive, c.relname,
              format('Detached from %s; nothing reads it any more.', i.inhparent::regclass))
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT c.oid::regclass::text AS name,
           (SELECT pg_get_userbyid(p.relowner) FROM pg_class p WHERE p.oid = i.inhparent) AS owner,
           CASE WHEN n.nspname = 'maintenance' THEN 'maintenance_archive' ELSE 'history_archive' END AS archive,
           substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([^'']+)''\)')::timestamptz AS ends_at
) AS child
WHERE i.inhparent = ANY (ARRAY['job_execution_log', 'job_execution_output', 'maintenance.job_execution_log',
                               'maintenance.job_execution_output', 'events', 'run_start_batches', 'run_end_batches']::regclass[])
  AND child.ends_at <= $1
ORDER BY child.ends_at, child.name
