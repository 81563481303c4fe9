-- Views for operators. docs/reference/views.md shows all of them with examples. No program reads
-- them. security_invoker: a reader sees the rows that its own rights show.
--
-- Views of current work do not read finished runs. They find running runs through the claims,
-- waiting ones through the waiting list, and those of the last hour by ids, which are ordered by
-- time.

-- Both parts read their own index. Together they are all PENDING runs.
CREATE VIEW queue_depth WITH (security_invoker = true) AS
SELECT d.tenant_id, d.queue,
       count(*)                                            AS waiting,
       count(*) FILTER (WHERE d.claimable_at > clock_timestamp() AND d.claimable_at < 'infinity')
                                                           AS waiting_for_their_time,
       count(*) FILTER (WHERE d.claimable_at = 'infinity') AS waiting_in_line,
       min(nullif(d.claimable_at, 'infinity'))             AS oldest_claimable_at,
       EXISTS (SELECT 1 FROM worker_registration w
               WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY')) AS has_live_worker
FROM (SELECT tenant_id, queue, claimable_at FROM job_dispatch WHERE claimable_at < 'infinity'
      UNION ALL
      SELECT tenant_id, queue, claimable_at FROM job_dispatch WHERE claimable_at = 'infinity') AS d
GROUP BY d.tenant_id, d.queue;
COMMENT ON VIEW queue_depth IS
    'Waiting runs per queue, the oldest claim time, and whether a live worker serves the queue.';

-- Running runs are counted once for all queues with limits, not once per queue.
CREATE VIEW queue_limits WITH (security_invoker = true) AS
SELECT q.tenant_id, q.name AS queue, q.max_running, coalesce(r.running, 0) AS running,
       q.rate_limit_count, q.rate_limit_period_seconds,
       (SELECT coalesce(sum(e.claimed), 0)
        FROM queue_usage u
        CROSS JOIN LATERAL unnest(u.claimed_at, u.claimed) AS e (claimed_at, claimed)
        WHERE u.tenant_id = q.tenant_id AND u.queue = q.name
          AND e.claimed_at > clock_timestamp() - q.rate_limit_period_seconds * interval '1 second')
           AS claimed_in_period
FROM queues q
LEFT JOIN (SELECT d.tenant_id, d.queue, count(DISTINCT d.id) AS running
           FROM worker_claims c
           CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
           JOIN job_dispatch d
               ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
           GROUP BY d.tenant_id, d.queue) AS r
    ON r.tenant_id = q.tenant_id AND r.queue = q.name
WHERE q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL;
COMMENT ON VIEW queue_limits IS 'Queues with limits, and the usage of each limit.';

CREATE VIEW running_dispatches WITH (security_invoker = true) AS
SELECT d.tenant_id, j.name AS job_name, d.id AS dispatch_id, d.job_id, d.scheduled_for,
       d.claimed_at, d.attempt, clock_timestamp() - d.claimed_at AS running_for, d.worker_id,
       w.hostname, w.status AS worker_status
FROM worker_claims c
CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
JOIN job_dispatch d ON d.id = u.id AND d.status = 'IN_PROGRESS' AND d.worker_id = c.worker_id
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
JOIN worker_registration w ON w.worker_id = c.worker_id;
COMMENT ON VIEW running_dispatches IS 'Running runs, with worker and duration.';

CREATE VIEW unserved_dispatches WITH (security_invoker = true) AS
SELECT d.tenant_id, d.queue, j.name AS job_name, d.id AS dispatch_id, d.job_id, d.scheduled_for,
       d.claimable_at, clock_timestamp() - d.claimable_at AS waiting_for, d.attempt,
       CASE WHEN d.attempt = d.unstarted_count THEN d.expires_at END AS expires_at
FROM job_dispatch d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
WHERE d.claimable_at <= now()
  AND NOT EXISTS (SELECT 1 FROM worker_registration w
                  WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY'));
COMMENT ON VIEW unserved_dispatches IS
    'Claimable runs that wait in a queue without a live worker.';

-- The same limits as recovery (recovery_*.sql), and the same delay and exceptions as the leader's
-- check of waiting runs (waiting_look.sql). It also shows what a leader would have repaired while
-- no scheduler leads.
CREATE VIEW stuck_dispatches WITH (security_invoker = true) AS
WITH RECURSIVE workers AS (
    SELECT w.worker_id, w.hostname, w.status, w.queues, w.offline_since,
           w.last_heartbeat + w.lease_ms * interval '1 ms' AS lease_ends_at,
           w.status <> 'OFFLINE'
               AND abs(extract(epoch FROM clock_timestamp() - w.last_heartbeat))
                   > w.lease_ms / 1000.0 AS is_silent
    FROM worker_registration w
),
-- If several claims of a worker list a run, the latest one is current.
held AS (
    SELECT DISTINCT ON (u.id, c.worker_id) u.id, c.worker_id, c.claimed_at, u.limit_seconds
    FROM worker_claims c
    CROSS JOIN LATERAL unnest(c.dispatch_ids, c.limit_seconds) AS u (id, limit_seconds)
    ORDER BY u.id, c.worker_id, c.id DESC
),
-- Names of the queues with waiting runs: a skip scan of the waiting list.
waiting (queue) AS (
    (SELECT d.queue FROM job_dispatch d WHERE d.claimable_at < 'infinity' ORDER BY d.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT d.queue FROM job_dispatch d
            WHERE d.claimable_at < 'infinity' AND d.queue > w.queue ORDER BY d.queue LIMIT 1)
    FROM waiting w
    WHERE w.queue IS NOT NULL
),
stuck AS (
    SELECT d.tenant_id, d.job_id, d.id, d.queue, d.scheduled_for, d.status, d.attempt,
           found.reason, found.since, w.worker_id, w.hostname, w.status AS worker_status
    FROM held h
    JOIN workers w ON w.worker_id = h.worker_id
    JOIN job_dispatch d ON d.id = h.id AND d.worker_id = h.worker_id AND d.status = 'IN_PROGRESS'
    JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
    JOIN task_functions f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
    CROSS JOIN LATERAL (
        -- Claims of older releases have no limit: then the current settings apply, and at least the
        -- default of JOB_TIMEOUT_THRESHOLD.
        SELECT coalesce(
            h.limit_seconds,
            greatest(coalesce(j.timeout_seconds, f.default_timeout_seconds), 600)) AS seconds
    ) AS allowed
    CROSS JOIN LATERAL (
        SELECT CASE WHEN w.status = 'OFFLINE' THEN 'worker_offline'
                    WHEN w.is_silent THEN 'worker_silent'
                    WHEN d.claimed_at < clock_timestamp()
                         - (allowed.seconds + greatest(30, allowed.seconds / 10.0)) * interval '1 s'
                        THEN 'overdue'
                    WHEN d.claimed_at < clock_timestamp() - allowed.seconds * interval '1 s'
                        THEN 'past_limit' END AS reason,
               CASE WHEN w.status = 'OFFLINE' THEN w.offline_since
                    WHEN w.is_silent THEN least(w.lease_ends_at, clock_timestamp())
                    ELSE d.claimed_at + allowed.seconds * interval '1 s' END AS since
    ) AS found
    WHERE found.reason IS NOT NULL
    UNION ALL
    SELECT d.tenant_id, d.job_id, d.id, d.queue, d.scheduled_for, d.status, d.attempt, 'unserved',
           d.claimable_at, NULL, NULL, NULL
    FROM waiting q
    JOIN job_dispatch d ON d.queue = q.queue AND d.claimable_at <= now() - interval '10 s'
        AND d.claimable_at < 'infinity'
    WHERE (d.expires_at IS NULL OR d.attempt > d.unstarted_count OR d.expires_at > now())
      AND NOT EXISTS (SELECT 1 FROM workers w
                      WHERE q.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY')
                        AND NOT w.is_silent)
)
SELECT s.tenant_id, s.queue, j.name AS job_name, s.job_id, s.id AS dispatch_id, s.scheduled_for,
       s.status, s.attempt, s.reason, s.since, clock_timestamp() - s.since AS stuck_for,
       s.worker_id, s.hostname, s.worker_status
FROM stuck s
JOIN scheduled_jobs j ON j.tenant_id = s.tenant_id AND j.id = s.job_id;
COMMENT ON VIEW stuck_dispatches IS
    'Runs without progress, and the reason: past_limit or overdue (the worker lives and has not '
    'ended them in time), worker_offline, worker_silent, unserved. See docs/reference/views.md.';

CREATE VIEW worker_utilisation WITH (security_invoker = true) AS
SELECT w.worker_id, w.hostname, w.process_id, w.version, w.status,
       w.status <> 'OFFLINE'
           AND abs(extract(epoch FROM clock_timestamp() - w.last_heartbeat))
               > w.lease_ms / 1000.0 AS is_silent,
       w.queues, w.concurrency, w.running,
       CASE WHEN w.status <> 'OFFLINE'
            THEN round(least(w.running::numeric / w.concurrency, 1), 3) END AS utilisation,
       coalesce(h.claimed, 0) AS claimed, h.oldest_claimed_at, w.jobs_processed, w.started_at,
       w.last_heartbeat, clock_timestamp() - w.last_heartbeat AS silent_for,
       w.drain_requested_at, w.offline_since
FROM worker_registration w
LEFT JOIN (SELECT c.worker_id, count(DISTINCT d.id) AS claimed,
                  min(d.claimed_at) AS oldest_claimed_at
           FROM worker_claims c
           CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
           JOIN job_dispatch d
               ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
           GROUP BY c.worker_id) AS h ON h.worker_id = w.worker_id;
COMMENT ON VIEW worker_utilisation IS
    'Load of each worker: slots (concurrency), running attempts and utilisation at its last '
    'heartbeat, and the runs it holds now (claimed).';

CREATE VIEW leader_history WITH (security_invoker = true) AS
SELECT h.term, h.hostname, h.pid, h.instance_id, h.started_at, h.ended_at, h.end_reason,
       coalesce(h.lease_expired_at, h.ended_at, clock_timestamp()) - h.started_at AS led_for,
       h.lease_expired_at,
       h.started_at - lag(coalesce(h.lease_expired_at, h.ended_at)) OVER (ORDER BY h.term)
           AS without_leader
FROM (SELECT t.term, t.hostname, t.pid, t.instance_id, t.started_at, t.ended_at, t.end_reason,
             coalesce(t.lease_expired_at,
                      CASE WHEN l.expires_at < clock_timestamp()
                           THEN greatest(l.expires_at, t.started_at) END) AS lease_expired_at
      FROM leader_terms t
      LEFT JOIN scheduler_instances s ON s.is_leader AND s.term = t.term
      CROSS JOIN LATERAL (SELECT s.last_heartbeat + t.lease_ms * interval '1 ms' AS expires_at) AS l
) AS h;
COMMENT ON VIEW leader_history IS
    'All terms of leadership, including the current one. led_for ends when the lease expired '
    '(lease_expired_at), even if the term ended later; without_leader is the time before the term '
    'in which no scheduler led.';

CREATE VIEW job_health WITH (security_invoker = true) AS
SELECT j.tenant_id, j.id AS job_id, j.name, j.job_type,
       CASE WHEN j.deleted_at IS NOT NULL THEN 'deleted' WHEN NOT j.is_enabled THEN 'disabled'
            WHEN p.is_paused THEN 'paused' ELSE 'active' END AS state,
       j.disabled_reason, j.next_run_at, j.last_run_at, j.last_status, j.total_run_count,
       j.active_dispatches,
       CASE WHEN p.is_paused THEN j.paused_until END AS paused_until,
       CASE WHEN p.is_paused THEN j.pause_reason END AS pause_reason
FROM scheduled_jobs j
CROSS JOIN LATERAL (SELECT j.is_paused AND (j.paused_until > clock_timestamp()) IS NOT FALSE
                        AS is_paused) AS p;
COMMENT ON VIEW job_health IS
    'Every job with its state, pause, next fire and last outcome. next_run_at of a paused job is a '
    'fire that is skipped if it is earlier than paused_until.';

CREATE VIEW run_arguments WITH (security_invoker = true) AS
SELECT d.tenant_id, d.job_id, d.id AS dispatch_id, d.status, d.job_version,
       d.args IS NOT NULL AS has_own_args, coalesce(d.args, v.settings -> 'task_args') AS args
FROM job_dispatch d
LEFT JOIN scheduled_job_versions v
    ON d.args IS NULL AND v.tenant_id = d.tenant_id AND v.job_id = d.job_id
   AND v.version = d.job_version;
COMMENT ON VIEW run_arguments IS
    'The arguments of every run: its own (has_own_args), or those of its version of the job.';

-- An id begins with the milliseconds since 1970 at which the run was created or the attempt was
-- claimed. The view reads attempts claimed up to one hour before its range.
CREATE VIEW throughput WITH (security_invoker = true) AS
SELECT m.minute, m.tenant_id, sum(m.dispatched)::bigint AS dispatched, count(m.outcome) AS ended,
       count(*) FILTER (WHERE m.outcome = 'COMPLETED') AS completed,
       count(*) FILTER (WHERE m.outcome = 'FAILED')    AS failed,
       count(*) FILTER (WHERE m.outcome = 'TIMEOUT')   AS timed_out,
       count(*) FILTER (WHERE m.outcome = 'CANCELLED') AS cancelled,
       count(*) FILTER (WHERE m.outcome = 'LOST')      AS lost,
       count(*) FILTER (WHERE m.outcome = 'RELEASED')  AS released,
       count(*) FILTER (WHERE m.outcome = 'EXPIRED')   AS expired,
       round(avg(m.duration_ms) FILTER (WHERE m.outcome <> 'EXPIRED')) AS average_ms
FROM (
    SELECT date_trunc('minute', d.created_at) AS minute, d.tenant_id, 1 AS dispatched,
           NULL AS outcome, NULL::bigint AS duration_ms
    FROM job_dispatch d
    WHERE d.id >= (lpad(to_hex((extract(
              epoch FROM date_trunc('minute', now()) - interval '59 min') * 1000)::bigint), 12, '0')
              || '70008000000000000000')::uuid
      AND d.created_at >= date_trunc('minute', now()) - interval '59 min'
    UNION ALL
    SELECT date_trunc('minute', l.completed_at), l.tenant_id, 0, l.status, l.duration_ms
    FROM tenants t
    JOIN (SELECT e.tenant_id, e.id, e.started_at, e.completed_at, e.status, e.duration_ms
          FROM job_execution_log e
          UNION ALL
          SELECT e.tenant_id, e.id, e.started_at, e.completed_at, e.status, e.duration_ms
          FROM maintenance.job_execution_log e) AS l
        ON l.tenant_id = t.id
       AND l.id >= (lpad(to_hex((extract(
               epoch FROM date_trunc('minute', now()) - interval '119 min') * 1000)::bigint), 12,
               '0') || '70008000000000000000')::uuid
       -- Partitions of past months are not read.
       AND l.started_at >= now() - interval '3 h'
    WHERE l.completed_at >= date_trunc('minute', now()) - interval '59 min'
) AS m
GROUP BY m.minute, m.tenant_id;
COMMENT ON VIEW throughput IS
    'Runs dispatched and attempts ended per minute of the last hour, the current one included, by '
    'tenant; idle minutes are absent. Attempts longer than an hour may be missing.';

CREATE VIEW missed_fires WITH (security_invoker = true) AS
SELECT s.tenant_id, s.job_id, j.name AS job_name, 'misfire' AS kind, s.first_fire_at,
       s.last_fire_at, s.fire_count, s.is_count_exact, s.recorded_at AS decided_at,
       NULL::uuid AS dispatch_id
FROM skipped_fires s
JOIN scheduled_jobs j ON j.tenant_id = s.tenant_id AND j.id = s.job_id
WHERE s.reason = 'misfire' AND s.trigger_id IS NULL
UNION ALL
-- The same delay as in ledger_gaps: a tick may take a while.
SELECT j.tenant_id, j.id, j.name, 'undecided', j.next_run_at, j.next_run_at, 1, false, NULL, NULL
FROM scheduled_jobs j
WHERE j.is_enabled AND j.deleted_at IS NULL AND j.next_run_at IS NOT NULL
  AND greatest(j.next_run_at, j.dispatch_lock_until) < now() - interval '1 min'
UNION ALL
-- Expired runs are found through their events: no index of runs contains them any more.
SELECT d.tenant_id, d.job_id, j.name, 'expired', d.scheduled_for, d.scheduled_for, 1, true,
       d.completed_at, d.id
FROM events e
JOIN job_dispatch d ON d.id = e.dispatch_id AND d.trigger_id IS NULL
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
WHERE e.event_type = 'dispatch_expired';
COMMENT ON VIEW missed_fires IS
    'Fire times without a run that were not skipped on purpose: misfire (skipped, not caught up), '
    'undecided (due for more than a minute), expired (not started in time). '
    'See docs/reference/views.md.';

CREATE VIEW occurrence_ledger WITH (security_invoker = true) AS
SELECT d.tenant_id, d.job_id, j.name AS job_name, d.scheduled_for AS first_fire_at,
       d.scheduled_for AS last_fire_at, 1::bigint AS fire_count, true AS is_count_exact,
       'dispatched' AS fate, d.status AS outcome, d.id AS dispatch_id, d.created_at AS decided_at,
       d.term, d.follows
FROM job_dispatch d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
WHERE d.trigger_id IS NULL
UNION ALL
SELECT s.tenant_id, s.job_id, j.name, s.first_fire_at, s.last_fire_at, s.fire_count,
       s.is_count_exact, 'skipped', s.reason, NULL, s.recorded_at, s.term, s.follows
FROM skipped_fires s
JOIN scheduled_jobs j ON j.tenant_id = s.tenant_id AND j.id = s.job_id
WHERE s.trigger_id IS NULL;
COMMENT ON VIEW occurrence_ledger IS
    'The fate of every fire time: dispatched (outcome is the status of the run) or skipped '
    '(outcome is the reason; a row may cover a range). Triggers are excluded. '
    'See docs/internals/ledger.md.';

-- Each part is a few hash joins, or one sort, over all retained records. So query it once for all
-- jobs.
CREATE VIEW ledger_gaps WITH (security_invoker = true) AS
-- The predecessor that each record names, and the latest record that each job names.
WITH links AS (
    SELECT d.tenant_id, d.job_id, d.follows AS target, d.scheduled_for AS named_by
    FROM job_dispatch d WHERE d.trigger_id IS NULL AND d.follows IS NOT NULL
    UNION ALL
    SELECT s.tenant_id, s.job_id, s.follows, s.first_fire_at
    FROM skipped_fires s WHERE s.trigger_id IS NULL AND s.follows IS NOT NULL
    UNION ALL
    SELECT j.tenant_id, j.id, j.last_fire_at, NULL
    FROM scheduled_jobs j WHERE j.last_fire_at IS NOT NULL
),
-- Few rows: links into a range that has grown since, and dangling ones.
unmatched AS MATERIALIZED (
    SELECT l.tenant_id, l.job_id, l.target, l.named_by
    FROM links l
    WHERE NOT EXISTS (SELECT FROM job_dispatch d
                      WHERE d.job_id = l.job_id AND d.scheduled_for = l.target
                        AND d.trigger_id IS NULL)
      AND NOT EXISTS (SELECT FROM skipped_fires s
                      WHERE s.job_id = l.job_id AND s.first_fire_at = l.target
                        AND s.trigger_id IS NULL)
),
-- Only a range can overlap another record: a unique key allows one run per fire time.
records AS (
    SELECT d.tenant_id, d.job_id, d.scheduled_for AS first_fire_at,
           d.scheduled_for AS last_fire_at, 'a dispatch' AS fate
    FROM job_dispatch d
    WHERE d.trigger_id IS NULL
      AND EXISTS (SELECT FROM skipped_fires s WHERE s.job_id = d.job_id AND s.trigger_id IS NULL)
    UNION ALL
    SELECT s.tenant_id, s.job_id, s.first_fire_at, s.last_fire_at, 'a skip for ' || s.reason
    FROM skipped_fires s WHERE s.trigger_id IS NULL
),
reached AS (
    SELECT r.*, max(r.last_fire_at) OVER (
               PARTITION BY r.tenant_id, r.job_id ORDER BY r.first_fire_at, r.last_fire_at
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS taken_until
    FROM records r
),
gaps AS (
    SELECT u.tenant_id, u.job_id,
           CASE WHEN u.named_by IS NULL THEN 'lost_last_record' ELSE 'lost_record' END AS kind,
           u.target AS at,
           CASE WHEN u.named_by IS NULL
                THEN 'the job names a record of this fire time as its last, and there is none'
                ELSE 'the record of ' || u.named_by
                     || ' follows one of this fire time, and there is none' END AS detail
    FROM unmatched u
    JOIN scheduled_jobs j ON j.tenant_id = u.tenant_id AND j.id = u.job_id
    LEFT JOIN LATERAL (SELECT s.last_fire_at FROM skipped_fires s
                       WHERE s.job_id = u.job_id AND s.trigger_id IS NULL
                         AND s.first_fire_at <= u.target
                       ORDER BY s.first_fire_at DESC LIMIT 1) AS range ON true
    WHERE (u.target <= j.ledger_starts_at) IS NOT TRUE
      AND (range.last_fire_at >= u.target) IS NOT TRUE
    UNION ALL
    SELECT r.tenant_id, r.job_id, 'two_fates', r.first_fire_at,
           r.fate || ' of a fire time that has another fate: a record before it reaches up to '
           || r.taken_until
    FROM reached r WHERE r.taken_until >= r.first_fire_at
    UNION ALL
    SELECT j.tenant_id, j.id, 'overdue', j.next_run_at,
           'due, and for more than a minute nothing has been decided about it'
    FROM scheduled_jobs j
    WHERE j.is_enabled AND j.deleted_at IS NULL AND j.next_run_at IS NOT NULL
      AND greatest(j.next_run_at, j.dispatch_lock_until) < clock_timestamp() - interval '1 minute'
    UNION ALL
    SELECT j.tenant_id, j.id, 'no_cursor', j.settled_until,
           'enabled and not over, and without a next fire time'
    FROM scheduled_jobs j
    WHERE j.job_type IN ('cron', 'interval') AND j.is_enabled AND j.deleted_at IS NULL
      AND j.next_run_at IS NULL
      AND (j.end_at > clock_timestamp() + interval '1 year') IS NOT FALSE
      AND (j.fired_count >= j.max_runs) IS NOT TRUE
    UNION ALL
    SELECT j.tenant_id, j.id, 'books_ahead', j.settled_until,
           CASE WHEN j.settled_until > clock_timestamp()
                THEN 'the books are settled up to an instant that has not come'
                ELSE 'the last record is of ' || j.last_fire_at || ', after all that is settled' END
    FROM scheduled_jobs j
    WHERE j.settled_until > clock_timestamp() OR j.last_fire_at > j.settled_until
)
SELECT g.tenant_id, g.job_id, j.name AS job_name, g.kind, g.at, g.detail
FROM gaps g
JOIN scheduled_jobs j ON j.tenant_id = g.tenant_id AND j.id = g.job_id;
COMMENT ON VIEW ledger_gaps IS
    'Empty unless the ledger has a gap or a contradiction: a named record is missing, a fire time '
    'has two fates, a job is overdue, or cursor and books disagree. See docs/internals/ledger.md.';
