WITH leader AS (SELECT $1::bigint AS term)
INSERT INTO skipped_fires (term, tenant_id, job_id, first_fire_at, last_fire_at, fire_count, is_count_exact, reason, follows)
SELECT leader.term, u.tenant_id, u.job_id, u.first_fire_at, u.last_fire_at, u.fire_count, u.is_count_exact, u.reason, u.follows
FROM leader, unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::boolean[], $8::text[], $9::timestamptz[])
    AS u (tenant_id, job_id, first_fire_at, last_fire_at, fire_count, is_count_exact, reason, follows)
-- A fire that was recorded before keeps its first record.
ON CONFLICT (job_id, first_fire_at) DO NOTHING
RETURNING id
