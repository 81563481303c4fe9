-- {count} waiting dispatches, distributed over the jobs of bench.due, as a scheduler without
-- workers would leave them. They are claimable from {claimable}, where `fire` is the time of each.
-- The counters of the jobs are those of a scheduler.
WITH jobs AS (
    SELECT j.tenant_id, j.id, j.version, f.queue, row_number() OVER (ORDER BY j.id) - 1 AS k
    FROM bench.due AS d
    JOIN scheduled_jobs AS j ON j.tenant_id = d.tenant_id AND j.id = d.id
    JOIN task_functions AS f ON f.tenant_id = j.tenant_id AND f.id = j.task_function_id
), waiting AS (
    SELECT j.tenant_id, j.id AS job_id, j.version, j.queue, now() - ({count} - n) * interval '1 millisecond' AS fire
    FROM generate_series(0, {count} - 1) AS n
    JOIN jobs AS j ON j.k = n % (SELECT count(*) FROM bench.due)
    ORDER BY n
)
INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, triggered_by,
                          scheduler_instance_id, term)
SELECT bench.time_ordered(clock_timestamp()), tenant_id, job_id, version, fire, claimable, claimable, queue, 'scheduler', bench.tenant(1), 1
FROM waiting, LATERAL (SELECT {claimable} AS claimable) AS u;

UPDATE scheduled_jobs AS j
SET active_dispatches = open.count, queued_dispatches = 0
FROM (SELECT tenant_id, job_id, count(*) FROM job_dispatch WHERE claimable_at IS NOT NULL GROUP BY tenant_id, job_id) AS open
WHERE j.tenant_id = open.tenant_id AND j.id = open.job_id;
