DROP VIEW queue_limits;

CREATE OR REPLACE VIEW queue_depth WITH (security_invoker = true) AS
SELECT d.tenant_id, d.queue,
       count(*)                                                    AS waiting,
       count(*) FILTER (WHERE d.claimable_at > clock_timestamp() AND d.claimable_at < 'infinity')  AS waiting_for_their_time,
       count(*) FILTER (WHERE d.claimable_at = 'infinity')         AS waiting_in_line,
       min(nullif(d.claimable_at, 'infinity'))                     AS oldest_claimable_at,
       EXISTS (SELECT 1 FROM worker_registration w
               WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY'))  AS has_live_worker
FROM job_dispatch d
WHERE d.claimable_at IS NOT NULL
GROUP BY d.tenant_id, d.queue;

DROP TABLE queue_usage;
DROP INDEX queues_apart_idx;

COMMENT ON COLUMN queues.max_running      IS 'How many dispatches of the queue may run at once; NULL means no limit. Not in effect yet.';
COMMENT ON COLUMN queues.rate_limit_count IS 'How many dispatches may be claimed per period; NULL means no limit. Not in effect yet.';
COMMENT ON COLUMN queues.rate_limit_period_seconds IS 'Length of the rate-limit period, in seconds. Not in effect yet.';
