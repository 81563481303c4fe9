-- Each record names the one before it, and the job the last, as with the skips of a tick.
WITH leader AS (SELECT $1::bigint AS term),
skipped AS (
    INSERT INTO skipped_fires (term, tenant_id, job_id, first_fire_at, last_fire_at, fire_count, reason, detail, follows)
    SELECT leader.term, u.tenant_id, u.job_id, u.skipped_at, u.skipped_at, 1, u.reason, u.detail, u.follows
    FROM leader, unnest($2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::timestamptz[])
        AS u (tenant_id, job_id, skipped_at, reason, detail, follows)
    RETURNING tenant_id, job_id, first_fire_at
)
UPDATE scheduled_jobs j
SET last_fire_at = l.last_fire_at
FROM (SELECT tenant_id, job_id, max(first_fire_at) AS last_fire_at FROM skipped GROUP BY tenant_id, job_id) AS l
WHERE j.tenant_id = l.tenant_id AND j.id = l.job_id
RETURNING j.id
