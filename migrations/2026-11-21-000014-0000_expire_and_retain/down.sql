ALTER TABLE skipped_fires RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_cost_delay);
ALTER TABLE tenant_usage RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay);
ALTER TABLE worker_registration RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay);
ALTER TABLE scheduler_instances RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay);
ALTER TABLE scheduled_jobs RESET (autovacuum_analyze_scale_factor);
ALTER TABLE job_dispatch RESET (autovacuum_analyze_scale_factor);

DROP SCHEMA maintenance_archive CASCADE;
DROP SCHEMA history_archive CASCADE;

DROP VIEW unserved_dispatches;
DROP VIEW queue_depth;
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

DROP TABLE unserved_queues;
ALTER TABLE worker_claims DROP COLUMN limit_seconds;
DROP INDEX job_dispatch_keyed_idx;
DROP INDEX job_dispatch_expires_at_idx;
COMMENT ON COLUMN job_dispatch.expires_at IS 'After this instant it is no longer worth starting; NULL means always. Not in effect yet.';
ALTER TABLE scheduled_jobs DROP COLUMN start_within_seconds;
