-- Months that retention has detached, oldest first, with the statements for each. No statement
-- writes to them. The first two generated statements have their own parameters; their dollar sign
-- is written as chr(36), because they are not parameters of this statement.
SELECT n.nspname || '.' || c.relname,
       c.oid::bigint,
       (pg_relation_size(c.oid) + current_setting('block_size')::bigint - 1) / current_setting('block_size')::bigint,
       format('SELECT to_jsonb(m)::text AS line FROM %I.%I AS m WHERE m.ctid >= %s::tid AND m.ctid < %s::tid',
              n.nspname, c.relname, chr(36) || '1', chr(36) || '2'),
       format('SELECT count(*) AS rows FROM %I.%I AS m WHERE m.ctid >= %s::tid AND m.ctid < %s::tid',
              n.nspname, c.relname, chr(36) || '1', chr(36) || '2'),
       format('DROP TABLE %I.%I', n.nspname, c.relname)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('history_archive', 'maintenance_archive') AND c.relkind = 'r' AND NOT c.relispartition
ORDER BY right(c.relname, 8), n.nspname, c.relname
