WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS id),
page AS (
    SELECT l.id, l.tenant_id, l.job_id, l.dispatch_id, l.attempt, l.status, l.scheduled_for, l.started_at, l.completed_at, l.duration_ms, l.exit_code,
         l.result, l.error_class, l.error_message, l.output_bytes, l.worker_id, l.triggered_by, l.metrics, l.traceback
    FROM job_execution_log l, input i WHERE l.tenant_id = i.tenant_id AND l.id = i.id
    UNION ALL
    SELECT l.id, l.tenant_id, l.job_id, l.dispatch_id, l.attempt, l.status, l.scheduled_for, l.started_at, l.completed_at, l.duration_ms, l.exit_code,
         l.result, l.error_class, l.error_message, l.output_bytes, l.worker_id, l.triggered_by, l.metrics, l.traceback
    FROM maintenance.job_execution_log l, input i WHERE l.tenant_id = i.tenant_id AND l.id = i.id
)
SELECT p.id, p.job_id, j.name, p.dispatch_id, p.attempt, p.status, p.scheduled_for, p.started_at, p.completed_at, p.duration_ms, p.exit_code,
       p.result, p.error_class, p.error_message, p.output_bytes, p.worker_id, p.triggered_by,
       -- A fire time begins its own trace, so it needs no lookup; empty where another trigger has
       -- no context.
       CASE WHEN p.triggered_by <> 'scheduler'
            THEN (SELECT coalesce(d.traceparent, '') FROM job_dispatch d WHERE d.id = p.dispatch_id AND d.tenant_id = p.tenant_id) END,
       p.metrics, p.traceback
FROM page p
LEFT JOIN scheduled_jobs j ON j.tenant_id = p.tenant_id AND j.id = p.job_id
