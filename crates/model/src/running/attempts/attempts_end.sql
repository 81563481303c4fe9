-- Every row is read once, without joins. The columns of the jobs come as parameters, as the claim
-- read them: the planner expects one row from the CTEs below, so a join of them would take
-- quadratic time. No job is locked: the counters of the jobs follow later, from uncounted_ends. A
-- batch may name a run twice: an end that is repeated because its outcome was
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
                    $9::bigint[], $10::integer[], $11::jsonb[], $12::text[], $13::text[], $14::bigint[], $15::uuid[], $16::boolean[],
                    $17::boolean[], $18::text[], $19::text[], $20::jsonb[])
            AS u (dispatch_id, claim_token, status, wait_ms, is_retry, outcome, execution_id, started_at,
                  duration_ms, exit_code, result, error_class, error_message, output_bytes, project_id, is_apart, has_started, job_name,
                  traceback, metrics)
    ) AS i
    -- Not `d.status = …`: statistics from a moment without running runs promise no row, and the
    -- plan then reads the table once for each end.
    WHERE d.id = i.dispatch_id AND d.claim_token = i.claim_token AND CASE d.status WHEN 'IN_PROGRESS' THEN true ELSE false END
    RETURNING d.id, d.tenant_id, d.job_id, d.status, d.attempt, d.scheduled_for, d.worker_id, d.claim_token, d.triggered_by, d.queue,
              i.outcome, i.execution_id, i.started_at, i.ended_at, i.duration_ms, i.exit_code, i.result, i.error_class, i.error_message,
              i.output_bytes, i.project_id, i.is_apart, i.has_started, i.job_name, i.traceback, i.metrics
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
batched AS (
    INSERT INTO run_end_batches (tenant_id, project_id, job_id, size, dispatch_ids, execution_ids, job_ids, job_names, attempts, outcomes,
                                 dispatch_statuses, started_at, durations_ms, exit_codes, error_classes, errors)
    SELECT tenant_id, project_id, CASE WHEN (array_agg(job_id))[1] = ALL (array_agg(job_id)) THEN (array_agg(job_id))[1] END, count(*),
           array_agg(id), array_agg(execution_id), array_agg(job_id), array_agg(job_name), array_agg(attempt), array_agg(NULLIF(outcome, 'COMPLETED')),
           array_agg(NULLIF(status, outcome)), array_agg(started_at), array_agg(duration_ms), array_agg(exit_code), array_agg(error_class),
           array_agg(left(error_message, 1000))
    FROM ended
    GROUP BY tenant_id, project_id
    RETURNING tenant_id, transaction_id, id, created_at
),
uncounted AS (
    INSERT INTO uncounted_ends (tenant_id, transaction_id, batch_id, created_at)
    SELECT tenant_id, transaction_id, id, created_at FROM batched
),
letters AS (
    -- The leader reports the dead letters of lost attempts. The count of the batches makes this
    -- wait for their ids: the event comes after the end of its attempt.
    INSERT INTO events (tenant_id, project_id, job_id, dispatch_id, event_type, payload)
    SELECT tenant_id, project_id, job_id, id, 'dispatch_dead_letter',
           jsonb_strip_nulls(jsonb_build_object('job_name', job_name, 'attempt', attempt, 'reason', 'retries_exhausted', 'error_class', error_class))
    FROM ended WHERE status = 'DEAD_LETTER' AND outcome <> 'LOST' AND (SELECT count(*) FROM batched) > 0
),
followed AS (
    INSERT INTO job_ends (tenant_id, job_id, dispatch_id, status, ended_at)
    SELECT e.tenant_id, e.job_id, e.id, e.status, e.ended_at
    FROM ended e
    WHERE e.status NOT IN ('PENDING', 'CANCELLED')
      AND EXISTS (SELECT 1 FROM job_dependencies x WHERE x.tenant_id = e.tenant_id AND x.after_job_id = e.job_id)
    RETURNING 1
),
died AS (
    INSERT INTO dead_letters (dispatch_id, tenant_id, project_id, job_id, queue, error_class, died_at)
    SELECT id, tenant_id, project_id, job_id, queue, error_class, ended_at FROM ended WHERE status = 'DEAD_LETTER'
)
-- Whether the leader has to run dependent jobs, and whether the job has runs in its overlap queue.
SELECT e.id, e.claim_token, e.status, EXISTS (SELECT 1 FROM followed),
       e.status <> 'PENDING'
       AND EXISTS (SELECT 1 FROM scheduled_jobs j WHERE j.tenant_id = e.tenant_id AND j.id = e.job_id AND j.queued_dispatches > 0)
FROM ended e
