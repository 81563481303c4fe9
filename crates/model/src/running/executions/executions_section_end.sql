-- The end of a section of a search: the attempt that is a number of attempts before another one. Reads
-- only the index.
SELECT p.id
FROM (
    SELECT l.id, l.tenant_id FROM job_execution_log l
    UNION ALL
    SELECT l.id, l.tenant_id FROM maintenance.job_execution_log l
) AS p
WHERE p.tenant_id = $1
  AND p.id < $2
ORDER BY p.id DESC
OFFSET $3
LIMIT 1
