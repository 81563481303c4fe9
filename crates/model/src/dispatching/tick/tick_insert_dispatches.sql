WITH leader AS (SELECT $1::uuid AS instance_id, $2::bigint AS term)
INSERT INTO job_dispatch (id, tenant_id, job_id, scheduled_for, available_at, claimable_at, queue, priority, args,
                          is_catch_up, follows, expires_at, triggered_by, scheduler_instance_id, term)
SELECT u.id, u.tenant_id, u.job_id, u.scheduled_for, u.available_at, CASE WHEN u.is_in_line THEN 'infinity' ELSE u.available_at END,
       u.queue, u.priority, u.args, u.is_catch_up, u.follows, u.expires_at, 'scheduler', leader.instance_id, leader.term
FROM leader, unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::timestamptz[], $7::timestamptz[], $8::text[], $9::smallint[],
                    $10::jsonb[], $11::boolean[], $12::boolean[], $13::timestamptz[], $14::timestamptz[])
    AS u (id, tenant_id, job_id, scheduled_for, available_at, queue, priority, args, is_catch_up, is_in_line, follows, expires_at)
ON CONFLICT (job_id, scheduled_for, trigger_id) DO NOTHING
RETURNING job_id, claimable_at = 'infinity'
