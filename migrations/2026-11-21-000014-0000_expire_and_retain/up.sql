-- What recovery and retention need: until when a dispatch is worth starting, how long a claim's dispatches may run, which queues
-- nobody serves, where expired history goes that is kept for an archiver, and vacuum settings of the tables that are hot.

-- Expiry. The index holds waiting dispatches that may expire and nothing else: most never do, and it costs them nothing.
-- `attempt` and `claimable_at` change with the claim, which writes into the waiting line's index anyway; completions touch neither.
ALTER TABLE scheduled_jobs
    ADD COLUMN start_within_seconds integer,
    ADD CONSTRAINT scheduled_jobs_start_within_check CHECK (start_within_seconds > 0) NOT VALID;
ALTER TABLE scheduled_jobs VALIDATE CONSTRAINT scheduled_jobs_start_within_check;
COMMENT ON COLUMN scheduled_jobs.start_within_seconds IS 'A dispatch whose first attempt has not begun this many seconds after it became available is given up; NULL means it waits for ever.';
COMMENT ON COLUMN job_dispatch.expires_at IS 'If its first attempt has not begun by this instant, it is given up as FAILED; NULL means it waits for ever. Retries do not expire.';
CREATE INDEX job_dispatch_expires_at_idx ON job_dispatch (expires_at)
    WHERE expires_at IS NOT NULL AND claimable_at IS NOT NULL AND attempt = 0;
COMMENT ON INDEX job_dispatch_expires_at_idx IS 'Waiting dispatches that may expire; empty where no job sets start_within_seconds.';

-- Keys that have served are found by age. Only triggers with a key are in it.
CREATE INDEX job_dispatch_keyed_idx ON job_dispatch (id) WHERE idempotency_key IS NOT NULL;
COMMENT ON INDEX job_dispatch_keyed_idx IS 'Dispatches that still hold an idempotency key, by age: how keys that have served are found.';

-- A claim notes how long each of its dispatches may run by the settings it was made with: later changes of the job or its function
-- change nothing about attempts that run.
ALTER TABLE worker_claims
    ADD COLUMN limit_seconds integer[],
    ADD CONSTRAINT worker_claims_limit_seconds_check CHECK (cardinality(limit_seconds) = cardinality(dispatch_ids)) NOT VALID;
ALTER TABLE worker_claims VALIDATE CONSTRAINT worker_claims_limit_seconds_check;
COMMENT ON COLUMN worker_claims.limit_seconds IS 'Longest run of each of the dispatches, its grace included, in seconds and in the same order; NULL when a worker of an older release claimed them.';

-- Known by the leader, so that the beginning and the end are told once, whoever leads.
CREATE TABLE unserved_queues (
    queue      text        NOT NULL,
    since      timestamptz NOT NULL,
    noticed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT unserved_queues_pkey PRIMARY KEY (queue)
);
COMMENT ON TABLE  unserved_queues            IS 'Queues in which dispatches wait and that no living worker serves, as the leader last saw it.';
COMMENT ON COLUMN unserved_queues.queue      IS 'Name of the queue; workers serve queues by name, for all tenants.';
COMMENT ON COLUMN unserved_queues.since      IS 'Since when the oldest of its dispatches could have been claimed, when that was noticed.';
COMMENT ON COLUMN unserved_queues.noticed_at IS 'When the leader noticed, by the database clock.';

-- What stands in line for others of its job has no instant from which on it could be claimed, and waits for no worker.
DROP VIEW queue_depth;
CREATE VIEW queue_depth WITH (security_invoker = true) AS
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
COMMENT ON VIEW queue_depth IS 'How many dispatches wait in each queue, since when, and whether any worker serves it.';

CREATE VIEW unserved_dispatches WITH (security_invoker = true) AS
SELECT d.tenant_id, d.queue, j.name AS job_name, d.id AS dispatch_id, d.job_id, d.scheduled_for, d.claimable_at,
       clock_timestamp() - d.claimable_at AS waiting_for, d.attempt,
       CASE WHEN d.attempt = 0 THEN d.expires_at END AS expires_at
FROM job_dispatch d
JOIN scheduled_jobs j ON j.tenant_id = d.tenant_id AND j.id = d.job_id
WHERE d.claimable_at <= now()
  AND NOT EXISTS (SELECT 1 FROM worker_registration w
                  WHERE d.queue = ANY (w.queues) AND w.status IN ('IDLE', 'BUSY'));
COMMENT ON VIEW unserved_dispatches IS 'Dispatches that could run and wait in a queue that no living worker serves.';

-- Apart from each other as the tables they come from are: restoring the main schema must not touch the record of its own backup.
CREATE SCHEMA history_archive;
COMMENT ON SCHEMA history_archive IS 'Months of history and events that retention has detached (HISTORY_EXPIRY=detach). Nothing reads them any more: archive and drop them.';
CREATE SCHEMA maintenance_archive;
COMMENT ON SCHEMA maintenance_archive IS 'The same for the schema maintenance.';

-- Vacuum. Each of these tables is small or rewritten steadily, and its readers pay for every dead row.
-- The planner must learn of a burst in the waiting line soon, not after a tenth of a long history has changed.
ALTER TABLE job_dispatch SET (autovacuum_analyze_scale_factor = 0.02);
ALTER TABLE scheduled_jobs SET (autovacuum_analyze_scale_factor = 0.05);
-- One row for each process, rewritten at every heartbeat: vacuumed by the number of dead rows, whatever the number of living ones.
ALTER TABLE scheduler_instances SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE worker_registration SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
-- One row for each tenant with a quota, rewritten by every tick that dispatches for it.
ALTER TABLE tenant_usage SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_cost_delay = 0);
-- Written once, removed in order of age: the pages at its head are to be free for reuse before much more has been written.
ALTER TABLE skipped_fires SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
