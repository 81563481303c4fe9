-- The only statement that inserts runs. The caller holds the locks on their jobs, except where the
-- documentation of insert.rs names another rule.
--
-- The unique key (job, fire time, trigger) decides between two inserts of the same run: the second
-- one inserts nothing. A run that exceeds max_instances is queued: no claim reaches 'infinity'. A
-- run without its own arguments takes those of its job.
WITH leader AS (SELECT $1::uuid AS instance_id, $2::bigint AS term, $3::text AS triggered_by),
created AS (
    INSERT INTO job_dispatch (
        id, tenant_id, job_id, scheduled_for, available_at, claimable_at, expires_at, queue,
        priority, args, is_catch_up, follows, triggered_by, triggered_by_user, trigger_id, retry_of,
        idempotency_key, traceparent, scheduler_instance_id, term)
    SELECT n.id, n.tenant_id, n.job_id, n.scheduled_for, n.available_at,
           CASE WHEN n.is_queued THEN 'infinity' ELSE n.available_at END, n.expires_at, n.queue,
           n.priority,
           coalesce(n.args, (SELECT j.task_args FROM scheduled_jobs j
                             WHERE j.tenant_id = n.tenant_id AND j.id = n.job_id)),
           n.is_catch_up, n.follows, l.triggered_by, n.triggered_by_user, n.trigger_id, n.retry_of,
           n.idempotency_key, n.traceparent, l.instance_id, l.term
    FROM leader l
    CROSS JOIN unnest(
        $4::uuid[], $5::uuid[], $6::uuid[], $7::timestamptz[], $8::timestamptz[], $9::boolean[],
        $10::timestamptz[], $11::text[], $12::smallint[], $13::jsonb[], $14::boolean[],
        $15::timestamptz[], $16::text[], $17::uuid[], $18::uuid[], $19::text[], $20::text[])
        AS n (id, tenant_id, job_id, scheduled_for, available_at, is_queued, expires_at, queue,
              priority, args, is_catch_up, follows, triggered_by_user, trigger_id, retry_of,
              idempotency_key, traceparent)
    ON CONFLICT (job_id, scheduled_for, trigger_id) DO NOTHING
    RETURNING id, tenant_id, job_id, available_at, claimable_at
)
