INSERT INTO notification_holds (tenant_id, rule_id, job_id, kind, told_at, held_back)
SELECT u.tenant_id, u.rule_id, u.job_id, u.kind, u.told_at, u.held_back
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::timestamptz[], $6::integer[])
    AS u (tenant_id, rule_id, job_id, kind, told_at, held_back)
ON CONFLICT (tenant_id, rule_id, job_id, kind) DO UPDATE SET told_at = excluded.told_at, held_back = excluded.held_back
