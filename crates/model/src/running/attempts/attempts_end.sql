-- Every row is read once, without joins. The columns of the jobs come as parameters, read when the
-- jobs were locked: the planner expects one row from the CTEs below, so a join of them would take
-- quadratic time. A batch may name a run twice: an end that is repeated because its outcome was
-- unknown, and the end of the next attempt; the claim token tells them apart. A run with a
-- requested cancellation does not go back to waiting: it becomes CANCELLED unless the attempt
-- succeeded. Ends of jobs with dependents go into job_ends.
WITH ended AS (
    UPDATE job_dispatch d
    SET status = CASE WHEN d.cancel_requested_at IS NOT NULL AND i.outcome <> 'COMPLETED' THEN 'CANCELLED' ELSE i.status END,
        available_at = CASE WHEN i.status = 'PENDING' AND d.cancel_requested_at IS NULL
                            THEN i.ended_at + i.wait_ms * interval '1 ms' ELSE d.available_at END,
        claimable_at = CASE WHEN i.status = 'PENDING' AND d.cancel_requested_at IS NULL
                            THEN i.ended_at + i.wait_ms * interval '1 ms' END,
        completed_at = CASE WHEN i.status <> 'PENDING' OR d.cancel_requested_at IS NOT NULL THEN i.ended_at END,
        retry_count = d.retry_count + i.is_retry::integer,
        lost_count = d.lost_count + (i.outcome = 'LOST')::integer,
        unstarted_count = d.unstarted_count + (NOT i.has_started)::integer,
        error_message = CASE WHEN i.outcome = 'COMPLETED' THEN NULL
                             WHEN i.outcome = 'CANCELLED' AND d.cancel_requested_at IS NOT NULL THEN coalesce(d.error_message, i.error_message)
                             ELSE coalesce(i.error_message, d.error_message) END
    FROM (
        SELECT *, clock_timestamp() AS ended_at
        FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[], $5::boolean[], $6::text[], $7::uuid[], $8::timestamptz[],
                    $9::bigint[], $10::integer[], $11::jsonb[], $12::text[], $13::text[], $14::bigint[], $15::uuid[], $16::boolean[], $17::boolean[],
                    $18::boolean[], $19::text[], $20::text[], $21::jsonb[])
            AS u (dispatch_id, claim_token, status, wait_ms, is_retry, outcome, execution_id, started_at,
                  duration_ms, exit_code, result, error_class, error_message, output_bytes, project_id, is_apart, has_dependents, has_started, job_name,
                  traceback, metrics)
    ) AS i
    -- Not `d.status = …`: statistics from a moment without running runs promise no row, and the
    -- plan then reads the table once for each end.
    WHERE d.id = i.dispatch_id AND d.claim_token = i.claim_token AND CASE d.status WHEN 'IN_PROGRESS' THEN true ELSE false END
    RETURNING d.id, d.tenant_id, d.job_id, d.status, d.attempt, d.scheduled_for, d.worker_id, d.claim_token, d.triggered_by, d.queue,
              i.outcome, i.execution_id, i.started_at, i.ended_at, i.duration_ms, i.exit_code, i.result, i.error_class, i.error_message,
              i.output_bytes, i.project_id, i.is_apart, i.has_dependents, i.has_started, i.job_name, i.traceback, i.metrics
),
kept AS (
    INSERT INTO job_execution_log (id, tenant_id, project_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
        completed_at, duration_ms, exit_code, result, error_class, error_message, traceback, metrics, output_bytes, worker_id, claim_token,
        triggered_by)
    SELECT execution_id, tenant_id, project_id, job_id, id, attempt, outcome, scheduled_for, started_at,
        started_at + duration_ms * interval '1 ms', duration_ms, exit_code, result, error_class, error_message, traceback, metrics, output_bytes,
        worker_id, claim_token, triggered_by
    FROM ended WHERE NOT is_apart
),
kept_apart AS (
    INSERT INTO maintenance.job_execution_log (id, tenant_id, project_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
        completed_at, duration_ms, exit_code, result, error_class, error_message, traceback, metrics, output_bytes, worker_id, claim_token,
        triggered_by)
    SELECT execution_id, tenant_id, project_id, job_id, id, attempt, outcome, scheduled_for, started_at,
        started_at + duration_ms * interval '1 ms', duration_ms, exit_code, result, error_class, error_message, traceback, metrics, output_bytes,
        worker_id, claim_token, triggered_by
    FROM ended WHERE is_apart
),
followed AS (
    INSERT INTO events (tenant_id, project_id, job_id, dispatch_id, event_type, payload)
    SELECT tenant_id, project_id, job_id, id, 'schedule_execution_completed',
           jsonb_strip_nulls(jsonb_build_object('job_name', job_name, 'execution_id', execution_id, 'attempt', attempt, 'status', outcome, 'dispatch_status', status,
                                                'error_class', error_class, 'error', left(error_message, 1000), 'exit_code', exit_code,
                                                'duration_ms', duration_ms))
    -- A lost attempt has its own event. A released attempt ends nothing, unless its cancellation
    -- was requested.
    FROM ended WHERE outcome <> 'LOST' AND (outcome <> 'RELEASED' OR status <> 'PENDING')
    UNION ALL
    -- The leader reports the dead letters of lost attempts.
    SELECT tenant_id, project_id, job_id, id, 'dispatch_dead_letter',
           jsonb_strip_nulls(jsonb_build_object('job_name', job_name, 'attempt', attempt, 'reason', 'retries_exhausted', 'error_class', error_class))
    FROM ended WHERE status = 'DEAD_LETTER' AND outcome <> 'LOST'
),
told AS (
    INSERT INTO job_ends (tenant_id, job_id, dispatch_id, status, ended_at)
    SELECT tenant_id, job_id, id, status, ended_at FROM ended WHERE has_dependents AND status NOT IN ('PENDING', 'CANCELLED')
),
died AS (
    INSERT INTO dead_letters (dispatch_id, tenant_id, project_id, job_id, queue, error_class, died_at)
    SELECT id, tenant_id, project_id, job_id, queue, error_class, ended_at FROM ended WHERE status = 'DEAD_LETTER'
),
by_job AS (
    SELECT tenant_id, job_id, max(started_at) FILTER (WHERE has_started) AS last_run_at, count(*) FILTER (WHERE status <> 'PENDING') AS closed,
           (array_agg(status ORDER BY started_at DESC) FILTER (WHERE status <> 'PENDING'))[1] AS last_status
    FROM ended
    GROUP BY tenant_id, job_id
),
counted AS (
    UPDATE scheduled_jobs j
    SET last_run_at = greatest(j.last_run_at, b.last_run_at),
        last_status = coalesce(b.last_status, j.last_status),
        active_dispatches = greatest(j.active_dispatches - b.closed::integer, 0),
        -- Defends against wrong counters: a run that has run must be stored.
        queued_dispatches = least(j.queued_dispatches, greatest(j.active_dispatches - b.closed::integer, 0))
    FROM by_job b
    WHERE j.tenant_id = b.tenant_id AND j.id = b.job_id
    RETURNING j.tenant_id, j.id, b.closed > 0 AND j.queued_dispatches > 0 AS has_line, b.closed > 0 AND j.has_dependents AS has_dependents
)
-- Two kinds of rows: ended runs, and jobs with work left to do.
SELECT id, claim_token, tenant_id, job_id, false, false, status FROM ended
UNION ALL
SELECT NULL, NULL, tenant_id, id, has_line, has_dependents, NULL FROM counted WHERE has_line OR has_dependents
