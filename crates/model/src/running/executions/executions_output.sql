WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS id)
SELECT o.stream, o.chunk, o.content, o.dropped_bytes
FROM (SELECT * FROM job_execution_output UNION ALL SELECT * FROM maintenance.job_execution_output) o, input i
WHERE o.tenant_id = i.tenant_id AND o.execution_id = i.id
ORDER BY o.stream, o.chunk
