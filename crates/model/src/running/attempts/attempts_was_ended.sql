WITH input AS (SELECT $1::uuid[] AS ids, $2::timestamptz AS since)
SELECT l.id FROM job_execution_log l, input WHERE l.id = ANY (input.ids) AND l.started_at >= input.since
UNION ALL
SELECT l.id FROM maintenance.job_execution_log l, input WHERE l.id = ANY (input.ids) AND l.started_at >= input.since
