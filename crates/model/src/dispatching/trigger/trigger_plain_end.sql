, opened AS (
    INSERT INTO uncounted_openings (tenant_id, job_id, opened, opened_at)
    SELECT c.tenant_id, c.job_id, count(*), max(c.available_at)
    FROM created c
    GROUP BY c.tenant_id, c.job_id
),
audited AS (
    INSERT INTO audit_log (tenant_id, actor, action, target_type, target_id, after, request_id,
                           address)
    SELECT n.tenant_id, n.actor, 'trigger_job', 'job', n.job_id::text,
           jsonb_build_object('dispatch_id', n.id, 'has_own_args', n.has_own_args),
           n.request_id, n.address
    FROM new n
    ORDER BY n.place
)
-- One row for each trigger, in their order. Not a join with `created`, which takes quadratic time,
-- because the planner expects few rows.
SELECT a.job_id, CASE WHEN n.id IN (SELECT c.id FROM created c) THEN n.id END, n.queue
FROM asked a
LEFT JOIN new n ON n.place = a.place
ORDER BY a.place
