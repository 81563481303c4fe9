-- The dispatches of triggers, whose jobs are locked, and the counters of these jobs.
WITH input AS (
    SELECT $1::uuid AS tenant_id, $2::timestamptz AS at, $3::text AS triggered_by
),
made AS MATERIALIZED (
    SELECT * FROM unnest($4::uuid[], $5::uuid[], $6::boolean[], $7::text[], $8::smallint[], $9::text[], $10::jsonb[], $11::text[], $12::integer[])
        AS u (id, job_id, is_in_line, queue, priority, triggered_by_user, args, traceparent, start_within_seconds)
),
counted AS (
    UPDATE scheduled_jobs j
    SET total_run_count = j.total_run_count + m.triggers,
        active_dispatches = j.active_dispatches + m.triggers,
        queued_dispatches = j.queued_dispatches + m.in_line,
        last_dispatched_at = i.at
    FROM input i
    CROSS JOIN (
        SELECT job_id, count(*)::integer AS triggers, count(*) FILTER (WHERE is_in_line)::integer AS in_line FROM made GROUP BY job_id
    ) AS m
    WHERE j.tenant_id = i.tenant_id AND j.id = m.job_id
)
INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, expires_at, queue, priority, triggered_by,
                          triggered_by_user, trigger_id, args, traceparent)
SELECT m.id, i.tenant_id, m.job_id, i.at, i.at, CASE WHEN m.is_in_line THEN 'infinity' ELSE i.at END,
       i.at + make_interval(secs => m.start_within_seconds), m.queue, m.priority, i.triggered_by,
       m.triggered_by_user, m.id, coalesce(m.args, j.task_args), m.traceparent
FROM input i
CROSS JOIN made m
JOIN scheduled_jobs j ON j.tenant_id = i.tenant_id AND j.id = m.job_id
