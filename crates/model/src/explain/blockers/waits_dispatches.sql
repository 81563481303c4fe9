-- Waiting runs, and the number of runs before each: at most a thousand are counted, by key, for any
-- number of waiting runs.
WITH input AS (SELECT $1::uuid AS tenant_id, clock_timestamp() AS now)
SELECT d.id, d.job_id, d.queue, d.available_at, d.expires_at, d.attempt, d.error_message, input.now, t.is_paused,
       CASE WHEN p.is_paused THEN p.name END, p.pause_reason, CASE WHEN f.is_paused THEN f.name END, f.pause_reason,
       j.overlap_policy, j.max_instances, j.active_dispatches, j.queued_dispatches,
       CASE WHEN d.claimable_at = 'infinity' THEN line.counted END, ahead.counted, ahead.due
FROM input
CROSS JOIN unnest($2::uuid[]) AS u (id)
JOIN job_dispatch d ON d.id = u.id AND d.tenant_id = input.tenant_id AND d.status = 'PENDING'
JOIN tenants t ON t.id = d.tenant_id
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
LEFT JOIN projects p ON p.tenant_id = j.tenant_id AND p.id = j.project_id
CROSS JOIN LATERAL (
    SELECT count(*) AS counted
    FROM (SELECT 1
          FROM job_dispatch w
          WHERE w.job_id = d.job_id AND w.claimable_at = 'infinity' AND (w.scheduled_for, w.id) < (d.scheduled_for, d.id)
            AND d.claimable_at = 'infinity'
          ORDER BY w.scheduled_for, w.id
          LIMIT 1001) AS w
) AS line
CROSS JOIN LATERAL (
    -- Runs that are not due are read, but do not count as being before it.
    SELECT count(*) AS counted, count(*) FILTER (WHERE w.claimable_at <= input.now) AS due
    FROM (SELECT w.claimable_at
          FROM job_dispatch w
          WHERE w.queue = d.queue AND w.tenant_id = d.tenant_id AND w.claimable_at < 'infinity'
            AND (w.priority, w.claimable_at, w.id) < (d.priority, d.claimable_at, d.id) AND d.claimable_at < 'infinity'
          ORDER BY w.priority, w.claimable_at, w.id
          LIMIT 1001) AS w
) AS ahead
