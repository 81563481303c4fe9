-- Finished dispatches: one of every job for each past hour, from {oldest} hours ago to {newest}, in
-- the order in which a scheduler would write them.
INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, created_at, available_at, claimed_at, completed_at, status, queue,
                          worker_id, claim_token, attempt, triggered_by, scheduler_instance_id, term, follows)
SELECT bench.time_ordered(u.fire), j.tenant_id, j.id, j.version, u.fire, u.fire + interval '10 ms', u.fire, u.fire + interval '20 ms',
       u.fire + interval '1 second', 'COMPLETED', 'default', bench.tenant(1), 1, 1, 'scheduler', bench.tenant(1), 1,
       u.fire - interval '1 hour'
FROM generate_series({oldest}, {newest}, -1) AS hour,
     LATERAL (SELECT date_trunc('hour', now()) - make_interval(hours => hour) AS fire) AS u,
     LATERAL (SELECT tenant_id, id, version FROM scheduled_jobs) AS j
