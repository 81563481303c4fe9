-- The key makes each end one dispatch of a job, however often it is told. It is in the trace of the dispatch that has ended, which is one of
-- its own where nothing else began it (model::domain::trace).
WITH leader AS (SELECT $1::uuid AS instance_id, $2::bigint AS term),
created AS (
    INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, priority, args,
                              expires_at, triggered_by, trigger_id, scheduler_instance_id, term, traceparent)
    SELECT u.id, u.tenant_id, u.job_id, u.ended_at, u.ended_at, CASE WHEN u.is_in_line THEN 'infinity' ELSE u.ended_at END,
           u.queue, u.priority, u.args, clock_timestamp() + make_interval(secs => j.start_within_seconds), 'dependency', u.ended_by, leader.instance_id, leader.term,
           coalesce((SELECT e.traceparent FROM job_dispatch e WHERE e.id = u.ended_by),
                    '00-' || replace(u.ended_by::text, '-', '') || '-' || right(replace(u.ended_by::text, '-', ''), 16) || '-01')
    FROM leader, unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::timestamptz[], $7::uuid[], $8::text[], $9::smallint[],
                        $10::jsonb[], $11::boolean[])
        AS u (id, tenant_id, job_id, ended_at, ended_by, queue, priority, args, is_in_line)
    JOIN scheduled_jobs j ON j.tenant_id = u.tenant_id AND j.id = u.job_id
    ON CONFLICT (job_id, scheduled_for, trigger_id) DO NOTHING
    RETURNING tenant_id, job_id, queue, claimable_at = 'infinity' AS is_in_line
),
counted AS (
    UPDATE scheduled_jobs j
    SET total_run_count = j.total_run_count + c.dispatched,
        active_dispatches = j.active_dispatches + c.dispatched,
        queued_dispatches = j.queued_dispatches + c.in_line,
        last_dispatched_at = clock_timestamp()
    FROM (SELECT tenant_id, job_id, count(*)::integer AS dispatched, (count(*) FILTER (WHERE is_in_line))::integer AS in_line
          FROM created GROUP BY tenant_id, job_id) AS c
    WHERE j.tenant_id = c.tenant_id AND j.id = c.job_id
)
SELECT queue, is_in_line FROM created
