-- The dispatch of a trigger, and its job's counters.
WITH input AS (
    SELECT $1::uuid AS id, $2::uuid AS tenant_id, $3::uuid AS job_id, $4::timestamptz AS at, $5::boolean AS is_in_line, $6::text AS queue,
           $7::smallint AS priority, $8::text AS triggered_by, $9::text AS triggered_by_user, $10::jsonb AS args,
           $11::text AS idempotency_key, $12::text AS traceparent, $13::integer AS start_within_seconds
),
counted AS (
    UPDATE scheduled_jobs j
    SET total_run_count = j.total_run_count + 1,
        active_dispatches = j.active_dispatches + 1,
        queued_dispatches = j.queued_dispatches + i.is_in_line::integer,
        last_dispatched_at = i.at
    FROM input i
    WHERE j.tenant_id = i.tenant_id AND j.id = i.job_id
)
INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, expires_at, queue, priority, triggered_by,
                          triggered_by_user, trigger_id, args, idempotency_key, traceparent)
SELECT i.id, i.tenant_id, i.job_id, i.at, i.at, CASE WHEN i.is_in_line THEN 'infinity' ELSE i.at END,
       i.at + make_interval(secs => i.start_within_seconds), i.queue, i.priority, i.triggered_by,
       i.triggered_by_user, i.id, i.args, i.idempotency_key, i.traceparent
FROM input i
