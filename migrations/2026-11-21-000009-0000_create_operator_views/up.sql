-- What operators ask, as views (OBS-1). Our own code never reads them. `security_invoker`: a reader sees what its own
-- rights show.

CREATE VIEW queue_depth WITH (security_invoker = true) AS
SELECT d.tenant_id, d.queue,
       count(*)                                                    AS waiting,
       count(*) FILTER (WHERE d.claimable_at > clock_timestamp())  AS waiting_for_their_time,
       min(d.claimable_at)                                         AS oldest_claimable_at,
       EXISTS (SELECT 1 FROM worker_registration w
               WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY'))  AS has_live_worker
FROM job_dispatch d
WHERE d.claimable_at IS NOT NULL
GROUP BY d.tenant_id, d.queue;
COMMENT ON VIEW queue_depth IS 'How many dispatches wait in each queue, since when, and whether any worker serves it.';

CREATE VIEW running_dispatches WITH (security_invoker = true) AS
SELECT d.tenant_id, j.name AS job_name, d.id AS dispatch_id, d.job_id, d.scheduled_for, d.claimed_at, d.attempt,
       clock_timestamp() - d.claimed_at AS running_for, d.worker_id, w.hostname, w.status AS worker_status
FROM worker_claims c
CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
JOIN job_dispatch d ON d.id = u.id AND d.status = 'IN_PROGRESS' AND d.worker_id = c.worker_id
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
JOIN worker_registration w ON w.worker_id = c.worker_id;
COMMENT ON VIEW running_dispatches IS 'What runs now, where, and for how long.';

CREATE VIEW leader_history WITH (security_invoker = true) AS
SELECT t.term, t.hostname, t.pid, t.instance_id, t.started_at, t.ended_at, t.end_reason,
       coalesce(t.ended_at, clock_timestamp()) - t.started_at AS led_for
FROM leader_terms t;
COMMENT ON VIEW leader_history IS 'Every term of leadership, the present one included.';

CREATE VIEW job_health WITH (security_invoker = true) AS
SELECT j.tenant_id, j.id AS job_id, j.name, j.job_type,
       CASE WHEN j.deleted_at IS NOT NULL THEN 'deleted' WHEN NOT j.is_enabled THEN 'disabled'
            WHEN j.is_paused THEN 'paused' ELSE 'active' END AS state,
       j.disabled_reason, j.next_run_at, j.last_run_at, j.last_status, j.total_run_count, j.active_dispatches
FROM scheduled_jobs j;
COMMENT ON VIEW job_health IS 'Every job with its state, next run and last outcome.';
