-- What claims need to keep the limits of queues. The waiting line by tenants, which claims read, is made by a migration of its own
-- (index_waiting_by_tenant): this is the hot table.

COMMENT ON COLUMN queues.max_running      IS 'How many dispatches of the queue may run at once; NULL means no limit.';
COMMENT ON COLUMN queues.rate_limit_count IS 'How many dispatches may be claimed in any stretch of time as long as the period; NULL means no limit.';
COMMENT ON COLUMN queues.rate_limit_period_seconds IS 'Length of the rate-limit period, in seconds.';

CREATE INDEX queues_apart_idx ON queues (name, tenant_id) WHERE is_paused OR max_running IS NOT NULL OR rate_limit_count IS NOT NULL;
COMMENT ON INDEX queues_apart_idx IS 'The queues that are paused or have limits: every claim asks for them.';

-- A table of its own, because claims lock and rewrite these rows and the rows of queues are what foreign keys point at.
CREATE TABLE queue_usage (
    tenant_id  uuid          NOT NULL,
    queue      text          NOT NULL,
    claimed_at timestamptz[] NOT NULL DEFAULT '{}',
    claimed    integer[]     NOT NULL DEFAULT '{}',
    CONSTRAINT queue_usage_pkey PRIMARY KEY (tenant_id, queue),
    CONSTRAINT queue_usage_queue_fkey FOREIGN KEY (tenant_id, queue) REFERENCES queues (tenant_id, name) ON DELETE CASCADE,
    CONSTRAINT queue_usage_claimed_check CHECK (cardinality(claimed_at) = cardinality(claimed))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE  queue_usage            IS 'What has been claimed of each queue with a limit. Its row is locked by whoever claims from the queue, so that limits hold whatever happens at once.';
COMMENT ON COLUMN queue_usage.tenant_id  IS 'Owner of the queue.';
COMMENT ON COLUMN queue_usage.queue      IS 'The queue.';
COMMENT ON COLUMN queue_usage.claimed_at IS 'When dispatches were claimed within the rate-limit period, oldest first. One entry for each tenth of the period at most: the time of the last claim in it.';
COMMENT ON COLUMN queue_usage.claimed    IS 'How many were claimed then, in the same order.';

-- Both parts read an index of their own: together they are everything that is PENDING.
CREATE OR REPLACE VIEW queue_depth WITH (security_invoker = true) AS
SELECT d.tenant_id, d.queue,
       count(*)                                                    AS waiting,
       count(*) FILTER (WHERE d.claimable_at > clock_timestamp() AND d.claimable_at < 'infinity')  AS waiting_for_their_time,
       count(*) FILTER (WHERE d.claimable_at = 'infinity')         AS waiting_in_line,
       min(nullif(d.claimable_at, 'infinity'))                     AS oldest_claimable_at,
       EXISTS (SELECT 1 FROM worker_registration w
               WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY'))  AS has_live_worker
FROM (SELECT tenant_id, queue, claimable_at FROM job_dispatch WHERE claimable_at < 'infinity'
      UNION ALL
      SELECT tenant_id, queue, claimable_at FROM job_dispatch WHERE claimable_at = 'infinity') AS d
GROUP BY d.tenant_id, d.queue;

CREATE VIEW queue_limits WITH (security_invoker = true) AS
SELECT q.tenant_id, q.name AS queue, q.max_running,
       (SELECT count(DISTINCT d.id)
        FROM worker_claims c
        CROSS JOIN LATERAL unnest(c.dispatch_ids) AS u (id)
        JOIN job_dispatch d ON d.id = u.id AND d.worker_id = c.worker_id AND d.status = 'IN_PROGRESS'
        WHERE d.tenant_id = q.tenant_id AND d.queue = q.name) AS running,
       q.rate_limit_count, q.rate_limit_period_seconds,
       (SELECT coalesce(sum(e.claimed), 0)
        FROM queue_usage u
        CROSS JOIN LATERAL unnest(u.claimed_at, u.claimed) AS e (claimed_at, claimed)
        WHERE u.tenant_id = q.tenant_id AND u.queue = q.name
          AND e.claimed_at > clock_timestamp() - q.rate_limit_period_seconds * interval '1 second') AS claimed_in_period
FROM queues q
WHERE q.max_running IS NOT NULL OR q.rate_limit_count IS NOT NULL;
COMMENT ON VIEW queue_limits IS 'Queues with limits and how much of each is used.';
