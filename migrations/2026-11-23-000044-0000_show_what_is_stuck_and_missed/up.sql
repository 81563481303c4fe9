-- The rest of what operators ask (OBS-1): what is stuck, how busy workers are, how much is done each minute, what was missed. docs/views.md shows
-- all views with examples. Our own code never reads them. `security_invoker`: a reader sees what its own rights show.
--
-- None reads what has finished: what runs is found through the claims, what waits through the waiting line, the last hour by ids, which are
-- ordered by time.

-- The same limits as recovery (db/sql/recovery_*.sql), the same patience and the same exceptions as the leader's look at what waits
-- (waiting_look.sql). What a leader that works would have mended long ago is seen here also while nobody leads.
CREATE VIEW stuck_dispatches WITH (security_invoker = true) AS
WITH RECURSIVE workers AS (
    SELECT w.worker_id, w.hostname, w.status, w.queues, w.offline_since,
           w.last_heartbeat + w.lease_ms * interval '1 ms' AS lease_ends_at,
           w.status <> 'OFFLINE' AND abs(extract(epoch FROM clock_timestamp() - w.last_heartbeat)) > w.lease_ms / 1000.0 AS is_silent
    FROM worker_registration w
),
-- Where several claims of a worker name a dispatch, the latest is the one it runs under.
held AS (
    SELECT DISTINCT ON (u.id, c.worker_id) u.id, c.worker_id, c.claimed_at, u.limit_seconds
    FROM worker_claims c
    CROSS JOIN LATERAL unnest(c.dispatch_ids, c.limit_seconds) AS u (id, limit_seconds)
    ORDER BY u.id, c.worker_id, c.id DESC
),
-- The names of the queues in which something waits, by leaping from one to the next.
waiting (queue) AS (
    (SELECT d.queue FROM job_dispatch d WHERE d.claimable_at < 'infinity' ORDER BY d.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT d.queue FROM job_dispatch d WHERE d.claimable_at < 'infinity' AND d.queue > w.queue ORDER BY d.queue LIMIT 1)
    FROM waiting w
    WHERE w.queue IS NOT NULL
),
stuck AS (
    SELECT d.tenant_id, d.job_id, d.id, d.queue, d.scheduled_for, d.status, d.attempt, found.reason, found.since,
           w.worker_id, w.hostname, w.status AS worker_status
    FROM held h
    JOIN workers w ON w.worker_id = h.worker_id
    JOIN job_dispatch d ON d.id = h.id AND d.worker_id = h.worker_id AND d.status = 'IN_PROGRESS'
    JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    CROSS JOIN LATERAL (
        -- Claims of older releases do not say: then what the settings say now, and no less than the standard of JOB_TIMEOUT_THRESHOLD.
        SELECT coalesce(h.limit_seconds, greatest(coalesce(j.timeout_seconds, f.default_timeout_seconds), 600)) AS seconds
    ) AS allowed
    CROSS JOIN LATERAL (
        SELECT CASE WHEN w.status = 'OFFLINE' THEN 'worker_offline'
                    WHEN w.is_silent THEN 'worker_silent'
                    WHEN d.claimed_at < clock_timestamp() - (allowed.seconds + greatest(30, allowed.seconds / 10.0)) * interval '1 s' THEN 'overdue'
                    WHEN d.claimed_at < clock_timestamp() - allowed.seconds * interval '1 s' THEN 'past_limit' END AS reason,
               CASE WHEN w.status = 'OFFLINE' THEN w.offline_since
                    WHEN w.is_silent THEN least(w.lease_ends_at, clock_timestamp())
                    ELSE d.claimed_at + allowed.seconds * interval '1 s' END AS since
    ) AS found
    WHERE found.reason IS NOT NULL
    UNION ALL
    SELECT d.tenant_id, d.job_id, d.id, d.queue, d.scheduled_for, d.status, d.attempt, 'unserved', d.claimable_at, NULL, NULL, NULL
    FROM waiting q
    JOIN job_dispatch d ON d.queue = q.queue AND d.claimable_at <= now() - interval '10 s' AND d.claimable_at < 'infinity'
    WHERE (d.expires_at IS NULL OR d.attempt > d.unstarted_count OR d.expires_at > now())
      AND NOT EXISTS (SELECT 1 FROM workers w WHERE q.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY') AND NOT w.is_silent)
)
SELECT s.tenant_id, s.queue, j.name AS job_name, s.job_id, s.id AS dispatch_id, s.scheduled_for, s.status, s.attempt, s.reason, s.since,
       clock_timestamp() - s.since AS stuck_for, s.worker_id, s.hostname, s.worker_status
FROM stuck s
JOIN scheduled_jobs j ON j.tenant_id = s.tenant_id AND j.id = s.job_id;
COMMENT ON VIEW stuck_dispatches IS 'Dispatches that do not get on, and why: past_limit and overdue (their worker lives and has not ended them in time), worker_offline, worker_silent, unserved. See docs/views.md.';

CREATE VIEW worker_utilisation WITH (security_invoker = true) AS
SELECT w.worker_id, w.hostname, w.process_id, w.version, w.status,
       w.status <> 'OFFLINE' AND abs(extract(epoch FROM clock_timestamp() - w.last_heartbeat)) > w.lease_ms / 1000.0 AS is_silent,
       w.queues, w.concurrency, w.running,
       CASE WHEN w.status <> 'OFFLINE' THEN round(least(w.running::numeric / w.concurrency, 1), 3) END AS utilisation,
       coalesce(h.claimed, 0) AS claimed, h.oldest_claimed_at, w.jobs_processed, w.started_at, w.last_heartbeat,
       clock_timestamp() - w.last_heartbeat AS silent_for, w.drain_requested_at, w.offline_since
FROM worker_registration w
LEFT JOIN (SELECT c.worker_id, count(DISTINCT d.id) AS claimed, min(d.claimed_at) AS oldest_claimed_at
           FROM worker_claims c
           CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
           JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
           GROUP BY c.worker_id) AS h ON h.worker_id = w.worker_id;
COMMENT ON VIEW worker_utilisation IS 'How busy each worker is: its slots (concurrency), what ran at its last heartbeat and which part of the slots that is, and what it holds now (claimed).';

-- Ids begin with the milliseconds since 1970 at which a dispatch was made, or an attempt claimed. Who ran for longer than the hour that the view
-- looks further back is not counted when it ends.
CREATE VIEW throughput WITH (security_invoker = true) AS
SELECT m.minute, m.tenant_id, sum(m.dispatched)::bigint AS dispatched, count(m.outcome) AS ended,
       count(*) FILTER (WHERE m.outcome = 'COMPLETED') AS completed,
       count(*) FILTER (WHERE m.outcome = 'FAILED')    AS failed,
       count(*) FILTER (WHERE m.outcome = 'TIMEOUT')   AS timed_out,
       count(*) FILTER (WHERE m.outcome = 'CANCELLED') AS cancelled,
       count(*) FILTER (WHERE m.outcome = 'LOST')      AS lost,
       count(*) FILTER (WHERE m.outcome = 'RELEASED')  AS released,
       round(avg(m.duration_ms)) AS average_ms
FROM (
    SELECT date_trunc('minute', d.created_at) AS minute, d.tenant_id, 1 AS dispatched, NULL AS outcome, NULL::bigint AS duration_ms
    FROM job_dispatch d
    WHERE d.id >= (lpad(to_hex((extract(epoch FROM date_trunc('minute', now()) - interval '59 min') * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
      AND d.created_at >= date_trunc('minute', now()) - interval '59 min'
    UNION ALL
    SELECT date_trunc('minute', l.completed_at), l.tenant_id, 0, l.status, l.duration_ms
    FROM tenants t
    JOIN (SELECT e.tenant_id, e.id, e.started_at, e.completed_at, e.status, e.duration_ms FROM job_execution_log e
          UNION ALL
          SELECT e.tenant_id, e.id, e.started_at, e.completed_at, e.status, e.duration_ms FROM maintenance.job_execution_log e) AS l
        ON l.tenant_id = t.id
       AND l.id >= (lpad(to_hex((extract(epoch FROM date_trunc('minute', now()) - interval '119 min') * 1000)::bigint), 12, '0') || '70008000000000000000')::uuid
       -- Of months that are over, nothing is looked at.
       AND l.started_at >= now() - interval '3 h'
    WHERE l.completed_at >= date_trunc('minute', now()) - interval '59 min'
) AS m
GROUP BY m.minute, m.tenant_id;
COMMENT ON VIEW throughput IS 'What was dispatched and what ended in each minute of the last hour, the present one included, by tenant; minutes in which nothing happened are absent. Attempts that ran for longer than an hour may not be counted.';

CREATE VIEW missed_fires WITH (security_invoker = true) AS
SELECT s.tenant_id, s.job_id, j.name AS job_name, 'misfire' AS kind, s.first_fire_at, s.last_fire_at, s.fire_count, s.is_count_exact,
       s.recorded_at AS decided_at, NULL::uuid AS dispatch_id
FROM skipped_fires s
JOIN scheduled_jobs j ON j.tenant_id = s.tenant_id AND j.id = s.job_id
WHERE s.reason = 'misfire' AND s.trigger_id IS NULL
UNION ALL
-- As ledger_gaps has it: a tick may take a while.
SELECT j.tenant_id, j.id, j.name, 'undecided', j.next_run_at, j.next_run_at, 1, false, NULL, NULL
FROM scheduled_jobs j
WHERE j.is_enabled AND j.deleted_at IS NULL AND j.next_run_at IS NOT NULL
  AND greatest(j.next_run_at, j.dispatch_lock_until) < now() - interval '1 min'
UNION ALL
-- What has expired is told in an event that names its dispatch, and is found by that: it stands in no index of dispatches any more.
SELECT d.tenant_id, d.job_id, j.name, 'expired', d.scheduled_for, d.scheduled_for, 1, true, d.completed_at, d.id
FROM events e
JOIN job_dispatch d ON d.id = e.dispatch_id AND d.trigger_id IS NULL
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
WHERE e.event_type = 'dispatch_expired';
COMMENT ON VIEW missed_fires IS 'Fire times that passed without a run and were not left out on purpose: misfire (skipped, not made up for), undecided (due for more than a minute, nobody has decided), expired (dispatched, and not begun in time). See docs/views.md.';
