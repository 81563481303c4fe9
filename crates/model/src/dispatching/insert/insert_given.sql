-- Runs from the parameters. The caller holds the locks on their jobs, except where the documentation
-- of insert.rs names another rule.
WITH leader AS (SELECT $1::uuid AS instance_id, $2::bigint AS term, $3::text AS triggered_by),
new AS (
    SELECT n.*, l.triggered_by, l.instance_id AS scheduler_instance_id, l.term
    FROM leader l
    CROSS JOIN unnest(
        $4::uuid[], $5::uuid[], $6::uuid[], $7::timestamptz[], $8::timestamptz[], $9::boolean[],
        $10::timestamptz[], $11::text[], $12::smallint[], $13::bigint[], $14::jsonb[],
        $15::boolean[], $16::timestamptz[], $17::text[], $18::uuid[], $19::uuid[], $20::text[],
        $21::text[])
        AS n (id, tenant_id, job_id, scheduled_for, available_at, is_queued, expires_at, queue,
              priority, job_version, args, is_catch_up, follows, triggered_by_user, trigger_id,
              retry_of, idempotency_key, traceparent)
)
