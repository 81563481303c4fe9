-- The end of the last chunk of standard error of each attempt, or else of its log.
WITH input AS (SELECT u.* FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, execution_id)),
longest AS (SELECT $3::integer AS characters)
SELECT i.execution_id, right(t.content, (SELECT characters FROM longest))
FROM input i
CROSS JOIN LATERAL (
    SELECT o.content
    FROM (SELECT * FROM job_execution_output UNION ALL SELECT * FROM maintenance.job_execution_output) AS o
    WHERE o.tenant_id = i.tenant_id AND o.execution_id = i.execution_id AND o.stream IN ('stderr', 'log') AND o.content <> ''
    ORDER BY o.stream = 'stderr' DESC, o.chunk DESC
    LIMIT 1
) AS t
