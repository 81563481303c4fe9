-- One batch may hold two attempts of one dispatch: an end that is told again, because its outcome was unknown, and the end of
-- the next attempt. Hence whatever joins `input` does so by the token too. The clock is read once for each attempt. A dispatch that
-- somebody wants cancelled does not go back to waiting. Ends of jobs after which others run are told in job_ends; of any other job this
-- costs the look at a flag of a row that is read anyway.
WITH input AS (
    SELECT *, clock_timestamp() AS ended_at
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::boolean[], $6::text[], $7::uuid[], $8::timestamptz[],
                $9::bigint[], $10::integer[], $11::jsonb[], $12::text[], $13::text[], $14::bigint[])
        AS u (dispatch_id, claim_token, status, wait_ms, is_retry, outcome, execution_id, started_at,
              duration_ms, exit_code, result, error_class, error_message, output_bytes)
),
ended AS (
    UPDATE job_dispatch d
    SET status = CASE WHEN i.status = 'PENDING' AND d.cancel_requested_at IS NOT NULL THEN 'CANCELLED' ELSE i.status END,
        available_at = CASE WHEN i.status = 'PENDING' AND d.cancel_requested_at IS NULL
                            THEN i.ended_at + i.wait_ms * interval '1 ms' ELSE d.available_at END,
        claimable_at = CASE WHEN i.status = 'PENDING' AND d.cancel_requested_at IS NULL
                            THEN i.ended_at + i.wait_ms * interval '1 ms' END,
        completed_at = CASE WHEN i.status <> 'PENDING' OR d.cancel_requested_at IS NOT NULL THEN i.ended_at END,
        retry_count = d.retry_count + i.is_retry::integer,
        lost_count = d.lost_count + (i.outcome = 'LOST')::integer,
        error_message = CASE WHEN i.outcome = 'COMPLETED' THEN NULL
                             WHEN i.outcome = 'CANCELLED' AND d.cancel_requested_at IS NOT NULL THEN coalesce(d.error_message, i.error_message)
                             ELSE coalesce(i.error_message, d.error_message) END
    FROM input i
    WHERE d.id = i.dispatch_id AND d.claim_token = i.claim_token AND d.status = 'IN_PROGRESS'
    RETURNING d.id, d.tenant_id, d.job_id, d.status, d.attempt, d.scheduled_for, d.worker_id, d.claim_token, d.triggered_by
),
history AS (
    SELECT i.execution_id, e.tenant_id, j.project_id, j.scope, e.job_id, e.id AS dispatch_id, e.attempt, i.outcome, e.scheduled_for,
           i.started_at, i.started_at + i.duration_ms * interval '1 ms' AS completed_at, i.duration_ms, i.exit_code, i.result,
           i.error_class, i.error_message, i.output_bytes, e.worker_id, e.claim_token, e.triggered_by,
           j.has_dependents AND e.status NOT IN ('PENDING', 'CANCELLED') AS is_told, e.status, i.ended_at
    FROM ended e
    JOIN input i ON i.dispatch_id = e.id AND i.claim_token = e.claim_token
    JOIN scheduled_jobs j ON j.tenant_id = e.tenant_id AND j.id = e.job_id
),
kept AS (
    INSERT INTO job_execution_log (id, tenant_id, project_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
        completed_at, duration_ms, exit_code, result, error_class, error_message, output_bytes, worker_id, claim_token, triggered_by)
    SELECT execution_id, tenant_id, project_id, job_id, dispatch_id, attempt, outcome, scheduled_for, started_at,
        completed_at, duration_ms, exit_code, result, error_class, error_message, output_bytes, worker_id, claim_token, triggered_by
    FROM history WHERE scope <> 'backup_infrastructure'
),
kept_apart AS (
    INSERT INTO maintenance.job_execution_log (id, tenant_id, project_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
        completed_at, duration_ms, exit_code, result, error_class, error_message, output_bytes, worker_id, claim_token, triggered_by)
    SELECT execution_id, tenant_id, project_id, job_id, dispatch_id, attempt, outcome, scheduled_for, started_at,
        completed_at, duration_ms, exit_code, result, error_class, error_message, output_bytes, worker_id, claim_token, triggered_by
    FROM history WHERE scope = 'backup_infrastructure'
),
told AS (
    INSERT INTO job_ends (tenant_id, job_id, dispatch_id, status, ended_at)
    SELECT tenant_id, job_id, dispatch_id, status, ended_at FROM history WHERE is_told
),
by_job AS (
    SELECT e.tenant_id, e.job_id, max(i.started_at) AS last_run_at,
           count(*) FILTER (WHERE e.status <> 'PENDING') AS closed,
           (array_agg(e.status ORDER BY i.started_at DESC) FILTER (WHERE e.status <> 'PENDING'))[1] AS last_status
    FROM ended e JOIN input i ON i.dispatch_id = e.id AND i.claim_token = e.claim_token
    GROUP BY e.tenant_id, e.job_id
),
counted AS (
    UPDATE scheduled_jobs j
    SET last_run_at = greatest(j.last_run_at, b.last_run_at),
        last_status = coalesce(b.last_status, j.last_status),
        active_dispatches = greatest(j.active_dispatches - b.closed::integer, 0),
        -- Whatever the counters say: what has run is stored.
        queued_dispatches = least(j.queued_dispatches, greatest(j.active_dispatches - b.closed::integer, 0))
    FROM by_job b
    WHERE j.tenant_id = b.tenant_id AND j.id = b.job_id
    RETURNING j.tenant_id, j.id, b.closed > 0 AND j.queued_dispatches > 0 AS has_line, b.closed > 0 AND j.has_dependents AS has_dependents
)
SELECT e.id, e.claim_token, e.tenant_id, e.job_id, c.has_line, c.has_dependents
FROM ended e JOIN counted c ON c.tenant_id = e.tenant_id AND c.id = e.job_id
