-- These are not fire times of the job's schedule, so they have no part in the chain of its records.
WITH leader AS (SELECT $1::bigint AS term)
INSERT INTO skipped_fires (term, tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason, detail, trigger_id)
SELECT leader.term, u.tenant_id, u.job_id, u.ended_at, u.ended_at, 1, u.reason, u.detail, u.ended_by
FROM leader, unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::uuid[])
    AS u (tenant_id, job_id, ended_at, reason, detail, ended_by)
ON CONFLICT (job_id, first_fire_at, trigger_id) DO NOTHING
RETURNING job_id
