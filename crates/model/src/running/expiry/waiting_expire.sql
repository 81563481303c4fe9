-- Jobs are locked before runs, and the statement waits for neither: it leaves locked rows for the
-- next check. A queued run leaves the overlap queue.
WITH late AS MATERIALIZED (
    SELECT d.id, d.tenant_id, d.job_id
    FROM job_dispatch d
    WHERE d.expires_at <= now() AND d.expires_at IS NOT NULL AND d.claimable_at IS NOT NULL AND d.attempt = d.unstarted_count
    ORDER BY d.expires_at
    LIMIT $1
),
jobs AS MATERIALIZED (
    SELECT j.tenant_id, j.id, j.project_id, j.name, j.scope
    FROM scheduled_jobs j
    WHERE (j.tenant_id, j.id) IN (SELECT l.tenant_id, l.job_id FROM late l)
    ORDER BY j.tenant_id, j.id
    FOR NO KEY UPDATE SKIP LOCKED
),
held AS MATERIALIZED (
    SELECT d.id, d.claimable_at = 'infinity' AS is_in_line
    FROM job_dispatch d
    WHERE d.id IN (SELECT l.id FROM late l JOIN jobs j ON j.tenant_id = l.tenant_id AND j.id = l.job_id)
      AND d.status = 'PENDING' AND d.attempt = d.unstarted_count
    ORDER BY d.id
    FOR UPDATE SKIP LOCKED
),
expired AS (
    UPDATE job_dispatch d
    SET status = 'FAILED', claimable_at = NULL, completed_at = clock_timestamp(),
        error_message = format('expired: no worker started the run by %s; it waited in queue "%s" since %s%s',
            to_char(d.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), d.queue,
            to_char(d.available_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
            CASE WHEN h.is_in_line THEN ', queued behind other runs of its job'
                 WHEN EXISTS (SELECT 1 FROM worker_registration r WHERE d.queue = ANY (r.queues) AND r.status IN ('IDLE', 'BUSY')) THEN ''
                 ELSE ', which no living worker serves' END)
    FROM held h
    WHERE d.id = h.id AND d.status = 'PENDING' AND d.attempt = d.unstarted_count
    RETURNING d.id, d.tenant_id, d.job_id, d.queue, d.scheduled_for, d.available_at, d.expires_at, d.error_message, d.completed_at, h.is_in_line,
              d.attempt, d.triggered_by
),
-- The history has a row of the failure. Its id has the time of the expiry and the rest of the id of
-- the run, which expires once.
record AS (
    SELECT (lpad(to_hex(floor(extract(epoch FROM e.completed_at) * 1000)::bigint), 12, '0') || right(replace(e.id::text, '-', ''), 20))::uuid AS id,
           e.tenant_id, j.project_id, e.job_id, e.id AS dispatch_id, e.attempt + 1 AS attempt, 'EXPIRED' AS status, e.scheduled_for,
           e.completed_at AS started_at, e.completed_at, 0 AS duration_ms, 'expired' AS error_class, e.error_message,
           nextval('claim_token_seq') AS claim_token, e.triggered_by, j.scope
    FROM expired e
    JOIN jobs j ON j.tenant_id = e.tenant_id AND j.id = e.job_id
),
kept AS (
    INSERT INTO job_execution_log (id, tenant_id, project_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at,
                                   duration_ms, error_class, error_message, claim_token, triggered_by)
    SELECT id, tenant_id, project_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at, duration_ms, error_class,
           error_message, claim_token, triggered_by
    FROM record WHERE scope <> 'backup_infrastructure'
),
kept_apart AS (
    INSERT INTO maintenance.job_execution_log (id, tenant_id, project_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                                               completed_at, duration_ms, error_class, error_message, claim_token, triggered_by)
    SELECT id, tenant_id, project_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at, completed_at, duration_ms, error_class,
           error_message, claim_token, triggered_by
    FROM record WHERE scope = 'backup_infrastructure'
),
-- The totals by minute. A count locks its minutes before jobs, but none with this status.
minutes AS (
    INSERT INTO attempt_minutes AS m (tenant_id, minute, status, slot, attempts, duration_ms)
    SELECT r.tenant_id, date_trunc('minute', r.started_at), r.status, 0, count(*), 0
    FROM record r
    GROUP BY r.tenant_id, date_trunc('minute', r.started_at), r.status
    ORDER BY r.tenant_id, date_trunc('minute', r.started_at)
    ON CONFLICT (tenant_id, minute, status, slot) DO UPDATE SET attempts = m.attempts + excluded.attempts
),
-- The leader dispatches the dependents of these jobs.
told AS (
    INSERT INTO job_ends (tenant_id, job_id, dispatch_id, status, ended_at)
    SELECT e.tenant_id, e.job_id, e.id, 'FAILED', e.completed_at
    FROM expired e
    WHERE EXISTS (SELECT 1 FROM job_dependencies x WHERE x.tenant_id = e.tenant_id AND x.after_job_id = e.job_id)
),
closed AS (
    SELECT tenant_id, job_id, count(*)::integer AS closed, (count(*) FILTER (WHERE is_in_line))::integer AS from_line
    FROM expired
    GROUP BY tenant_id, job_id
),
-- A closed run may be one that the counters do not contain yet.
opened AS (
    DELETE FROM uncounted_openings o
    USING closed c
    WHERE o.tenant_id = c.tenant_id AND o.job_id = c.job_id
    RETURNING o.tenant_id, o.job_id, o.opened, o.opened_at
),
counted AS (
    UPDATE scheduled_jobs j
    SET active_dispatches = greatest(j.active_dispatches + b.opened - b.closed, 0),
        queued_dispatches = least(greatest(j.queued_dispatches - b.from_line, 0), greatest(j.active_dispatches + b.opened - b.closed, 0)),
        total_run_count = j.total_run_count + b.opened,
        last_dispatched_at = greatest(j.last_dispatched_at, b.opened_at),
        last_status = 'FAILED'
    FROM (SELECT c.*, n.opened, n.opened_at
          FROM closed c
          CROSS JOIN LATERAL (SELECT coalesce(sum(o.opened), 0)::integer AS opened, max(o.opened_at) AS opened_at
                              FROM opened o WHERE o.tenant_id = c.tenant_id AND o.job_id = c.job_id) AS n) AS b
    WHERE j.tenant_id = b.tenant_id AND j.id = b.job_id
    RETURNING j.tenant_id, j.id, j.queued_dispatches > 0 AS has_line
)
SELECT e.id, e.tenant_id, j.project_id, e.job_id, j.name, e.queue, e.scheduled_for, e.available_at, e.expires_at, e.error_message,
       c.has_line
FROM expired e
JOIN jobs j ON j.tenant_id = e.tenant_id AND j.id = e.job_id
JOIN counted c ON c.tenant_id = e.tenant_id AND c.id = e.job_id
ORDER BY e.id
