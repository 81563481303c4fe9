-- The row that a trigger of a random job writes to job_dispatch.
\set n random(1, 1000)
INSERT INTO job_dispatch (id, tenant_id, job_id, job_version, scheduled_for, available_at, claimable_at, queue, priority, triggered_by, triggered_by_user, trigger_id, args,
                          traceparent)
SELECT u.id, bench.tenant(1), d.id, 1, u.at, u.at, u.at, 'default', 50, 'api', 'owner@example.com via sched_live_0101010101010101', u.id, '{"n": 1}',
       '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
FROM (SELECT clock_timestamp() AS at, bench.time_ordered(clock_timestamp()) AS id) AS u,
     (SELECT id FROM bench.pick WHERE n = :n) AS d;
