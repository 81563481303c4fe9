-- Each pass reads every job once, in the order of the key. It runs rarely, and outside of any
-- transaction that blocks other transactions.
WITH input AS (SELECT $1::uuid AS tenant_id, $2::uuid AS id, $3::text AS tzdata_version, $4::bigint AS most)
SELECT j.tenant_id, j.id
FROM input
CROSS JOIN scheduled_jobs j
WHERE (j.tenant_id, j.id) > (input.tenant_id, input.id)
  AND j.next_run_at > now() AND j.tzdata_version <> input.tzdata_version
ORDER BY j.tenant_id, j.id
LIMIT (SELECT most FROM input)
